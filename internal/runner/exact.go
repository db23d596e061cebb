//go:build linux

package runner

import (
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
)

// exact takes the measures that one pass over the inputs tells for good: executed
// instructions. They are one sample of round 0 a side. Where there is no exact
// number for every side there is none, and a warning beside the measure that the
// benchmark keeps.
func (r *run) exact(c *benchCase, at []int) {
	m, ok := c.lane.(micro)
	if !ok {
		return
	}
	shown := c.results[at[len(at)-1]][0] // where the benchmark's warnings stand
	in, err := m.Insns()
	if err != nil {
		shown.Warnings = append(slices.Clone(shown.Warnings), err.Error())
		return
	}
	c.exact = make([][]*bench.Result, len(r.Sides))
	for j, i := range at {
		side := in.Sides[j]
		res := &bench.Result{
			Benchmark: c.Name, Program: c.Program, Measure: bench.Insns, Kind: bench.Micro, Path: shown.Path, Answer: shown.Answer,
			Samples: []bench.Sample{{Value: side.Mean, Offset: -1}}, Worst: float64(side.Worst),
		}
		if j == len(at)-1 {
			res.Warnings = in.Warnings
		}
		if j > 0 {
			res.Lines = bench.ExplainLines(in.Sides[0].Lines, side.Lines)
		}
		c.exact[i] = append(c.exact[i], res)
	}
}
