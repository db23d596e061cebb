package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever the order, the ties and the infinities, the k-th number is that of the
// sorted ones, and the others are on their sides of it.
func TestNth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(91, 1))
	kinds := map[string]func(i, n int) float64{
		"random":   func(int, int) float64 { return rnd.NormFloat64() },
		"sorted":   func(i, _ int) float64 { return float64(i) },
		"reversed": func(i, _ int) float64 { return float64(-i) },
		"equal":    func(int, int) float64 { return 1 },
		"few":      func(int, int) float64 { return float64(rnd.IntN(3)) },
		"organ":    func(i, n int) float64 { return float64(min(i, n-i)) },
		"infinite": func(int, int) float64 { return math.Inf(rnd.IntN(3) - 1) },
	}
	for name, of := range kinds {
		for _, n := range []int{1, 2, 3, 4, 5, 10, 101, 1000} {
			x := make([]float64, n)
			for i := range x {
				x[i] = of(i, n)
			}
			sorted := slices.Sorted(slices.Values(x))
			for range 5 {
				k := rnd.IntN(n)
				y := slices.Clone(x)
				nth(y, k)
				if y[k] != sorted[k] || k > 0 && slices.Max(y[:k]) > y[k] || slices.Min(y[k:]) < y[k] {
					t.Fatalf("%s, %d of %d: %v, want %v", name, k, n, y[k], sorted[k])
				}
				if slices.Sort(y); !slices.Equal(y, sorted) {
					t.Fatalf("%s, %d of %d: other numbers than before", name, k, n)
				}
			}
		}
	}
}

// The killer of a median of three: the third partition and all after it would take
// two numbers off, n²/4 steps. The fall back to sorting keeps it to n·log n; that it
// ends at all in a test's time is what shows it.
func TestNthKiller(t *testing.T) {
	const n = 1 << 20
	x := make([]float64, n)
	for i := range n / 2 { // 1 k+1 3 k+3 5 … 2 4 6 … (Musser 1997)
		x[i] = float64(i + 1)
		if i%2 == 1 {
			x[i] = float64(n/2 + i)
		}
		x[n/2+i] = float64(2 * (i + 1))
	}
	want := slices.Sorted(slices.Values(x))[n/2]
	if nth(x, n/2); x[n/2] != want {
		t.Errorf("%v, want %v", x[n/2], want)
	}
}
