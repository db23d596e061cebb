package stats

import (
	"cmp"
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

// MaxChangeValues is the longest series of [Changes], which takes n*log(n) steps for
// each permutation.
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
	d := newDivider(len(x), o.MinSize)
	best := []split{d.measure(series)} // of each part
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
		p := d.permuted(series, shuffled, edges, best[part].q, o, rnd)
		if p > o.Level {
			break
		}
		from, to := edges[part], edges[part+1]
		at := from + best[part].at
		found = append(found, Change{At: at, P: p})
		edges = slices.Insert(edges, part+1, at)
		best[part] = d.measure(series[from:at])
		best = slices.Insert(best, part+1, d.measure(series[at:to]))
	}
	slices.SortFunc(found, func(a, b Change) int { return a.At - b.At })
	return found
}

// permuted is the p-value of a q among the largest ones of shuffled series, or any
// number above the level once it is known to be.
func (d *divider) permuted(series, shuffled []value, edges []int, q float64, o ChangeOptions, rnd *rand.Rand) float64 {
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
			top = max(top, d.divide(part).q)
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

// A value carries its rank in its part, from 1, and the sum of its distances to all
// values of the part, which no shuffling within the part changes.
type value struct {
	x, all float64
	rank   int
}

// A divider divides parts in n*log(n) steps: the distances of a value to those on one
// side follow from how many of them are smaller, and from their sum.
type divider struct {
	least int
	order []int
	left  []node
}

// A node of a Fenwick tree over the ranks: values on the left side, and their sum.
type node struct{ n, sum float64 }

func newDivider(longest, least int) *divider {
	return &divider{least: least, order: make([]int, longest), left: make([]node, longest+1)}
}

// measure sets the ranks and distances of a part and divides it.
func (d *divider) measure(part []value) split {
	order := d.order[:len(part)]
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(part[a].x, part[b].x) })
	// From the smallest, so that the distances of equal values are exactly 0.
	low, total := part[order[0]].x, 0.0
	for i := range part {
		part[i].x -= low
		total += part[i].x
	}
	below := 0.0
	for rank, i := range order {
		v := &part[i]
		v.rank = rank + 1
		v.all = v.x*float64(2*rank-len(part)) + total - 2*below
		below += v.x
	}
	return d.divide(part)
}

// divide tries every place. Moving one value from the right to the left takes its
// distances to the one side out of that side's sum and adds those to the other.
func (d *divider) divide(part []value) split {
	n := len(part)
	var best split
	if n < 2*d.least {
		return best
	}
	tree := d.left[:n+1]
	clear(tree)
	total := 0.0
	for i := range part {
		total += part[i].all / 2
	}
	sum := 0.0                // of the values on the left
	left, right := 0.0, total // sums of distances within
	for k := range n - d.least {
		v := &part[k]
		var below node
		for i := v.rank; i > 0; i &= i - 1 {
			below.n += tree[i].n
			below.sum += tree[i].sum
		}
		for i := v.rank; i <= n; i += i & -i {
			tree[i].n++
			tree[i].sum += v.x
		}
		toLeft := v.x*(2*below.n-float64(k)) + sum - 2*below.sum
		sum += v.x
		left += toLeft
		right -= v.all - toLeft
		if k+1 < d.least {
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
