//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/stats"
)

func encap(l *lab) ([]row, error) {
	const (
		program = "xdp_encap"
		counts  = "answers" // a map: how often each answer was given
		xdpTX   = 3
		repeat  = 5000
		rounds  = 10
	)
	o, err := l.object("bpf/testdata/types.bpf.c")
	if err != nil {
		return nil, err
	}
	worst, err := l.benchmark("fun_xdp/worst")
	if err != nil {
		return nil, err
	}
	b := bench.Benchmark{Name: program + "/count", Program: program, Packets: worst.Packets, Repeat: repeat}

	// A plain test run: its map is handed in, and read afterwards.
	plain, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 8})
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	loaded, err := o.Load(program, bpf.LoadOptions{Reuse: map[string]*ebpf.Map{counts: plain}})
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	if _, err := loaded.Program.Run(&ebpf.RunOptions{Data: b.Packets[0], Repeat: repeat, DataOut: make([]byte, 4096)}); err != nil {
		return nil, fmt.Errorf("plain test run: %w", err)
	}
	var few uint64
	if err := plain.Lookup(uint32(xdpTX), &few); err != nil {
		return nil, err
	}

	// The micro lane makes its maps itself. One that is large enough is kept over
	// the rounds, and its odd size tells it from all others of this name.
	size := uint32(1<<20 + os.Getpid())
	if err := o.Configure([]bench.Program{{Name: program, Maps: []bench.MapSetup{{Name: counts, MaxEntries: size}}}}); err != nil {
		return nil, err
	}
	s, err := bpf.NewSession(l.newSeed())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m, err := s.Micro(b, bpf.Side{Name: "head", Object: o})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	answers, err := findMap(counts, size)
	if err != nil {
		return nil, err
	}
	defer answers.Close()
	before, err := sum(answers)
	if err != nil {
		return nil, err
	}
	var ns, floor []float64
	for r := range rounds {
		x, err := m.Round(r)
		if err != nil {
			return nil, err
		}
		ns, floor = append(ns, x[0].Value), append(floor, x[0].Floor)
	}
	after, err := sum(answers)
	if err != nil {
		return nil, err
	}
	got, all := after[xdpTX]-before[xdpTX], uint64(0)
	for i := range after {
		all += after[i] - before[i]
	}
	return []row{
		{
			"repeats that answered XDP_TX", fmt.Sprintf("%d of %d", got, all), fmt.Sprintf("plain test run: %d of %d", few, repeat), "",
			"all", meets(got == all && all > 0),
		},
		{
			what: "time of a run", measured: fmt.Sprintf("%.0f ns", stats.Median(ns)),
			beside: fmt.Sprintf("an empty program: %.0f ns", stats.Median(floor)), ratio: fmt.Sprintf("%.1f×", stats.Median(ns)/stats.Median(floor)),
		},
	}, nil
}

// findMap opens the youngest map that has the name and size: those of loads that
// are over may live on for a moment.
func findMap(name string, size uint32) (found *ebpf.Map, err error) {
	for id := ebpf.MapID(0); ; {
		if id, err = ebpf.MapGetNextID(id); errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			return nil, err
		}
		m, err := ebpf.NewMapFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		if info, err := m.Info(); err != nil || info.Name != name || m.MaxEntries() != size {
			m.Close()
			continue
		}
		found.Close()
		found = m
	}
	if found == nil {
		return nil, fmt.Errorf("no map %s of %d entries", name, size)
	}
	return found, nil
}

// sum reads the counts of the answers.
func sum(m *ebpf.Map) ([8]uint64, error) {
	var out [8]uint64
	for i := range out {
		if err := m.Lookup(uint32(i), &out[i]); err != nil {
			return out, err
		}
	}
	return out, nil
}
