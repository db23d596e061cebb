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

// Deviation is the standard deviation, the square root of [Variance].
func Deviation(x []float64) float64 { return math.Sqrt(Variance(x)) }

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
	return quantile(s, p)
}

// quantile is [Quantile] of sorted values.
func quantile(s []float64, p float64) float64 {
	at := p * float64(len(s)-1)
	i := int(at)
	part := at - float64(i)
	if part == 0 { // Inf*0 would be NaN
		return s[i]
	}
	return s[i]*(1-part) + s[i+1]*part
}

// Quartiles are the three [Quantile]s at 1/4, 1/2 and 3/4.
func Quartiles(x []float64) [3]float64 {
	if len(x) == 0 || hasNaN(x) {
		return [3]float64{math.NaN(), math.NaN(), math.NaN()}
	}
	s := slices.Clone(x)
	slices.Sort(s)
	return [3]float64{quantile(s, 0.25), quantile(s, 0.5), quantile(s, 0.75)}
}

// Outliers are the numbers of values beyond Tukey's fences (Tukey 1977): mild ones
// lie more than 1.5, severe ones more than 3 interquartile ranges outside the
// quartiles. No value is counted twice.
type Outliers struct{ LowSevere, LowMild, HighMild, HighSevere int }

// Count is the number of all of them.
func (o Outliers) Count() int { return o.LowSevere + o.LowMild + o.HighMild + o.HighSevere }

// Fences are Tukey's: the outer and the inner one below, the inner and the outer
// one above. NaN of no values or of any NaN.
func Fences(x []float64) [4]float64 {
	q := Quartiles(x)
	r := q[2] - q[0]
	return [4]float64{q[0] - 3*r, q[0] - 1.5*r, q[2] + 1.5*r, q[2] + 3*r}
}

// Tukey counts the outliers of x; none where there is a NaN.
func Tukey(x []float64) Outliers {
	var o Outliers
	f := Fences(x)
	for _, v := range x {
		switch {
		case v < f[0]:
			o.LowSevere++
		case v < f[1]:
			o.LowMild++
		case v > f[3]:
			o.HighSevere++
		case v > f[2]:
			o.HighMild++
		}
	}
	return o
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
