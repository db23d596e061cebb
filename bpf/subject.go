//go:build linux

package bpf

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// A subject is one load of one side (or the empty program) in one round.
type subject struct {
	name   string
	load   *Loaded // nil: the floor
	prog   *ebpf.Program
	drain  []drainer
	meter  *programs.Meter
	pair   *pair
	socket int

	next     int            // packet
	sent     int            // packets, in all readings
	total    programs.Usage // of all readings
	perNS    []float64
	switches int64
	lossy    bool // some packet never ran the program
}

// load loads one side; the last one past the sides is the floor.
func (m *Macro) load(i int) (*subject, error) {
	if i == len(m.sides) {
		p, err := m.empty()
		if err != nil {
			return nil, err
		}
		return &subject{name: "the empty program", prog: p, meter: programs.NewMeter(p)}, nil
	}
	side := m.sides[i]
	l, err := side.Object.Load(m.b.Program, LoadOptions{Cache: m.s.cache, Reuse: m.kept[i]})
	if err != nil {
		return nil, fmt.Errorf("load %s of %s: %w", m.b.Program, side.Name, err)
	}
	if m.kept[i] == nil && l.memory() > reuseMaps {
		if m.kept[i], err = cloneMaps(l); err != nil {
			l.Close()
			return nil, err
		}
	}
	t := &subject{name: fmt.Sprintf("%s (%s)", m.b.Program, side.Name), load: l, prog: l.Program, meter: programs.NewMeter(l.Program)}
	for _, name := range m.b.Drain {
		d, err := l.drainerAmong(name, m.sides)
		if err != nil {
			t.close()
			return nil, &bench.Diagnostic{Pos: m.b.Pos, Message: fmt.Sprintf("drain: %v", err)}
		}
		t.drain = append(t.drain, d)
	}
	return t, nil
}

// smallest is the entries of the smallest drained map whose size is in entries,
// or 0.
func (t *subject) smallest(drain []string) int {
	least := 0
	for _, name := range drain {
		m := t.load.coll.Maps[name]
		if m == nil || m.Type() == ebpf.RingBuf || m.Type() == ebpf.PerfEventArray {
			continue
		}
		if n := int(m.MaxEntries()); least == 0 || n < least {
			least = n
		}
	}
	return least
}

func (t *subject) close() {
	for _, d := range t.drain {
		d.close()
	}
	if t.load != nil {
		t.load.Close()
	} else {
		t.prog.Close()
	}
}

// warm makes the benchmark's passes, and one reading that is thrown away. A
// program that never runs is told here, before the rest is sent in vain.
func (m *Macro) warm(t *subject, s shape) error {
	for range m.b.Warm {
		if err := m.read(t, m.train.count, s.burst); err != nil {
			return err
		}
	}
	if err := m.read(t, s.readings[0], s.burst); err != nil {
		return err
	}
	t.sent, t.total, t.perNS, t.next, t.switches = 0, programs.Usage{}, nil, 0, 0
	return nil
}

// read sends n packets and takes one reading of them.
func (m *Macro) read(t *subject, n, burst int) error {
	switched := switches()
	var sum programs.Usage
	for n > 0 {
		k := min(n, burst)
		for _, d := range t.drain {
			if err := d.empty(nil); err != nil {
				return fmt.Errorf("drain: %w", err)
			}
		}
		u, err := m.send(t, k)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		sum, n = sum.Add(u), n-k
		t.sent, t.total = t.sent+k, t.total.Add(u)
		if t.total.Runs == 0 || t.sent-int(t.total.Runs) > m.count-m.least {
			return m.tooFew(t) // now, and not after waiting for every burst
		}
	}
	t.switches += switches() - switched
	if sum.Runs > 0 {
		t.perNS = append(t.perNS, sum.PerRun())
	}
	return nil
}

// send sends n packets in batches, and sees each batch through: the kernel
// usually runs the program inside the sending system call, but may leave it to
// its own thread.
func (m *Macro) send(t *subject, n int) (programs.Usage, error) {
	before, err := t.meter.Read()
	if err != nil {
		return programs.Usage{}, err
	}
	now := before
	for sent := 0; sent < n; {
		if err := m.s.stopped(); err != nil {
			return programs.Usage{}, err
		}
		k := min(n-sent, batch)
		want := now.Runs + uint64(k)
		if t.next, err = m.train.send(t.socket, t.next, k); err != nil {
			return programs.Usage{}, err
		}
		sent += k
		if now, err = t.settle(now, want); err != nil {
			return programs.Usage{}, err
		}
	}
	return now.Sub(before), nil
}

// settle waits until the program has run as often as wanted, or no more.
func (t *subject) settle(last programs.Usage, want uint64) (programs.Usage, error) {
	most := patience
	if t.lossy {
		most = patience / 10
	}
	for still := time.Now(); ; {
		u, err := t.meter.Read()
		if err != nil || u.Runs >= want {
			return u, err
		}
		if u.Runs != last.Runs {
			last, still = u, time.Now()
		} else if time.Since(still) > most {
			t.lossy = true
			return u, nil
		}
		// Not a spin: the kernel's thread wants this CPU.
		time.Sleep(50 * time.Microsecond)
	}
}

// tooFew says why there is no sample.
func (m *Macro) tooFew(t *subject) error {
	arrived, dropped := t.pair.received()
	if t.total.Runs > 0 {
		return fmt.Errorf("%s: only %d of %d packets reached %s, and min_runs is %d of %d (%d arrived at the interface and %d were dropped there since it was made): lower count, or min_runs if the program is meant to see fewer",
			m.b.Name, t.total.Runs, t.sent, t.name, m.least, m.count, arrived, dropped)
	}
	why := "packets arrived at its interface, but the kernel ran something else: " + notCounted
	if arrived == 0 {
		why = "no packet arrived at its interface (is it up?)"
	}
	return fmt.Errorf("%s: %w", m.b.Name, errNoRuns(t.name, why))
}

// notCounted is what to look at when a program that did run has no runs: the
// kernel times it where it enters eBPF (bpf_prog_run and the trampolines), and
// what is entered from there is part of the program that was entered.
const notCounted = "tail-called programs, freplace programs and timer callbacks are not counted by the kernel: their cost shows on the program that is entered first"

// errNoRuns says why there is nothing to divide by.
func errNoRuns(program, why string) error {
	return fmt.Errorf("%s did not run once: %s", program, why)
}
