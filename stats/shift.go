package stats

import (
	"math"
	"slices"
)

// MaxPoints bounds the pairs that a [Shift] holds: 2^21, that is 2047 rounds or
// two samples of 1448 (16 MB).
const MaxPoints = 1 << 21

// A Shift is a rank test of a model with one parameter t, inverted: whatever it
// is asked (p-value at a margin, estimate, bound at a level) comes from the same
// points and the same distribution, so that the answers never contradict each
// other. In particular Greater(t) <= p exactly where t < Lower(p).
//
// The points are the values of t at which one elementary comparison of the data
// changes its sign, and the number of those beyond a t is the rank statistic at t
// (Hodges & Lehmann 1963; Hollander, Wolfe & Chicken 2014, 3.3 and 4.3). A
// comparison that is undecided at t counts against the alternative that is asked
// for. That makes ties and zeros conservative: they can only enlarge a p-value.
//
// A Shift is for one goroutine at a time.
type Shift struct {
	points []float64 // put into order as far as was asked for; see at
	placed []int     // the indices whose numbers are in their places, sorted
	null   *null
}

// at is the k-th smallest point, from 0. A verdict asks for three or four of fifty
// thousand, which are selected, not sorted.
func (s *Shift) at(k int) float64 {
	i, found := slices.BinarySearch(s.placed, k)
	if !found {
		from, to := 0, len(s.points)
		if i > 0 {
			from = s.placed[i-1] + 1
		}
		if i < len(s.placed) {
			to = s.placed[i]
		}
		nth(s.points[from:to], k-from)
		s.placed = slices.Insert(s.placed, i, k)
	}
	return s.points[k]
}

// PairedShift is the signed-rank test of d[i] - t*w[i] being symmetric around 0.
// With every w 1, t is the shift of the differences d. A comparison is
// d[i]+d[j] - t*(w[i]+w[j]) for i <= j, a point (d[i]+d[j])/(w[i]+w[j]): Walsh
// averages, weighted. A nil w is all ones.
//
// ok is false for no data, a number that is not finite, a w that is not above 0,
// unequal lengths, or more than [MaxPoints] points.
func PairedShift(d, w []float64) (s *Shift, ok bool) {
	n := len(d)
	if n == 0 || n >= MaxPoints || n*(n+1)/2 > MaxPoints || w != nil && len(w) != n {
		return nil, false
	}
	for i := range d {
		if !finite(d[i]) || w != nil && !(finite(w[i]) && w[i] > 0) {
			return nil, false
		}
	}
	points := make([]float64, 0, n*(n+1)/2)
	for i := range d {
		for j := i; j < n; j++ {
			if w == nil {
				points = append(points, d[i]/2+d[j]/2)
			} else { // halved first, so that nothing overflows
				points = append(points, (d[i]/2+d[j]/2)/(w[i]/2+w[j]/2))
			}
		}
	}
	if w != nil && hasNaN(points) { // 0/0, where weights underflow
		return nil, false
	}
	return &Shift{points: points, null: signedRankNull(n)}, true
}

// TwoSampleShift is the Mann–Whitney test of b - t against a: t is the shift from
// a to b, a point b[j]-a[i]. ok is false where a sample is empty, for a number
// that is not finite, or more than [MaxPoints] points.
func TwoSampleShift(a, b []float64) (s *Shift, ok bool) {
	n, m := len(a), len(b)
	if n == 0 || m == 0 || n > MaxPoints/m {
		return nil, false
	}
	points := make([]float64, 0, n*m)
	for _, x := range a {
		for _, y := range b {
			if !finite(x) || !finite(y) {
				return nil, false
			}
			points = append(points, y-x)
		}
	}
	return &Shift{points: points, null: mannWhitneyNull(n, m)}, true
}

// Greater is the p-value against the alternative that the true shift is greater
// than t.
func (s *Shift) Greater(t float64) float64 {
	notAbove := 0
	for _, p := range s.points {
		if p <= t {
			notAbove++
		}
	}
	return s.null.atMost(notAbove)
}

// Less is the p-value against the alternative that the true shift is less than t.
func (s *Shift) Less(t float64) float64 {
	notBelow := 0
	for _, p := range s.points {
		if p >= t {
			notBelow++
		}
	}
	return s.null.atMost(notBelow)
}

// Estimate is the Hodges–Lehmann estimate of the shift: the median of the points.
func (s *Shift) Estimate() float64 {
	n := len(s.points)
	if n%2 == 1 {
		return s.at(n / 2)
	}
	return s.at(n/2-1)/2 + s.at(n/2)/2
}

// Lower is the lower confidence bound with error p: the true shift lies below it
// with probability at most p. -Inf where there are too few data for that p.
func (s *Shift) Lower(p float64) float64 {
	c := s.null.critical(p)
	if c < 0 {
		return math.Inf(-1)
	}
	return s.at(min(c, len(s.points)-1))
}

// Upper is the upper confidence bound with error p; +Inf where there are too few
// data for that p.
func (s *Shift) Upper(p float64) float64 {
	c := s.null.critical(p)
	if c < 0 {
		return math.Inf(1)
	}
	return s.at(max(len(s.points)-1-c, 0))
}

// SmallestP is the smallest p-value that data of this size can give.
func (s *Shift) SmallestP() float64 { return s.null.atMost(0) }
