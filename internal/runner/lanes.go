//go:build linux

package runner

import (
	"context"
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
)

// open prepares the lane that a benchmark asks for.
func (r *run) open(ctx context.Context, b bench.Benchmark, sides []bpf.Side) (lane, error) {
	if b.Work != nil {
		return r.openWork(ctx, b, sides)
	}
	if b.Veth != nil {
		m, err := r.session.Macro(b, sides...)
		if err != nil {
			return nil, err
		}
		hardware, _ := r.session.Hardware()
		return macro{m, hardware}, nil
	}
	m, err := r.session.Micro(b, sides...)
	if err != nil {
		return nil, err
	}
	hardware, _ := r.session.Hardware()
	return &micro{Micro: m, hardware: hardware}, nil
}

type micro struct {
	*bpf.Micro
	hardware []string // measures of the CPU's counters
	// noisy are the counted measures of a program that does not always do the
	// same, which need a sample each round; nil: they are exact.
	noisy []string
	sides int // of the comparison
}

func (m *micro) measures() []string { return append([]string{bench.Latency}, m.hardware...) }

func (m *micro) describe() (bench.Kind, string, string, []string) {
	return bench.Micro, m.Path, m.Answer, m.Warnings
}

func (m *micro) round(n int) ([][]bench.Sample, error) {
	samples, err := m.Round(n)
	if err != nil {
		return nil, err
	}
	out := make([][]bench.Sample, len(samples))
	for i, s := range samples {
		out[i] = []bench.Sample{s}
		for e := range m.hardware {
			c := none
			if counters := m.Counters(); e < len(counters[i]) {
				c = counters[i][e]
			}
			out[i] = append(out[i], c)
		}
	}
	if m.noisy == nil {
		return out, nil
	}
	counted, err := m.InsnsRound(n, m.sides)
	if err != nil {
		return nil, err
	}
	for i, values := range counted {
		for _, name := range m.noisy {
			out[i] = append(out[i], bench.Sample{Round: n, Value: values[name], Offset: -1})
		}
	}
	return out, nil
}

// none stands where a round has no sample of a measure.
var none = bench.Sample{Round: -1}

// noteHardware says in one line what of the CPU's counters there is not.
func (r *run) noteHardware() {
	if !slices.ContainsFunc(r.cases, func(c *benchCase) bool {
		switch c.lane.(type) {
		case *micro, macro:
			return true
		}
		return false
	}) {
		return
	}
	if _, reason := r.session.Hardware(); reason != "" {
		for _, out := range r.runs {
			out.Skipped = append(out.Skipped, bench.Skip{Name: "hardware counters", Reason: reason})
		}
	}
}

type macro struct {
	*bpf.Macro
	hardware []string // measures of the CPU's counters
}

func (m macro) measures() []string {
	return append([]string{bench.Latency, bench.Runs, bench.RecursionMisses}, m.hardware...)
}

func (m macro) describe() (bench.Kind, string, string, []string) {
	return bench.Macro, m.Path, m.Answer, m.Warnings
}

func (m macro) round(n int) ([][]bench.Sample, error) {
	samples, err := m.Round(n)
	if err != nil {
		return nil, err
	}
	out := make([][]bench.Sample, len(samples))
	for i, s := range samples {
		out[i] = []bench.Sample{s.Latency, s.Runs, s.RecursionMisses}
		for e := range m.hardware {
			c := none
			if e < len(s.Counters) {
				c = s.Counters[e]
			}
			out[i] = append(out[i], c)
		}
	}
	return out, nil
}
