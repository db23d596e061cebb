package gate_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// A change that moving code also makes is labelled. It fails all the same where
// head executes more instructions, and does not where it executes as many.
func TestLayout(t *testing.T) {
	p := latencyPolicy(0.005)
	p.MinEffectNS = 0
	for _, c := range []struct {
		name                string
		effect, twin        float64
		baseInsns, newInsns float64
		want                gate.Verdict
		layout              bool
	}{
		{"slower than code placement", 0.05, 1.001, 100, 100, gate.Regressed, false},
		{"code placement", 0.03, 1.04, 100, 100, gate.Pass, true},
		{"faster, twin faster still", 0.03, 0.96, 100, 100, gate.Pass, true},
		{"more instructions", 0.03, 1.04, 100, 101, gate.Regressed, true},
		{"nobody counted", 0.03, 1.04, 0, 0, gate.Regressed, true},
		{"no twin", 0.03, 0, 100, 100, gate.Regressed, false},
	} {
		rnd := rand.New(rand.NewPCG(9, 1))
		base, head := suite(rnd, 1, 160, func(int) float64 { return c.effect })
		for i := range base.Results[0].Samples {
			s := &base.Results[0].Samples[i]
			s.Twin = s.Value * c.twin * (1 + 0.001*rnd.NormFloat64())
			if c.twin == 0 {
				s.Twin = 0
			}
		}
		if c.baseInsns > 0 {
			name := base.Results[0].Benchmark
			for run, n := range map[*bench.Run]float64{base: c.baseInsns, head: c.newInsns} {
				run.Results = append(run.Results, bench.Result{Benchmark: name, Program: run.Results[0].Program, Measure: bench.Insns, Kind: bench.Micro, Samples: []bench.Sample{{Value: n}}})
			}
		}
		r := gate.Compare(base, head, p)
		row := r.Comparisons[0]
		for _, x := range r.Comparisons {
			if x.Measure == bench.Latency {
				row = x
			}
		}
		if row.Verdict != c.want || row.Layout != c.layout {
			t.Errorf("%s: %v, layout %v (floor %v, change %v), want %v, %v", c.name, row.Verdict, row.Layout, row.LayoutFloor, *row.Change, c.want, c.layout)
		}
		if c.layout && c.want == gate.Pass && !strings.HasPrefix(row.Reason, "layout: ") {
			t.Errorf("%s: reason %q", c.name, row.Reason)
		}
		if (row.LayoutFloor != nil) != (c.twin != 0) {
			t.Errorf("%s: layout floor %v", c.name, row.LayoutFloor)
		}
	}
}
