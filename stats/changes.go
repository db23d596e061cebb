package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// A Change is a place in a series where its distribution changed.
type Change struct {
	// At is the index of the first value after the change.
	At int
	// P is the p-value of its permutation test: at least 1/(permutations+1).
	P float64
}

// ChangeOptions are the knobs of [Changes]; each zero stands for its default.
type ChangeOptions struct {
	// MinSize is the least number of values between two changes, and before the
	// first and after the last; default 5, at least 2.
	MinSize int
	// Level is the p-value above which a change is none; default 0.01.
	Level float64
	// Permutations of each test; default 199, which can tell a p of 0.005.
	Permutations int
	// Seed of the permutations: the same seed gives the same changes.
	Seed uint64
}

// MaxChangeValues is the longest series of [Changes]: the time that it takes grows
// with the square of the length.
const MaxChangeValues = 10_000

// Changes finds where the distribution of a series changed: E-divisive (Matteson &
// James 2014) with Euclidean distances, as MongoDB's and Apache Otava's tools use
// it. It divides the series where the energy distance between the two sides,
//
//	q = m*n/(m+n) * (2*mean|X-Y| - mean|X-X'| - mean|Y-Y'|)
//
// is the largest, and holds that against the largest q over series whose values
// are shuffled within the parts so far; then goes on within the parts, until the
// largest q is one that chance explains. No distribution is assumed, only that
// values between changes are exchangeable: a series that wanders slowly has
// "changes" wherever it is cut.
//
// A test stops as soon as its p cannot be small enough any more (Besag & Clifford
// 1991), which is after a handful of permutations where there is no change.
//
// The order is that of the series; nil for fewer than twice MinSize values, more
// than [MaxChangeValues], or a value that is not finite.
func Changes(x []float64, o ChangeOptions) []Change {
	if o.MinSize == 0 {
		o.MinSize = 5
	}
	if o.Level == 0 {
		o.Level = 0.01
	}
	if o.Permutations == 0 {
		o.Permutations = 199
	}
	o.MinSize = max(o.MinSize, 2)
	if len(x) < 2*o.MinSize || len(x) > MaxChangeValues || slices.ContainsFunc(x, func(v float64) bool { return !finite(v) }) {
		return nil
	}
	// Units do not matter, sums of distances that overflow would.
	scale := slices.Max(x) - slices.Min(x)
	if !(scale > 0) {
		return nil
	}
	if math.IsInf(scale, 0) {
		return nil
	}
	low := slices.Min(x)
	series, shuffled := make([]value, len(x)), make([]value, len(x))
	for i := range x {
		series[i].x = x[i]/scale - low/scale
	}
	rnd := rand.New(rand.NewPCG(o.Seed, 0x6a09e667f3bcc909))
	edges := []int{0, len(x)}
	best := []split{measure(series, o.MinSize)} // of each part
	var found []Change
	for {
		part := 0
		for i := range best {
			if best[i].q > best[part].q {
				part = i
			}
		}
		if best[part].q <= 0 {
			break
		}
		p := permuted(series, shuffled, edges, best[part].q, o, rnd)
		if p > o.Level {
			break
		}
		from, to := edges[part], edges[part+1]
		at := from + best[part].at
		found = append(found, Change{At: at, P: p})
		edges = slices.Insert(edges, part+1, at)
		best[part] = measure(series[from:at], o.MinSize)
		best = slices.Insert(best, part+1, measure(series[at:to], o.MinSize))
	}
	slices.SortFunc(found, func(a, b Change) int { return a.At - b.At })
	return found
}

// permuted is the p-value of a q among the largest ones of shuffled series, or any
// number above the level once it is known to be.
func permuted(series, shuffled []value, edges []int, q float64, o ChangeOptions, rnd *rand.Rand) float64 {
	all := float64(o.Permutations + 1)
	reached := 0.0
	for range o.Permutations {
		copy(shuffled, series)
		top := 0.0
		for i := range len(edges) - 1 {
			part := shuffled[edges[i]:edges[i+1]]
			if len(part) < 2*o.MinSize {
				continue
			}
			rnd.Shuffle(len(part), func(a, b int) { part[a], part[b] = part[b], part[a] })
			top = max(top, divide(part, o.MinSize).q)
		}
		// A sum in another order may differ in its last digits.
		if top >= q*(1-1e-9) {
			reached++
			if (reached+1)/all > o.Level {
				return 1
			}
		}
	}
	return (reached + 1) / all
}

// A split is the best place to divide a part, counted from its start, and its q;
// q is 0 where there is none.
type split struct {
	at int
	q  float64
}

// A value carries the sum of its distances to all values of its part, which no
// shuffling within the part changes.
type value struct{ x, all float64 }

// measure sets the distances of a part and divides it.
func measure(part []value, least int) split {
	for i := range part {
		sum := 0.0
		for j := range part {
			sum += math.Abs(part[i].x - part[j].x)
		}
		part[i].all = sum
	}
	return divide(part, least)
}

// divide tries every place. Moving one value from the right to the left takes its
// distances to the one side out of that side's sum and adds those to the other.
func divide(part []value, least int) split {
	n := len(part)
	var best split
	if n < 2*least {
		return best
	}
	total := 0.0
	for i := range part {
		total += part[i].all / 2
	}
	left, right := 0.0, total // sums of distances within
	for k := range n - least {
		v := part[k]
		toLeft := 0.0
		for i := range part[:k] {
			toLeft += math.Abs(v.x - part[i].x)
		}
		left += toLeft
		right -= v.all - toLeft
		if k+1 < least {
			continue
		}
		a, b := float64(k+1), float64(n-k-1)
		cross := total - left - right
		energy := 2*cross/(a*b) - left/(a*(a-1)/2) - right/(b*(b-1)/2)
		if q := a * b / (a + b) * energy; q > best.q {
			best = split{k + 1, q}
		}
	}
	return best
}
