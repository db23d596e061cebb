package stats_test

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/org/ebpf-bench-gate/stats"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s = %.12g, want %.12g", what, got, want)
	}
}

func seq(n int, f func(i int) float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = f(i)
	}
	return x
}

// Hamilton depression scale factor IV, Hollander & Wolfe (1973), p. 29: the
// example of R's ?wilcox.test.
var (
	depressionBefore = []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	depressionAfter  = []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
)

func minus(a, b []float64) []float64 { return seq(len(a), func(i int) float64 { return a[i] - b[i] }) }

func TestSignedRankPublished(t *testing.T) {
	for _, c := range []struct {
		name                 string
		x                    []float64
		w, greater, twoSided float64
	}{
		// wilcox.test(x, y, paired = TRUE, alternative = "greater"): V = 40, p-value = 0.01953
		{"R wilcox.test", minus(depressionBefore, depressionAfter), 40, 0.01953125, 0.0390625},
		// scipy.stats.wilcoxon, heights of cross- and self-fertilised corn
		{"SciPy wilcoxon", []float64{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75}, 96, 0.0206298828125, 0.041259765625},
	} {
		got := stats.SignedRank(c.x)
		if got.Statistic != c.w || !got.Exact || got.N != len(c.x) {
			t.Errorf("%s: %+v, want statistic %v, exact", c.name, got, c.w)
		}
		near(t, c.name+" greater", got.Greater, c.greater, 1e-12)
		near(t, c.name+" two-sided", got.TwoSided, c.twoSided, 1e-12)
	}
}

// bruteSignedRank enumerates every assignment of signs to the midranks of the
// non-zero values.
func bruteSignedRank(x []float64) (less, greater float64) {
	var a []float64
	for _, v := range x {
		if v != 0 {
			a = append(a, v)
		}
	}
	rank := seq(len(a), func(i int) float64 {
		r := 0.5
		for _, v := range a {
			switch {
			case math.Abs(v) < math.Abs(a[i]):
				r++
			case math.Abs(v) == math.Abs(a[i]):
				r += 0.5
			}
		}
		return r
	})
	w := func(signs uint) (sum float64) {
		for i, r := range rank {
			if signs>>i&1 == 1 {
				sum += r
			}
		}
		return sum
	}
	var observed uint
	for i, v := range a {
		if v > 0 {
			observed |= 1 << i
		}
	}
	all := uint(1) << len(a)
	for s := range all {
		if w(s) <= w(observed) {
			less++
		}
		if w(s) >= w(observed) {
			greater++
		}
	}
	return less / float64(all), greater / float64(all)
}

func TestSignedRankBruteForce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for trial := range 300 {
		grain := []float64{0, 1, 4}[trial%3] // none, many, some ties
		x := seq(rnd.IntN(13), func(int) float64 {
			v := rnd.NormFloat64() + 0.3
			if grain > 0 {
				v = math.Round(v*grain) / grain
			}
			return v
		})
		less, greater := bruteSignedRank(x)
		got := stats.SignedRank(x)
		if math.Abs(got.Less-less) > 1e-12 || math.Abs(got.Greater-greater) > 1e-12 {
			t.Fatalf("%v: %+v, want less %v, greater %v", x, got, less, greater)
		}
	}
}

// bruteMannWhitney enumerates every way to deal the values to the two samples.
func bruteMannWhitney(a, b []float64) (less, greater float64) {
	all := slices.Concat(a, b)
	u := func(first uint) (sum float64) {
		for i, x := range all {
			for j, y := range all {
				if first>>i&1 == 1 && first>>j&1 == 0 {
					if x > y {
						sum++
					} else if x == y {
						sum += 0.5
					}
				}
			}
		}
		return sum
	}
	observed := u(1<<len(a) - 1)
	n := 0.0
	for s := range uint(1) << len(all) {
		if bits.OnesCount(s) == len(a) {
			n++
			if u(s) <= observed {
				less++
			}
			if u(s) >= observed {
				greater++
			}
		}
	}
	return less / n, greater / n
}

func TestMannWhitneyBruteForce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for trial := range 60 {
		grain := []float64{0, 1, 3}[trial%3]
		draw := func(int) float64 {
			v := rnd.NormFloat64()
			if grain > 0 {
				v = math.Round(v*grain) / grain
			}
			return v
		}
		a, b := seq(1+rnd.IntN(5), draw), seq(1+rnd.IntN(5), draw)
		less, greater := bruteMannWhitney(a, b)
		got := stats.MannWhitney(a, b)
		if math.Abs(got.Less-less) > 1e-12 || math.Abs(got.Greater-greater) > 1e-12 {
			t.Fatalf("%v %v: %+v, want less %v, greater %v", a, b, got, less, greater)
		}
	}
}

func TestMannWhitneyPublished(t *testing.T) {
	// R's ?wilcox.test, permeability of the human chorioamnion (Hollander &
	// Wolfe 1973, p. 69): W = 35, p-value = 0.1272 against "greater".
	r := stats.MannWhitney(
		[]float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46},
		[]float64{1.15, 0.88, 0.90, 0.74, 1.21})
	near(t, "R statistic", r.Statistic, 35, 0)
	near(t, "R greater", r.Greater, 0.1272, 5e-5)
	// scipy.stats.mannwhitneyu, age at diagnosis of type 2 diabetes.
	s := stats.MannWhitney([]float64{19, 22, 16, 29, 24}, []float64{20, 11, 17, 12})
	near(t, "SciPy statistic", s.Statistic, 17, 0)
	near(t, "SciPy two-sided", s.TwoSided, 1.0/9, 1e-12)
	// The defect that golang.org/x/perf has with ties; see testdata/tests.json.
	d := stats.MannWhitney([]float64{2, 1, 3, 5}, []float64{1, 1, 1, 1, 1})
	near(t, "ties greater", d.Greater, 6.0/126, 1e-12)
	near(t, "ties two-sided", d.TwoSided, 12.0/126, 1e-12)
}

// The normal approximation takes over where the exact one ends, without a jump,
// and does not make small p-values smaller.
func TestNormalMeetsExact(t *testing.T) {
	x := seq(stats.MaxExact, func(i int) float64 { return float64(i+1) * float64(1-i%3%2*2) }) // a third negative
	exact := stats.SignedRank(x)
	normal := stats.SignedRank(append(slices.Clone(x), 1e-9))
	if !exact.Exact || normal.Exact {
		t.Fatalf("exact %v, then %v", exact.Exact, normal.Exact)
	}
	if exact.Greater < 1e-12 || exact.Greater > normal.Greater || normal.Greater > 2*exact.Greater {
		t.Errorf("greater: exact %g, normal %g", exact.Greater, normal.Greater)
	}
	near(t, "middle", stats.SignedRank(seq(501, func(i int) float64 { return float64(i+1) * float64(1-i%2*2) })).Less,
		stats.SignedRank(seq(499, func(i int) float64 { return float64(i+1) * float64(1-i%2*2) })).Less, 2e-3)

	a, b := seq(25, func(i int) float64 { return float64(i) }), seq(25, func(i int) float64 { return float64(i) + 6.5 })
	e, n := stats.MannWhitney(a, b), stats.MannWhitney(a, append(slices.Clone(b), 18))
	if !e.Exact || n.Exact {
		t.Fatalf("exact %v, then %v", e.Exact, n.Exact)
	}
	near(t, "Mann–Whitney", n.TwoSided, e.TwoSided, 0.15*e.TwoSided)
}

func TestRankTestsOfOddData(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name             string
		x                []float64
		less, greater, n float64
	}{
		{"empty", nil, 1, 1, 0},
		{"zeros", []float64{0, 0, 0}, 1, 1, 0},
		{"one", []float64{3}, 1, 0.5, 1},
		{"constant", []float64{2, 2, 2, 2}, 1, 0.0625, 4},
		{"infinite", []float64{inf, 1, inf}, 1, 0.125, 3},
		{"both infinite", []float64{-inf, inf}, 0.75, 0.75, 2},
		{"nan", []float64{1, nan}, nan, nan, 0},
	} {
		got := stats.SignedRank(c.x)
		if !same(got.Less, c.less) || !same(got.Greater, c.greater) || got.N != int(c.n) {
			t.Errorf("%s: %+v, want less %v greater %v n %v", c.name, got, c.less, c.greater, c.n)
		}
	}
	if r := stats.MannWhitney(nil, []float64{1}); r.TwoSided != 1 {
		t.Errorf("empty sample: %+v", r)
	}
	if r := stats.MannWhitney([]float64{nan}, []float64{1}); !math.IsNaN(r.TwoSided) {
		t.Errorf("nan: %+v", r)
	}
	c := seq(100, func(int) float64 { return 7 })
	if r := stats.MannWhitney(c, c); r.TwoSided != 1 { // normal, without variance
		t.Errorf("constant: %+v", r)
	}
}

func same(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-12
}

func TestSignTest(t *testing.T) {
	near(t, "7 of 7", stats.SignTest(7, 7), 1.0/128, 1e-15)
	near(t, "8 of 10", stats.SignTest(8, 10), 56.0/1024, 1e-12) // 45+10+1
	near(t, "0 of 5", stats.SignTest(0, 5), 1, 0)
	near(t, "0 of 0", stats.SignTest(0, 0), 1, 0)
	if p := stats.SignTest(3, 2); !math.IsNaN(p) {
		t.Errorf("3 of 2: %v", p)
	}
}

// 95% of 10 in 100 is 4.90% to 17.62% (R's binom.test).
func TestBinomialInterval(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{{10, 100, 0.0490, 0.1762}, {0, 10, 0, 0.3085}, {10, 10, 0.6915, 1}} {
		low, high := stats.BinomialInterval(c.k, c.n, 0.95)
		near(t, "low", low, c.low, 5e-5)
		near(t, "high", high, c.high, 5e-5)
	}
	for _, c := range [][2]int{{-1, 3}, {4, 3}, {0, 0}} {
		if low, high := stats.BinomialInterval(c[0], c[1], 0.95); !math.IsNaN(low) || !math.IsNaN(high) {
			t.Errorf("%d of %d: %v to %v", c[0], c[1], low, high)
		}
	}
}

func TestMillionValues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	x := seq(1_000_000, func(int) float64 { return rnd.NormFloat64() + 0.01 })
	if r := stats.SignedRank(x); r.Greater > 1e-6 || r.Exact {
		t.Errorf("signed rank: %+v", r)
	}
	if r := stats.MannWhitney(x[:500_000], x[500_000:]); !(r.TwoSided > 1e-4) || r.Exact {
		t.Errorf("Mann–Whitney: %+v", r)
	}
	if _, ok := stats.PairedShift(x, nil); ok {
		t.Error("a shift of a million pairs")
	}
	if _, ok := stats.TwoSampleShift(x, x); ok {
		t.Error("a shift of 10^12 points")
	}
}

func BenchmarkSignedRank320(b *testing.B) {
	rnd := rand.New(rand.NewPCG(5, 6))
	x := seq(320, func(int) float64 { return rnd.NormFloat64() })
	tied := seq(320, func(int) float64 { return math.Round(rnd.NormFloat64()*8) / 8 })
	b.Run("distinct", func(b *testing.B) {
		for b.Loop() {
			stats.SignedRank(x)
		}
	})
	b.Run("ties", func(b *testing.B) {
		for b.Loop() {
			stats.SignedRank(tied)
		}
	})
	b.Run("shift", func(b *testing.B) {
		for b.Loop() {
			stats.PairedShift(x, nil)
		}
	})
}
