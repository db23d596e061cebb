package gate_test

import (
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// Measuring one side asks for no comparison: too few stored runs are told as what
// they are, and are neither a pass nor a failure. What is known to be worse, or is
// not known for another reason, is not hidden by them.
func TestTooFewStoredRuns(t *testing.T) {
	varied := []float64{100, 101, 99, 100, 102, 98, 100, 101, 99, 100}
	p := gate.DefaultPolicy()
	p.Limits = map[string]gate.Limit{"latency": {Fail: &gate.Margin{Ratio: 0.05}}, bench.VerifiedInsns: {Fail: &gate.Margin{}}}
	capped := p
	capped.Limits = map[string]gate.Limit{"latency": {Fail: &gate.Margin{Ratio: 0.05}, Max: number(90)}}
	// A new benchmark beside one that has a history.
	both := stored("latency", varied...)
	both[9].Results = append(both[9].Results, named(result("latency", 0, 50), "p/new"))
	two := func(v float64) *bench.Run {
		return newRun("h", "", result("latency", 0, v), named(result("latency", 0, 999), "p/new"))
	}
	constant := stored("latency", 7, 7, 7, 7, 7, 7, 7, 7, 7, 7)
	constant[9].Results = append(constant[9].Results, named(result("latency", 0, 50), "p/new"))
	exact := stored("latency", varied[:3]...)
	exact[2].Results = append(exact[2].Results, static(bench.VerifiedInsns, 50))
	rejected := newRun("h", "", result("latency", 0, 100))
	rejected.Programs = []bench.ProgramResult{{Program: "q", Outcome: bench.Rejected}}

	for _, c := range []struct {
		name    string
		head    *bench.Run
		history []*bench.Run
		policy  gate.Policy
		asked   bool
		want    gate.Verdict
		says    string
	}{
		{"too few", newRun("h", "", result("latency", 0, 999)), stored("latency", varied[:9]...), p, false, gate.Inconclusive, "9 of 10 runs: not judged yet."},
		{"one is new", two(100), both, p, false, gate.Inconclusive, "1 of 10 runs: not judged yet; 1 passed."},
		{"one is new, one beyond", two(110), both, p, true, gate.Inconclusive, "p/x latency could not be decided: a first alarm, beyond the boundary of 10 runs: a second in a row is a regression (t_test, upper 0.995); 2 inconclusive."},
		{"one is new, one does not vary", two(7), constant, p, true, gate.Inconclusive, "p/new latency could not be decided: 1 of 10 runs (t_test, upper 0.995); 2 inconclusive."},
		{"exact ones are judged by one run", newRun("h", "", result("latency", 0, 100), static(bench.VerifiedInsns, 51)), exact, p, true, gate.Regressed, "p/x verified_insns went from 50 to 51"},
		{"a maximum", newRun("h", "", result("latency", 0, 100)), stored("latency", varied[:3]...), capped, true, gate.Regressed, "p/x latency is 100"},
		{"a new program is rejected", rejected, stored("latency", varied[:3]...), p, true, gate.Inconclusive, "p/x latency could not be decided: 3 of 10 runs"},
	} {
		r := gate.CompareHistory(c.head, c.history, c.policy)
		if r.Asked != c.asked || r.Verdict != c.want || !strings.HasPrefix(r.Summary, c.says) {
			t.Errorf("%s: asked %v, %v, %q", c.name, r.Asked, r.Verdict, r.Summary)
		}
		if !r.Asked && (r.Hint == "" || row(t, r, r.Comparisons[0].Benchmark, "latency").Verdict != gate.Inconclusive) {
			t.Errorf("%s: hint %q, rows %+v", c.name, r.Hint, r.Comparisons)
		}
	}
}
