package gate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// What a report offers is enough: with it, the same runs are accepted, and with its
// limit a little lower they are not.
func TestOfferedWaiversAccept(t *testing.T) {
	until := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	rnd := rand.New(rand.NewPCG(1, 1))
	offered := 0
	for _, effect := range []float64{.08, .15, .42, 1.4, 25} {
		for _, floor := range []float64{0, 30, 300} {
			base, head := newRun("base", "s"), newRun("head", "s")
			b, h := pair(rnd, 80, floor, effect)
			const name = "p/[x]*" // patterns mean other names
			base.Results = []bench.Result{named(b, name), named(result("insns", 0, 23, 23), name)}
			head.Results = []bench.Result{named(h, name), named(result("insns", 0, 23*(1+effect), 23*(1+effect)), name)}
			p := latencyPolicy(.05)
			p.Limits["insns"] = gate.Limit{Fail: &gate.Margin{Ratio: .05}}
			r := gate.Compare(base, head, p)
			want := 0
			for _, c := range r.Comparisons {
				if c.Judged && c.Verdict == gate.Regressed {
					want++
				}
			}
			w := r.Waivers(until)
			if want < 1 || len(w) != 1 || len(w[0].Max) != want || w[0].Benchmark != `p/\[x]\*` || !w[0].Until.Equal(until) {
				t.Fatalf("+%v over a floor of %v: %d regressed, offered %+v", effect, floor, want, w)
			}
			offered += want
			if p.Waivers = w; p.Check() == nil {
				t.Error("a waiver without a reason is accepted")
			}
			w[0].Reason = "worth it"
			if r := gate.Compare(base, head, p); r.Verdict != gate.Pass {
				t.Errorf("+%v over a floor of %v: %v with %+v: %s", effect, floor, r.Verdict, w[0], r.Summary)
			}
			for m := range w[0].Max {
				w[0].Max[m] = gate.Margin{Ratio: w[0].Max[m].Ratio / 2}
			}
			if r := gate.Compare(base, head, p); r.Verdict == gate.Pass {
				t.Errorf("+%v over a floor of %v: half of what was offered accepts it, too: %+v", effect, floor, w[0])
			}
		}
	}
	if offered < 25 {
		t.Errorf("only %d rows regressed", offered)
	}
}

// Against history an alarm is accepted, too, here the second in a row.
func TestOfferedWaiversAcceptAlarms(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	var past []*bench.Run
	for i := range 20 {
		v := 100 + rnd.NormFloat64()
		if i == 0 {
			v = 149 // the first alarm of two
		}
		run := newRun("r"+string(rune('a'+i)), "", result("latency", 0, v))
		run.Time = run.Time.Add(-time.Duration(i) * time.Hour)
		if i == 0 {
			run.Results[0] = result("latency", 0, 150)
		}
		past = append(past, run)
	}
	head := newRun("head", "", result("latency", 0, 150))
	p := gate.DefaultPolicy()
	r := gate.CompareHistory(head, past, p)
	w := r.Waivers(head.Time)
	if r.Verdict != gate.Regressed || len(w) != 1 {
		t.Fatalf("%v, offered %+v", r.Verdict, w)
	}
	w[0].Reason = "worth it"
	p.Waivers = w
	if r := gate.CompareHistory(head, past, p); r.Verdict != gate.Pass {
		t.Errorf("%v: %s", r.Verdict, r.Summary)
	}
}

func TestNoWaiverIsOffered(t *testing.T) {
	base, head := newRun("base", "s"), newRun("head", "s")
	rnd := rand.New(rand.NewPCG(3, 3))
	b, h := pair(rnd, 40, 0, .5)
	base.Results, head.Results = []bench.Result{b}, []bench.Result{h}
	p := latencyPolicy(1)
	most := 120.0
	p.Limits["latency"] = gate.Limit{Fail: &gate.Margin{Ratio: 1}, Max: &most}
	if r := gate.Compare(base, head, p); r.Verdict != gate.Regressed || len(r.Waivers(head.Time)) != 0 {
		t.Errorf("%v: a maximum: %+v", r.Verdict, r.Waivers(head.Time))
	}
	base.Results, head.Results = []bench.Result{result("insns", 0, 0)}, []bench.Result{result("insns", 0, 7)}
	p = gate.DefaultPolicy()
	r := gate.Compare(base, head, p)
	w := r.Waivers(head.Time)
	if r.Verdict != gate.Regressed || len(w) != 1 || w[0].Max["insns"].Absolute != 8 {
		t.Errorf("%v: from nothing: %+v", r.Verdict, w)
	}
	for i := range r.Comparisons {
		r.Comparisons[i].Benchmark = `p/a*b?c[d]\`
	}
	if w := r.Waivers(head.Time); w[0].Benchmark != `p/a\*b\?c\[d]\\` {
		t.Errorf("a pattern: %s", w[0].Benchmark)
	}
}
