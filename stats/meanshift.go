package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// A MeanShift is a t-test of a model with one parameter t, inverted: the
// classical counterpart of [Shift], which answers the same questions. Its p-values
// are right for normal noise, and nearly so for other noise in long samples; one
// extreme value widens it as much as many.
type MeanShift struct {
	// The statistic at t is (a - t*b) / sqrt(saa - 2*t*sab + t*t*sbb), with the
	// given degrees of freedom.
	a, b, saa, sab, sbb float64
	dist                distuv.StudentsT
}

// PairedMeanShift is Student's t-test of d[i] - t*w[i] having the mean 0. A nil w
// is all ones; otherwise the bounds are Fieller's (1954).
//
// ok is false for fewer than two values, for a number that is not finite, a w that
// is not above 0, unequal lengths, and differences that do not vary: they would
// be infinitely significant.
func PairedMeanShift(d, w []float64) (s *MeanShift, ok bool) {
	n := float64(len(d))
	if n < 2 || w != nil && len(w) != len(d) {
		return nil, false
	}
	s = &MeanShift{a: Mean(d), b: 1, saa: Variance(d) / n, dist: distuv.StudentsT{Sigma: 1, Nu: n - 1}}
	if w != nil {
		s.b, s.sbb = Mean(w), Variance(w)/n
		for i := range w {
			if !(w[i] > 0) {
				return nil, false
			}
			s.sab += (d[i] - s.a) * (w[i] - s.b) / (n - 1) / n
		}
	}
	return s, s.sound()
}

// WelchShift is Welch's t-test of mean(b) - mean(a) being t. ok is false as for
// [WelchT].
func WelchShift(a, b []float64) (s *MeanShift, ok bool) {
	t, ok := WelchT(b, a)
	if !ok {
		if t, ok = WelchT(shifted(b), a); !ok { // equal means give a t of 0, which is one
			return nil, false
		}
	}
	se := Variance(a)/float64(len(a)) + Variance(b)/float64(len(b))
	s = &MeanShift{a: Mean(b) - Mean(a), b: 1, saa: se, dist: distuv.StudentsT{Sigma: 1, Nu: t.Freedom}}
	return s, s.sound()
}

func shifted(x []float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = x[i] + 1
	}
	return y
}

func (s *MeanShift) sound() bool {
	return finite(s.a) && finite(s.b) && s.b > 0 && finite(s.saa) && s.saa > 0 && finite(s.sab) && finite(s.sbb)
}

// at is the statistic at t.
func (s *MeanShift) at(t float64) float64 {
	v := s.saa - 2*t*s.sab + t*t*s.sbb
	return (s.a - t*s.b) / math.Sqrt(math.Max(v, math.SmallestNonzeroFloat64))
}

// far is the size of the statistic where t is very far from the data: infinite
// unless the weights vary. No p-value may be smaller than what it gives, or the
// values of t that a test does not reject would not be an interval.
func (s *MeanShift) far() float64 {
	if s.sbb == 0 {
		return math.Inf(1)
	}
	return s.b / math.Sqrt(s.sbb)
}

// Greater is the p-value against the alternative that the true shift is greater
// than t.
func (s *MeanShift) Greater(t float64) float64 { return s.dist.CDF(-math.Min(s.at(t), s.far())) }

// Less is the p-value against the alternative that the true shift is less than t.
func (s *MeanShift) Less(t float64) float64 { return s.dist.CDF(-math.Min(-s.at(t), s.far())) }

// Estimate is the t at which the mean is 0.
func (s *MeanShift) Estimate() float64 { return s.a / s.b }

// Lower is the lower confidence bound with error p, Upper the upper one; infinite
// where there is none.
func (s *MeanShift) Lower(p float64) float64 { return s.bound(p, -1) }

// Upper is the upper confidence bound with error p.
func (s *MeanShift) Upper(p float64) float64 { return s.bound(p, 1) }

// bound solves at(t)² = q² for its larger or smaller root.
func (s *MeanShift) bound(p, side float64) float64 {
	q := s.quantile(p)
	if !(q < s.far()) {
		return side * math.Inf(1)
	}
	a := s.b*s.b - q*q*s.sbb
	b := s.a*s.b - q*q*s.sab
	c := s.a*s.a - q*q*s.saa
	root := math.Sqrt(math.Max(b*b-a*c, 0))
	if q < 0 { // p above one half: the bounds have passed each other
		side = -side
	}
	return (b + side*root) / a
}

// quantile is the 1-p quantile of the statistic; infinite for a p of 0.
func (s *MeanShift) quantile(p float64) float64 {
	if !(p > 0) {
		return math.Inf(1)
	}
	return -TQuantile(math.Min(p, 1-1e-16), s.dist.Nu)
}

// SmallestP is the smallest p-value that the data can give.
func (s *MeanShift) SmallestP() float64 { return s.dist.CDF(-s.far()) }

// DetectableMean is the smallest shift of paired differences that a one-sided
// t-test at level alpha would have found, with the given power, in as many pairs
// with the noise of d: (tInv(1-alpha) + tInv(power)) standard errors, the usual
// approximation of the noncentral t. NaN for fewer than two values or values that
// do not vary.
func DetectableMean(d []float64, alpha, power float64) float64 {
	n := float64(len(d))
	se := math.Sqrt(Variance(d) / n)
	if !(se > 0) {
		return math.NaN()
	}
	return (TQuantile(power, n-1) - TQuantile(alpha, n-1)) * se
}
