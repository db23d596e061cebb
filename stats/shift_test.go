package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/org/ebpf-bench-gate/stats"
)

func paired(t *testing.T, d, w []float64) *stats.Shift {
	t.Helper()
	s, ok := stats.PairedShift(d, w)
	if !ok {
		t.Fatal("no shift")
	}
	return s
}

// Without ties the shift's p-values are those of the test itself, at any margin.
func TestShiftIsTheTest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		n := 1 + rnd.IntN(40)
		d := seq(n, func(int) float64 { return rnd.NormFloat64() + 0.5 })
		w := seq(n, func(int) float64 { return 0.2 + rnd.Float64() })
		at := rnd.NormFloat64()
		y := seq(n, func(i int) float64 { return d[i] - at*w[i] })
		s, r := paired(t, d, w), stats.SignedRank(y)
		near(t, "greater", s.Greater(at), r.Greater, 1e-12)
		near(t, "less", s.Less(at), r.Less, 1e-12)

		b := seq(1+rnd.IntN(20), func(int) float64 { return rnd.NormFloat64() })
		two, ok := stats.TwoSampleShift(d, b)
		if !ok {
			t.Fatal("no shift")
		}
		m := stats.MannWhitney(seq(len(b), func(i int) float64 { return b[i] - at }), d)
		near(t, "two-sample greater", two.Greater(at), m.Greater, 1e-12)
		near(t, "two-sample less", two.Less(at), m.Less, 1e-12)
	}
}

// With ties and zeros the shift may only be more careful than the exact test on
// whichever way the ties are broken.
func TestShiftIsConservativeWithTies(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 1))
	for range 200 {
		d := seq(1+rnd.IntN(12), func(int) float64 { return math.Round(2 * rnd.NormFloat64()) })
		s := paired(t, d, nil)
		broken := stats.SignedRank(seq(len(d), func(i int) float64 { return d[i] + 1e-3*rnd.Float64() - 5e-4 }))
		if s.Greater(0) < broken.Greater-1e-12 || s.Less(0) < broken.Less-1e-12 {
			t.Fatalf("%v: greater %v, less %v; broken %+v", d, s.Greater(0), s.Less(0), broken)
		}
	}
}

// The bounds and the p-values never contradict each other: t < Lower(p) exactly
// where Greater(t) <= p.
func TestBoundsAgreeWithTests(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 1))
	for trial := range 300 {
		n := 1 + rnd.IntN(30)
		if trial%50 == 0 {
			n = 520 // normal approximation
		}
		grain := []float64{1, 1000}[trial%2]
		d := seq(n, func(int) float64 { return math.Round(grain*rnd.NormFloat64()) / grain })
		w := seq(n, func(int) float64 { return 0.5 + rnd.Float64() })
		s := paired(t, d, w)
		p := math.Pow(10, -4*rnd.Float64())
		for range 20 {
			at := math.Round(grain*rnd.NormFloat64()) / grain
			if rejected := s.Greater(at) <= p; rejected != (at < s.Lower(p)) {
				t.Fatalf("at %v p %v: Greater %v, Lower %v", at, p, s.Greater(at), s.Lower(p))
			}
			if rejected := s.Less(at) <= p; rejected != (at > s.Upper(p)) {
				t.Fatalf("at %v p %v: Less %v, Upper %v", at, p, s.Less(at), s.Upper(p))
			}
		}
		if e := s.Estimate(); e < s.Lower(p) && p < 0.5 || e > s.Upper(p) && p < 0.5 {
			t.Fatalf("estimate %v outside [%v, %v]", e, s.Lower(p), s.Upper(p))
		}
	}
}

func TestShiftPublished(t *testing.T) {
	// Hollander, Wolfe & Chicken (2014), examples 3.3 and 3.4: estimate -0.46,
	// 96% interval (-0.786, -0.010).
	s := paired(t, minus(depressionAfter, depressionBefore), nil)
	near(t, "estimate", s.Estimate(), -0.46, 1e-9)
	near(t, "low", s.Lower(0.02), -0.786, 1e-9)
	near(t, "high", s.Upper(0.02), -0.010, 1e-9)
	if !math.IsInf(s.Lower(0.001), -1) || !math.IsInf(s.Upper(0.001), 1) {
		t.Error("nine pairs have a 99.8% interval")
	}
	near(t, "smallest p", s.SmallestP(), 1.0/512, 1e-15)
}

func TestShiftMovesWithTheData(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 1))
	d := seq(25, func(int) float64 { return rnd.NormFloat64() })
	a := paired(t, d, nil)
	b := paired(t, seq(25, func(i int) float64 { return 3 - 2*d[24-i] }), nil) // scaled, flipped, other order
	near(t, "estimate", b.Estimate(), 3-2*a.Estimate(), 1e-9)
	near(t, "low", b.Lower(0.01), 3-2*a.Upper(0.01), 1e-9)
	near(t, "p", b.Greater(1), a.Less(1), 1e-12)
}

func TestShiftRefuses(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for name, dw := range map[string][2][]float64{
		"empty": {nil, nil}, "nan": {{nan}, nil}, "inf": {{inf}, nil},
		"zero weight": {{1}, {0}}, "negative weight": {{1}, {-1}}, "nan weight": {{1}, {nan}},
		"lengths": {{1, 2}, {1}}, "underflow": {{0}, {5e-324}},
	} {
		if _, ok := stats.PairedShift(dw[0], dw[1]); ok {
			t.Errorf("%s: ok", name)
		}
	}
	for name, ab := range map[string][2][]float64{"empty": {nil, {1}}, "nan": {{1}, {nan}}, "inf": {{inf}, {1}}} {
		if _, ok := stats.TwoSampleShift(ab[0], ab[1]); ok {
			t.Errorf("two samples, %s: ok", name)
		}
	}
	s := paired(t, []float64{math.MaxFloat64, math.MaxFloat64}, []float64{1, math.MaxFloat64})
	if e := s.Estimate(); math.IsNaN(e) {
		t.Error("huge values: NaN")
	}
}

// Coverage over heavy-tailed symmetric noise is what the level says.
func TestShiftCoverage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 1))
	const trials, p = 4000, 0.05
	low, high := 0, 0
	for range trials {
		s := paired(t, seq(20, func(int) float64 { return 1 + cauchyish(rnd) }), nil)
		if s.Lower(p) > 1 {
			low++
		}
		if s.Upper(p) < 1 {
			high++
		}
	}
	// The attained level at n = 20 is 0.0487; five standard errors around it.
	for side, n := range map[string]int{"low": low, "high": high} {
		near(t, side+" misses", float64(n)/trials, 0.0487, 5*math.Sqrt(p/trials))
	}
}

// cauchyish is symmetric noise with tails as recorded: quiet, and wild at times.
func cauchyish(rnd *rand.Rand) float64 {
	x := rnd.NormFloat64()
	if rnd.IntN(10) == 0 {
		x *= 8
	}
	return x
}

// What Detectable promises is what happens on fresh data of the same kind.
func TestDetectablePromise(t *testing.T) {
	for name, draw := range map[string]func(*rand.Rand) float64{
		"normal": (*rand.Rand).NormFloat64, "heavy": cauchyish,
	} {
		rnd := rand.New(rand.NewPCG(8, 1))
		const n, alpha, margin = 40, 0.001, 2.0
		sum := 0.0
		for range 200 {
			sum += stats.Detectable(seq(n, func(int) float64 { return 5 + draw(rnd) }), alpha, 0.9)
		}
		effect := sum / 200
		found, trials := 0, 1500
		for range trials {
			if paired(t, seq(n, func(int) float64 { return margin + effect + draw(rnd) }), nil).Greater(margin) <= alpha {
				found++
			}
		}
		if power := float64(found) / float64(trials); power < 0.86 || power > 0.95 {
			t.Errorf("%s: promised 0.9, found %.3f of effects of %.3f", name, power, effect)
		}
	}
	for name, d := range map[string]float64{
		"three pairs": stats.Detectable([]float64{1, 2, 3}, 0.01, 0.9),
		"nothing":     stats.Detectable(nil, 0.01, 0.9),
		"nan":         stats.Detectable(seq(40, func(int) float64 { return math.NaN() }), 0.01, 0.9),
	} {
		if !math.IsNaN(d) {
			t.Errorf("%s would have shown %v", name, d)
		}
	}
}
