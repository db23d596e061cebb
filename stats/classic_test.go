package stats_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/org/ebpf-bench-gate/stats"
)

func load(t *testing.T, file string, v any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestBencherVectors(t *testing.T) {
	var v struct {
		TTest []struct {
			Mean, SD, P, Lower, Upper float64
			N                         int
		} `json:"t_test"`
		Quartiles []struct{ Data, Q []float64 }
	}
	load(t, "thresholds.json", &v)
	if len(v.TTest) == 0 || len(v.Quartiles) == 0 {
		t.Fatal("no vectors")
	}
	for _, c := range v.TTest {
		lower, upper, ok := stats.TBoundary(c.Mean, c.SD, c.N, c.P)
		if !ok {
			t.Errorf("%+v: no boundary", c)
		}
		near(t, "lower", lower, c.Lower, 1e-9)
		near(t, "upper", upper, c.Upper, 1e-9)
	}
	for _, c := range v.Quartiles {
		for i, q := range c.Q {
			near(t, "quartile", stats.Quantile(c.Data, float64(i+1)/4), q, 1e-12)
		}
	}
}

func TestPeersVectors(t *testing.T) {
	var v struct {
		MannWhitney struct {
			Cases []struct {
				A, B any
				U, P float64
			}
		} `json:"mann_whitney_u"`
		Welch struct {
			Cases []struct {
				A, B      []float64
				T, Dof, P float64
			}
		} `json:"welch_t"`
		Normal struct {
			Cases []struct {
				Data                           []float64
				Confidence, Mean, Lower, Upper float64
			}
		} `json:"normal_ci"`
	}
	load(t, "tests.json", &v)
	numbers := func(x any) (f []float64) {
		switch x {
		case "2*i for i in 0..499":
			return seq(500, func(i int) float64 { return float64(2 * i) })
		case "2*i-41 for i in 0..599":
			return seq(600, func(i int) float64 { return float64(2*i - 41) })
		}
		for _, e := range x.([]any) {
			f = append(f, e.(float64))
		}
		return f
	}
	if len(v.MannWhitney.Cases) == 0 || len(v.Welch.Cases) == 0 || len(v.Normal.Cases) == 0 {
		t.Fatal("no vectors")
	}
	for _, c := range v.MannWhitney.Cases {
		r := stats.MannWhitney(numbers(c.A), numbers(c.B))
		near(t, "U", r.Statistic, c.U, 0)
		near(t, "p of U", r.TwoSided, c.P, 1e-9)
	}
	for _, c := range v.Welch.Cases {
		r, ok := stats.WelchT(c.A, c.B)
		if !ok {
			t.Errorf("%v: no t", c)
		}
		near(t, "t", r.T, c.T, 1e-9)
		near(t, "freedom", r.Freedom, c.Dof, 1e-9)
		near(t, "p of t", r.P, c.P, 1e-9)
	}
	for _, c := range v.Normal.Cases {
		low, high := stats.MeanInterval(c.Data, c.Confidence)
		near(t, "mean", stats.Mean(c.Data), c.Mean, 1e-12)
		near(t, "low", low, c.Lower, 1e-9)
		near(t, "high", high, c.Upper, 1e-9)
	}
}

// Student's sleep data, as in R's ?t.test: paired t = -4.0621, df = 9,
// p-value = 0.002833; Welch t = -1.8608, df = 17.776, p-value = 0.07939.
func TestSleep(t *testing.T) {
	a := []float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0}
	b := []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}
	p, ok := stats.PairedT(minus(a, b))
	w, ok2 := stats.WelchT(a, b)
	if !ok || !ok2 {
		t.Fatal("no t")
	}
	near(t, "paired t", p.T, -4.0621, 5e-5)
	near(t, "paired freedom", p.Freedom, 9, 0)
	near(t, "paired p", p.P, 0.002833, 5e-7)
	near(t, "Welch t", w.T, -1.8608, 5e-5)
	near(t, "Welch freedom", w.Freedom, 17.776, 5e-4)
	near(t, "Welch p", w.P, 0.07939, 5e-6)
}

func TestClassicOfOddData(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for name, x := range map[string][]float64{
		"empty": nil, "one": {1}, "constant": {2, 2, 2}, "nan": {1, 2, nan}, "inf": {1, 2, inf},
	} {
		if r, ok := stats.PairedT(x); ok {
			t.Errorf("PairedT of %s: %+v", name, r)
		}
		if r, ok := stats.WelchT(x, x); ok {
			t.Errorf("WelchT of %s: %+v", name, r)
		}
	}
	for name, f := range map[string]func() (float64, float64, bool){
		"one":      func() (float64, float64, bool) { return stats.TBoundary(1, 1, 1, 0.99) },
		"constant": func() (float64, float64, bool) { return stats.TBoundary(1, 0, 9, 0.99) },
		"nan":      func() (float64, float64, bool) { return stats.TBoundary(1, nan, 9, 0.99) },
		"inf":      func() (float64, float64, bool) { return stats.TBoundary(inf, 1, 9, 0.99) },
		"p 1":      func() (float64, float64, bool) { return stats.TBoundary(1, 1, 9, 1) },
		"p 0.4":    func() (float64, float64, bool) { return stats.TBoundary(1, 1, 9, 0.4) },
	} {
		if _, _, ok := f(); ok {
			t.Errorf("TBoundary of %s: ok", name)
		}
	}
	for name, v := range map[string]float64{
		"mean": stats.Mean(nil), "variance": stats.Variance([]float64{1}), "median": stats.Median(nil),
		"median of NaN": stats.Median([]float64{nan, 1}), "quantile 2": stats.Quantile([]float64{1}, 2),
		"quantile NaN": stats.Quantile([]float64{1}, nan), "trim": stats.TrimmedMean([]float64{1}, 0.5),
		"t": stats.TQuantile(1, 3), "t 0": stats.TQuantile(0.5, 0), "z": stats.NormalQuantile(0),
	} {
		if !math.IsNaN(v) {
			t.Errorf("%s: %v, want NaN", name, v)
		}
	}
	near(t, "trimmed mean", stats.TrimmedMean([]float64{1000, 2, 3, 4, -1000}, 0.2), 3, 1e-12)
	near(t, "infinite median", stats.Median([]float64{inf, 1, 2}), 2, 0)
	near(t, "z", stats.NormalQuantile(0.975), 1.959963984540054, 1e-9)
}

func TestHolm(t *testing.T) {
	for _, c := range []struct {
		name   string
		p      []float64
		m      int
		reject []bool
		level  []float64
	}{
		// Holm (1979) by hand: 0.01 <= .05/4, 0.005 first; 0.03 > .05/2 stops 0.04 too.
		{"step down", []float64{0.01, 0.04, 0.03, 0.005}, 4, []bool{true, false, false, true}, []float64{0.05 / 3, 0.025, 0.025, 0.0125}},
		{"all", []float64{0.05, 0.01, 0.02}, 3, []bool{true, true, true}, []float64{0.05, 0.05 / 3, 0.025}},
		{"one stops the rest", []float64{0.02, 0.02, 0.02}, 3, []bool{false, false, false}, []float64{0.05 / 3, 0.05 / 3, 0.05 / 3}},
		{"fixed m", []float64{0.02}, 3, []bool{false}, []float64{0.05 / 3}},
		{"m too small", []float64{0.02, 0.04}, 1, []bool{true, true}, []float64{0.025, 0.05}},
		{"nan", []float64{math.NaN(), 0.001}, 2, []bool{false, true}, []float64{0.05, 0.025}},
		{"empty", nil, 2, []bool{}, []float64{}},
	} {
		reject, level := stats.Holm(c.p, c.m, 0.05)
		if !slices.Equal(reject, c.reject) {
			t.Errorf("%s: rejected %v, want %v", c.name, reject, c.reject)
		}
		for i := range level {
			near(t, c.name, level[i], c.level[i], 1e-12)
		}
	}
}

// Holm never rejects what an uncorrected test would not, and always what
// Bonferroni's would.
func TestHolmBetweenBonferroniAndNone(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for range 500 {
		m := 1 + rnd.IntN(20)
		p := seq(m, func(int) float64 { return math.Pow(rnd.Float64(), 4) })
		reject, _ := stats.Holm(p, m, 0.05)
		for i, r := range reject {
			if r && p[i] > 0.05 || !r && p[i] <= 0.05/float64(m) {
				t.Fatalf("p %v of %v: rejected %v", p[i], p, r)
			}
		}
	}
}
