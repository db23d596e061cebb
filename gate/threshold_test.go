package gate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// Each of Bencher's expectations that has its data, through Boundary: the newest
// value first, both sides with one p.
func TestBoundaryVectors(t *testing.T) {
	var v struct {
		LogNormal  []struct{ P, Lower, Upper float64 } `json:"log_normal"`
		Percentage []struct{ Mean, P, Lower, Upper float64 }
		Deltas     []struct{ Data, Q []float64 } `json:"delta_quartiles"`
		Quartiles  []struct{ Data, Q []float64 }
		ZScore     []struct{ Mean, SD, P, Lower, Upper float64 } `json:"z_score"`
	}
	data, err := os.ReadFile("testdata/thresholds.json")
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil || len(v.LogNormal)*len(v.Percentage)*len(v.Deltas)*len(v.Quartiles)*len(v.ZScore) == 0 {
		t.Fatal(err, v)
	}
	check := func(test gate.Test, p float64, x []float64, lower, upper float64) {
		t.Helper()
		b := gate.Threshold{Test: test, Lower: &p, Upper: &p}.Boundary(x)
		if b.Lower == nil || b.Upper == nil || !(math.Abs(*b.Lower-lower) < 1e-8) || !(math.Abs(*b.Upper-upper) < 1e-8) {
			t.Errorf("%s of %v: %+v, want %v to %v", test, x, b, lower, upper)
		}
	}
	five := slices.Repeat([]float64{1, 2, 3, 4, 5}, 6)
	high := append(slices.Repeat([]float64{98, 99, 100, 101, 102}, 5), 200)
	for i, x := range [][]float64{five, high} {
		c := v.LogNormal[i]
		check(gate.LogNormal, c.P, x, c.Lower, c.Upper)
	}
	for _, c := range v.Percentage {
		check(gate.Percentage, c.P, []float64{c.Mean}, c.Lower, c.Upper)
	}
	for _, c := range v.ZScore { // two values with that mean and deviation
		d := c.SD / math.Sqrt2
		check(gate.ZScore, c.P, []float64{c.Mean - d, c.Mean + d}, c.Lower, c.Upper)
	}
	for _, c := range v.Quartiles {
		check(gate.IQR, 2, c.Data, c.Q[1]-2*(c.Q[2]-c.Q[0]), c.Q[1]+2*(c.Q[2]-c.Q[0]))
	}
	for _, c := range v.Deltas {
		check(gate.DeltaIQR, 2, c.Data, 3*(1-2*(c.Q[2]-c.Q[0])), 3*(1+2*(c.Q[2]-c.Q[0])))
	}
	check(gate.Static, 7, nil, 7, 7)
}

func threshold(test gate.Test, upper float64) *gate.Threshold {
	return &gate.Threshold{Test: test, Upper: &upper}
}

// What each rule says of a value after a history: the boundary is where the
// formula has it, strictly; the number of samples, the window and the newest are
// regarded; what cannot be judged says so.
func TestThresholds(t *testing.T) {
	varied := []float64{100, 101, 99, 100, 102, 98, 100, 101, 99, 100}
	constant := slices.Repeat([]float64{58}, 12)
	both := func(t *gate.Threshold, lower float64) *gate.Threshold { t.Lower = &lower; return t }
	with := func(t *gate.Threshold, edit func(*gate.Threshold)) *gate.Threshold { edit(t); return t }
	static := gate.Static
	for _, c := range []struct {
		name    string
		measure string
		history []float64
		head    float64
		rule    *gate.Threshold
		want    gate.Verdict
		says    string // in the row's reason
	}{
		{"percentage, on it", "latency", []float64{100}, 110, threshold(gate.Percentage, 0.1), gate.Pass, ""},
		{"percentage, beyond", "latency", []float64{100}, 111, threshold(gate.Percentage, 0.1), gate.Regressed, "of 1 run"},
		{"percentage 0", "latency", []float64{100, 102}, 101.5, threshold(gate.Percentage, 0), gate.Regressed, "of 2 runs"},
		{"percentage below", "latency", []float64{100}, 80, both(threshold(gate.Percentage, 0.1), 0.1), gate.Improved, ""},
		{"only lower", "latency", []float64{100}, 120, both(&gate.Threshold{Test: gate.Percentage}, 0.1), gate.Inconclusive, "no boundary for this side"},
		{"z_score", "latency", varied, 102.7, threshold(gate.ZScore, 0.99), gate.Regressed, ""},
		{"t_test is wider", "latency", varied, 102.7, threshold(gate.TTest, 0.99), gate.Pass, ""},
		{"log_normal", "latency", varied, 103, threshold(gate.LogNormal, 0.99), gate.Regressed, ""},
		{"iqr", "latency", varied, 103.1, threshold(gate.IQR, 1.5), gate.Regressed, ""},
		{"delta_iqr", "latency", varied, 101, threshold(gate.DeltaIQR, 0.1), gate.Regressed, ""},
		{"too few for the rule", "latency", varied, 999, with(threshold(gate.ZScore, 0.9), func(t *gate.Threshold) { t.MinSamples = 11 }), gate.Inconclusive, "10 of 11 runs"},
		{"too few for the formula", "latency", varied[:1], 999, threshold(gate.ZScore, 0.9), gate.Inconclusive, "1 of 2 runs"},
		{"window", "latency", varied, 999, with(threshold(gate.TTest, 0.9), func(t *gate.Threshold) { t.Window = time.Hour }), gate.Inconclusive, "1 of 2 runs in the window"},
		{"newest", "latency", append([]float64{1, 900}, varied...), 110, with(threshold(gate.TTest, 0.99), func(t *gate.Threshold) { t.MaxSamples = 10 }), gate.Regressed, "10 runs"},
		{"noisy, never varied", "latency", constant, 59, threshold(gate.TTest, 0.99), gate.Inconclusive, "show no noise"},
		{"noisy, never varied, log_normal", "latency", constant, 59, threshold(gate.LogNormal, 0.99), gate.Inconclusive, "show no noise"},
		{"noisy, never varied, iqr", "latency", constant, 58.1, threshold(gate.IQR, 3), gate.Regressed, ""},
		{"exact, never varied, the same", bench.VerifiedInsns, constant, 58, threshold(gate.TTest, 0.99), gate.Pass, ""},
		{"exact, never varied, one more", bench.VerifiedInsns, constant, 59, threshold(gate.TTest, 0.99), gate.Regressed, "12 runs"},
		{"exact, never varied, one less", bench.VerifiedInsns, constant, 57, threshold(gate.ZScore, 0.99), gate.Improved, ""},
		{"rounding is no noise", bench.VerifiedInsns, slices.Repeat([]float64{0.1}, 3), 0.1, threshold(gate.TTest, 0.99), gate.Pass, ""},
		{"zeros", bench.RecursionMisses, slices.Repeat([]float64{0}, 12), 1, threshold(gate.DeltaIQR, 3), gate.Inconclusive, "show no noise"},
		{"a zero", bench.RecursionMisses, []float64{1, 0, 2}, 1, threshold(gate.DeltaIQR, 3), gate.Inconclusive, "give delta_iqr no boundary"},
		{"static without history", "latency", nil, 101, threshold(static, 100), gate.Regressed, "101 is above the limit of 100"},
		{"static, on it", "latency", nil, 100, threshold(static, 100), gate.Pass, ""},
		{"static, below", "latency", nil, 9, both(threshold(static, 100), 10), gate.Regressed, "9 is below the limit of 10"},
		{"static ignores samples", "latency", varied, 150, with(threshold(static, 200), func(t *gate.Threshold) { t.MinSamples = 50 }), gate.Pass, ""},
		{"static, exact", bench.VerifiedInsns, constant, 60, threshold(static, 59), gate.Regressed, ""},
		{"a clock that is read once", bench.VerificationUS, varied, 150, threshold(gate.TTest, 0.99), gate.Regressed, ""},
	} {
		p := gate.DefaultPolicy()
		p.Limits = map[string]gate.Limit{c.measure: {Threshold: c.rule}}
		head := newRun("h", "", result(c.measure, 0, c.head))
		history := stored(c.measure, c.history...)
		if len(history) > 0 {
			head.Time = history[len(history)-1].Time.Add(time.Hour)
		}
		r := gate.CompareHistory(head, history, p)
		got := row(t, r, "p/x", c.measure)
		if got.Verdict != c.want || !got.Judged || !strings.Contains(got.Reason, c.says) || !strings.HasPrefix(got.Limit, string(c.rule.Test)) {
			t.Errorf("%s: %v (judged %v), %q, limit %q, boundary %+v", c.name, got.Verdict, got.Judged, got.Reason, got.Limit, got.Boundary)
		}
		if few := strings.Contains(c.name, "too few") || c.name == "window"; c.want != r.Verdict || r.Asked == few {
			t.Errorf("%s: suite %v, asked %v", c.name, r.Verdict, r.Asked)
		}
	}
	p := gate.DefaultPolicy()
	p.Limits = map[string]gate.Limit{"latency": {Threshold: with(threshold(gate.TTest, 0.9), func(t *gate.Threshold) { t.Window = time.Hour })}}
	head := newRun("h", "", result("latency", 0, 1))
	head.Time = time.Time{}
	if c := row(t, gate.CompareHistory(head, stored("latency", varied...), p), "p/x", "latency"); c.Verdict != gate.Inconclusive || !strings.Contains(c.Reason, "no time") {
		t.Errorf("a run without time: %v, %q", c.Verdict, c.Reason)
	}
}

// A static threshold holds beside a base, too, and nothing else of a threshold
// does.
func TestStaticBesideBase(t *testing.T) {
	for _, c := range []struct {
		name       string
		base, head float64
		rule       *gate.Threshold
		judged     bool
		want       gate.Verdict
	}{
		{"above", 130, 130, threshold(gate.Static, 100), true, gate.Regressed},
		{"within, slower", 50, 90, threshold(gate.Static, 100), true, gate.Pass},
		{"history's rule judges no pair", 50, 90, threshold(gate.TTest, 0.99), false, gate.Regressed},
	} {
		p := gate.DefaultPolicy()
		p.Limits = map[string]gate.Limit{"latency": {Threshold: c.rule}}
		v := func(x float64) []float64 { return slices.Repeat([]float64{x, x + 1}, 20) }
		r := gate.Compare(newRun("a", "s", result("latency", 0, v(c.base)...)), newRun("b", "s", result("latency", 0, v(c.head)...)), p)
		if got := row(t, r, "p/x", "latency"); got.Verdict != c.want || got.Judged != c.judged {
			t.Errorf("%s: %v, judged %v", c.name, got.Verdict, got.Judged)
		}
	}
	p := gate.DefaultPolicy()
	p.Limits = map[string]gate.Limit{"latency": {Threshold: threshold(gate.Static, 100)}}
	if r := gate.Compare(newRun("a", "s", result("latency", 0, 1)), newRun("b", "s"), p); r.Verdict != gate.Inconclusive {
		t.Errorf("missing: %v", r.Verdict)
	}
	if r := gate.Compare(newRun("a", "s"), newRun("b", "s", result("latency", 0, 150)), p); r.Verdict != gate.Regressed {
		t.Errorf("new and above: %v", r.Verdict)
	}
}

// The last override that matches and names the measure counts, and keeps the
// measure's threshold.
func TestOverrides(t *testing.T) {
	p := latencyPolicy(0.5)
	p.Limits["latency"] = gate.Limit{Fail: &gate.Margin{Ratio: 0.5}, Threshold: threshold(gate.Static, 1000)}
	limit := func(fail float64) map[string]gate.Limit {
		return map[string]gate.Limit{"latency": {Fail: &gate.Margin{Ratio: fail}}}
	}
	p.Overrides = []gate.Override{
		{Benchmark: "p/*", Limits: limit(0.1)},
		{Benchmark: "p/a/?", Limits: limit(0.2)},
		{Benchmark: "*", Limits: map[string]gate.Limit{"runs": {}}},
	}
	for name, want := range map[string]string{"q/x": "+50%", "p/x": "+10%", "p/a/b": "+20%", "p/a/bc": "+10%", "p": "+50%"} {
		v := slices.Repeat([]float64{100, 101}, 10)
		b, h := named(result("latency", 0, v...), name), named(result("latency", 0, append(v[:19:19], 2000)...), name)
		c := row(t, gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p), name, "latency")
		if !strings.Contains(c.Limit, want) || c.Boundary == nil || *c.Boundary.Upper != 1000 {
			t.Errorf("%s: limit %q, boundary %+v", name, c.Limit, c.Boundary)
		}
	}
}

// A measure that is better higher has the policy's threshold mirrored, and its own
// as it stands.
func TestUnits(t *testing.T) {
	varied := []float64{100, 101, 99, 100, 102, 98, 100, 101, 99, 100}
	p := latencyPolicy(0.05)
	for _, k := range []float64{1e-6, 1, 1e9} {
		var x []float64
		for _, v := range varied {
			x = append(x, k*v)
		}
		for head, want := range map[float64]gate.Verdict{102: gate.Pass, 110: gate.Inconclusive} {
			if r := gate.CompareHistory(newRun("h", "", result("latency", 0, k*head)), stored("latency", x...), p); r.Verdict != want {
				t.Errorf("in units of %v, %v: %v", k, head, r.Verdict)
			}
		}
	}
	if got := fmt.Sprint(gate.Tests()); got != "[static percentage z_score t_test log_normal iqr delta_iqr]" {
		t.Error(got)
	}
}
