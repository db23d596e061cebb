package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/org/ebpf-bench-gate/stats"
)

func repeat(times int, x ...float64) []float64 { return slices.Repeat(x, times) }

// What Bencher's own tests expect of each threshold.
func TestBencherBoundaries(t *testing.T) {
	type side struct{ Mean, SD, P, Base, Lower, Upper float64 }
	var v struct {
		ZScore     []side `json:"z_score"`
		LogNormal  []side `json:"log_normal"`
		Percentage []side
		Parameters []struct {
			Data      any
			Mu, Sigma *float64
		} `json:"log_normal_parameters"`
		Deltas []struct{ Data, Q []float64 } `json:"delta_quartiles"`
		IQR    []struct {
			Q               []float64
			K, Lower, Upper float64
		}
	}
	load(t, "thresholds.json", &v)
	if len(v.ZScore)*len(v.LogNormal)*len(v.Percentage)*len(v.Parameters)*len(v.Deltas)*len(v.IQR) == 0 {
		t.Fatalf("no vectors: %+v", v)
	}
	check := func(name string, want side, lower, upper float64, ok bool) {
		t.Helper()
		if !ok {
			t.Errorf("%s %+v: no boundary", name, want)
		}
		near(t, name+" lower", lower, want.Lower, 1e-9)
		near(t, name+" upper", upper, want.Upper, 1e-9)
	}
	for _, c := range v.ZScore {
		lower, upper, ok := stats.ZBoundary(c.Mean, c.SD, c.P)
		check("z_score", c, lower, upper, ok)
	}
	series := [][]float64{repeat(6, 1, 2, 3, 4, 5), append(repeat(5, 98, 99, 100, 101, 102), 200)}
	for i, c := range v.LogNormal {
		mu, _, _ := stats.LogNormal(series[i])
		near(t, "base", math.Exp(mu), c.Base, 1e-9)
		lower, upper, ok := stats.LogNormalBoundary(series[i], c.P)
		check("log_normal", c, lower, upper, ok)
	}
	mu, sigma, ok := stats.LogNormal([]float64{1, 2, 3})
	if !ok || v.Parameters[0].Mu == nil {
		t.Fatal("no parameters")
	}
	near(t, "mu", mu, *v.Parameters[0].Mu, 1e-12)
	near(t, "sigma", sigma, *v.Parameters[0].Sigma, 1e-12)
	for _, c := range v.Percentage {
		lower, upper, ok := stats.PercentageBoundary([]float64{c.Mean}, c.P)
		check("percentage", c, lower, upper, ok)
	}
	for _, c := range v.Deltas {
		q := stats.Quartiles(stats.Deltas(c.Data))
		for i := range q {
			near(t, "delta quartile", q[i], c.Q[i], 1e-12)
		}
		// q2*(1 -+ k*IQR(d)) by hand, with the median 3 of these data.
		lower, upper, ok := stats.DeltaIQRBoundary(c.Data, 2)
		d := 2 * (c.Q[2] - c.Q[0])
		check("delta_iqr", side{Lower: 3 * (1 - d), Upper: 3 * (1 + d)}, lower, upper, ok)
	}
	for _, c := range v.IQR {
		x := []float64{c.Q[0] - 1, c.Q[0], c.Q[1], c.Q[2], c.Q[2] + 1} // these have those quartiles
		lower, upper, ok := stats.IQRBoundary(x, c.K)
		check("iqr", side{Lower: c.Lower, Upper: c.Upper}, lower, upper, ok)
	}
}

// Criterion's book, sample of Fibonacci/Iterative: the fences are those of the
// quartiles, and outliers are counted by them, each once.
func TestTukey(t *testing.T) {
	var v struct {
		Criterion struct{ Expect struct{ Fences []float64 } } `json:"tukey_and_slope"`
	}
	load(t, "tests.json", &v)
	f := v.Criterion.Expect.Fences
	if len(f) != 4 {
		t.Fatal("no fences")
	}
	// Fences at 1.5 and 3 ranges r outside the quartiles tell these.
	r := (f[1] - f[0]) / 1.5
	q1, q3 := f[1]+1.5*r, f[2]-1.5*r
	x := []float64{f[0] - 1, f[0] + 1e-3, q1, q1, (q1 + q3) / 2, q3, q3, f[3] - 1e-3, f[3] + 1}
	got := stats.Fences(x)
	for i := range f {
		near(t, "fence", got[i], f[i], 1e-9)
	}
	if o := stats.Tukey(x); o != (stats.Outliers{LowSevere: 1, LowMild: 1, HighMild: 1, HighSevere: 1}) || o.Count() != 4 {
		t.Errorf("outliers %+v", o)
	}
	for name, x := range map[string][]float64{"none": nil, "one": {1}, "constant": {2, 2, 2}, "nan": {1, math.NaN(), 900}, "on the fence": {0, 1, 1, 2, 3.5}} {
		if o := stats.Tukey(x); o.Count() != 0 {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestBoundariesOfOddData(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	type of func(x []float64) (float64, float64, bool)
	all := map[string]of{
		"percentage": func(x []float64) (float64, float64, bool) { return stats.PercentageBoundary(x, 0.1) },
		"z_score": func(x []float64) (float64, float64, bool) {
			return stats.ZBoundary(stats.Mean(x), stats.Deviation(x), 0.9)
		},
		"t_test": func(x []float64) (float64, float64, bool) {
			return stats.TBoundary(stats.Mean(x), stats.Deviation(x), len(x), 0.9)
		},
		"log_normal": func(x []float64) (float64, float64, bool) { return stats.LogNormalBoundary(x, 0.9) },
		"iqr":        func(x []float64) (float64, float64, bool) { return stats.IQRBoundary(x, 1.5) },
		"delta_iqr":  func(x []float64) (float64, float64, bool) { return stats.DeltaIQRBoundary(x, 1.5) },
	}
	for _, c := range []struct {
		name string
		x    []float64
		has  []string // the boundaries that there are; all others have none
	}{
		{"empty", nil, nil},
		{"one", []float64{5}, []string{"percentage"}},
		{"constant", []float64{5, 5, 5}, []string{"percentage", "iqr", "delta_iqr"}},
		{"zeros", []float64{0, 0, 0}, []string{"percentage", "iqr"}},
		{"a zero", []float64{0, 1, 2}, []string{"percentage", "z_score", "t_test", "iqr"}},
		{"negative", []float64{-1, 1, 2}, []string{"percentage", "z_score", "t_test", "iqr", "delta_iqr"}},
		{"nan", []float64{1, nan, 2}, nil},
		{"inf", []float64{1, inf, 2}, nil},
		{"huge", []float64{math.MaxFloat64, math.MaxFloat64, 1}, nil},
	} {
		for name, f := range all {
			lower, upper, ok := f(c.x)
			if ok != slices.Contains(c.has, name) && !(c.name == "huge") && !(c.name == "inf" && name == "iqr") {
				t.Errorf("%s of %s: %v, %v, %v", name, c.name, lower, upper, ok)
			}
			if ok && !(lower <= upper) && c.name != "negative" || ok == (math.IsNaN(lower) || math.IsInf(upper, 0)) {
				t.Errorf("%s of %s: %v, %v, %v", name, c.name, lower, upper, ok)
			}
		}
	}
	x := []float64{1, 2, 3, 4}
	for name, f := range map[string]func() (float64, float64, bool){
		"percentage":     func() (float64, float64, bool) { return stats.PercentageBoundary(x, -0.1) },
		"percentage nan": func() (float64, float64, bool) { return stats.PercentageBoundary(x, nan) },
		"z 1":            func() (float64, float64, bool) { return stats.ZBoundary(1, 1, 1) },
		"z .4":           func() (float64, float64, bool) { return stats.ZBoundary(1, 1, .4) },
		"log 1":          func() (float64, float64, bool) { return stats.LogNormalBoundary(x, 1) },
		"iqr":            func() (float64, float64, bool) { return stats.IQRBoundary(x, -1) },
		"delta":          func() (float64, float64, bool) { return stats.DeltaIQRBoundary(x, nan) },
	} {
		if _, _, ok := f(); ok {
			t.Errorf("%s out of range: ok", name)
		}
	}
}

// Units change nothing: boundaries of k*x are k times those of x. The order of
// values only matters to delta_iqr.
func TestBoundariesScale(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 1))
	for range 100 {
		x := seq(2+rnd.IntN(60), func(int) float64 { return 50 + 10*rnd.Float64() })
		k := math.Exp(10 * rnd.NormFloat64())
		y := seq(len(x), func(i int) float64 { return k * x[i] })
		z := slices.Clone(x)
		rnd.Shuffle(len(z), func(i, j int) { z[i], z[j] = z[j], z[i] })
		for name, f := range map[string]func([]float64) (float64, float64, bool){
			"percentage": func(x []float64) (float64, float64, bool) { return stats.PercentageBoundary(x, 0.1) },
			"log_normal": func(x []float64) (float64, float64, bool) { return stats.LogNormalBoundary(x, 0.9) },
			"iqr":        func(x []float64) (float64, float64, bool) { return stats.IQRBoundary(x, 1.5) },
			"delta_iqr":  func(x []float64) (float64, float64, bool) { return stats.DeltaIQRBoundary(x, 1.5) },
		} {
			l, u, _ := f(x)
			kl, ku, _ := f(y)
			near(t, name+" lower", kl/k, l, 1e-7)
			near(t, name+" upper", ku/k, u, 1e-7)
			if sl, su, _ := f(z); name != "delta_iqr" {
				near(t, name+" lower, shuffled", sl, l, 1e-9)
				near(t, name+" upper, shuffled", su, u, 1e-9)
			}
		}
	}
}
