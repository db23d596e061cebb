package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Winsorized is x with its floor(trim*n) smallest and largest values moved to the
// nearest of the others, sorted. Nil for no values, any NaN, or trim outside 0 to
// (not including) one half.
func Winsorized(x []float64, trim float64) []float64 {
	if len(x) == 0 || hasNaN(x) || !(trim >= 0 && trim < 0.5) {
		return nil
	}
	s := slices.Clone(x)
	slices.Sort(s)
	cut := int(trim * float64(len(s)))
	for i := range cut {
		s[i], s[len(s)-1-i] = s[cut], s[len(s)-1-cut]
	}
	return s
}

// TrimmedT is the t-test that the trimmed mean of differences is 0 (Tukey &
// McLaughlin 1963; Yuen 1974; Wilcox 2012, 4.3.2): the standard error is that of
// the winsorized values, s_w / ((1-2*trim)*sqrt(n)), with n - 2*cut - 1 degrees of
// freedom. For pairs, d are their differences. ok is false for fewer than two
// values left, for ones that do not vary, and for numbers that are not finite.
func TrimmedT(d []float64, trim float64) (t TTest, ok bool) {
	w := Winsorized(d, trim)
	n := float64(len(w))
	cut := math.Floor(trim * n)
	return newT(TrimmedMean(d, trim), Deviation(w)/((1-2*trim)*math.Sqrt(n)), n-2*cut-1)
}

// YuenT is the t-test that two samples have equal trimmed means (Yuen 1974): with
// trim 0 it is [WelchT]. ok is false as for [TrimmedT].
func YuenT(a, b []float64, trim float64) (t TTest, ok bool) {
	part := func(x []float64) (mean, v, left float64) {
		w := Winsorized(x, trim)
		n := float64(len(w))
		left = n - 2*math.Floor(trim*n)
		return TrimmedMean(x, trim), (n - 1) * Variance(w) / (left * (left - 1)), left
	}
	ma, va, na := part(a)
	mb, vb, nb := part(b)
	freedom := (va + vb) * (va + vb) / (va*va/(na-1) + vb*vb/(nb-1))
	return newT(ma-mb, math.Sqrt(va+vb), freedom)
}

// A BCa is a bootstrap, bias-corrected and accelerated (Efron 1987; Efron &
// Tibshirani 1993, 14.3), that has an interval at any level.
type BCa struct {
	// Bias is z0, the normal quantile of the share of resamples below the
	// estimate; Acceleration is a, from the jackknife.
	Bias, Acceleration float64
	draws              []float64 // sorted
}

// Bootstrap draws so many resamples of x from the seed, and takes the statistic of
// each: the same seed gives the same intervals. ok is false for fewer than two
// values, fewer than 100 resamples, where the statistic is not finite, and where it
// does not vary.
func Bootstrap(x []float64, statistic func([]float64) float64, resamples int, seed uint64) (b *BCa, ok bool) {
	n := len(x)
	estimate := math.NaN()
	if n >= 2 {
		estimate = statistic(slices.Clone(x))
	}
	if !finite(estimate) || resamples < 100 {
		return nil, false
	}
	rnd := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	draws := make([]float64, resamples)
	sample := make([]float64, n)
	below := 0.0
	for i := range draws {
		for j := range sample {
			sample[j] = x[rnd.IntN(n)]
		}
		draws[i] = statistic(sample)
		switch {
		case !finite(draws[i]):
			return nil, false
		case draws[i] < estimate:
			below++
		case draws[i] == estimate:
			below += 0.5 // a discrete statistic is not biased by its ties
		}
	}
	slices.Sort(draws)
	if draws[0] == draws[resamples-1] {
		return nil, false
	}
	b = &BCa{
		Bias:         NormalQuantile(min(max(below, 0.5), float64(resamples)-0.5) / float64(resamples)),
		Acceleration: acceleration(x, statistic),
		draws:        draws,
	}
	return b, finite(b.Acceleration)
}

// Interval holds the true statistic with that confidence; NaN for one that
// is not from 0 up to 1.
func (b *BCa) Interval(confidence float64) (low, high float64) {
	end := func(p float64) float64 {
		z := b.Bias + NormalQuantile(p)
		q := distuv.UnitNormal.CDF(b.Bias + z/(1-b.Acceleration*z))
		if math.IsNaN(q) {
			return q
		}
		return quantile(b.draws, min(max(q, 0), 1))
	}
	return end((1 - confidence) / 2), end((1 + confidence) / 2)
}

// acceleration is sum(u³) / (6 * sum(u²)^1.5) of the jackknife's deviations u.
func acceleration(x []float64, statistic func([]float64) float64) float64 {
	left := make([]float64, len(x))
	sample := make([]float64, len(x)-1)
	for i := range x {
		copy(sample, x[:i])
		copy(sample[i:], x[i+1:])
		left[i] = statistic(sample)
	}
	mean := Mean(left)
	two, three := 0.0, 0.0
	for _, v := range left {
		u := mean - v
		two += u * u
		three += u * u * u
	}
	if two == 0 {
		return 0
	}
	return three / (6 * math.Pow(two, 1.5))
}
