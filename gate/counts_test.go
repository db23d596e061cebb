package gate_test

import (
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// A count that is 0 but for a few processes in which something else allocated passes
// against itself, and one that grew is still found.
func TestNoisyCounts(t *testing.T) {
	of := func(id string, rare, usual float64) *bench.Run {
		r := newRun(id, "s", result("count[B/op]", 0, 0))
		res := &r.Results[0]
		res.Kind, res.Noisy, res.Unit, res.Better, res.Samples = bench.User, "it differs from run to run", "B/op", bench.Lower, nil
		for i := range 40 {
			v := usual
			if i%10 == len(id) {
				v = rare
			}
			res.Samples = append(res.Samples, bench.Sample{Round: i, Value: v, Offset: -1})
		}
		return r
	}
	for _, tt := range []struct {
		head *bench.Run
		want gate.Verdict
	}{
		{of("hh", 1, 0), gate.Pass},
		{of("hh", 3, 0), gate.Pass},
		{of("hh", 9, 8), gate.Regressed},
	} {
		report := gate.Compare(of("b", 1, 0), tt.head, gate.DefaultPolicy())
		if c := report.Comparisons[0]; !c.Judged || c.Verdict != tt.want {
			t.Errorf("%+v, want %v", c, tt.want)
		}
	}
}
