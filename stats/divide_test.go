package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The place and the q of a division are those of the formula, tried everywhere.
func TestDivideIsTheFormula(t *testing.T) {
	rnd := rand.New(rand.NewPCG(63, 1))
	within := func(x []float64) float64 { // mean|X - X'| of a sample
		sum := 0.0
		for i := range x {
			for j := range i {
				sum += math.Abs(x[i] - x[j])
			}
		}
		return sum / (float64(len(x)) * float64(len(x)-1) / 2)
	}
	for range 100 {
		n, least := 10+rnd.IntN(30), 2+rnd.IntN(4)
		x, part := make([]float64, n), make([]value, n)
		for i := range x {
			x[i] = rnd.NormFloat64()
			if i > n/2 {
				x[i] += float64(rnd.IntN(3))
			}
			part[i].x = x[i]
		}
		var want split
		for at := least; at <= n-least; at++ {
			cross := 0.0
			for _, a := range x[:at] {
				for _, b := range x[at:] {
					cross += math.Abs(a - b)
				}
			}
			a, b := float64(at), float64(n-at)
			if q := a * b / (a + b) * (2*cross/(a*b) - within(x[:at]) - within(x[at:])); q > want.q {
				want = split{at, q}
			}
		}
		if got := newDivider(n, least).measure(part); got.at != want.at || math.Abs(got.q-want.q) > 1e-9 {
			t.Fatalf("%d values: %+v, want %+v", n, got, want)
		}
	}
}
