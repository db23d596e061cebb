//go:build linux

package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

func write(name string, r *bench.Run) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression) // the level is valid
	return errors.Join(bench.Encode(z, r), z.Close(), f.Close())
}

// edits are the numbers of never-executed instructions that an edit adds.
const edits = 16

// layout measures edits of cold code, with and without padding, and prints how
// often each way of judging calls one a change of speed.
func layout(ctx context.Context, subjects []subject, seed uint64, trials int) error {
	fmt.Println("| program | loads | comparisons | differs at 1%, 30 rounds | called regressed | called improved | mean size of the change | its standard error |")
	fmt.Println("|-|-|-:|-:|-:|-:|-:|-:|")
	for _, sub := range subjects {
		for _, unpadded := range []bool{true, false} {
			var t tally
			for trial := range trials {
				for n := 1; n <= edits; n++ {
					if err := t.edit(ctx, sub, n, unpadded, seed+uint64(trial*edits+n)); err != nil {
						return err
					}
				}
			}
			how := "padded"
			if unpadded {
				how = "as they are"
			}
			c := float64(t.comparisons)
			fmt.Printf("| %s | %s | %d | %d | %d | %d | %.2f%% | %.2f%% |\n", sub.name, how, t.comparisons, t.differ, t.regressed, t.improved, 100*t.size/c, 100*t.spread/c)
		}
	}
	return nil
}

type tally struct {
	comparisons, differ, regressed, improved int
	size, spread                             float64
}

// edit compares a program with one that has n more instructions, none of them
// executed.
func (t *tally) edit(ctx context.Context, sub subject, n int, unpadded bool, seed uint64) error {
	s, err := bpf.NewSession(seed)
	if err != nil {
		return err
	}
	defer s.Close()
	s.Unpadded = unpadded
	p := sub.bench.Program
	m, err := s.Micro(sub.bench, bpf.Side{Name: "base", Object: sub.object.Twin(p, 1)}, bpf.Side{Name: "head", Object: sub.object.Twin(p, 1+n)})
	if err != nil {
		return err
	}
	defer m.Close()
	policy := gate.DefaultPolicy()
	base, head := run1("base", sub), run1("head", sub)
	a, b := &base.Results[0], &head.Results[0]
	for look, rounds := range policy.Looks() {
		for len(a.Samples) < rounds {
			if err := ctx.Err(); err != nil {
				return err
			}
			x, err := m.Round(len(a.Samples))
			if err != nil {
				return err
			}
			a.Samples, b.Samples = append(a.Samples, x[0]), append(b.Samples, x[1])
		}
		b.Looks, b.Final = append(b.Looks, rounds), look == len(policy.Looks())-1
		if r := gate.Compare(base, head, policy); len(r.Open()) == 0 {
			switch r.Verdict {
			case gate.Regressed:
				t.regressed++
			case gate.Improved:
				t.improved++
			}
			break
		}
	}
	// One look at a fixed number of rounds, whatever the sequential test needed.
	for len(a.Samples) < 30 {
		x, err := m.Round(len(a.Samples))
		if err != nil {
			return err
		}
		a.Samples, b.Samples = append(a.Samples, x[0]), append(b.Samples, x[1])
	}
	var d []float64
	for i := range 30 {
		d = append(d, (b.Samples[i].Value-a.Samples[i].Value)/((a.Samples[i].Value+b.Samples[i].Value)/2))
	}
	shift, ok := stats.PairedShift(d, nil)
	if !ok {
		return fmt.Errorf("edit of %d: the readings are not numbers", n)
	}
	low, high := shift.Lower(0.005), shift.Upper(0.005)
	t.comparisons++
	t.size += math.Abs(shift.Estimate())
	t.spread += (high - low) / (2 * 2.576)
	if low > 0 || high < 0 {
		t.differ++
	}
	return nil
}

func run1(side string, sub subject) *bench.Run {
	return &bench.Run{
		Schema: bench.SchemaVersion, ID: side, Session: "layout", Revision: bench.Revision{Name: side},
		Results: []bench.Result{{Benchmark: sub.bench.Name, Program: sub.bench.Program, Measure: bench.Latency, Kind: bench.Micro}},
	}
}
