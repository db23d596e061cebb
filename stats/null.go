package stats

import (
	"math"
	"slices"
	"sort"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// MaxExact is the number of pairs up to which the signed-rank test is exact, and
// MaxExactTwo the number of values of both samples together up to which the
// Mann–Whitney test is. Beyond, both take the normal approximation with
// continuity and tie correction. The true distributions have lighter tails than
// the normal, so the approximation errs on the side of larger p-values.
const (
	MaxExact    = 500
	MaxExactTwo = 50
)

// A null is the distribution of a symmetric rank statistic K, a whole number
// from 0 to max, when there is no effect.
type null struct {
	max int
	// half[k] is P(K <= k) for k up to max/2; the other half mirrors it. Tails
	// are summed from their far end, so that small ones keep their digits.
	// Nil: normal.
	half []float64
	sd   float64
}

// atMost is P(K <= k).
func (d *null) atMost(k int) float64 {
	switch {
	case k < 0:
		return 0
	case k >= d.max:
		return 1
	case d.half == nil:
		return normalAtMost(float64(k), float64(d.max)/2, d.sd, 0.5)
	case k < len(d.half):
		return d.half[k]
	default: // P(K <= k) = 1 - P(K >= k+1) = 1 - P(K <= max-k-1)
		return 1 - d.half[d.max-k-1]
	}
}

// critical is the largest k with P(K <= k) <= p; -1 if there is none.
func (d *null) critical(p float64) int {
	return sort.Search(d.max+1, func(k int) bool { return !(d.atMost(k) <= p) }) - 1
}

// normalAtMost is P(K <= k) by the normal approximation, half a step of the
// statistic added for continuity.
func normalAtMost(k, mean, sd, half float64) float64 {
	if sd == 0 {
		return 1 // no variation at all: no evidence
	}
	return distuv.UnitNormal.CDF((k + half - mean) / sd)
}

// newNull sums the probabilities of K = 0, 1, … up to max/2.
func newNull(prob []float64, max int) *null {
	half := prob[:max/2+1]
	for k := 1; k < len(half); k++ {
		half[k] += half[k-1]
	}
	for k := range half { // rounding may pass 1 by an ulp, where max is small
		half[k] = math.Min(half[k], 1)
	}
	return &null{max: max, half: half}
}

// signedRankSums gives the probability of each sum of ranks with a positive sign,
// when every sign is a fair coin: the product over the ranks of (1 + x^rank)/2.
// Only sums up to limit are kept. Halving as it goes keeps every number below 1;
// the smallest, 2^-MaxExact, is far from underflow.
func signedRankSums(ranks []int, limit int) []float64 {
	p := make([]float64, limit+1)
	p[0] = 1
	top := 0
	for _, r := range ranks {
		top = min(top+r, limit)
		for s := top; s >= r; s-- {
			p[s] = (p[s] + p[s-r]) / 2
		}
		for s := min(r-1, top); s >= 0; s-- {
			p[s] /= 2
		}
	}
	return p
}

// rankSums gives the probability of each sum of n of the ranks, when every
// choice is equally likely. Only sums up to limit are kept. Counts are whole and
// below 2^53 up to MaxExactTwo ranks, so they are exact.
func rankSums(ranks []int, n, limit int) []float64 {
	count := make([][]float64, n+1)
	for j := range count {
		count[j] = make([]float64, limit+1)
	}
	count[0][0] = 1
	for i, r := range ranks {
		for j := min(i+1, n); j >= 1; j-- {
			for s := limit; s >= r; s-- {
				count[j][s] += count[j-1][s-r]
			}
		}
	}
	all := 1.0
	for i := 1; i <= n; i++ {
		all = all * float64(len(ranks)-n+i) / float64(i)
	}
	all = math.Round(all)
	for s := range count[n] {
		count[n][s] /= all
	}
	return count[n]
}

// signedRankNull is the distribution without ties for n pairs.
func signedRankNull(n int) *null {
	max := n * (n + 1) / 2
	if n > MaxExact {
		v := float64(n) * float64(n+1) * float64(2*n+1) / 24
		return &null{max: max, sd: math.Sqrt(v)}
	}
	return nulls.get([2]int{n, 0}, func() *null {
		return newNull(signedRankSums(upTo(n), max/2), max)
	})
}

// mannWhitneyNull is the distribution of U without ties for n and m values.
func mannWhitneyNull(n, m int) *null {
	max := n * m
	if n+m > MaxExactTwo {
		v := float64(n) * float64(m) * float64(n+m+1) / 12
		return &null{max: max, sd: math.Sqrt(v)}
	}
	return nulls.get([2]int{n, m}, func() *null {
		least := n * (n + 1) / 2
		return newNull(rankSums(upTo(n+m), n, least+max/2)[least:], max)
	})
}

func upTo(n int) []int {
	r := make([]int, n)
	for i := range r {
		r[i] = i + 1
	}
	return r
}

// nulls keeps the distributions without ties, which only depend on counts.
var nulls cache

// cache forgets everything once it holds maxCached numbers (32 MB): the sizes in
// use at any time are few.
type cache struct {
	mu   sync.Mutex
	m    map[[2]int]*null
	size int
}

const maxCached = 4 << 20

func (c *cache) get(key [2]int, make_ func() *null) *null {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.m[key]; ok {
		return d
	}
	d := make_()
	if c.m == nil || c.size+len(d.half) > maxCached {
		c.m, c.size = map[[2]int]*null{}, 0
	}
	c.m[key] = d
	c.size += len(d.half)
	return d
}

// doubledMidranks gives twice the rank of each value, counted from the smallest,
// equal values sharing the mean of theirs: twice a midrank is whole. ties is the
// sum of t³-t over groups of t equal values.
func doubledMidranks(x []float64) (ranks []int, ties float64) {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		default:
			return 0
		}
	})
	ranks = make([]int, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			ranks[at] = i + 1 + j // first rank i+1, last j
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	return ranks, ties
}
