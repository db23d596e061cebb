//go:build linux

package runner

import (
	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
)

// open prepares the lane that a benchmark asks for.
func (r *run) open(b bench.Benchmark, sides []bpf.Side) (lane, error) {
	if b.Veth != nil {
		m, err := r.session.Macro(b, sides...)
		if err != nil {
			return nil, err
		}
		return macro{m}, nil
	}
	m, err := r.session.Micro(b, sides...)
	if err != nil {
		return nil, err
	}
	return &micro{Micro: m}, nil
}

type micro struct {
	*bpf.Micro
	// noisy are the counted measures of a program that does not always do the
	// same, which need a sample each round; nil: they are exact.
	noisy []string
	sides int // of the comparison
}

func (m *micro) measures() []string { return []string{bench.Latency} }

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

type macro struct{ *bpf.Macro }

func (m macro) measures() []string {
	return []string{bench.Latency, bench.Runs, bench.RecursionMisses}
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
	}
	return out, nil
}
