package gate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// stored makes one run a value, the last one newest.
func stored(measure string, values ...float64) []*bench.Run {
	var runs []*bench.Run
	for i, v := range values {
		r := newRun(fmt.Sprintf("run-%d", i), "", result(measure, 0, v*0.5, v, v*3)) // the median is v
		if m, _ := bench.LookupMeasure(measure); m.Exact {
			r.Results[0] = result(measure, 0, v, v)
		}
		r.Time = r.Time.Add(time.Duration(i) * time.Hour)
		runs = append(runs, r)
	}
	return runs
}

// Samples with Bencher's mean, deviation and number give Bencher's boundary, and
// only what lies strictly beyond it alarms.
func TestThresholdVectors(t *testing.T) {
	var v struct {
		TTest []struct {
			Mean, SD, P, Lower, Upper float64
			N                         int
		} `json:"t_test"`
	}
	data, err := os.ReadFile("testdata/thresholds.json")
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil || len(v.TTest) == 0 {
		t.Fatal(err, v)
	}
	for _, c := range v.TTest {
		// Moved up, since a time is not negative; the boundary moves along.
		const up = 1000
		values := make([]float64, c.N)
		for i := range values { // symmetric around the mean; an odd one lies on it
			step := float64(i/2 + 1)
			if i%2 == 1 {
				step = -step
			}
			if i == c.N-1 && c.N%2 == 1 {
				step = 0
			}
			values[i] = step
		}
		sum := 0.0
		for _, x := range values {
			sum += x * x
		}
		for i := range values {
			values[i] = up + c.Mean + values[i]*c.SD/math.Sqrt(sum/float64(c.N-1))
		}
		p := latencyPolicy(0)
		p.Limits["latency"] = gate.Limit{Threshold: &gate.Threshold{Test: gate.TTest, Upper: &c.P, Lower: &c.P, MinSamples: 2}}
		for head, want := range map[float64]gate.Verdict{
			c.Upper - 1e-6: gate.Pass, c.Upper + 1e-6: gate.Regressed, c.Lower + 1e-6: gate.Pass, c.Lower - 1e-6: gate.Improved,
		} {
			row := gate.CompareHistory(newRun("h", "", result("latency", 0, up+head)), stored("latency", values...), p).Comparisons[0]
			if row.Verdict != want || math.Abs(*row.Boundary.Upper-up-c.Upper) > 1e-8 || math.Abs(*row.Boundary.Lower-up-c.Lower) > 1e-8 {
				t.Errorf("%+v, head %v: %v, boundary %v to %v", c, head, row.Verdict, *row.Boundary.Lower, *row.Boundary.Upper)
			}
		}
	}
}

func TestHistory(t *testing.T) {
	varied := []float64{100, 101, 99, 100, 102, 98, 100, 101, 99, 100}
	elsewhere := stored("latency", varied...)
	for _, r := range elsewhere {
		r.Testbed.CPU = "other"
	}
	latency := latencyPolicy(0.05)
	exact := gate.DefaultPolicy()
	exact.Limits[bench.VerifiedInsns] = gate.Limit{Fail: &gate.Margin{}}
	capped := gate.DefaultPolicy()
	capped.Limits["latency"] = gate.Limit{Max: number(120)}
	newest := latency
	newest.Threshold.MaxSamples = 10
	self := newRun("run-3", "", result("latency", 0, 100))
	rejected := newRun("h", "", result("latency", 0, 100))
	rejected.Programs = []bench.ProgramResult{{Program: "p", Outcome: bench.Rejected}}
	accepting := stored("latency", varied...)
	accepting[9].Programs = []bench.ProgramResult{{Program: "p", Outcome: bench.Accepted}}
	one := func(v float64) *bench.Run { return newRun("h", "", result("latency", 0, v)) }
	insns := func(v float64) *bench.Run { return newRun("h", "", static(bench.VerifiedInsns, v)) }

	for _, c := range []struct {
		name    string
		head    *bench.Run
		history []*bench.Run
		policy  gate.Policy
		asked   bool
		want    gate.Verdict
		says    string
	}{
		{"within", one(102), stored("latency", varied...), latency, true, gate.Pass, "nothing is worse"},
		{"beyond", one(110), stored("latency", varied...), latency, true, gate.Inconclusive, "p/x latency could not be decided: a first alarm, beyond the boundary of 10 runs"},
		{"beyond, again", one(110), stored("latency", append(varied[:10:10], 111)...), latency, true, gate.Regressed, "p/x is 10.0% slower"},
		{"beyond below, without a lower one", one(90), stored("latency", varied...), latency, true, gate.Pass, "nothing"},
		{"too few", one(100), stored("latency", varied[:9]...), latency, false, gate.Inconclusive, "9 of 10 runs: not judged yet."},
		{"itself is not its own baseline", self, stored("latency", varied...), latency, false, gate.Inconclusive, "9 of 10 runs: not judged yet."},
		{"constant", one(100), stored("latency", 7, 7, 7, 7, 7, 7, 7, 7, 7, 7), latency, true, gate.Inconclusive, "p/x latency could not be decided: all 10 runs have the same value"},
		{"only the newest", one(110), append(stored("latency", 1, 1, 1), shift(stored("latency", append(varied[:10:10], 111)...))...), newest, true, gate.Regressed, "p/x is"},
		{"other testbeds", one(110), elsewhere, latency, false, gate.Inconclusive, "nothing to compare with: no stored run of this testbed."},
		{"no history", one(110), nil, latency, false, gate.Inconclusive, "nothing to compare with: no stored run"},
		{"other benchmarks only", newRun("h", "", named(result("latency", 0, 1), "q/x")), stored("latency", varied...), latency, false, gate.Inconclusive, "nothing to compare with: no stored run has"},
		{"nothing measured", newRun("h", ""), stored("latency", varied...), latency, true, gate.Inconclusive, "nothing was judged"},
		{"nil", nil, nil, latency, true, gate.Inconclusive, "nothing was judged"},
		{"exact, as before", insns(58), stored(bench.VerifiedInsns, 40, 58), exact, true, gate.Pass, "nothing"},
		{"exact, one more than last", insns(59), stored(bench.VerifiedInsns, 70, 58), exact, true, gate.Regressed, "p/x verified_insns went from 58 to 59"},
		{"a maximum needs no history", one(130), nil, capped, true, gate.Regressed, "p/x latency is 130"},
		{"a maximum alone", one(110), stored("latency", varied...), capped, true, gate.Pass, "nothing"},
		{"newly rejected", rejected, accepting, latency, true, gate.Regressed, "the verifier rejects p"},
		{"bad policy", one(100), nil, gate.Policy{}, true, gate.Inconclusive, "nothing was judged: alpha"},
	} {
		r := gate.CompareHistory(c.head, c.history, c.policy)
		if r.Asked != c.asked || r.Verdict != c.want || !strings.HasPrefix(r.Summary, c.says) {
			t.Errorf("%s: asked %v, %v, %q", c.name, r.Asked, r.Verdict, r.Summary)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// One alarm of the policy's rule is not a regression, the second in a row is, and so
// are those after it, though the slow runs are stored: what is held against is the
// history before them. A run in between that was as usual begins anew.
func TestAlarmsInARow(t *testing.T) {
	varied := []float64{100, 101, 99, 100, 102, 98, 100, 101, 99, 100, 101, 99}
	lower := latencyPolicy(0.05)
	lower.Limits["runs"] = gate.Limit{Fail: &gate.Margin{Ratio: 0.05}}
	for _, c := range []struct {
		name    string
		measure string
		after   []float64 // what was stored after the usual ones
		head    float64
		want    gate.Verdict
		says    string
		samples int
	}{
		{"the first", "latency", nil, 110, gate.Inconclusive, "a first alarm, beyond the boundary of 12 runs: a second in a row is a regression", 12},
		{"the second", "latency", []float64{110}, 110, gate.Regressed, "beyond the boundary of 12 runs, 2 times in a row", 12},
		{"the third", "latency", []float64{110, 109}, 111, gate.Regressed, "beyond the boundary of 12 runs, 3 times in a row", 12},
		{"the fifth", "latency", []float64{110, 109, 110, 111}, 110, gate.Regressed, "beyond the boundary of 12 runs, 5 times in a row", 12},
		{"as usual after one", "latency", []float64{110}, 100, gate.Pass, "", 13},
		{"again after one as usual", "latency", []float64{110, 100}, 125, gate.Inconclusive, "a first alarm", 14},
		{"the first alarm completes a change of level", "latency", []float64{104, 105, 104, 103, 112}, 112, gate.Regressed, "beyond the boundary of 16 runs, 2 times in a row", 16},
		{"one fast run is no alarm", "latency", []float64{80}, 125, gate.Inconclusive, "a first alarm", 13},
		{"better higher", "runs", []float64{90}, 90, gate.Regressed, "2 times in a row", 12},
		{"better higher, better", "runs", []float64{110}, 110, gate.Pass, "", 13},
	} {
		if m, _ := bench.LookupMeasure(c.measure); c.measure == "runs" && m.Better != bench.Higher {
			continue
		}
		r := gate.CompareHistory(newRun("h", "", result(c.measure, 0, c.head)), stored(c.measure, append(varied[:12:12], c.after...)...), lower)
		got := row(t, r, "p/x", c.measure)
		if got.Verdict != c.want || r.Verdict != c.want || !strings.Contains(got.Reason, c.says) || got.Boundary.Samples != c.samples {
			t.Errorf("%s: %v, %q, %+v", c.name, got.Verdict, got.Reason, got.Boundary)
		}
		if hint := "measure again, or side by side with what there was before: gate run --base "; (c.want == gate.Inconclusive) != strings.HasPrefix(r.Hint, hint) {
			t.Errorf("%s: hint %q", c.name, r.Hint)
		}
	}
	// A measure's own rule stands as it is written.
	own := lower
	own.Limits = map[string]gate.Limit{"latency": {Threshold: &own.Threshold}}
	if r := gate.CompareHistory(newRun("h", "", result("latency", 0, 110)), stored("latency", varied...), own); r.Verdict != gate.Regressed {
		t.Errorf("a rule of its own: %v, %s", r.Verdict, r.Summary)
	}
	// The hint names the commit that there was before.
	past := stored("latency", varied...)
	head := newRun("h", "", result("latency", 0, 110))
	head.Revision.Commit, past[11].Revision.Commit = strings.Repeat("cd34", 10), strings.Repeat("cd34", 10)
	past[10].Revision.Commit, past[10].Revision.Dirty = strings.Repeat("ef56", 10), true
	past[9].Revision.Commit = strings.Repeat("ab12", 10)
	if r := gate.CompareHistory(head, past, lower); !strings.HasSuffix(r.Hint, "--base ab12ab12ab12") {
		t.Errorf("hint %q", r.Hint)
	}
	head.Revision.Dirty = true
	if r := gate.CompareHistory(head, past, lower); !strings.HasSuffix(r.Hint, "--base cd34cd34cd34") {
		t.Errorf("of changes on top of a commit: hint %q", r.Hint)
	}
}

// The policy's percentiles are those of all rows that it judges together: p of a suite
// of m is 1 - (1-p)/m, while multiples and a measure's own rule are what they are.
func TestSharedThreshold(t *testing.T) {
	rnd := rand.New(rand.NewPCG(72, 1))
	suite := func(id string, m int) *bench.Run {
		var all []bench.Result
		for i := range m {
			all = append(all, named(result("latency", 0, 100+rnd.NormFloat64()), fmt.Sprint("p/", i)))
		}
		return newRun(id, "", all...)
	}
	upper := func(m int, p gate.Policy) float64 {
		rnd = rand.New(rand.NewPCG(72, uint64(1)))
		var past []*bench.Run
		for i := range 12 {
			past = append(past, suite(fmt.Sprint("run-", i), 20))
		}
		return *row(t, gate.CompareHistory(suite("h", m), past, p), "p/0", "latency").Boundary.Upper
	}
	p := latencyPolicy(0.05)
	strict := p
	strict.Threshold.Upper = number(1 - 0.01/20)
	if one, twenty, want := upper(1, p), upper(20, p), upper(1, strict); !(one < twenty) || math.Abs(twenty-want) > 1e-9 {
		t.Errorf("limits: %v for one, %v for twenty, want %v", one, twenty, want)
	}
	p.Threshold = gate.Threshold{Test: gate.IQR, Upper: number(3), MinSamples: 2}
	if one, twenty := upper(1, p), upper(20, p); one != twenty {
		t.Errorf("iqr: %v for one, %v for twenty", one, twenty)
	}

	// What that comes to: suites of twenty that do not change, 32 stored runs each.
	const trials = 300
	p = latencyPolicy(0.05)
	alarms, regressed := 0, 0
	for i := range trials {
		rnd = rand.New(rand.NewPCG(73, uint64(i)))
		var past []*bench.Run
		for k := range 33 {
			past = append(past, suite(fmt.Sprint("run-", k), 20))
			past[k].Time = past[k].Time.Add(time.Duration(k) * time.Hour)
		}
		r := gate.CompareHistory(past[32], past[:32], p)
		if slices.ContainsFunc(r.Comparisons, func(c gate.Comparison) bool { return strings.Contains(c.Reason, "alarm") }) {
			alarms++
		}
		if r.Verdict == gate.Regressed {
			regressed++
		}
	}
	// 1% of 300 suites is 3; without the correction it would be 18% of them.
	if alarms > 12 || regressed > 0 {
		t.Errorf("of %d unchanged suites of 20, %d have an alarm and %d regressed", trials, alarms, regressed)
	}
}

// What the run before had and head has not is missed once, where it is judged; what
// belongs to another suite is not.
func TestVanished(t *testing.T) {
	p := latencyPolicy(0.05)
	p.Limits[bench.VerifiedInsns] = gate.Limit{Fail: &gate.Margin{}}
	p.Limits["calls"] = gate.Limit{Fail: &gate.Margin{}}
	full := func(id string) *bench.Run {
		return newRun(id, "", result("latency", 0, 100), named(result("latency", 0, 50), "p/gone"), named(result("runs", 0, 50), "p/gone"),
			named(static(bench.VerifiedInsns, 9), "p"), result(bench.Member("calls", "bpf_f"), 0, 1), named(result("latency", 0, 5), bench.Control))
	}
	judge := func(head *bench.Run, past ...*bench.Run) (string, *gate.Report) {
		for i, r := range past {
			r.Time = r.Time.Add(time.Duration(i-len(past)) * time.Hour)
		}
		r := gate.CompareHistory(head, past, p)
		var missing []string
		for _, c := range r.Comparisons {
			if c.Verdict == gate.Missing {
				missing = append(missing, c.Benchmark+" "+c.Measure)
			}
		}
		slices.Sort(missing)
		return strings.Join(missing, ", "), r
	}
	all := []bench.Result{result("latency", 0, 100), named(static(bench.VerifiedInsns, 9), "p")}
	missing, r := judge(newRun("h", "", all...), full("a"))
	if missing != "p/gone latency" || r.Verdict != gate.Inconclusive || !r.Asked || !strings.HasPrefix(r.Summary, "p/gone latency is missing: not measured in head") {
		t.Errorf("missing %q: %v, %s", missing, r.Verdict, r.Summary)
	}
	if missing, _ := judge(newRun("h", "", all[0]), full("a")); missing != "p verified_insns, p/gone latency" {
		t.Errorf("and its program: %q", missing)
	}
	if missing, r := judge(newRun("h", "", all...), full("a"), newRun("b", "", all...)); missing != "" || r.Asked {
		t.Errorf("a run later: %q, %s", missing, r.Summary)
	}
	if missing, _ := judge(newRun("h", "", named(result("latency", 0, 1), "q/x")), full("a")); missing != "" {
		t.Errorf("another suite: %q", missing)
	}
	if missing, _ := judge(newRun("h", "", all...), full("a"), newRun("b", "", named(result("latency", 0, 1), "q/x"))); missing != "p/gone latency" {
		t.Errorf("another suite in between: %q", missing)
	}
	skipped := newRun("h", "", all...)
	skipped.Skipped = []bench.Skip{{Name: "p/gone", Reason: "no such packet"}}
	if _, r := judge(skipped, full("a")); !strings.Contains(r.Summary, "skipped in head: no such packet") {
		t.Errorf("skipped: %s", r.Summary)
	}
}

// shift makes runs later than any other.
func shift(runs []*bench.Run) []*bench.Run {
	for _, r := range runs {
		r.ID += "-later"
		r.Time = r.Time.AddDate(1, 0, 0)
	}
	return runs
}

// 1000 benchmarks × 5 measures, all judged, against 64 stored runs each: issue 4
// asks for less than 1 s and 200 MB.
func BenchmarkHistory(b *testing.B) {
	head, runs, p := thousands()
	b.ReportAllocs()
	for b.Loop() {
		gate.CompareHistory(head, runs, p)
	}
}

func thousands() (head *bench.Run, runs []*bench.Run, p gate.Policy) {
	measures := []string{"latency", "runs", bench.RecursionMisses, bench.VerificationUS, bench.JitedBytes}
	p = gate.DefaultPolicy()
	for i, m := range measures {
		p.Limits[m] = gate.Limit{Fail: &gate.Margin{Ratio: 0.05}} // judged by the policy's rule
		if i > 2 {
			p.Limits[m] = gate.Limit{Threshold: &p.Threshold} // a rule of its own
		}
	}
	rnd := rand.New(rand.NewPCG(71, 1))
	one := func(id string) *bench.Run {
		var all []bench.Result
		for i := range 1000 {
			for _, m := range measures {
				all = append(all, named(result(m, 0, 100+noise(rnd)), fmt.Sprint("p/", i)))
			}
		}
		return newRun(id, "", all...)
	}
	for k := range 64 {
		runs = append(runs, one(fmt.Sprint("run-", k)))
	}
	return one("h"), runs, p
}

// The memory of it as a test.
func TestHistoryMemory(t *testing.T) {
	head, runs, p := thousands()
	got := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			if r := gate.CompareHistory(head, runs, p); len(r.Comparisons) != 5000 {
				b.Fatalf("%d rows", len(r.Comparisons))
			}
		}
	})
	if got.AllocedBytesPerOp() > 200<<20 {
		t.Errorf("%d MB", got.AllocedBytesPerOp()>>20)
	}
}
