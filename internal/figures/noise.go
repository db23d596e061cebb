//go:build linux

package main

import (
	"fmt"
	"math"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// estimates are the ways to make one number of the differences of many rounds.
var estimates = []struct {
	name string
	of   func([]float64) float64
}{
	{"Hodges–Lehmann (ours)", hodgesLehmann},
	{"20%-trimmed mean", func(d []float64) float64 { return stats.TrimmedMean(d, 0.2) }},
	{"mean", stats.Mean},
}

func hodgesLehmann(d []float64) float64 {
	s, ok := stats.PairedShift(d, nil)
	if !ok {
		return math.NaN()
	}
	return s.Estimate()
}

func standardError(l *lab) ([]row, error) {
	b, err := l.benchmark("fun_xdp/addresses")
	if err != nil {
		return nil, err
	}
	o, err := l.example("v4_lookup")
	if err != nil {
		return nil, err
	}
	c, err := newCrowd()
	if err != nil {
		return nil, err
	}
	defer c.close()
	const comparisons, n = 20, 30
	quiet, busy := make([][]float64, len(estimates)), make([][]float64, len(estimates))
	for range comparisons {
		for _, state := range []struct {
			outcomes [][]float64
			begin    func()
		}{{quiet, c.rest}, {busy, c.work}} {
			state.begin()
			time.Sleep(50 * time.Millisecond) // for the scheduler to notice
			d, err := l.aaDifferences(b, o, n)
			if err != nil {
				return nil, err
			}
			for i, e := range estimates {
				state.outcomes[i] = append(state.outcomes[i], 100*e.of(d))
			}
		}
	}
	var rows []row
	for i, e := range estimates {
		q, b := deviation(quiet[i]), deviation(busy[i])
		rows = append(rows, row{
			what: "standard error, " + e.name, measured: fmt.Sprintf("quiet %.2f%%", q),
			beside: fmt.Sprintf("busy %.2f%%", b), ratio: fmt.Sprintf("%.1f×", b/q),
		})
	}
	return rows, nil
}

func (l *lab) aaDifferences(b bench.Benchmark, o *bpf.Object, n int) ([]float64, error) {
	m, closeAll, err := l.aa(b, o)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	var s series
	if err := s.extend(l.ctx, n, m.Round); err != nil {
		return nil, err
	}
	return s.differences(), nil
}

func deviation(x []float64) float64 { return math.Sqrt(stats.Variance(x)) }

func falseAlarms(l *lab) ([]row, error) {
	type subject struct {
		o *bpf.Object
		b bench.Benchmark
	}
	var subjects []subject
	for _, s := range []struct {
		object, benchmark string
		repeat            int
	}{
		{"v4_lookup", "fun_xdp/addresses", 1000},
		{"v3_fibonacci", "fun_xdp/worst", 250}, // of some 700 ns each
	} {
		o, err := l.example(s.object)
		if err != nil {
			return nil, err
		}
		b, err := l.benchmark(s.benchmark)
		if err != nil {
			return nil, err
		}
		b.Repeat = s.repeat
		subjects = append(subjects, subject{o, b})
	}
	const comparisons, oneLook, level = 200, 30, 0.01
	got := map[gate.Verdict]int{}
	differ := 0
	var needed []float64
	for k := range comparisons {
		s := subjects[k%len(subjects)]
		c, first, err := l.judgeAA(s.b, s.o, oneLook)
		if err != nil {
			return nil, err
		}
		got[c.Verdict]++
		needed = append(needed, float64(c.Rounds))
		if stats.SignedRank(first).TwoSided <= level {
			differ++
		}
	}
	low, high := stats.BinomialInterval(differ, comparisons, 0.95)
	alarms := got[gate.Regressed] + got[gate.Improved]
	return []row{
		{
			"called regressed or improved", fmt.Sprintf("%d of %d", alarms, comparisons),
			"", "", "0", meets(alarms == 0),
		},
		{
			"passed", fmt.Sprintf("%d of %d", got[gate.Pass], comparisons),
			fmt.Sprintf("after %.0f rounds in the median, 9 in 10 by %.0f", stats.Median(needed), stats.Quantile(needed, 0.9)), "", "", "",
		},
		{
			"differ from 0 at one look, p ≤ 1%", fmt.Sprintf("%d of %d", differ, comparisons),
			fmt.Sprintf("95%% interval %.1f to %.1f%%", 100*low, 100*high), "", "about 1%", meets(low <= level && level <= high),
		},
	}, nil
}

// judgeAA compares a program with itself, look after look, as a session does, and
// also returns the differences of the first rounds.
func (l *lab) judgeAA(b bench.Benchmark, o *bpf.Object, first int) (gate.Comparison, []float64, error) {
	m, closeAll, err := l.aa(b, o)
	if err != nil {
		return gate.Comparison{}, nil, err
	}
	defer closeAll()
	// Without programs in the runs there are no digests, and nothing is known to
	// be unchanged.
	run := func(id string) *bench.Run {
		return &bench.Run{ID: id, Session: "aa", Testbed: l.testbed, Results: []bench.Result{{Benchmark: b.Name, Program: b.Program, Measure: bench.Latency, Kind: bench.Micro}}}
	}
	base, head := run("base"), run("head")
	p := netPolicy()
	var s series
	var c gate.Comparison
	for i, look := range p.Looks() {
		if err := s.extend(l.ctx, look, m.Round); err != nil {
			return c, nil, err
		}
		for r, samples := range map[*bench.Result][]bench.Sample{&base.Results[0]: s.base, &head.Results[0]: s.head} {
			r.Samples, r.Looks, r.Final = samples, append(r.Looks, look), i == len(p.Looks())-1
		}
		if c = gate.Compare(base, head, p).Comparisons[0]; !c.Open {
			break
		}
	}
	if err := s.extend(l.ctx, first, m.Round); err != nil {
		return c, nil, err
	}
	return c, s.differences()[:first], nil
}
