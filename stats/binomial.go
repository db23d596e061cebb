package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// BinomialInterval holds, with that confidence, the chance of what happened k times
// in n (Clopper & Pearson 1934). NaN for a k that is not within 0 to n, an n of 0, or
// a confidence outside (0, 1).
func BinomialInterval(k, n int, confidence float64) (low, high float64) {
	if k < 0 || k > n || n == 0 || !(confidence > 0 && confidence < 1) {
		return math.NaN(), math.NaN()
	}
	tail := (1 - confidence) / 2
	high = 1
	if k > 0 {
		low = distuv.Beta{Alpha: float64(k), Beta: float64(n-k) + 1}.Quantile(tail)
	}
	if k < n {
		high = distuv.Beta{Alpha: float64(k) + 1, Beta: float64(n - k)}.Quantile(1 - tail)
	}
	return low, high
}
