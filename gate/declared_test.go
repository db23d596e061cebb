package gate

import (
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
)

// TestCounts holds what becomes of counts of other tools: exact, with a direction of
// their own, and never 0 because they are not there.
func TestCounts(t *testing.T) {
	run := func(id, measure string, value float64, better bench.Better) *bench.Run {
		return &bench.Run{Schema: 1, ID: id, Results: []bench.Result{
			{Benchmark: "fib", Program: "fib", Measure: bench.Insns, Samples: []bench.Sample{{Value: 5}}},
			{Benchmark: "fib", Program: "fib", Measure: measure, Better: better, Kind: bench.Imported, Samples: []bench.Sample{{Value: value}}},
		}}
	}
	for _, tt := range []struct {
		measure    string
		base, head float64
		better     bench.Better
		verdict    Verdict
		judged     bool
	}{
		{"count[instructions]", 100, 104, bench.Lower, Pass, true},
		{"count[instructions]", 100, 106, bench.Lower, Regressed, true},
		{"count[instructions]", 100, 90, bench.Lower, Improved, true},
		{"count[instructions]", 100, 90, bench.Higher, Regressed, true},
		{"count[l2-accesses]", 0, 1, bench.Lower, Regressed, false},
		{"count[l2-accesses]", 3, 3, bench.Lower, Pass, false},
	} {
		r := Compare(run("a", tt.measure, tt.base, tt.better), run("b", tt.measure, tt.head, tt.better), DefaultPolicy())
		for _, c := range r.Comparisons {
			if c.Measure == tt.measure && (c.Verdict != tt.verdict || c.Judged != tt.judged || !c.Exact) {
				t.Errorf("%s from %v to %v: %v, judged %v, exact %v", tt.measure, tt.base, tt.head, c.Verdict, c.Judged, c.Exact)
			}
		}
	}
	r := Compare(run("a", "count[instructions]", 5, bench.Lower), run("b", "count[other]", 5, bench.Lower), DefaultPolicy())
	for _, c := range r.Comparisons {
		if c.Measure == "count[instructions]" && c.Verdict != Missing {
			t.Errorf("a count that head lacks is %v", c.Verdict)
		}
	}
	if r.Verdict != Inconclusive {
		t.Errorf("a suite whose count is missing is %v", r.Verdict)
	}
}

// Where there are too few samples for a test, the hint is to have more, and tells no
// number of rounds, since there were none.
func TestTooFewSamples(t *testing.T) {
	run := func(id string, values ...float64) *bench.Run {
		r := bench.Result{Benchmark: "fib", Program: "fib", Measure: bench.Latency, Kind: bench.Imported}
		for _, v := range values {
			r.Samples = append(r.Samples, bench.Sample{Value: v})
		}
		return &bench.Run{Schema: 1, ID: id, Testbed: bench.Testbed{Name: "lab"}, Results: []bench.Result{r}}
	}
	r := Compare(run("a", 1), run("b", 1, 2, 3, 4, 5), DefaultPolicy())
	r.Asked = true
	if got := r.hint(); got != "fib needs more samples" {
		t.Errorf("%q", got)
	}
}
