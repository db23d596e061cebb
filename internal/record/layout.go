//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// edits are the numbers of never-executed instructions that an edit adds.
const edits = 16

// strict is the limit of the second policy that judges edits, a share of net time.
const strict = 0.01

// layout measures edits of cold code in three ways, which take turns: with the loads
// as they are, in layouts that change from round to round, and as gate run does it,
// which also knows the layout floor and the executed instructions.
func layout(l *lab) error {
	ways := []struct {
		name    string
		compare func(subject, *bpf.Object, *bpf.Object) (base, head *bench.Run, err error)
	}{
		{"as they are", func(s subject, base, head *bpf.Object) (*bench.Run, *bench.Run, error) {
			return l.plain(s, base, head, true)
		}},
		{"padded", func(s subject, base, head *bpf.Object) (*bench.Run, *bench.Run, error) {
			return l.plain(s, base, head, false)
		}},
		{"gate run", func(s subject, base, head *bpf.Object) (*bench.Run, *bench.Run, error) {
			res, _, err := l.compare(s, base, head, netPolicy(strict))
			if err != nil {
				return nil, nil, err
			}
			return res.Base, res.Head, nil
		}},
	}
	var rows []string
	for _, sub := range l.subjects {
		tallies := make([]tally, len(ways))
		for trial := range l.trials {
			for n := 1; n <= edits; n++ {
				// Both are twins, so that both execute the same.
				base, head := sub.object.Twin(sub.bench.Program, 1), sub.object.Twin(sub.bench.Program, 1+n)
				for i, w := range ways {
					b, h, err := w.compare(sub, base, head)
					if err == nil {
						err = tallies[i].add(b, h)
					}
					if err != nil {
						return fmt.Errorf("%s, edit of %d, %s: %w", sub.name, n, w.name, err)
					}
				}
			}
			l.progress("%s: %d of %d times %d edits", sub.name, trial+1, l.trials, edits)
		}
		for i, w := range ways {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s |", sub.name, w.name, tallies[i]))
		}
	}
	fmt.Printf("| program | loads | differs from 0 at 1%%, %d rounds | regressed, limit 5%% and 1 ns | regressed, limit 1%% of net time | improved by more | size of the change | its standard error |\n", firstLook)
	fmt.Println("|-|-|-|-|-|-|-:|-:|")
	fmt.Println(strings.Join(rows, "\n"))
	fmt.Printf("\n%s\n", l.about(fmt.Sprintf("%d edits, each measured %d times", edits, l.trials)))
	return nil
}

// plain compares two objects without what gate run knows besides their times.
func (l *lab) plain(sub subject, one, other *bpf.Object, unpadded bool) (base, head *bench.Run, err error) {
	s, err := bpf.NewSession(l.newSeed())
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	s.Unpadded = unpadded
	m, err := s.Micro(sub.bench, bpf.Side{Name: "base", Object: one}, bpf.Side{Name: "head", Object: other})
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	run := func(side string) *bench.Run {
		return &bench.Run{
			Schema: bench.SchemaVersion, ID: side, Session: "layout", Revision: bench.Revision{Name: side},
			Results: []bench.Result{{Benchmark: sub.bench.Name, Program: sub.bench.Program, Measure: bench.Latency, Kind: bench.Micro}},
		}
	}
	base, head = run("base"), run("head")
	a, b := &base.Results[0], &head.Results[0]
	policy := netPolicy(strict)
	for look, rounds := range policy.Looks() {
		if err := l.measure(m, a, b, rounds); err != nil {
			return nil, nil, err
		}
		b.Looks, b.Final = append(b.Looks, rounds), look == len(policy.Looks())-1
		if len(gate.Compare(base, head, policy).Open()) == 0 {
			break
		}
	}
	return base, head, nil
}

// firstLook is the number of rounds that every comparison has.
const firstLook = 20

// A tally is what became of the comparisons of one way.
type tally struct {
	comparisons, differ, regressed, strictly, improved int
	size, spread                                       float64
}

func (t *tally) add(base, head *bench.Run) error {
	usual, err := latency(gate.Compare(base, head, gate.DefaultPolicy()))
	if err != nil {
		return err
	}
	strictly, err := latency(gate.Compare(base, head, netPolicy(strict)))
	if err != nil {
		return err
	}
	a, b := latencies(base), latencies(head)
	shift, ok := stats.PairedShift(differences(a, b, firstLook), nil)
	if !ok {
		return fmt.Errorf("the readings are not numbers")
	}
	low, high := shift.Lower(0.005), shift.Upper(0.005)
	t.comparisons++
	t.size += math.Abs(shift.Estimate())
	t.spread += (high - low) / (2 * stats.NormalQuantile(0.995))
	for counter, happened := range map[*int]bool{
		&t.differ:    low > 0 || high < 0,
		&t.regressed: usual.Verdict == gate.Regressed,
		&t.strictly:  strictly.Verdict == gate.Regressed,
		&t.improved:  strictly.Verdict == gate.Improved,
	} {
		if happened {
			*counter++
		}
	}
	return nil
}

func (t tally) String() string {
	n := float64(max(t.comparisons, 1))
	return fmt.Sprintf("%s | %s | %s | %d | %.2f%% | %.2f%%", count(t.differ, t.comparisons), count(t.regressed, t.comparisons),
		count(t.strictly, t.comparisons), t.improved, 100*t.size/n, 100*t.spread/n)
}
