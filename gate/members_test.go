package gate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// counted is an exact result.
func counted(measure string, value float64) bench.Result { return result(measure, 0, value) }

// A limit of a family is one for each member; a member's own stands in its place.
func TestFamilies(t *testing.T) {
	lookups, time := bench.Member(bench.Calls, "bpf_map_lookup_elem"), bench.Member(bench.Calls, "bpf_ktime_get_ns")
	base := newRun("a", "s", counted(lookups, 2), counted(time, 1))
	head := newRun("b", "s", counted(lookups, 3), counted(time, 2))
	for _, tt := range []struct {
		limits, override map[string]gate.Limit
		want             map[string]gate.Verdict // of judged rows
	}{
		{nil, nil, nil},
		{map[string]gate.Limit{bench.Calls: {Fail: &gate.Margin{}}}, nil, map[string]gate.Verdict{lookups: gate.Regressed, time: gate.Regressed}},
		{map[string]gate.Limit{bench.Calls: {Fail: &gate.Margin{}}, lookups: {Fail: &gate.Margin{Absolute: 1}}}, nil, map[string]gate.Verdict{lookups: gate.Pass, time: gate.Regressed}},
		{map[string]gate.Limit{time: {Max: number(1)}}, nil, map[string]gate.Verdict{time: gate.Regressed}},
		{map[string]gate.Limit{time: {Fail: &gate.Margin{}}}, map[string]gate.Limit{bench.Calls: {Fail: &gate.Margin{Absolute: 5}}}, map[string]gate.Verdict{lookups: gate.Pass, time: gate.Pass}},
	} {
		p := gate.DefaultPolicy()
		p.Limits = tt.limits
		if tt.override != nil {
			p.Overrides = []gate.Override{{Benchmark: "p/*", Limits: tt.override}}
		}
		r := gate.Compare(base, head, p)
		judged := 0
		for _, c := range r.Comparisons {
			if want, ok := tt.want[c.Measure]; c.Judged != ok || ok && c.Verdict != want || !c.Exact || c.Unit != "count" {
				t.Errorf("%v: %+v, want %v", tt.limits, c, tt.want)
			}
			if c.Judged {
				judged++
			}
		}
		if judged != len(tt.want) {
			t.Errorf("%v: %d rows are judged", tt.limits, judged)
		}
	}
	p := gate.DefaultPolicy()
	p.Limits = map[string]gate.Limit{bench.Calls: {Fail: &gate.Margin{}}}
	p.Waivers = []gate.Waiver{{Benchmark: "p/x", Max: map[string]gate.Margin{bench.Calls: {Absolute: 1}}, Until: head.Time, Reason: "for a day"}}
	if r := gate.Compare(base, head, p); r.Verdict != gate.Pass {
		t.Errorf("waived: %v, %s", r.Verdict, r.Summary)
	}
}

// A run that counted, and has no result for a helper, did not call it.
func TestUncalled(t *testing.T) {
	redirect := bench.Member(bench.Calls, "bpf_redirect")
	p := gate.DefaultPolicy()
	p.Limits[bench.Calls] = gate.Limit{Fail: &gate.Margin{}}
	base := newRun("a", "", counted(bench.Insns, 10))
	head := newRun("b", "", counted(bench.Insns, 10), counted(redirect, 1))
	if c := row(t, gate.Compare(base, head, p), "p/x", redirect); c.Verdict != gate.Regressed || c.Base == nil || *c.Base != 0 {
		t.Errorf("from never to once: %+v", c)
	}
	if c := row(t, gate.Compare(head, base, p), "p/x", redirect); c.Verdict != gate.Improved || c.Head == nil || *c.Head != 0 {
		t.Errorf("from once to never: %+v", c)
	}
	if c := row(t, gate.Compare(newRun("a", ""), head, p), "p/x", redirect); c.Verdict != gate.Added {
		t.Errorf("beside a run that counted nothing: %+v", c)
	}
	noisy := counted(bench.Insns, 10)
	noisy.Noisy = "chance"
	if c := row(t, gate.Compare(head, newRun("c", "", noisy), p), "p/x", redirect); c.Verdict != gate.Missing || r(c) {
		t.Errorf("beside a run that could not tell: %+v", c)
	}
	// As many members as a run may have: this one may have been left out.
	for i := range bench.MaxMembers {
		base.Results = append(base.Results, counted(bench.Member(bench.Calls, fmt.Sprint("f", i)), 1))
	}
	if c := row(t, gate.Compare(base, head, p), "p/x", redirect); c.Verdict != gate.Added {
		t.Errorf("beside a run that is full: %+v", c)
	}
}

// r tells that a row has numbers of both sides.
func r(c gate.Comparison) bool { return c.Base != nil && c.Head != nil }

// A counter that had to share the CPU's with others says so.
func TestScaled(t *testing.T) {
	base, head := newRun("a", "s", result(bench.Cycles, 0, 100, 101, 102)), newRun("b", "s", result(bench.Cycles, 0, 100, 101, 102))
	if c := row(t, gate.Compare(base, head, gate.DefaultPolicy()), "p/x", bench.Cycles); len(c.Warnings) != 0 || c.Judged {
		t.Errorf("counted all of the time: %+v", c)
	}
	for i := range head.Results[0].Samples {
		head.Results[0].Samples[i].Counted = 0.4
	}
	c := row(t, gate.Compare(base, head, gate.DefaultPolicy()), "p/x", bench.Cycles)
	if len(c.Warnings) != 1 || c.Warnings[0] != "counted 40% of the time and scaled up: the CPU has fewer counters than events" {
		t.Errorf("counted for a part of it: %q", c.Warnings)
	}
}

// Instructions of a program that does not always do the same are judged by rounds,
// like its times: with an interval, and at the suite's level.
func TestNoisyInsns(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	const rounds = 40
	runs := func(effect float64) (*bench.Run, *bench.Run) {
		b, h := pair(rnd, rounds, 0, effect)
		b.Measure, h.Measure = bench.Insns, bench.Insns
		b.Noisy, h.Noisy = "head: two loads differ; it uses bpf_get_prandom_u32", "head: two loads differ; it uses bpf_get_prandom_u32"
		h.Looks, h.Final = []int{20, 40}, true
		return newRun("a", "s", b), newRun("b", "s", h)
	}
	p := gate.DefaultPolicy() // insns: fail 5%
	for effect, want := range map[float64]gate.Verdict{0: gate.Pass, 0.2: gate.Regressed, -0.2: gate.Improved} {
		base, head := runs(effect)
		c := row(t, gate.Compare(base, head, p), "p/x", bench.Insns)
		if c.Verdict != want || c.Exact || c.Interval == nil || c.P == nil || c.Rounds < 20 {
			t.Errorf("%+v: %+v", effect, c)
		}
		// What differs in one side alone is noise for both.
		base.Results[0].Noisy = ""
		for i := range base.Results[0].Samples {
			base.Results[0].Samples[i].Value = 105
		}
		if c := row(t, gate.Compare(base, head, p), "p/x", bench.Insns); c.Exact || c.Interval == nil {
			t.Errorf("a base that is exact: %+v", c)
		}
	}
	// An unchanged program cannot regress, whatever its noise does.
	base, head := runs(0.2)
	for _, run := range []*bench.Run{base, head} {
		run.Programs = []bench.ProgramResult{{Program: "p", Outcome: bench.Accepted, Digest: "d"}}
	}
	if c := row(t, gate.Compare(base, head, p), "p/x", bench.Insns); c.Verdict != gate.Pass || !c.Unchanged {
		t.Errorf("unchanged: %+v", c)
	}
	// Against history it takes the rule for noisy measures.
	base, head = runs(0)
	base.Programs, head.Programs = nil, nil
	if c := row(t, gate.CompareHistory(head, []*bench.Run{base}, p), "p/x", bench.Insns); c.Verdict != gate.Inconclusive || c.Exact {
		t.Errorf("against one stored run: %+v", c)
	}
}
