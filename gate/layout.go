package gate

import (
	"fmt"
	"math"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/stats"
)

// layoutAlpha is the chance that the layout floor of a benchmark is too low.
const layoutAlpha = 0.05

// minTwins is the number of rounds below which there is no layout floor.
const minTwins = 10

// judgeLayout says which changes are no larger than what moving code does.
//
// In every round base was measured once more with its code moved, as an edit of
// code that is never executed moves it. How far that differs from base is the
// benchmark's layout floor: the far end of its two-sided 95% interval. A change of
// no more than that is labelled, and where head executes as many instructions as
// base, it does not fail: nobody wrote it.
func judgeLayout(family []*row, base, head *bench.Run) {
	before, after := instructions(base), instructions(head)
	for _, w := range family {
		if w.measure.Unit != "ns" || w.base == nil || w.head == nil || w.Change == nil {
			continue
		}
		a, counted := before[w.Benchmark]
		b, ok := after[w.Benchmark]
		equal := counted && ok && a == b
		floor, ok := layoutFloor(w.base.Samples, w.last)
		if ok {
			w.LayoutFloor = &floor
			w.Layout = math.Abs(*w.Change) <= floor
		}
		switch {
		case w.Verdict != Regressed:
			if w.Layout {
				w.Warn = false
			}
		case w.Layout && equal:
			w.Verdict = Pass
			w.Reason = fmt.Sprintf("layout: as many instructions as base, and no more than moving code changes here (%.2f%%)", 100*floor)
		case equal:
			w.Reason = "as many executed instructions as base: memory, branches or code placement made the difference"
		}
	}
}

// layoutFloor is the most that moving base's code changes it, as a ratio, from
// the rounds that a verdict regarded.
func layoutFloor(samples []bench.Sample, last *view) (floor float64, ok bool) {
	var d []float64
	for _, s := range samples {
		if last != nil && len(d) == last.rounds {
			break
		}
		if s.Twin > 0 && s.Value > 0 {
			d = append(d, 2*(s.Twin-s.Value)/(s.Twin+s.Value))
		}
	}
	if len(d) < minTwins {
		return 0, false
	}
	s, ok := stats.PairedShift(d, nil)
	if !ok {
		return 0, false
	}
	floor = math.Max(math.Abs(s.Lower(layoutAlpha/2)), math.Abs(s.Upper(layoutAlpha/2)))
	return floor, finite(floor)
}

// instructions are the executed instructions of each benchmark.
func instructions(r *bench.Run) map[string]float64 {
	m := make(map[string]float64)
	for i := range r.Results {
		if res := &r.Results[i]; res.Measure == bench.Insns && !noisy(res) && len(res.Samples) > 0 {
			m[res.Benchmark] = res.Samples[0].Value
		}
	}
	return m
}
