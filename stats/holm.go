package stats

import (
	"math"
	"slices"
)

// Holm is the step-down correction for many tests (Holm 1979). p are the p-values
// of the tests that are still open, of a family of m in all, m-len(p) or more of
// which are not (m is at least len(p)). rejected tells which may be rejected so
// that the chance of any false rejection is at most alpha; level[i] is what p[i]
// was held against: alpha/m for the smallest, alpha/(m-1) for the next and so
// on, and for all from the first that is not rejected the level at which it
// stopped. A NaN is never rejected.
//
// A family that already had rejections passes m less their number: a rejection
// returns its share of alpha to the others.
func Holm(p []float64, m int, alpha float64) (rejected []bool, level []float64) {
	m = max(m, len(p))
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	key := func(i int) float64 {
		if math.IsNaN(p[i]) {
			return math.Inf(1)
		}
		return p[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := key(a), key(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		default:
			return 0
		}
	})
	rejected = make([]bool, len(p))
	level = make([]float64, len(p))
	step, stopped := 0, false
	for _, i := range order {
		level[i] = alpha / float64(m-step)
		if stopped = stopped || !(p[i] <= level[i]); !stopped {
			rejected[i] = true
			step++
		}
	}
	return rejected, level
}
