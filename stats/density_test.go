package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/org/ebpf-bench-gate/stats"
)

// TestDensity holds the estimate against the density that the sample is of, and that
// it is one: all of it is 1.
func TestDensity(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 20000)
	for i := range x {
		x[i] = 100 + 5*rnd.NormFloat64()
	}
	const step = 0.1
	var at []float64
	for a := 70.0; a < 130; a += step {
		at = append(at, a)
	}
	sum := 0.0
	for i, d := range stats.Density(x, at) {
		z := (at[i] - 100) / 5
		want := math.Exp(-z*z/2) / (5 * math.Sqrt(2*math.Pi))
		if math.Abs(d-want) > 0.004 {
			t.Errorf("at %g: %g, want %g", at[i], d, want)
		}
		sum += d * step
	}
	if math.Abs(sum-1) > 1e-3 {
		t.Errorf("all of it is %g", sum)
	}
}

// TestDensityByHand is of two values, whose kernels can be added by hand: the
// deviation is √2, the quartiles are 1 apart.
func TestDensityByHand(t *testing.T) {
	width := 0.9 * math.Min(math.Sqrt2, 1/1.34) * math.Pow(2, -0.2)
	want := math.Exp(-1/(2*width*width)) / (width * math.Sqrt(2*math.Pi))
	if got := stats.Density([]float64{2, 0}, []float64{1})[0]; math.Abs(got-want) > 1e-12 {
		t.Errorf("%g, want %g", got, want)
	}
}

func TestDensityOfNothing(t *testing.T) {
	for _, x := range [][]float64{nil, {1}, {1, 1, 1}, {1, math.NaN()}, {1, math.Inf(1)}} {
		if got := stats.Density(x, []float64{0, 1}); got != nil {
			t.Errorf("of %v: %v", x, got)
		}
	}
}
