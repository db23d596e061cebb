package main

import (
	"math"
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

// history is 64 stored runs of the old program, newest first, and then some of the
// new, a load each.
func history(rnd *rand.Rand, n noise, effect float64, runs int) (past, now []float64) {
	next := n.start(rnd)
	for range 64 {
		past = append(past, next().a)
	}
	slices.Reverse(past)
	for range runs {
		now = append(now, next().slower(effect).b)
	}
	return past, now
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
	// threshold is a rule against history that alarms where all of so many runs do.
	threshold := func(test gate.Test, upper float64, runs int) func(*rand.Rand, noise, float64) bool {
		t := gate.Threshold{Test: test, Upper: &upper}
		return func(rnd *rand.Rand, n noise, effect float64) bool {
			past, now := history(rnd, n, effect, runs)
			b := t.Boundary(past)
			return b.Upper != nil && slices.Min(now) > *b.Upper
		}
	}
	return []peer{
		{"200% ratio (github-action-benchmark)", "1 and 1 load", func(rnd *rand.Rand, n noise, effect float64) bool {
			a, b := sequential(rnd, n, effect, 1)
			return b[0]/a[0] > 2
		}},
		{"z-score at 0.99", "64 and 1 load", threshold(gate.ZScore, 0.99, 1)},
		{"t_test at 0.99 (Bencher)", "64 and 1 load", threshold(gate.TTest, 0.99, 1)},
		{"Mann–Whitney at 0.05 (benchstat)", "10 and 10 loads", func(rnd *rand.Rand, n noise, effect float64) bool {
			a, b := sequential(rnd, n, effect, 10)
			return stats.MannWhitney(a, b).TwoSided < 0.05 && stats.Median(b) > stats.Median(a)
		}},
		{"bootstrap t at 0.05 beyond 1% (Criterion)", "100 and 100 loads", func(rnd *rand.Rand, n noise, effect float64) bool {
			a, b := sequential(rnd, n, effect, 100)
			return criterion(rnd, a, b, resamples)
		}},
		{"ours without a base: t_test at 1 - 0.01/20, twice in a row", "64 and 2 loads", threshold(gate.TTest, 1-alpha/20, 2)},
		{"ours, limit 1%, suite of 20 at 0.01", "20 to 320 pairs", func(rnd *rand.Rand, n noise, effect float64) bool {
			// One row of a suite of twenty: Holm holds its p against α/20 while no
			// other was rejected.
			w := &row{next: n.start(rnd), effect: effect}
			rule{alpha: alpha / 20, margin: 0.01}.session([]*row{w})
			return w.verdict == gate.Regressed
		}},
	}
}

// criterion is Criterion's rule for a change: the t of the two means, held against
// that of resamples of both pooled, and a 95% percentile interval of the ratio of
// resampled means that lies above 1%.
func criterion(rnd *rand.Rand, a, b []float64, resamples int) bool {
	t := func(x, y []float64) float64 {
		v := stats.Variance(x)/float64(len(x)) + stats.Variance(y)/float64(len(y))
		return (stats.Mean(x) - stats.Mean(y)) / math.Sqrt(v)
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
