//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/stats"
)

// A pace is how many readings took how long.
type pace struct {
	readings int
	time     time.Duration
}

func (p *pace) add(readings int, f func() error) error {
	start := time.Now()
	err := f()
	p.time += time.Since(start)
	p.readings += readings
	return err
}

func (p pace) perSecond() float64 { return float64(p.readings) / p.time.Seconds() }

func rate(l *lab) ([]row, error) {
	b, err := l.benchmark("fun_xdp/worst")
	if err != nil {
		return nil, err
	}
	o, err := l.example("v4_lookup")
	if err != nil {
		return nil, err
	}
	m, closeAll, err := l.aa(b, o)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	loaded, err := o.Load(b.Program, bpf.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	info, err := loaded.Program.Info()
	if err != nil {
		return nil, err
	}
	id, _ := info.ID()
	packet := filepath.Join(l.temp, "packet")
	if err := os.WriteFile(packet, b.Packets[0], 0o600); err != nil {
		return nil, err
	}
	bpftool, missing := exec.LookPath("bpftool")

	var ours, tool, library pace
	const turns, inTurn, roundsInTurn = 6, 8, 30
	for range turns {
		var s series
		if err := ours.add(2*bpf.Readings*roundsInTurn, func() error { return s.extend(l.ctx, roundsInTurn, m.Round) }); err != nil {
			return nil, err
		}
		for range inTurn {
			if missing == nil {
				if err := tool.add(1, func() error {
					return exec.CommandContext(l.ctx, bpftool, "prog", "run", "id", strconv.Itoa(int(id)), "data_in", packet, "repeat", strconv.Itoa(bench.DefaultRepeat)).Run()
				}); err != nil {
					return nil, fmt.Errorf("bpftool prog run: %w", err)
				}
			}
			if err := library.add(1, func() error {
				_, _, err := loaded.Program.Benchmark(b.Packets[0], bench.DefaultRepeat, nil)
				return err
			}); err != nil {
				return nil, err
			}
		}
	}
	against := func(name string, p pace) row {
		ratio := ours.perSecond() / p.perSecond()
		return row{
			"readings a second", fmt.Sprintf("%.0f", ours.perSecond()), fmt.Sprintf("%s: %.0f", name, p.perSecond()),
			fmt.Sprintf("%.0f×", ratio), "≥ 100×", meets(ratio >= 100),
		}
	}
	rows := []row{against("cilium/ebpf Program.Benchmark", library)}
	if missing != nil {
		return rows, missing
	}
	return append([]row{against("bpftool prog run", tool)}, rows...), nil
}

func rounds(l *lab) ([]row, error) {
	b, err := l.benchmark("fun_xdp/worst")
	if err != nil {
		return nil, err
	}
	o, err := l.example("v4_lookup")
	if err != nil {
		return nil, err
	}
	driven, closeDriven, err := l.aa(b, o)
	if err != nil {
		return nil, err
	}
	defer closeDriven()
	b.KeepPacket = true // which no driver does
	attached, closeAttached, err := l.aa(b, o)
	if err != nil {
		return nil, err
	}
	defer closeAttached()

	const turns, n = 5, 30
	var ours, beside []float64
	for range turns {
		for _, side := range []struct {
			m    *bpf.Micro
			into *[]float64
		}{{driven, &ours}, {attached, &beside}} {
			var s series
			start := time.Now()
			if err := s.extend(l.ctx, n, side.m.Round); err != nil {
				return nil, err
			}
			*side.into = append(*side.into, time.Since(start).Seconds())
		}
	}
	t, u := stats.Median(ours), stats.Median(beside)
	return []row{{
		"time of 30 rounds, median of 5", fmt.Sprintf("%.2f s", t), fmt.Sprintf("%s first: %.2f s", attached.Path, u),
		fmt.Sprintf("1/%.1f", u/t), "≤ 0.6 s", meets(t <= 0.6),
	}}, nil
}

func verdicts(l *lab) ([]row, error) {
	var rows []row
	for _, c := range []struct {
		base, head string // "": the twin of base
		benchmark  string
		policy     gate.Policy
		margin     string
		want       gate.Verdict
		limit      time.Duration
	}{
		{"v2_fizzbuzz", "v3_fibonacci", "fun_xdp/worst", policy(), "3%", gate.Regressed, time.Second},
		{"v3_fibonacci", "", "fun_xdp/worst", netPolicy(), "3% of net", gate.Pass, 3 * time.Second},
		{"v4_lookup", "", "fun_xdp/addresses", netPolicy(), "3% of net", gate.Pass, 3 * time.Second},
		{"v4_lookup", "", "fun_xdp/worst", policy(), "3% or 1 ns", gate.Pass, 3 * time.Second},
	} {
		base, err := l.example(c.base)
		if err != nil {
			return rows, err
		}
		var head *bpf.Object
		name := c.base[:2] + "→" + "twin"
		if c.head == "" {
			head, err = l.twin(c.base)
		} else {
			name = c.base[:2] + "→" + c.head[:2]
			head, err = l.example(c.head)
		}
		if err != nil {
			return rows, err
		}
		b, err := l.benchmark(c.benchmark)
		if err != nil {
			return rows, err
		}
		const times = 7
		var took, needed []float64
		got := map[gate.Verdict]int{}
		for range times {
			start := time.Now()
			v, n, err := l.decide(b, c.policy, base, head)
			if err != nil {
				return rows, err
			}
			took, needed = append(took, time.Since(start).Seconds()), append(needed, float64(n))
			got[v]++
		}
		worst := slices.Max(took)
		rows = append(rows, row{
			what:     fmt.Sprintf("%s %s, margin %s, to %s", name, c.benchmark, c.margin, c.want),
			measured: fmt.Sprintf("%.2f s (%.0f rounds), at most %.2f s", stats.Median(took), stats.Median(needed), worst),
			beside:   tally(got, times),
			target:   fmt.Sprintf("≤ %.0f s", c.limit.Seconds()),
			met:      meets(got[c.want] == times && worst <= c.limit.Seconds()),
		})
	}
	return rows, nil
}

// report measures a pair until it is decided.
func (l *lab) report(b bench.Benchmark, p gate.Policy, base, head *bpf.Object) (*gate.Report, error) {
	side := func(name string, o *bpf.Object) runner.Side {
		return runner.Side{Name: name, Objects: []runner.Object{{Name: name, Object: o}}}
	}
	res, err := runner.Run(l.ctx, runner.Plan{
		Sides: []runner.Side{side("base", base), side("head", head)}, Benchmarks: []bench.Benchmark{b}, Required: true,
		Policy: p, Seed: l.newSeed(), Testbed: l.testbed, Tool: "figures", Time: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	return res.Report, runner.FailureSummary(res.Failures)
}

// decide measures a pair until it is decided, and returns the verdict and the
// rounds that it took.
func (l *lab) decide(b bench.Benchmark, p gate.Policy, base, head *bpf.Object) (gate.Verdict, int, error) {
	report, err := l.report(b, p, base, head)
	if err != nil {
		return 0, 0, err
	}
	for _, c := range report.Comparisons {
		switch {
		case c.Benchmark != b.Name || c.Measure != bench.Latency:
		case c.Unchanged:
			return 0, 0, fmt.Errorf("%s passed as unchanged, without being measured", b.Name)
		default:
			return c.Verdict, c.Rounds, nil
		}
	}
	return 0, 0, fmt.Errorf("no row of %s", b.Name)
}

// tally is "pass 7 of 7", most frequent first.
func tally(got map[gate.Verdict]int, of int) string {
	var parts []string
	for _, v := range []gate.Verdict{gate.Pass, gate.Improved, gate.Regressed, gate.Inconclusive, gate.Added, gate.Missing} {
		if got[v] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d of %d", v, got[v], of))
		}
	}
	return strings.Join(parts, ", ")
}
