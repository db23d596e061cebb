package stats

import (
	"math"
	"slices"
	"sort"
)

// Detectable is the smallest shift of paired differences that a one-sided
// signed-rank test at level alpha would have found, with the given power, in as
// many pairs with the noise of d. NaN where no shift would be found: too few
// pairs for alpha, or none, or more than a [Shift] takes, or a number that is not
// finite.
//
// The noise is taken from d itself, so heavy tails and several modes need no
// model: its deviations from the Hodges–Lehmann estimate, each with both signs,
// since random orders make it symmetric. For a shift of that noise the mean and
// the variance of W+ follow from three probabilities (Lehmann 1975, 4.2;
// Hollander, Wolfe & Chicken 2014, 3.1), and W+ is taken as normal.
func Detectable(d []float64, alpha, power float64) float64 {
	s, ok := PairedShift(d, nil)
	if !ok || !(power > 0 && power < 1) {
		return math.NaN()
	}
	null := s.null
	c := null.critical(alpha)
	if c < 0 {
		return math.NaN()
	}
	center := s.Estimate()
	noise := make([]float64, 0, 2*len(d))
	for _, x := range d {
		noise = append(noise, x-center, center-x)
	}
	slices.Sort(noise)
	reject := float64(null.max-c) - 0.5
	enough := func(shift float64) bool {
		mean, sd := signedRankMoments(noise, len(d), shift)
		return mean-reject >= NormalQuantile(power)*sd
	}
	// Twice the largest deviation puts every difference above 0.
	low, high := 0.0, 2*noise[len(noise)-1]
	if !finite(high) || !enough(high) {
		return math.NaN()
	}
	for range 50 {
		if mid := low + (high-low)/2; enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// signedRankMoments gives the mean and standard deviation of W+ over n values
// drawn from the sorted, symmetric noise and shifted.
func signedRankMoments(noise []float64, n int, shift float64) (mean, sd float64) {
	above := func(t float64) float64 { // P(noise > t)
		i := sort.Search(len(noise), func(i int) bool { return noise[i] > t })
		return float64(len(noise)-i) / float64(len(noise))
	}
	one := above(-shift)   // P(X > 0)
	two, three := 0.0, 0.0 // P(X1+X2 > 0), P(X1+X2 > 0 and X1+X3 > 0)
	for _, x := range noise {
		g := above(-x - 2*shift)
		two += g
		three += g * g
	}
	two /= float64(len(noise))
	three /= float64(len(noise))
	f := float64(n)
	mean = f*one + f*(f-1)/2*two
	v := f*one*(1-one) + f*(f-1)/2*(2*(one-two)*(one-two)+3*two*(1-two)) + f*(f-1)*(f-2)*(three-two*two)
	return mean, math.Sqrt(math.Max(v, 0))
}
