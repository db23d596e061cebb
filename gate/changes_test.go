package gate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// levels are n noisy values around each of the levels.
func levels(n int, around ...float64) []float64 {
	rnd := rand.New(rand.NewPCG(61, uint64(n)))
	var x []float64
	for _, l := range around {
		for range n {
			x = append(x, l+rnd.NormFloat64())
		}
	}
	return x
}

func TestHistoryChanges(t *testing.T) {
	runs := stored("latency", levels(20, 100, 110)...)
	for i, r := range runs {
		r.Revision = bench.Revision{Name: "main", Commit: strings.Repeat(string(rune('a'+i%6)), 40)}
		insns := 58.0
		if i >= 37 {
			insns = 60
		}
		r.Results = append(r.Results, result(bench.VerifiedInsns, 0, insns, insns))
	}
	rnd := rand.New(rand.NewPCG(62, 1))
	rnd.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	all := gate.History(append(runs, nil))
	if len(all) != 2 || all[0].Measure != "latency" || all[1].Measure != bench.VerifiedInsns || len(all[0].Points) != 40 {
		t.Fatalf("%+v", all)
	}
	for _, s := range all {
		if len(s.Changes) != 1 {
			t.Fatalf("%s: %+v", s.Measure, s.Changes)
		}
	}
	c := all[0].Changes[0]
	if c.At < 19 || c.At > 21 || !c.Worse || c.P > 0.01 || c.P <= 0 || c.Interval == nil || c.Change == nil {
		t.Fatalf("%+v", c)
	}
	if *c.Change < c.Interval.Low || *c.Change > c.Interval.High || math.Abs(*c.Change-0.1) > 0.01 || c.Interval.Low < 0.08 {
		t.Errorf("change %v, interval %+v", *c.Change, *c.Interval)
	}
	if p := all[0].Points; c.From != p[c.At-1].Revision || c.To != p[c.At].Revision || !p[0].Time.Before(p[1].Time) {
		t.Errorf("from %v to %v", c.From, c.To)
	}
	if c := all[1].Changes[0]; c.At != 37 || c.P != 0 || c.Before != 58 || c.After != 60 || !c.Worse || c.Interval != nil {
		t.Errorf("exact: %+v", c)
	}
	if got := gate.History(nil); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

// The history that a threshold judges by begins at the last change: a level that
// was accepted long ago neither excuses a slowdown nor widens the boundary.
func TestHistoryRestarts(t *testing.T) {
	x := levels(20, 130, 100)
	p := latencyPolicy(0.05)
	judge := func(p gate.Policy, x []float64, head float64) gate.Comparison {
		return row(t, gate.CompareHistory(newRun("h", "", result("latency", 0, head)), stored("latency", x...), p), "p/x", "latency")
	}
	c := judge(p, x, 110)
	if c.Verdict != gate.Inconclusive || !strings.Contains(c.Reason, "first alarm") || c.Boundary.Samples < 19 || c.Boundary.Samples > 21 || *c.Base > 102 {
		t.Errorf("restarted: %v by %+v, %q", c.Verdict, c.Boundary, c.Reason)
	}
	if !slices.ContainsFunc(c.Warnings, func(s string) bool { return strings.Contains(s, "the series changed at run-") }) {
		t.Errorf("warnings %q", c.Warnings)
	}
	p.Threshold.KeepChanges = true
	if c := judge(p, x, 110); c.Verdict != gate.Pass || c.Boundary.Samples != 40 {
		t.Errorf("kept: %v by %+v", c.Verdict, c.Boundary)
	}
	p.Threshold.KeepChanges = false
	if c := judge(p, x[:26], 100); c.Verdict != gate.Inconclusive || !strings.Contains(c.Reason, "6 of 10 runs since the change at run-") {
		t.Errorf("just changed: %v, %q", c.Verdict, c.Reason)
	}
}
