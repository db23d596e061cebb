package gate_test

import (
	"math"
	"testing"

	"github.com/org/ebpf-bench-gate/gate"
)

// The host has two speeds. By chance base's median is of the one, and head's of the
// other, though both sides of every round agree: the three numbers that are shown must,
// too. An absolute limit is about head's own median.
func TestNumbersOfARowAgree(t *testing.T) {
	a, b := make([]float64, 41), make([]float64, 41)
	for i := range a {
		a[i] = 88 + float64(i%7)/10
		if i > 20 {
			a[i] = 101 + float64(i%7)/10
		}
		b[i] = a[i] * (1 + float64(i%5-1)/1000)
	}
	b[20] *= 101. / 88
	base, head := newRun("a", "s", result("latency", 30, a...)), newRun("b", "s", result("latency", 30, b...))
	p := latencyPolicy(0.05)
	c := gate.Compare(base, head, p).Comparisons[0]
	if c.Verdict != gate.Pass || math.Abs(*c.Head / *c.Base - 1 - *c.Change) > 1e-9 || *c.Change > 0.01 {
		t.Errorf("%v: base %v, head %v, change %v", c.Verdict, *c.Base, *c.Head, *c.Change)
	}
	p.Limits["latency"] = gate.Limit{Fail: &gate.Margin{Ratio: 0.05}, Max: number(95)}
	c = gate.Compare(base, head, p).Comparisons[0]
	if c.Verdict != gate.Regressed || *c.Head < 100 {
		t.Errorf("beside a maximum of 95: %v, head %v", c.Verdict, *c.Head)
	}
}
