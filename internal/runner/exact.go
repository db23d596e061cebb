//go:build linux

package runner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
)

// exact takes the measures that one pass over the inputs tells for good: executed
// instructions, calls of helpers and kfuncs, operations on maps. They are one sample
// of round 0 a side. Where the program does not always do the same, they are results
// like those of its times, with a sample each round; and where there is no number
// for every side there is none, and a warning beside the measure that the benchmark
// keeps.
func (r *run) exact(c *benchCase, at []int) {
	m, ok := c.lane.(*micro)
	if !ok {
		return
	}
	shown := c.results[at[len(at)-1]][0] // where the benchmark's warnings stand
	in, err := m.Insns()
	if err != nil {
		shown.Warnings = append(slices.Clone(shown.Warnings), err.Error())
		return
	}
	sides := in.Sides[:len(at)]
	for _, s := range sides {
		c.executed = append(c.executed, s.Executed)
	}
	c.noisy = in.Noise != ""
	names := countedMeasures(sides)
	names = mostFrequent(sides, names, bench.MaxMembers)
	if in.Noise != "" {
		names = mostFrequent(sides, names, maxSampled)
		m.noisy, m.sides = names, len(at)
	} else {
		c.exact = make([][]*bench.Result, len(r.Sides))
	}
	for j, i := range at {
		values := means(&sides[j])
		for _, name := range names {
			res := &bench.Result{
				Benchmark: c.Name, Program: c.Program, Measure: name, Kind: bench.Micro, Path: shown.Path, Answer: shown.Answer, Noisy: in.Noise,
			}
			if name == bench.Insns {
				if j == len(at)-1 {
					res.Warnings = in.Warnings
				}
				if j > 0 {
					res.Lines = bench.ExplainLines(sides[0].Lines, sides[j].Lines)
				}
			}
			if in.Noise != "" {
				if name == bench.Insns && j == len(at)-1 {
					res.Warnings = append(slices.Clone(res.Warnings), fmt.Sprintf("not exact, and judged as noisy: %s", in.Noise))
				}
				c.results[i] = append(c.results[i], res)
				continue
			}
			res.Samples = []bench.Sample{{Value: values[name], Offset: -1}}
			if name == bench.Insns {
				res.Worst = float64(sides[j].Worst)
			}
			c.exact[i] = append(c.exact[i], res)
		}
	}
}

// countedMeasures are executed instructions and what any side did besides: a helper
// that one side does not call is called 0 times there, which is a number like others.
func countedMeasures(sides []bpf.SideInsns) []string {
	names := []string{bench.Insns}
	for _, s := range sides {
		for _, n := range s.Counts {
			if !slices.Contains(names, n.Measure) {
				names = append(names, n.Measure)
			}
		}
	}
	slices.SortFunc(names[1:], bench.MeasureOrder)
	return names
}

// maxSampled bounds what is sampled each round: a suite of hundreds of benchmarks
// must still fit into a run.
const maxSampled = 16

// mostFrequent keeps executed instructions, and of all else what happens most.
func mostFrequent(sides []bpf.SideInsns, names []string, most int) []string {
	if len(names) <= 1+most {
		return names
	}
	total := map[string]float64{}
	for i := range sides {
		for name, v := range means(&sides[i]) {
			total[name] += v
		}
	}
	members := slices.Clone(names[1:])
	slices.SortStableFunc(members, func(a, b string) int { return cmp.Compare(total[b], total[a]) })
	members = members[:most]
	slices.SortFunc(members, bench.MeasureOrder)
	return append(names[:1:1], members...)
}

// means are a side's numbers by measure.
func means(s *bpf.SideInsns) map[string]float64 {
	out := map[string]float64{bench.Insns: s.Mean}
	for _, n := range s.Counts {
		out[n.Measure] = n.Mean
	}
	return out
}
