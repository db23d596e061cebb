package gate_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// twoSuites are runs of a suite a that is unchanged and of a suite b whose p/x is slower
// by effect.
func twoSuites(effect float64) (base, head *bench.Run) {
	rnd := rand.New(rand.NewPCG(9, 9))
	var runs [2][]*bench.Run
	for _, e := range []float64{0, effect} {
		b, h := pair(rnd, 80, 0, e)
		runs[0] = append(runs[0], newRun("base", "s", b))
		runs[1] = append(runs[1], newRun("head", "s", h))
	}
	names := []string{"a", "b"}
	return bench.JoinSuites(names, runs[0]), bench.JoinSuites(names, runs[1])
}

func policies(of map[string]gate.Policy) func(string) gate.Policy {
	return func(suite string) gate.Policy { return of[suite] }
}

// Each suite is judged by its own policy, with its share of alpha, as it would be alone.
func TestCompareSuites(t *testing.T) {
	base, head := twoSuites(.2)
	of := map[string]gate.Policy{"a": latencyPolicy(.05), "b": latencyPolicy(.05)}
	r := gate.CompareSuites(base, head, policies(of))
	if r.Verdict != gate.Regressed || len(r.Comparisons) != 2 || r.Comparisons[0].Benchmark != "b:p/x" || r.Comparisons[1].Benchmark != "a:p/x" ||
		r.Comparisons[1].Verdict != gate.Pass || r.Comparisons[0].Program != "b:p" || !strings.HasPrefix(r.Summary, "b:p/x is ") {
		t.Fatalf("%v, %s, %+v", r.Verdict, r.Summary, r.Comparisons)
	}
	alone := gate.Compare(base.Suite("b"), head.Suite("b"), of["b"].ShareAlpha(2))
	if a, b := alone.Comparisons[0].Interval, r.Comparisons[0].Interval; *a != *b {
		t.Errorf("interval %+v, alone %+v", b, a)
	}
	if a, b := gate.Compare(base.Suite("b"), head.Suite("b"), of["b"]).Comparisons[0].Interval, r.Comparisons[0].Interval; a.Level >= b.Level {
		t.Errorf("two suites share no alpha: level %v, alone %v", b.Level, a.Level)
	}
	of["b"] = latencyPolicy(.5)
	if r := gate.CompareSuites(base, head, policies(of)); r.Verdict != gate.Pass {
		t.Errorf("b allows 50%%: %v, %s", r.Verdict, r.Summary)
	}
	of["a"], of["b"] = latencyPolicy(.5), latencyPolicy(.05)
	if r := gate.CompareSuites(base, head, policies(of)); r.Verdict != gate.Regressed {
		t.Errorf("a allows 50%%: %v, %s", r.Verdict, r.Summary)
	}
	if w := r.Waivers(head.Time); len(w) != 1 || w[0].Benchmark != "b:p/x" {
		t.Errorf("%+v", w)
	}
}

// Nothing passes because a suite is not there, or because its policy is none.
func TestCompareSuitesFailsClosed(t *testing.T) {
	base, head := twoSuites(0)
	of := map[string]gate.Policy{"a": latencyPolicy(.05), "b": latencyPolicy(.05)}
	if r := gate.CompareSuites(base, head, policies(of)); r.Verdict != gate.Pass || !r.Asked {
		t.Fatalf("%v, %s", r.Verdict, r.Summary)
	}
	without := bench.JoinSuites([]string{"a"}, []*bench.Run{head.Suite("a")})
	if r := gate.CompareSuites(base, without, policies(of)); r.Verdict != gate.Inconclusive || row(t, r, "b:p/x", "latency").Verdict != gate.Missing {
		t.Errorf("b is not measured: %v, %s", r.Verdict, r.Summary)
	}
	if r := gate.CompareSuites(without, head, policies(of)); r.Verdict != gate.Pass || row(t, r, "b:p/x", "latency").Verdict != gate.Added {
		t.Errorf("b is new: %v, %s", r.Verdict, r.Summary)
	}
	if r := gate.CompareSuites(base, nil, policies(of)); r.Verdict != gate.Inconclusive {
		t.Errorf("nothing measured: %v, %s", r.Verdict, r.Summary)
	}
	if r := gate.CompareSuites(base, head.Suite("a"), policies(of)); r.Verdict != gate.Inconclusive {
		t.Errorf("a run of one suite: %v, %s", r.Verdict, r.Summary)
	}
	of["b"] = gate.Policy{}
	if r := gate.CompareSuites(base, head, policies(of)); r.Verdict != gate.Inconclusive || !strings.Contains(r.Summary, "b: alpha is 0") {
		t.Errorf("b has no policy: %v, %s", r.Verdict, r.Summary)
	}
	head.Programs = []bench.ProgramResult{{Program: "b:p", Outcome: bench.Rejected}}
	base.Programs = []bench.ProgramResult{{Program: "b:p", Outcome: bench.Accepted}}
	of["b"] = latencyPolicy(.05)
	if r := gate.CompareSuites(base, head, policies(of)); r.Verdict != gate.Regressed || !strings.Contains(r.Summary, "rejects b:p") {
		t.Errorf("rejected: %v, %s", r.Verdict, r.Summary)
	}
}

// A suite with nothing stored yet does not fail beside one that passes, and hides none
// that regressed.
func TestCompareHistorySuites(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	one := func(id string, v float64) *bench.Run { return newRun(id, "", result("latency", 0, v)) }
	var past []*bench.Run
	for i := range 20 {
		v := 100 + rnd.NormFloat64()
		if i == 0 {
			v = 149 // an alarm: the first of two, where head has one
		}
		run := bench.JoinSuites([]string{"a"}, []*bench.Run{one("r"+string(rune('a'+i)), v)})
		run.Time = run.Time.Add(-time.Duration(i) * time.Hour)
		past = append(past, run, one("alone"+string(rune('a'+i)), 1))
	}
	of := func(string) gate.Policy { return gate.DefaultPolicy() }
	names := []string{"a", "b"}
	head := func(v float64) *bench.Run {
		return bench.JoinSuites(names, []*bench.Run{one("head", v), one("head", 5)})
	}
	if r := gate.CompareHistorySuites(head(100), past, of); r.Verdict != gate.Pass || !r.Asked || row(t, r, "b:p/x", "latency").Verdict != gate.Added {
		t.Errorf("b is new: %v, asked %v, %s", r.Verdict, r.Asked, r.Summary)
	}
	few := append(past, bench.JoinSuites([]string{"b"}, []*bench.Run{one("few", 5)}))
	if r := gate.CompareHistorySuites(head(100), few, of); r.Verdict != gate.Inconclusive || r.Asked || !strings.HasPrefix(r.Summary, "b: 1 of 10 runs") {
		t.Errorf("b has one run: %v, asked %v, %s", r.Verdict, r.Asked, r.Summary)
	}
	if r := gate.CompareHistorySuites(head(150), past, of); r.Verdict != gate.Regressed || !r.Asked {
		t.Errorf("%v, asked %v, %s", r.Verdict, r.Asked, r.Summary)
	}
	if r := gate.CompareHistorySuites(bench.JoinSuites(names[:1], []*bench.Run{one("head", 100)}), past, of); r.Verdict != gate.Pass || !r.Asked {
		t.Errorf("%v, asked %v, %s", r.Verdict, r.Asked, r.Summary)
	}
}
