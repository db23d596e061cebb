package main

import (
	"math/rand/v2"
	"slices"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// A peer is a rule that others judge by, applied to the same loads. alarm measures
// with it once: base is a session of the old program, head one of the new.
type peer struct {
	name  string
	needs string // what it measures
	alarm func(rnd *rand.Rand, n noise, effect float64) bool
}

// history is 64 stored runs of the old program and one of the new, a load each.
func history(rnd *rand.Rand, n noise, effect float64) (past []float64, now float64) {
	next := n.start(rnd)
	for range 64 {
		past = append(past, next().a)
	}
	return past, next().slower(effect).b
}

// sequential is size loads of the old program, then as many of the new: two
// invocations of a benchmark.
func sequential(rnd *rand.Rand, n noise, effect float64, size int) (a, b []float64) {
	next := n.start(rnd)
	for range size {
		a = append(a, next().a)
	}
	for range size {
		b = append(b, next().slower(effect).b)
	}
	return a, b
}

func peers(resamples int) []peer {
	threshold := func(test gate.Test) func(*rand.Rand, noise, float64) bool {
		upper := 0.99
		t := gate.Threshold{Test: test, Upper: &upper}
		return func(rnd *rand.Rand, n noise, effect float64) bool {
			past, now := history(rnd, n, effect)
			slices.Reverse(past)
			b := t.Boundary(past)
			return b.Upper != nil && now > *b.Upper
		}
	}
	return []peer{
		{"200% ratio (github-action-benchmark)", "1 and 1 load", func(rnd *rand.Rand, n noise, effect float64) bool {
			a, b := sequential(rnd, n, effect, 1)
			return b[0]/a[0] > 2
		}},
		{"z-score at 0.99", "64 and 1 load", threshold(gate.ZScore)},
		{"t_test at 0.99 (Bencher)", "64 and 1 load", threshold(gate.TTest)},
		{"Mann–Whitney at 0.05 (benchstat)", "10 and 10 loads", func(rnd *rand.Rand, n noise, effect float64) bool {
			a, b := sequential(rnd, n, effect, 10)
			return stats.MannWhitney(a, b).TwoSided < 0.05 && stats.Median(b) > stats.Median(a)
		}},
		{"bootstrap t at 0.05 beyond 1% (Criterion)", "100 and 100 loads", func(rnd *rand.Rand, n noise, effect float64) bool {
			a, b := sequential(rnd, n, effect, 100)
			return criterion(rnd, a, b, resamples)
		}},
		{"ours, limit 1%, suite of 20 at 0.01", "20 to 320 pairs", func(rnd *rand.Rand, n noise, effect float64) bool {
			// One row of a suite of twenty: Holm holds its p against α/20 while no
			// other was rejected.
			w := &row{next: n.start(rnd), effect: effect}
			rule{alpha: 0.01 / 20, margin: 0.01}.session([]*row{w})
			return w.verdict == gate.Regressed
		}},
	}
}

// criterion is Criterion's rule for a change: the t of the two means, held against
// that of resamples of both pooled, and a 95% percentile interval of the ratio of
// resampled means that lies above 1%.
func criterion(rnd *rand.Rand, a, b []float64, resamples int) bool {
	t := func(x, y []float64) float64 {
		w, ok := stats.WelchT(x, y)
		if !ok {
			return 0
		}
		return w.T
	}
	draw := func(from, into []float64) {
		for i := range into {
			into[i] = from[rnd.IntN(len(from))]
		}
	}
	observed := t(b, a)
	pooled := slices.Concat(a, b)
	x, y := make([]float64, len(a)), make([]float64, len(b))
	hits := 0
	ratios := make([]float64, resamples)
	for i := range resamples {
		draw(pooled, x)
		draw(pooled, y)
		if t(y, x) < observed {
			hits++
		}
		draw(a, x)
		draw(b, y)
		ratios[i] = stats.Mean(y)/stats.Mean(x) - 1
	}
	p := 2 * float64(min(hits, resamples-hits)) / float64(resamples)
	return p < 0.05 && stats.Quantile(ratios, 0.025) > 0.01
}
