package stats

import (
	"math"
	"slices"
)

// Density estimates the density of a sample at some places, by Gaussian kernels of
// Silverman's width: 0.9 min(deviation, IQR/1.34) n^(-1/5) (Silverman 1986, 3.31). Nil
// of fewer than two values, of ones that do not vary, and of numbers that are not
// finite.
func Density(x, at []float64) []float64 {
	if len(x) < 2 {
		return nil
	}
	s := slices.Clone(x)
	slices.Sort(s)
	spread := Deviation(s)
	// Where half of the values are the same the quartiles say nothing.
	if iqr := Quantile(s, 0.75) - Quantile(s, 0.25); iqr > 0 {
		spread = math.Min(spread, iqr/1.34)
	}
	width := 0.9 * spread * math.Pow(float64(len(s)), -0.2)
	if !(width > 0) || math.IsInf(width, 0) {
		return nil
	}
	const far = 6 // widths, beyond which a kernel adds nothing
	density := make([]float64, len(at))
	for i, a := range at {
		from, _ := slices.BinarySearch(s, a-far*width)
		sum := 0.0
		for _, v := range s[from:] {
			z := (a - v) / width
			if z < -far {
				break
			}
			sum += math.Exp(-z * z / 2)
		}
		density[i] = sum / (float64(len(s)) * width * math.Sqrt(2*math.Pi))
	}
	return density
}
