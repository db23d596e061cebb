package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// What a run could have shown, which rounds were odd, and what a waiver or the
// code's layout has to do with a verdict, stands in the report.
func TestRemarks(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	days := 12
	row := func(name string, v gate.Verdict, detectable float64) gate.Comparison {
		return gate.Comparison{
			Benchmark: name, Measure: bench.Latency, Unit: "ns", Judged: true, Verdict: v, Rounds: 20,
			Base: f(100), Head: f(104), Change: f(0.04), Detectable: f(detectable),
		}
	}
	waived, layout, plain := row("p/waived", gate.Pass, 0.01), row("p/layout", gate.Improved, 0.02), row("p/plain", gate.Pass, 0.03)
	waived.Waived = &gate.Waived{Used: true, Age: &days}
	young := row("p/young", gate.Pass, 0.01)
	young.Waived = &gate.Waived{Used: true, Until: "2027-01-31"}
	layout.Layout = true
	plain.Outliers = &gate.Outliers{Worse: 3, Better: 1}
	r := &gate.Report{Asked: true, Verdict: gate.Pass, Comparisons: []gate.Comparison{waived, layout, plain, young}, Summary: "s"}
	var b bytes.Buffer
	if err := Text(&b, r, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pass, waived for 12 days",
		"pass, waived until 2027-01-31",
		"improved, layout",
		"this run finds nine in ten slowdowns of 1.0% (p/waived) to 3.0% (p/plain)",
		"4 of 20 rounds lie outside Tukey's fences (3 slower, 1 faster)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
