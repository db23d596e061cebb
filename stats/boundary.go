package stats

import "math"

// The boundaries below turn the values that a series had into limits for its next
// one, each by the formula of Bencher's threshold of that name (bencher
// lib/bencher_boundary). All are symmetric around a centre, so that one number
// p or k gives both sides: upper at that p, lower its mirror image. ok is false, and the limits are NaN, where the formula has no answer: too
// few values, p or k out of its range, a number that is not finite, and for those
// that scale with a deviation a deviation of 0.

// PercentageBoundary is mean*(1-p) and mean*(1+p), of one value or more; p is 0
// or more.
func PercentageBoundary(x []float64, p float64) (lower, upper float64, ok bool) {
	if !(p >= 0) {
		return none()
	}
	mean := Mean(x)
	return limits(mean*(1-p), mean*(1+p))
}

// ZBoundary is mean ± sd*PhiInv(p), as if mean and sd were known and not
// estimated: right for many values, too narrow for few. p is in [0.5, 1).
func ZBoundary(mean, sd, p float64) (lower, upper float64, ok bool) {
	if !(p >= 0.5 && p < 1) || !(sd > 0) {
		return none()
	}
	upper = mean + sd*NormalQuantile(p)
	return limits(2*mean-upper, upper)
}

// TBoundary gives the limits for one new value beside n earlier ones with this
// mean and standard deviation: a prediction interval by Student's t,
//
//	upper = mean + tInv(p, n-1) * sd * sqrt(1 + 1/n),  lower = 2*mean - upper
//
// p is the chance that a new value like the others lies below upper, in [0.5, 1).
func TBoundary(mean, sd float64, n int, p float64) (lower, upper float64, ok bool) {
	if n < 2 || !(p >= 0.5 && p < 1) || !(sd > 0) {
		return none()
	}
	upper = mean + TQuantile(p, float64(n-1))*sd*math.Sqrt(1+1/float64(n))
	return limits(2*mean-upper, upper)
}

// LogNormal gives the mean and standard deviation of the logarithms of x. ok is
// false for fewer than two values, a value that is not above 0, and for constant
// ones.
func LogNormal(x []float64) (mu, sigma float64, ok bool) {
	logs := make([]float64, len(x))
	for i, v := range x {
		if !(v > 0) {
			return none()
		}
		logs[i] = math.Log(v)
	}
	mu, sigma = Mean(logs), Deviation(logs)
	if !finite(mu) || !(sigma > 0) || math.IsInf(sigma, 0) {
		return none()
	}
	return mu, sigma, true
}

// LogNormalBoundary is e^(mu + sigma*PhiInv(p)) above, with mu and sigma of
// [LogNormal], and below as far under the centre e^mu as that is above it: Bencher
// mirrors, where a quantile of the distribution would be e^(mu - sigma*PhiInv(p)).
// p is in [0.5, 1).
func LogNormalBoundary(x []float64, p float64) (lower, upper float64, ok bool) {
	mu, sigma, ok := LogNormal(x)
	if !ok || !(p >= 0.5 && p < 1) {
		return none()
	}
	upper = math.Exp(mu + sigma*NormalQuantile(p))
	return limits(2*math.Exp(mu)-upper, upper)
}

// IQRBoundary is the median ± k times the range from the first to the third
// quartile (type 7, see [Quantile]), of two values or more; k is 0 or more. Where
// that range is 0 both limits are the median.
func IQRBoundary(x []float64, k float64) (lower, upper float64, ok bool) {
	if len(x) < 2 || !(k >= 0) {
		return none()
	}
	q := Quartiles(x)
	d := k * (q[2] - q[0])
	return limits(q[1]-d, q[1]+d)
}

// DeltaIQRBoundary is the median of x times 1 ± k times the interquartile range
// of the relative changes from one value to the next,
//
//	d[i] = |x[i] - x[i+1]| / x[i]
//
// so it follows how much a series moves from run to run, not how far it has
// wandered. x is newest first. Two values or more, none of them 0; k is 0 or more.
func DeltaIQRBoundary(x []float64, k float64) (lower, upper float64, ok bool) {
	if len(x) < 2 || !(k >= 0) {
		return none()
	}
	q := Quartiles(Deltas(x))
	m := Median(x)
	d := k * (q[2] - q[0])
	return limits(m*(1-d), m*(1+d))
}

// Deltas are the relative changes |x[i] - x[i+1]| / x[i], one fewer than x; NaN or
// infinite where x[i] is 0.
func Deltas(x []float64) []float64 {
	if len(x) < 2 {
		return nil
	}
	d := make([]float64, len(x)-1)
	for i := range d {
		d[i] = math.Abs(x[i]-x[i+1]) / x[i]
	}
	return d
}

func limits(lower, upper float64) (float64, float64, bool) {
	if !finite(lower) || !finite(upper) {
		return none()
	}
	return lower, upper, true
}

func none() (float64, float64, bool) { return math.NaN(), math.NaN(), false }
