package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/org/ebpf-bench-gate/stats"
)

// Wilcox (2012), section 4.3: the self-awareness data of Dana (1990), with the 95%
// interval of the 20% trimmed mean that trimci of his WRS prints, (160.3913,
// 404.9933).
func TestTrimmedTPublished(t *testing.T) {
	x := []float64{77, 87, 88, 114, 151, 210, 219, 246, 253, 262, 296, 299, 306, 376, 428, 515, 666, 1310, 2611}
	r, ok := stats.TrimmedT(x, 0.2)
	if !ok {
		t.Fatal("no t")
	}
	mean := stats.TrimmedMean(x, 0.2)
	se := mean / r.T
	near(t, "trimmed mean", mean, 282.6923, 5e-5)
	near(t, "freedom", r.Freedom, 12, 0)
	near(t, "low", mean-stats.TQuantile(0.975, r.Freedom)*se, 160.3913, 5e-5)
	near(t, "high", mean+stats.TQuantile(0.975, r.Freedom)*se, 404.9933, 5e-5)
}

// SciPy's documentation of ttest_ind with trim=.2 pools the variances (Yuen & Dixon
// 1973): the same trimmed means and winsorized sums of squares. Yuen's (1974) form
// without pooling is Welch's t of those.
func TestYuenPublished(t *testing.T) {
	a := []float64{56, 128.6, 12, 123.8, 64.34, 78, 763.3}
	b := []float64{1.1, 2.9, 4.2}
	squares := func(x []float64) float64 {
		return stats.Variance(stats.Winsorized(x, 0.2)) * float64(len(x)-1)
	}
	sa, sb := squares(a), squares(b)
	diff := stats.TrimmedMean(a, 0.2) - stats.TrimmedMean(b, 0.2)
	pooled := diff / math.Sqrt((sa+sb)/6*(1./5+1./3))
	near(t, "pooled t", pooled, 3.4463884028073513, 1e-12)
	near(t, "its p", distuv.StudentsT{Sigma: 1, Nu: 6}.Survival(pooled)*2, 0.01369338726499547, 1e-12)
	r, ok := stats.YuenT(a, b, 0.2)
	if !ok {
		t.Fatal("no t")
	}
	near(t, "t", r.T, diff/math.Sqrt(sa/5/4+sb/3/2), 1e-12)
	w, _ := stats.WelchT(a, b)
	if y, ok := stats.YuenT(a, b, 0); !ok || math.Abs(y.T-w.T) > 1e-12 || math.Abs(y.P-w.P) > 1e-12 {
		t.Errorf("untrimmed %+v, Welch %+v", y, w)
	}
}

// Efron & Tibshirani (1993), table 14.1 and 14.2: the spatial test data A, whose
// variance (with n) is 171.5, a = 0.061, z0 = 0.146, and 90% BCa interval (115.8,
// 259.6), all from 2000 resamples of their own.
func TestBootstrapPublished(t *testing.T) {
	x := []float64{48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41}
	variance := func(x []float64) float64 { return stats.Variance(x) * float64(len(x)-1) / float64(len(x)) }
	near(t, "variance", variance(x), 171.5, 0.05)
	b, ok := stats.Bootstrap(x, variance, 20000, 1)
	if !ok {
		t.Fatal("no interval")
	}
	near(t, "a", b.Acceleration, 0.061, 5e-4)
	near(t, "z0", b.Bias, 0.146, 0.04) // theirs of 2000 resamples has an error of 0.028
	low, high := b.Interval(0.9)
	near(t, "low", low, 115.8, 3)
	near(t, "high", high, 259.6, 5)
	for _, level := range []float64{1, -1, math.NaN()} {
		if low, high := b.Interval(level); !math.IsNaN(low) || !math.IsNaN(high) {
			t.Errorf("at level %v: %v, %v", level, low, high)
		}
	}
	again, _ := stats.Bootstrap(x, variance, 20000, 1)
	other, _ := stats.Bootstrap(x, variance, 20000, 2)
	interval := func(b *stats.BCa) [2]float64 { low, high := b.Interval(0.9); return [2]float64{low, high} }
	if interval(again) != interval(b) || interval(other) == interval(b) {
		t.Errorf("one seed gave %v and %v, another %v", interval(b), interval(again), interval(other))
	}
}

func TestRobustOfOddData(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for name, x := range map[string][]float64{
		"empty": nil, "one": {1}, "constant": {2, 2, 2, 2, 2}, "nan": {1, 2, nan}, "inf": {inf, inf, inf},
	} {
		if r, ok := stats.TrimmedT(x, 0.2); ok {
			t.Errorf("TrimmedT of %s: %+v", name, r)
		}
		if r, ok := stats.YuenT(x, x, 0.2); ok {
			t.Errorf("YuenT of %s: %+v", name, r)
		}
		if r, ok := stats.Bootstrap(x, stats.Mean, 200, 1); ok {
			t.Errorf("Bootstrap of %s: %+v", name, r)
		}
		if _, ok := stats.PairedMeanShift(x, nil); ok {
			t.Errorf("PairedMeanShift of %s: ok", name)
		}
		if _, ok := stats.WelchShift(x, x); ok {
			t.Errorf("WelchShift of %s: ok", name)
		}
		if e := stats.DetectableMean(x, 0.01, 0.9); !math.IsNaN(e) {
			t.Errorf("DetectableMean of %s: %v", name, e)
		}
	}
	x := []float64{1, 2, 3, 4}
	if _, ok := stats.TrimmedT(x, 0.5); ok {
		t.Error("trimmed of everything")
	}
	for name, w := range map[string][]float64{"zero weight": {1, 1, 1, 0}, "nan weight": {1, 1, 1, nan}, "lengths": {1}} {
		if _, ok := stats.PairedMeanShift(x, w); ok {
			t.Errorf("%s: ok", name)
		}
	}
	if _, ok := stats.Bootstrap(x, stats.Mean, 99, 1); ok {
		t.Error("99 resamples")
	}
	if _, ok := stats.Bootstrap(x, func([]float64) float64 { return nan }, 200, 1); ok {
		t.Error("a statistic of NaN")
	}
	million := seq(1_000_000, func(i int) float64 { return float64(i % 1000) })
	if r, ok := stats.TrimmedT(million, 0.2); !ok || r.P != 0 {
		t.Errorf("a million: %+v", r)
	}
}

// The t model's p-value is the t-test's own, at any margin, and its bounds agree
// with it: t < Lower(p) exactly where Greater(t) <= p.
func TestMeanShift(t *testing.T) {
	rnd := rand.New(rand.NewPCG(41, 1))
	for range 300 {
		n := 2 + rnd.IntN(40)
		d := seq(n, func(int) float64 { return rnd.NormFloat64() + 0.3 })
		w := seq(n, func(int) float64 { return 0.8 + 0.4*rnd.Float64() })
		at := rnd.NormFloat64() / 2
		s, ok := stats.PairedMeanShift(d, w)
		r, _ := stats.PairedT(seq(n, func(i int) float64 { return d[i] - at*w[i] }))
		if !ok {
			t.Fatal("no shift")
		}
		if n > 5 {
			near(t, "two-sided", 2*min(s.Greater(at), s.Less(at)), r.P, 1e-9)
		}
		p := math.Pow(10, -4*rnd.Float64())
		if rejected := s.Greater(at) <= p; rejected != (at < s.Lower(p)) {
			t.Fatalf("n %d, at %v p %v: Greater %v, Lower %v", n, at, p, s.Greater(at), s.Lower(p))
		}
		if rejected := s.Less(at) <= p; rejected != (at > s.Upper(p)) {
			t.Fatalf("n %d, at %v p %v: Less %v, Upper %v", n, at, p, s.Less(at), s.Upper(p))
		}
		b := seq(3+rnd.IntN(9), func(int) float64 { return 2 * rnd.NormFloat64() })
		two, ok := stats.WelchShift(d, b)
		wt, _ := stats.WelchT(seq(len(b), func(i int) float64 { return b[i] - at }), d)
		if !ok {
			t.Fatal("no Welch shift")
		}
		near(t, "Welch", 2*min(two.Greater(at), two.Less(at)), wt.P, 1e-9)
	}
	s, _ := stats.PairedMeanShift([]float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0, 2}, nil)
	// R's t.test of the first group of its sleep data: 95% interval of the mean
	// -0.5297804 to 2.0297804.
	near(t, "low", s.Lower(0.025), -0.5297804, 5e-8)
	near(t, "high", s.Upper(0.025), 2.0297804, 5e-8)
	near(t, "estimate", s.Estimate(), 0.75, 1e-12)
	same, ok := stats.WelchShift([]float64{1, 2, 3}, []float64{3, 1, 2})
	if !ok || math.Abs(same.Greater(0)-0.5) > 1e-12 {
		t.Error("equal means have no Welch shift")
	}
}
