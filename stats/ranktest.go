package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// A RankTest is the outcome of [SignedRank] or [MannWhitney].
type RankTest struct {
	// Statistic is W+, the sum of the ranks of positive values, or U, the number
	// of pairs (a, b) with a > b, equal ones counting one half.
	Statistic float64
	// N is the number of values that took part.
	N int
	// Less, Greater and TwoSided are the p-values against the alternatives that
	// the location is (or a lies) lower, higher, and either: the last is twice
	// the smaller of the others, at most 1. All are 1 where nothing took part,
	// and NaN where there was a NaN.
	Less, Greater, TwoSided float64
	// Exact tells that the p-values are those of the permutation distribution
	// with the very ties of the data, not of a normal approximation.
	Exact bool
}

func (t *RankTest) setP(less, greater float64) {
	t.Less, t.Greater = math.Min(less, 1), math.Min(greater, 1)
	t.TwoSided = math.Min(1, 2*math.Min(t.Less, t.Greater))
}

// SignedRank tests whether values that are symmetric around some centre are
// centred at 0 (Wilcoxon 1945). For pairs, x are the differences.
//
// Zeros are dropped, as Wilcoxon did and as R and SciPy do by default. Ties take
// midranks, and the distribution is that of random signs on those midranks, so it
// stays exact, up to [MaxExact] values.
//
// Note: Pratt's treatment of zeros (rank them, then drop them) is the better one
// for discrete data. Gate's verdicts need neither: [Shift] counts a zero as no
// evidence for either side.
func SignedRank(x []float64) RankTest {
	if hasNaN(x) {
		nan := math.NaN()
		return RankTest{Statistic: nan, Less: nan, Greater: nan, TwoSided: nan}
	}
	size := make([]float64, 0, len(x))
	positive := make([]bool, 0, len(x))
	for _, v := range x {
		if v != 0 {
			size = append(size, math.Abs(v))
			positive = append(positive, v > 0)
		}
	}
	n := len(size)
	t := RankTest{N: n, Exact: n <= MaxExact}
	ranks, ties := doubledMidranks(size)
	sum := 0
	for i, r := range ranks {
		if positive[i] {
			sum += r
		}
	}
	t.Statistic = float64(sum) / 2
	max := n * (n + 1) // of the doubled sum
	switch {
	case n == 0:
		t.setP(1, 1)
	case !t.Exact:
		f := float64(n)
		sd := math.Sqrt(f*(f+1)*(2*f+1)/24 - ties/48)
		t.setP(normalAtMost(t.Statistic, f*(f+1)/4, sd, 0.5),
			normalAtMost(f*(f+1)/2-t.Statistic, f*(f+1)/4, sd, 0.5))
	case ties == 0:
		d := signedRankNull(n)
		t.setP(d.atMost(sum/2), d.atMost((max-sum)/2))
	default:
		t.setP(tails(sum, max, func(limit int) []float64 { return signedRankSums(ranks, limit) }))
	}
	return t
}

// SignedRankAtMost is P(W+ <= w) of n values without ties or zeros when there is no
// effect, R's psignrank(w, n): exact to [MaxExact] values.
func SignedRankAtMost(w, n int) float64 {
	if n <= 0 || n > math.MaxInt32 {
		return math.NaN()
	}
	return signedRankNull(n).atMost(w)
}

// MannWhitney tests whether values of a tend to be lower or higher than those of
// b (Mann & Whitney 1947; Wilcoxon's rank-sum test). With ties the distribution
// is that of all ways to deal the very midranks of the data, up to [MaxExactTwo]
// values in all. It is 1 where a sample is empty.
func MannWhitney(a, b []float64) RankTest {
	if hasNaN(a) || hasNaN(b) {
		nan := math.NaN()
		return RankTest{Statistic: nan, Less: nan, Greater: nan, TwoSided: nan}
	}
	n, m := len(a), len(b)
	t := RankTest{N: n + m, Exact: n+m <= MaxExactTwo}
	ranks, ties := doubledMidranks(append(append(make([]float64, 0, n+m), a...), b...))
	sum := 0
	for _, r := range ranks[:n] {
		sum += r
	}
	least := n * (n + 1) // of the doubled sum
	t.Statistic = float64(sum-least) / 2
	switch {
	case n == 0 || m == 0:
		t.setP(1, 1)
	case !t.Exact:
		f, g, all := float64(n), float64(m), float64(n+m)
		sd := math.Sqrt(f * g / 12 * (all + 1 - ties/(all*(all-1))))
		t.setP(normalAtMost(t.Statistic, f*g/2, sd, 0.5), normalAtMost(f*g-t.Statistic, f*g/2, sd, 0.5))
	case ties == 0:
		d := mannWhitneyNull(n, m)
		t.setP(d.atMost((sum-least)/2), d.atMost(n*m-(sum-least)/2))
	default:
		// The sum of a's ranks is not symmetric with ties, so both tails are
		// summed, the upper one as the lower one of b.
		all := (n + m) * (n + m + 1)
		t.setP(atMost(rankSums(ranks, n, sum)), atMost(rankSums(ranks, m, all-sum)))
	}
	return t
}

// tails gives P(S <= sum) and P(S >= sum) of a statistic that is symmetric on 0
// to max, summing only the smaller tail.
func tails(sum, max int, probs func(limit int) []float64) (lower, upper float64) {
	small := min(sum, max-sum)
	p := probs(small)
	tail := atMost(p)
	other := 1 - tail + p[small]
	if sum == small {
		return tail, other
	}
	return other, tail
}

func atMost(p []float64) float64 {
	sum := 0.0
	for _, v := range p {
		sum += v
	}
	return sum
}

// SignTest is the p-value of at least so many positive signs among n fair ones;
// 1 for n = 0, and NaN for a count that is not within 0 to n.
func SignTest(positive, n int) float64 {
	if positive < 0 || positive > n {
		return math.NaN()
	}
	if positive == 0 {
		return 1
	}
	// P(X >= k) of a binomial is a regularised incomplete beta function.
	return mathext.RegIncBeta(float64(positive), float64(n-positive)+1, 0.5)
}
