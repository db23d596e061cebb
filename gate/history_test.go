package gate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
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
		p.Threshold = gate.Threshold{Test: gate.TTest, Upper: &c.P, Lower: &c.P, MinSamples: 2}
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
		{"beyond", one(110), stored("latency", varied...), latency, true, gate.Regressed, "p/x is 10.0% slower"},
		{"beyond below, without a lower one", one(90), stored("latency", varied...), latency, true, gate.Pass, "nothing"},
		{"too few", one(100), stored("latency", varied[:9]...), latency, false, gate.Inconclusive, "9 of 10 runs: not judged yet."},
		{"itself is not its own baseline", self, stored("latency", varied...), latency, false, gate.Inconclusive, "9 of 10 runs: not judged yet."},
		{"constant", one(100), stored("latency", 7, 7, 7, 7, 7, 7, 7, 7, 7, 7), latency, true, gate.Inconclusive, "p/x latency could not be decided: all 10 runs have the same value"},
		{"only the newest", one(110), append(stored("latency", 1, 1, 1), shift(stored("latency", varied...))...), newest, true, gate.Regressed, "p/x is"},
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
	for b.Loop() {
		gate.CompareHistory(head, runs, p)
	}
}

func thousands() (head *bench.Run, runs []*bench.Run, p gate.Policy) {
	measures := []string{"latency", "runs", bench.RecursionMisses, bench.VerificationUS, bench.JitedBytes}
	p = gate.DefaultPolicy()
	for _, m := range measures {
		p.Limits[m] = gate.Limit{Threshold: &p.Threshold}
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

// The same as a test, with room for a busy machine and the race detector: what it
// guards against is a rule whose time grows with a power of the sizes.
func TestHistoryIsQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	head, runs, p := thousands()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	r := gate.CompareHistory(head, runs, p)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	t.Logf("%v, %d MB", took, (after.TotalAlloc-before.TotalAlloc)>>20)
	if len(r.Comparisons) != 5000 || took > time.Minute || after.TotalAlloc-before.TotalAlloc > 200<<20 {
		t.Errorf("%d rows in %v, %d bytes", len(r.Comparisons), took, after.TotalAlloc-before.TotalAlloc)
	}
}
