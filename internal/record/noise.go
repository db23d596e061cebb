//go:build linux

package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
)

// noise records rounds of each subject against itself.
func noise(l *lab) error {
	how := "quiet"
	if l.busy {
		how = "busy"
		stop, err := crowd()
		if err != nil {
			return err
		}
		defer stop()
	}
	s, err := bpf.NewSession(l.seed)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, sub := range l.subjects {
		m, err := s.Micro(sub.bench, bpf.Side{Name: "base", Object: sub.object}, bpf.Side{Name: "head", Object: sub.object})
		if err != nil {
			return err
		}
		runs := [2]*bench.Run{}
		for i, side := range []string{"base", "head"} {
			runs[i] = &bench.Run{
				Schema: bench.SchemaVersion, ID: fmt.Sprintf("noise-%s-%s-%s", how, sub.name, side), Time: time.Now().UTC(),
				Session: fmt.Sprintf("noise-%s-%s", how, sub.name), Testbed: l.testbed, Seed: l.seed,
				Revision: bench.Revision{Name: side},
				Results:  []bench.Result{{Benchmark: sub.bench.Name, Program: sub.bench.Program, Measure: bench.Latency, Kind: bench.Micro, Path: m.Path}},
			}
		}
		err = l.measure(m, &runs[0].Results[0], &runs[1].Results[0], l.rounds)
		m.Close()
		if err != nil {
			return err
		}
		for _, r := range runs {
			if err := write(filepath.Join(l.out, r.ID+".json.gz"), r); err != nil {
				return err
			}
		}
		l.progress("%s %s: %d rounds", how, sub.name, l.rounds)
	}
	return nil
}

// measure adds rounds until there are n.
func (l *lab) measure(m *bpf.Micro, base, head *bench.Result, n int) error {
	for len(base.Samples) < n {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		x, err := m.Round(len(base.Samples))
		if err != nil {
			return err
		}
		base.Samples, head.Samples = append(base.Samples, x[0]), append(head.Samples, x[1])
	}
	return nil
}

func write(name string, r *bench.Run) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression) // the level is valid
	return errors.Join(bench.Encode(z, r), z.Close(), f.Close())
}
