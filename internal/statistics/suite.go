package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// What follows is the procedure of gate.Compare without its reports: the same looks,
// spending, tests and correction on bare numbers, a thousand times as fast, so that
// ten thousand suites of two hundred benchmarks are a matter of minutes. That it is
// the same is a test: [TestSameAsGate].

var (
	looks    = gate.Policy{}.Looks()
	spending = []float64{.10, .15, .20, .25, .30}
)

const passAlpha = 0.05

// A rule is the part of a policy that the simulations vary.
type rule struct {
	alpha, margin float64 // margin is a ratio of the net time
	test          gate.PairedTest
}

// A row is a benchmark of a simulated suite.
type row struct {
	next    func() round
	effect  float64
	rounds  []round
	keys    []uint64 // of the rounds at the margin, sorted; see key
	verdict gate.Verdict
}

// session measures a suite look after look until every row is decided, at most
// rounds rounds of each.
func (u rule) session(rows []*row) {
	m, slower, faster := len(rows), 0, 0
	open := append([]*row(nil), rows...)
	for k, n := range looks {
		slow, fast, notSlow := make([]float64, len(open)), make([]float64, len(open)), make([]float64, len(open))
		for i, w := range open {
			w.rounds = slices.Grow(w.rounds, n-len(w.rounds))
			for len(w.rounds) < n {
				w.rounds = append(w.rounds, w.next().slower(w.effect))
			}
			slow[i], fast[i], notSlow[i] = u.p(w)
			slow[i] /= spending[k]
			fast[i] /= spending[k]
		}
		regressed, _ := stats.Holm(slow, m-slower, u.alpha)
		improved, _ := stats.Holm(fast, m-faster, u.alpha)
		left := open[:0]
		for i, w := range open {
			switch {
			case regressed[i]:
				w.verdict = gate.Regressed
				slower++
			case improved[i]:
				w.verdict = gate.Improved
				faster++
			case notSlow[i] <= passAlpha*spending[k] && !u.slowMode(w.rounds):
				w.verdict = gate.Pass
			default:
				left = append(left, w)
			}
		}
		open = left
		if len(open) == 0 {
			return
		}
	}
}

// p are the p-values of a row's being slower by more than the margin, faster by more,
// and slower by less.
func (u rule) p(w *row) (slow, fast, notSlow float64) {
	n := len(w.rounds)
	if u.test == gate.PairedT {
		y, z := make([]float64, n), make([]float64, n)
		for i, r := range w.rounds {
			y[i], z[i] = u.y(r, 1), u.y(r, -1)
		}
		return oneSided(y, 1), oneSided(z, -1), oneSided(y, -1)
	}
	p := func(sum int) float64 { return stats.SignedRankAtMost(n*(n+1)/2-sum, n) }
	// The rounds of earlier looks are in order already.
	s := scratch.Get().(*[]uint64)
	defer scratch.Put(s)
	keys := (*s)[:0]
	for _, r := range w.rounds[len(w.keys):] {
		keys = append(keys, key(u.y(r, 1)))
	}
	slices.Sort(keys)
	w.keys = merge(w.keys, keys)
	less, more := rankSums(w.keys)
	slow, fast, notSlow = p(more), 1, p(less)
	// Whoever is surely faster by more than the margin is more surely not slower: no
	// level of Holm's is above alpha.
	if notSlow <= u.alpha {
		keys = keys[:0]
		for _, r := range w.rounds {
			keys = append(keys, key(u.y(r, -1)))
		}
		slices.Sort(keys)
		less, _ = rankSums(keys)
		fast = p(less)
	}
	*s = keys
	return slow, fast, notSlow
}

// y is what the tests are of: the change of a round beyond the margin, or beyond the
// mirrored one for a side of -1.
func (u rule) y(r round, side float64) float64 {
	return (r.b - r.a - side*u.margin*(r.a-r.floor)) / (r.a/2 + r.b/2)
}

// key sorts numbers by size, and of equal ones those above 0 last.
func key(y float64) uint64 {
	k := math.Float64bits(math.Abs(y)) << 1
	if y > 0 {
		k |= 1
	}
	return k
}

// merge puts sorted keys into sorted keys, from the end, where there is room.
func merge(into, keys []uint64) []uint64 {
	i, j := len(into)-1, len(keys)-1
	into = append(into, keys...)
	for k := len(into) - 1; j >= 0; k-- {
		if i >= 0 && into[i] > keys[j] {
			into[k] = into[i]
			i--
		} else {
			into[k] = keys[j]
			j--
		}
	}
	return into
}

// rankSums are the numbers of pairs, each with itself included, whose sums are below
// and above 0: the signed-rank statistics of the numbers with these sorted keys, ties
// and zeros counted for neither side, as [stats.Shift] has them.
func rankSums(keys []uint64) (less, more int) {
	tied, size := 0, uint64(0) // negative ones as large as the present one
	for i, k := range keys {
		if k>>1 != size {
			tied, size = 0, k>>1
		}
		switch {
		case k&1 == 1:
			more += i + 1 - tied
		case size > 0:
			tied++
			less += i + 1
		}
	}
	return less, more
}

// scratch is memory for keys, which one look after the other needs.
var scratch = sync.Pool{New: func() any { return new([]uint64) }}

// oneSided is the p-value of the t-test that the mean lies on that side of 0.
func oneSided(y []float64, side float64) float64 {
	t, ok := stats.PairedT(y)
	switch {
	case !ok:
		return 1
	case t.T*side > 0:
		return t.P / 2
	default:
		return 1 - t.P/2
	}
}

// slowMode is the guard that withholds a Pass.
func (u rule) slowMode(rounds []round) bool {
	n := len(rounds)
	all := make([]float64, 4*n)
	margins, d, w, t := all[:n], all[n:2*n], all[2*n:3*n], all[3*n:]
	for i, r := range rounds {
		margins[i] = u.margin * (r.a - r.floor) / r.a
	}
	margin := stats.Median(margins)
	if !(margin > 0) {
		return false
	}
	for i, r := range rounds {
		c := r.a / (r.a/2 + r.b/2)
		weight := math.Max(margins[i]/margin, 1e-6)
		change := (r.b - r.a) / r.a
		d[i], w[i], t[i] = change*c, weight*c, change/weight
	}
	guards := func(center float64) bool {
		slow, fast := 0, 0
		for _, x := range t {
			switch {
			case x-center > margin:
				slow++
			case center-x > margin:
				fast++
			}
		}
		return slow > fast && stats.SignTest(slow, slow+fast) <= 0.01
	}
	if u.test == gate.PairedT {
		s, ok := stats.PairedMeanShift(d, w)
		return ok && guards(s.Estimate())
	}
	// As seen from below the estimate, more rounds are slow and fewer fast. So where
	// the guard is silent there, it is silent at the estimate, which need not be
	// found: it is above whatever more than half of all sums are above.
	keys := make([]uint64, n)
	middle := stats.Median(t)
	for _, below := range []float64{0.2, 1} {
		center := middle - below*margin
		if guards(center) {
			break
		}
		for i := range keys {
			keys[i] = key(d[i] - center*w[i])
		}
		slices.Sort(keys)
		if _, more := rankSums(keys); more > n*(n+1)/4 {
			return false
		}
	}
	s, ok := stats.PairedShift(d, w)
	return ok && guards(s.Estimate())
}

// suite starts m rows of a noise, all with the effect.
func suite(rnd *rand.Rand, n noise, m int, effect float64) []*row {
	rows := make([]*row, m)
	for i := range rows {
		// Random numbers of its own: what a row meets does not depend on how long
		// the others are measured.
		own := rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64()))
		rows[i] = &row{next: n.start(own), effect: effect}
	}
	return rows
}

func has(rows []*row, v gate.Verdict) bool {
	for _, w := range rows {
		if w.verdict == v {
			return true
		}
	}
	return false
}
