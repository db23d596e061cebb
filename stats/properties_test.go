package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/org/ebpf-bench-gate/stats"
)

// The tests of one-sided alternatives that verdicts rest on, as the p-value of b's being
// larger than a.
var greater = map[string]func(a, b []float64) float64{
	"signed rank": func(a, b []float64) float64 { return stats.SignedRank(minus(b, a)).Greater },
	"paired shift": func(a, b []float64) float64 {
		s, _ := stats.PairedShift(minus(b, a), nil)
		return s.Greater(0)
	},
	"paired mean shift": func(a, b []float64) float64 {
		s, _ := stats.PairedMeanShift(minus(b, a), nil)
		return s.Greater(0)
	},
	"Mann–Whitney": func(a, b []float64) float64 { return stats.MannWhitney(b, a).Greater },
	"two-sample shift": func(a, b []float64) float64 {
		s, _ := stats.TwoSampleShift(a, b)
		return s.Greater(0)
	},
	"Welch shift": func(a, b []float64) float64 {
		s, _ := stats.WelchShift(a, b)
		return s.Greater(0)
	},
}

// More evidence makes no p-value larger: a larger slowdown of the very same samples
// never does, and more samples of the same slowdown do not in expectation.
func TestMoreEvidence(t *testing.T) {
	rnd := rand.New(rand.NewPCG(61, 1))
	sample := func(n int, shift float64) []float64 {
		return seq(n, func(int) float64 { return 100 + shift + cauchyish(rnd) })
	}
	for name, p := range greater {
		for range 40 {
			a, b := sample(15, 0), sample(15, 0)
			last := 2.0
			for shift := -3.0; shift <= 3; shift += 0.25 {
				slower := seq(len(b), func(i int) float64 { return b[i] + shift })
				got := p(a, slower)
				// The t-tests' deviations do not change with a shift, but for rounding.
				if got > last+1e-9 {
					t.Errorf("%s: %v after %v, for a shift of %v more", name, got, last, 0.25)
				}
				last = got
			}
		}
		const trials = 600
		last, spread := 1.0, 0.0
		for _, n := range []int{6, 12, 24, 48} {
			sum, squares := 0.0, 0.0
			for range trials {
				v := p(sample(n, 0), sample(n, 0.4))
				sum, squares = sum+v, squares+v*v
			}
			mean := sum / trials
			se := math.Sqrt((squares/trials - mean*mean) / trials)
			if mean > last+3*math.Hypot(se, spread) {
				t.Errorf("%s: mean p %.3f with %d samples, %.3f with half as many", name, mean, n, last)
			}
			last, spread = mean, se
		}
		if last > 0.35 {
			t.Errorf("%s: mean p %.3f of a true shift in 48 samples", name, last)
		}
	}
}

// Exchanging the sides turns the direction, units and the order of samples change
// nothing, of any test.
func TestSymmetries(t *testing.T) {
	rnd := rand.New(rand.NewPCG(62, 1))
	for name, p := range greater {
		for range 50 {
			// Whole numbers, so that there are ties.
			a := seq(12, func(int) float64 { return float64(rnd.IntN(30)) })
			b := seq(12, func(int) float64 { return float64(rnd.IntN(30) + 3) })
			want := p(a, b)
			negative := func(x []float64) []float64 { return seq(len(x), func(i int) float64 { return -x[i] }) }
			scaled := func(x []float64) []float64 { return seq(len(x), func(i int) float64 { return 1024 * x[i] }) }
			if got := p(negative(b), negative(a)); !same(got, want) {
				t.Errorf("%s: %v, mirrored and exchanged %v", name, want, got)
			}
			if got := p(scaled(a), scaled(b)); !same(got, want) {
				t.Errorf("%s: %v, in other units %v", name, want, got)
			}
			order := rnd.Perm(len(a))
			if got := p(seq(12, func(i int) float64 { return a[order[i]] }), seq(12, func(i int) float64 { return b[order[i]] })); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: %v, in another order %v", name, want, got)
			}
			if back := p(b, a); want < 0.3 && back < 0.5 {
				t.Errorf("%s: larger by p = %v, and smaller by %v", name, want, back)
			}
		}
	}
}
