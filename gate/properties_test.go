package gate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// More evidence of the same slowdown does not make the p-value of a row larger in
// expectation, nor its interval wider, and a larger slowdown makes p smaller.
func TestMoreEvidence(t *testing.T) {
	p := latencyPolicy(0.03)
	const trials = 60
	mean := func(rounds int, effect float64) (pv, width float64) {
		for i := range trials {
			b, h := pair(rand.New(rand.NewPCG(91, uint64(i))), rounds, 30, effect)
			h.Looks, h.Final = []int{rounds}, true
			c := gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p).Comparisons[0]
			pv += *c.P / trials
			width += (c.Interval.High - c.Interval.Low) / trials
		}
		return pv, width
	}
	last, wide := math.Inf(1), math.Inf(1)
	for _, rounds := range []int{20, 40, 80, 160} {
		pv, width := mean(rounds, 0.035)
		if pv > last+0.02 || width > wide {
			t.Errorf("%d rounds: mean p %.3g and width %.3g, %.3g and %.3g with half as many", rounds, pv, width, last, wide)
		}
		last, wide = pv, width
	}
	last = math.Inf(1)
	for _, effect := range []float64{0.035, 0.04, 0.06, 0.1} {
		pv, _ := mean(40, effect)
		if pv > last {
			t.Errorf("slower by %v: mean p %.3g, %.3g for less", effect, pv, last)
		}
		last = pv
	}
}

// A row is rejected in a suite only if it is by itself: the correction takes nothing
// back, whatever the other rows are.
func TestSuiteNeverRejectsMore(t *testing.T) {
	p := latencyPolicy(0.03)
	p.Alpha = 0.2
	alone, together := 0, 0
	for trial := range 40 {
		rnd := rand.New(rand.NewPCG(92, uint64(trial)))
		base, head := suite(rnd, 8, 20, func(i int) float64 { return []float64{0.03, 0.04, 0.05, -0.06}[i%4] })
		for i := range head.Results {
			head.Results[i].Looks, head.Results[i].Final = []int{20}, true
		}
		r := gate.Compare(base, head, p)
		for i := range head.Results {
			name := head.Results[i].Benchmark
			own := gate.Compare(newRun("base", "s", base.Results[i]), newRun("head", "s", head.Results[i]), p).Comparisons[0]
			c := row(t, r, name, "latency")
			for _, v := range []gate.Verdict{gate.Regressed, gate.Improved} {
				if c.Verdict == v && own.Verdict != v {
					t.Errorf("trial %d, %s is %v in the suite and %v alone", trial, name, c.Verdict, own.Verdict)
				}
				if own.Verdict == v {
					alone++
				}
				if c.Verdict == v {
					together++
				}
			}
		}
	}
	if together == 0 || alone <= together {
		t.Errorf("%d rejected alone, %d in suites: the correction did nothing", alone, together)
	}
}

// Files with a million samples a side are judged, by as many as a look regards.
func TestMillionSamples(t *testing.T) {
	const n = 1_000_000
	rnd := rand.New(rand.NewPCG(93, 1))
	many := func(effect float64) bench.Result {
		r := bench.Result{Benchmark: "p/x", Program: "p", Measure: "latency", Kind: bench.Micro, Samples: make([]bench.Sample, n)}
		for i := range r.Samples {
			r.Samples[i] = bench.Sample{Round: i, Value: 100 * (1 + effect + noise(rnd)), Twin: 100 * (1 + noise(rnd))}
		}
		return r
	}
	base, head := many(0), many(0.1)
	for name, session := range map[string]string{"paired": "s", "unpaired": ""} {
		c := gate.Compare(newRun("a", session, base), newRun("b", session, head), latencyPolicy(0.05)).Comparisons[0]
		if c.Verdict != gate.Regressed || c.Rounds > 1000 || len(c.Warnings) == 0 || !strings.Contains(strings.Join(c.Warnings, " "), "only the first 1000") {
			t.Errorf("%s: %v by %d rounds, %q", name, c.Verdict, c.Rounds, c.Warnings)
		}
	}
	looks := head
	for i := range n {
		looks.Looks = append(looks.Looks, i+1)
	}
	if c := gate.Compare(newRun("a", "s", base), newRun("b", "s", looks), latencyPolicy(0.05)).Comparisons[0]; c.Verdict == gate.Pass {
		t.Errorf("a million looks: %v", c.Verdict)
	}
	past := stored("latency", 100, 101, 99, 100, 102, 98, 100, 101, 99, 100, 110)
	if r := gate.CompareHistory(newRun("h", "", head), past, latencyPolicy(0.05)); r.Verdict != gate.Regressed {
		t.Errorf("history: %v, %s", r.Verdict, r.Summary)
	}
	long := newRun("run-x", "", base)
	long.Time = past[0].Time.Add(-time.Hour)
	if all := gate.History([]*bench.Run{long, past[0]}); len(all) != 1 || len(all[0].Points) != 2 {
		t.Errorf("series: %+v", all)
	}
}

// What peers' rules say of their own examples, ours says too: github-action-benchmark's
// ratio of 200% is a share of 100% beyond one stored value, Gungraun's soft limits are
// shares of the last, and veristat prints the changes that we tell.
func TestPeersVectors(t *testing.T) {
	var v struct {
		Ratio struct {
			Cases []struct{ Previous, Current, Ratio float64 }
		} `json:"github_action_benchmark"`
		Gungraun struct {
			Cases []struct {
				New, Old, Limit, Pct float64
				Regressed            bool
			}
		}
		Veristat struct {
			Cases []struct {
				A, B    float64
				Printed string
			}
		} `json:"veristat_compare"`
	}
	data, err := os.ReadFile("../stats/testdata/tests.json")
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil || len(v.Ratio.Cases) == 0 || len(v.Gungraun.Cases) == 0 || len(v.Veristat.Cases) == 0 {
		t.Fatal(err, v)
	}
	judge := func(rule gate.Threshold, old, now float64) gate.Comparison {
		p := gate.DefaultPolicy()
		p.Limits = map[string]gate.Limit{"latency": {Threshold: &rule}}
		return row(t, gate.CompareHistory(newRun("h", "", result("latency", 0, now)), stored("latency", old), p), "p/x", "latency")
	}
	for _, c := range v.Ratio.Cases {
		got := judge(gate.Threshold{Test: gate.Percentage, Upper: number(1)}, c.Previous, c.Current)
		if got.Verdict != gate.Regressed || math.Abs(*got.Change+1-c.Ratio) > 1e-12 {
			t.Errorf("%+v: %v, %v", c, got.Verdict, *got.Change)
		}
		if got := judge(gate.Threshold{Test: gate.Percentage, Upper: number(1)}, c.Previous, 2*c.Previous); got.Verdict != gate.Pass {
			t.Errorf("twice %v: %v", c.Previous, got.Verdict)
		}
	}
	for _, c := range v.Gungraun.Cases {
		rule, beyond := gate.Threshold{Test: gate.Percentage, Upper: number(c.Limit / 100)}, gate.Regressed
		if c.Limit < 0 { // of being faster, which we call what it is
			rule, beyond = gate.Threshold{Test: gate.Percentage, Upper: number(1), Lower: number(-c.Limit / 100)}, gate.Improved
		}
		got := judge(rule, c.Old, c.New)
		if (got.Verdict == beyond) != c.Regressed || math.Abs(100**got.Change-c.Pct) > 1e-9 {
			t.Errorf("%+v: %v, %v", c, got.Verdict, *got.Change)
		}
	}
	for _, c := range v.Veristat.Cases {
		base, head := newRun("a", "s", static(bench.VerifiedInsns, c.A)), newRun("b", "s", static(bench.VerifiedInsns, c.B))
		got := gate.Compare(base, head, gate.DefaultPolicy()).Comparisons[0]
		if told := fmt.Sprintf("%+.0f (%+.2f%%)", *got.Head-*got.Base, 100**got.Change); told != c.Printed {
			t.Errorf("%v to %v: %s, want %s", c.A, c.B, told, c.Printed)
		}
	}
}
