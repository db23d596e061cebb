package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Mean is the arithmetic mean; NaN of no values.
func Mean(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return stat.Mean(x, nil)
}

// Variance is sum((x-mean)²)/(n-1); NaN of fewer than two values.
func Variance(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	return stat.Variance(x, nil)
}

// Median is the middle value, or the mean of the two in the middle; NaN of no
// values or of any NaN.
func Median(x []float64) float64 { return Quantile(x, 0.5) }

// Quantile is the p-quantile by linear interpolation between order statistics,
// type 7 of Hyndman & Fan (1996), which R and NumPy take by default. x need not
// be sorted and is not changed. NaN of no values, of any NaN, or for p outside
// 0 to 1.
func Quantile(x []float64, p float64) float64 {
	if len(x) == 0 || hasNaN(x) || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	s := slices.Clone(x)
	slices.Sort(s)
	at := p * float64(len(s)-1)
	i := int(at)
	part := at - float64(i)
	if part == 0 { // Inf*0 would be NaN
		return s[i]
	}
	return s[i]*(1-part) + s[i+1]*part
}

// TrimmedMean is the mean without the floor(trim*n) smallest and as many
// largest values (Tukey 1962). NaN of no values, of any NaN, or for trim outside
// 0 to (not including) one half.
func TrimmedMean(x []float64, trim float64) float64 {
	if len(x) == 0 || hasNaN(x) || !(trim >= 0 && trim < 0.5) {
		return math.NaN()
	}
	s := slices.Clone(x)
	slices.Sort(s)
	cut := int(trim * float64(len(s)))
	return Mean(s[cut : len(s)-cut])
}

func hasNaN(x []float64) bool { return slices.ContainsFunc(x, math.IsNaN) }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
