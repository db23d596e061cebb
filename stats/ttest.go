package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// A TTest is a t statistic, its degrees of freedom and its two-sided p-value.
type TTest struct{ T, Freedom, P float64 }

// PairedT is Student's t-test that differences have the mean 0. ok is false for
// fewer than two, for constant ones and for numbers that are not finite.
func PairedT(d []float64) (t TTest, ok bool) {
	n := float64(len(d))
	return newT(Mean(d), math.Sqrt(Variance(d)/n), n-1)
}

// WelchT is the t-test that two samples have equal means, their variances being
// what they are (Welch 1947). T is positive where a has the larger mean. ok is
// false for fewer than two values a side, for two constant samples and for
// numbers that are not finite.
func WelchT(a, b []float64) (t TTest, ok bool) {
	va, vb := Variance(a)/float64(len(a)), Variance(b)/float64(len(b))
	freedom := (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	return newT(Mean(a)-Mean(b), math.Sqrt(va+vb), freedom)
}

func newT(mean, se, freedom float64) (TTest, bool) {
	t := mean / se
	if !finite(t) || !finite(freedom) || freedom <= 0 || se <= 0 {
		return TTest{}, false
	}
	d := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}
	return TTest{T: t, Freedom: freedom, P: math.Min(1, 2*d.CDF(-math.Abs(t)))}, true
}

// TQuantile is the p-quantile of Student's t; NaN for p outside (0, 1) or a
// freedom that is not above 0.
func TQuantile(p, freedom float64) float64 {
	if !(p > 0 && p < 1) || !(freedom > 0) {
		return math.NaN()
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(p)
}

// NormalQuantile is the p-quantile of the standard normal; NaN for p outside
// (0, 1).
func NormalQuantile(p float64) float64 {
	if !(p > 0 && p < 1) {
		return math.NaN()
	}
	return distuv.UnitNormal.Quantile(p)
}

// MeanInterval is Student's interval of the mean; NaN for fewer than two values.
func MeanInterval(x []float64, confidence float64) (low, high float64) {
	n := float64(len(x))
	half := TQuantile((1+confidence)/2, n-1) * math.Sqrt(Variance(x)/n)
	return Mean(x) - half, Mean(x) + half
}
