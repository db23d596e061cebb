package main

import (
	"math"
	"math/rand/v2"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// What follows is the procedure of gate.Compare without its reports: the same looks,
// spending, tests and correction on bare numbers, a hundred times as fast, so that
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
			for len(w.rounds) < n {
				w.rounds = append(w.rounds, w.next().slower(w.effect))
			}
			slow[i], fast[i], notSlow[i] = u.p(w.rounds)
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

// p are the p-values of being slower by more than the margin, faster by more, and
// slower by less.
func (u rule) p(rounds []round) (slow, fast, notSlow float64) {
	y, z := make([]float64, len(rounds)), make([]float64, len(rounds))
	for i, r := range rounds {
		g := u.margin * (r.a - r.floor)
		y[i] = (r.b - r.a - g) / (r.a/2 + r.b/2)
		z[i] = (r.b - r.a + g) / (r.a/2 + r.b/2)
	}
	if u.test == gate.PairedT {
		return oneSided(y, 1), oneSided(z, -1), oneSided(y, -1)
	}
	s := stats.SignedRank(y)
	return s.Greater, stats.SignedRank(z).Less, s.Less
}

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
	margins := make([]float64, len(rounds))
	for i, r := range rounds {
		margins[i] = u.margin * (r.a - r.floor) / r.a
	}
	margin := stats.Median(margins)
	if !(margin > 0) {
		return false
	}
	d, w, t := make([]float64, len(rounds)), make([]float64, len(rounds)), make([]float64, len(rounds))
	for i, r := range rounds {
		c := r.a / (r.a/2 + r.b/2)
		weight := math.Max(margins[i]/margin, 1e-6)
		change := (r.b - r.a) / r.a
		d[i], w[i], t[i] = change*c, weight*c, change/weight
	}
	var center float64
	if u.test == gate.PairedT {
		s, ok := stats.PairedMeanShift(d, w)
		if !ok {
			return false
		}
		center = s.Estimate()
	} else {
		s, ok := stats.PairedShift(d, w)
		if !ok {
			return false
		}
		center = s.Estimate()
	}
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
