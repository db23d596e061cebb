package gate_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// withControl adds a control to two runs: base's samples of the first benchmark,
// and the same scaled.
func withControl(rnd *rand.Rand, base, head *bench.Run, scale float64) {
	c := base.Results[0]
	c.Benchmark, c.Looks = bench.Control, nil
	base.Results = append(base.Results, c)
	again := c
	again.Samples = append([]bench.Sample{}, c.Samples...)
	for i := range again.Samples {
		again.Samples[i].Value *= scale * (1 + 0.002*rnd.NormFloat64())
	}
	head.Results = append(head.Results, again)
}

// A host that measures a program different from itself gets no verdict at all,
// whatever head looks like; one that does not keeps its verdicts.
func TestControl(t *testing.T) {
	p := latencyPolicy(0.03)
	for _, c := range []struct {
		name            string
		effect, control float64
		want            gate.Verdict
	}{
		{"honest host, unchanged", 0, 1, gate.Pass},
		{"honest host, slower", 0.2, 1, gate.Regressed},
		{"biased host, unchanged", 0, 1.02, gate.Inconclusive},
		{"biased host, slower", 0.2, 1.02, gate.Inconclusive},
	} {
		rnd := rand.New(rand.NewPCG(5, 5))
		base, head := suite(rnd, 3, 160, func(int) float64 { return c.effect })
		withControl(rnd, base, head, c.control)
		r := gate.Compare(base, head, p)
		if r.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Verdict, c.want)
		}
		if r.Control == nil || r.Control.Rounds != 160 {
			t.Fatalf("%s: control %+v, want one of 160 rounds", c.name, r.Control)
		}
		biased := c.control != 1
		if got := strings.Contains(strings.Join(r.Warnings, "\n"), "cannot be trusted"); got != biased {
			t.Errorf("%s: warned %v, want %v: %q", c.name, got, biased, r.Warnings)
		}
		if len(r.Comparisons) != 3 {
			t.Errorf("%s: %d rows, want 3: the control is nobody's benchmark", c.name, len(r.Comparisons))
		}
	}
}
