package render

import (
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// Why a benchmark was not measured stands in the report once: with its program's
// fate, or with its row, or as a skip.
func TestReasonsStandOnce(t *testing.T) {
	r := &gate.Report{
		Verdict: gate.Inconclusive, Asked: true, Base: base, Head: head,
		Comparisons: []gate.Comparison{{
			Benchmark: "slow/x", Measure: bench.Latency, Judged: true, Reason: "could not be measured: two paths",
			Boundary: &gate.Boundary{Test: gate.TTest, Samples: 1}, Head: p(1), Unit: "ns",
		}},
		Programs: []bench.ProgramResult{
			{Program: "bad", Outcome: bench.Rejected, Reason: "too large"},
			{Program: "cured", Outcome: bench.Accepted, Reason: "it was rejected in base: too small"},
		},
		Skipped: []bench.Skip{
			{Name: "bad/builtin", Reason: "bad of head does not load: too large"}, {Name: "cured/builtin", Reason: "cured of base does not load: too small"},
			{Name: "slow/x", Reason: "two paths", Required: true}, {Name: "probe", Reason: "no test run"}, {Name: "bad of b.o", Reason: "a.o has it"},
		},
	}
	for _, out := range []string{text(t, r, Options{}), markdown(t, r, MarkdownOptions{})} {
		for _, want := range []string{"too large", "too small", "two paths", "no test run", "a.o has it", "(1 run)"} {
			if n := strings.Count(out, want); n != 1 && want != "(1 run)" || n == 0 {
				t.Errorf("%q stands %d times in\n%s", want, n, out)
			}
		}
	}
	if out := markdown(t, r, MarkdownOptions{}); !strings.Contains(out, "<summary>2 not measured<") {
		t.Errorf("another number of skips:\n%s", out)
	}
	if out := text(t, r, Options{Color: true}); !strings.Contains(out, "\x1b[32mload:\x1b[0m cured: accepted: it was rejected in base") {
		t.Errorf("a cure in another colour:\n%s", out)
	}
}
