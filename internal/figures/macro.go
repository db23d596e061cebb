//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

func macro(l *lab) ([]row, error) {
	b, err := l.benchmark("fun_xdp/veth")
	if err != nil {
		return nil, err
	}
	o, err := l.example("v4_lookup")
	if err != nil {
		return nil, err
	}
	s, err := bpf.NewSession(l.newSeed())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	sides := []bpf.Side{{Name: "base", Object: o}, {Name: "head", Object: o}}
	many, err := s.Macro(b, sides...)
	if err != nil {
		return nil, err
	}
	defer many.Close()
	b.Veth = &bench.Veth{Mode: b.Veth.Mode, Count: 1, MinRuns: 1}
	b.Packets = b.Packets[:1]
	one, err := s.Macro(b, sides...)
	if err != nil {
		return nil, err
	}
	defer one.Close()

	const comparisons, n, single = 12, 10, 5
	var ours, beside []float64
	for range comparisons {
		var rounds, readings series
		if err := rounds.extend(l.ctx, n, latency(many)); err != nil {
			return nil, err
		}
		if err := readings.extend(l.ctx, single, latency(one)); err != nil {
			return nil, err
		}
		ours = append(ours, 100*hodgesLehmann(rounds.differences()))
		for _, d := range readings.differences() {
			beside = append(beside, 100*d)
		}
	}
	q, u := deviation(ours), deviation(beside)
	rows := []row{{
		what: "standard error of ten rounds", measured: fmt.Sprintf("%.2f%%", q),
		beside: fmt.Sprintf("one reading: %.1f%%", u), ratio: fmt.Sprintf("1/%.0f", u/q),
	}}
	more, err := macroVerdicts(l)
	return append(rows, more...), err
}

// macroVerdicts are the roads to a verdict on a veth pair.
func macroVerdicts(l *lab) ([]row, error) {
	const times, limit = 5, 15.0
	b, err := l.benchmark("fun_xdp/veth")
	if err != nil {
		return nil, err
	}
	p := gate.DefaultPolicy()
	p.Limits = map[string]gate.Limit{bench.Latency: {Fail: &gate.Margin{Ratio: 0.05}}}
	p.Budget = 15 * time.Second
	var rows []row
	for _, c := range []struct {
		base, head string // "": the twin of base
		want       gate.Verdict
	}{{"v2_fizzbuzz", "v3_fibonacci", gate.Regressed}, {"v4_lookup", "", gate.Pass}} {
		base, err := l.example(c.base)
		if err != nil {
			return rows, err
		}
		var head *bpf.Object
		name := c.base[:2] + "→twin"
		if c.head == "" {
			head, err = l.twin(c.base)
		} else {
			name = c.base[:2] + "→" + c.head[:2]
			head, err = l.example(c.head)
		}
		if err != nil {
			return rows, err
		}
		var took, needed []float64
		got := map[gate.Verdict]int{}
		for range times {
			start := time.Now()
			v, n, err := l.decide(b, p, base, head)
			if err != nil {
				return rows, err
			}
			took, needed = append(took, time.Since(start).Seconds()), append(needed, float64(n))
			got[v]++
		}
		worst := slices.Max(took)
		rows = append(rows, row{
			what:     fmt.Sprintf("%s %s, margin 5%% of net, to %s", name, b.Name, c.want),
			measured: fmt.Sprintf("%.1f s (%.0f rounds), at most %.1f s", stats.Median(took), stats.Median(needed), worst),
			beside:   tally(got, times),
			target:   fmt.Sprintf("≤ %.0f s", limit),
			met:      meets(got[c.want] == times && worst <= limit),
		})
	}
	return rows, nil
}

// latency takes the latencies of a macro round.
func latency(m *bpf.Macro) func(int) ([]bench.Sample, error) {
	return func(r int) ([]bench.Sample, error) {
		all, err := m.Round(r)
		if err != nil {
			return nil, err
		}
		out := make([]bench.Sample, len(all))
		for i, s := range all {
			out[i] = s.Latency
		}
		return out, nil
	}
}
