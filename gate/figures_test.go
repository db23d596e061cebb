package gate_test

import (
	"math/rand/v2"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// What work says of itself is judged in the direction that is declared with it, and
// nothing else is: a run that calls a slower program better would pass.
func TestFigures(t *testing.T) {
	p := gate.DefaultPolicy()
	p.Limits = map[string]gate.Limit{bench.Latency: {Fail: &gate.Margin{Ratio: 0.05}}, bench.Figures: {Fail: &gate.Margin{Ratio: 0.05}}}
	rate := bench.Member(bench.Figures, "rate")
	for _, tt := range []struct {
		measure, unit string
		better        bench.Better
		effect        float64
		want          gate.Verdict
		shown         string // unit
	}{
		{rate, "req/s", bench.Higher, -0.3, gate.Regressed, "req/s"},
		{rate, "req/s", bench.Higher, 0.3, gate.Improved, "req/s"},
		{rate, "req/s", bench.Higher, 0, gate.Pass, "req/s"},
		{rate, "ms", bench.Lower, 0.3, gate.Regressed, "ms"},
		{rate, "ms", "", 0.3, gate.Regressed, "ms"},
		// A time of the application's is not the program's own, whatever it is called.
		{rate, "ns", bench.Lower, 0.3, gate.Regressed, "nsec"},
		{bench.Latency, "req/s", bench.Higher, 0.3, gate.Regressed, "ns"},
		{bench.Latency, "", bench.Higher, -0.3, gate.Improved, "ns"},
	} {
		b, h := pair(rand.New(rand.NewPCG(1, 2)), 40, 0, tt.effect)
		for _, r := range []*bench.Result{&b, &h} {
			r.Measure, r.Unit, r.Better = tt.measure, tt.unit, tt.better
		}
		c := row(t, gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p), "p/x", tt.measure)
		if c.Verdict != tt.want || c.Unit != tt.shown || !c.Judged {
			t.Errorf("%s in %q, %q is better, by %+g: %s in %q", tt.measure, tt.unit, tt.better, tt.effect, c.Verdict, c.Unit)
		}
	}
	// One of them has been declared anew.
	for _, other := range []bench.Result{{Unit: "req/min", Better: bench.Higher}, {Unit: "req/s", Better: bench.Lower}} {
		b, h := pair(rand.New(rand.NewPCG(1, 2)), 40, 0, 0)
		b.Measure, b.Unit, b.Better = rate, other.Unit, other.Better
		h.Measure, h.Unit, h.Better = rate, "req/s", bench.Higher
		if c := row(t, gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p), "p/x", rate); c.Verdict != gate.Inconclusive {
			t.Errorf("%s, %s became req/s, higher: %s", other.Unit, other.Better, c.Verdict)
		}
	}
}

// A program beside which another one fills its maps is unchanged only where both are.
func TestUnchangedWith(t *testing.T) {
	p := latencyPolicy(0.03)
	for beside, want := range map[string]gate.Verdict{"d1": gate.Pass, "d2": gate.Regressed, "": gate.Regressed} {
		b, h := pair(rand.New(rand.NewPCG(1, 2)), 40, 0, 0.5)
		h.With = []string{"q"}
		base, head := newRun("a", "s", b), newRun("b", "s", h)
		programs := func(q string) []bench.ProgramResult {
			return []bench.ProgramResult{{Program: "p", Outcome: bench.Accepted, Digest: "d"}, {Program: "q", Outcome: bench.Accepted, Digest: q}}
		}
		base.Programs, head.Programs = programs("d1"), programs(beside)
		if c := row(t, gate.Compare(base, head, p), "p/x", bench.Latency); c.Verdict != want || c.Unchanged != (want == gate.Pass) {
			t.Errorf("beside %q: %s, unchanged %t", beside, c.Verdict, c.Unchanged)
		}
	}
}
