//go:build linux

package main

import (
	"fmt"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
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
	return []row{{
		what: "standard error of ten rounds", measured: fmt.Sprintf("%.2f%%", q),
		beside: fmt.Sprintf("one reading: %.1f%%", u), ratio: fmt.Sprintf("1/%.0f", u/q),
	}}, nil
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
