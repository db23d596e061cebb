package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// An interval is a way to make one of paired differences: of returns it for any
// level. ok is false where it has none.
type interval struct {
	name string
	of   func(d []float64, seed uint64) (at func(level float64) (low, high float64), ok bool)
}

// A bounded is a test turned round; see [stats.Shift].
type bounded interface {
	Lower(p float64) float64
	Upper(p float64) float64
}

func bounds(s bounded) func(level float64) (low, high float64) {
	return func(level float64) (float64, float64) { return s.Lower((1 - level) / 2), s.Upper((1 - level) / 2) }
}

func intervals(resamples int) []interval {
	const trim = 0.2
	return []interval{
		{"signed rank (ours)", func(d []float64, _ uint64) (func(float64) (float64, float64), bool) {
			s, ok := stats.PairedShift(d, nil)
			return bounds(s), ok
		}},
		{"t", func(d []float64, _ uint64) (func(float64) (float64, float64), bool) {
			s, ok := stats.PairedMeanShift(d, nil)
			return bounds(s), ok
		}},
		{"trimmed t, 20%", func(d []float64, _ uint64) (func(float64) (float64, float64), bool) {
			t, ok := stats.TrimmedT(d, trim)
			mean := stats.TrimmedMean(d, trim)
			return func(level float64) (float64, float64) {
				half := math.Abs(stats.TQuantile((1+level)/2, t.Freedom) * mean / t.T)
				return mean - half, mean + half
			}, ok
		}},
		{"BCa of the trimmed mean", func(d []float64, seed uint64) (func(float64) (float64, float64), bool) {
			b, ok := stats.Bootstrap(d, func(x []float64) float64 { return stats.TrimmedMean(x, trim) }, resamples, seed)
			if !ok {
				return nil, false
			}
			return b.Interval, true
		}},
	}
}

// levels are those at which intervals are tried.
var levels = []float64{0.95, 0.99}

// fixed is how often intervals of a fixed number of rounds hold the truth, which is
// that nothing changed.
func (s study) fixed(resamples int) string {
	t := table("noise", "rounds", "interval", "95% holds the truth", "99% holds the truth")
	for _, n := range s.noises {
		for _, size := range []int{20, 80} {
			for _, v := range intervals(resamples) {
				held := s.covered(n, size, v)
				t.add(n.name, fmt.Sprint(size), v.name, share(held[0], s.trials), share(held[1], s.trials))
			}
		}
	}
	return t.String()
}

// covered counts, by level, the trials whose interval holds the truth. Where there is
// no interval nothing was ruled out.
func (s study) covered(n noise, size int, v interval) []int {
	held := make([]atomic.Int64, len(levels))
	s.count(fmt.Sprint("fixed ", n.name, size), s.trials, func(rnd *rand.Rand) bool {
		next := n.start(rnd)
		d := make([]float64, size)
		for i := range d {
			r := next()
			d[i] = (r.b - r.a) / (r.a/2 + r.b/2)
		}
		at, ok := v.of(d, rnd.Uint64())
		for i, level := range levels {
			if !ok {
				held[i].Add(1)
			} else if low, high := at(level); low <= 0 && 0 <= high {
				held[i].Add(1)
			}
		}
		return ok
	})
	out := make([]int, len(levels))
	for i := range held {
		out[i] = int(held[i].Load())
	}
	return out
}

// stopped is how often the interval that the verdict shows, after however many
// rounds that took, misses the truth, and how often it may: gate.Compare itself.
func (s study) stopped() string {
	t := table("noise", "slower by", "misses the truth", "may miss it (1 - level)")
	const margin = 0.01
	for _, n := range s.noises {
		for _, effect := range []float64{0, margin, 0.02} {
			may := make(chan float64, s.trials)
			missed := s.count(fmt.Sprint("stopped ", n.name, effect), s.trials, func(rnd *rand.Rand) bool {
				c := compare(suite(rnd, n, 1, effect), rule{alpha: alpha, margin: margin})[0]
				if c.Interval == nil {
					may <- 1
					return false
				}
				may <- 1 - c.Interval.Level
				truth := effect / margin * *c.Margin // on the scale of Change
				return truth < c.Interval.Low || truth > c.Interval.High
			})
			close(may)
			sum := 0.0
			for x := range may {
				sum += x
			}
			t.add(n.name, percent(effect), share(missed, s.trials), fmt.Sprintf("%.2f%%", 100*sum/float64(s.trials)))
		}
	}
	return t.String()
}

// compare measures a suite as a runner does, look after look, and has gate.Compare
// judge it. The comparisons are in the order of the rows.
func compare(rows []*row, u rule) []gate.Comparison {
	p := gate.DefaultPolicy()
	p.Alpha, p.MinEffectNS, p.Test = u.alpha, 0, u.test
	p.Limits = map[string]gate.Limit{bench.Latency: {Fail: &gate.Margin{Ratio: u.margin}}}
	base, head := &bench.Run{ID: "base", Session: "s"}, &bench.Run{ID: "head", Session: "s"}
	at := map[string]int{}
	for i := range rows {
		name := fmt.Sprintf("p/%04d", i)
		at[name] = i
		r := bench.Result{Benchmark: name, Program: "p", Measure: bench.Latency, Kind: bench.Micro}
		base.Results, head.Results = append(base.Results, r), append(head.Results, r)
	}
	var report *gate.Report
	open := at
	for _, n := range looks {
		for name := range open {
			w, b, h := rows[at[name]], &base.Results[at[name]], &head.Results[at[name]]
			for i := len(b.Samples); i < n; i++ {
				if len(w.rounds) <= i {
					w.rounds = append(w.rounds, w.next().slower(w.effect))
				}
				r := w.rounds[i]
				b.Samples = append(b.Samples, bench.Sample{Round: i, Value: r.a, Floor: r.floor})
				h.Samples = append(h.Samples, bench.Sample{Round: i, Value: r.b, Floor: r.floor})
			}
			h.Looks = append(h.Looks, n)
			h.Final = n == looks[len(looks)-1]
		}
		report = gate.Compare(base, head, p)
		open = map[string]int{}
		for _, name := range report.Open() {
			open[name] = at[name]
		}
		if len(open) == 0 {
			break
		}
	}
	out := make([]gate.Comparison, len(rows))
	for _, c := range report.Comparisons {
		out[at[c.Benchmark]] = c
	}
	return out
}
