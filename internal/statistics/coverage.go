package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// An interval is a way to make one of paired differences at a level; ok is false
// where it has none.
type interval struct {
	name string
	of   func(d []float64, level float64, seed uint64) (low, high float64, ok bool)
}

func intervals(resamples int) []interval {
	return []interval{
		{"signed rank", func(d []float64, level float64, _ uint64) (float64, float64, bool) {
			s, ok := stats.PairedShift(d, nil)
			if !ok {
				return 0, 0, false
			}
			return s.Lower((1 - level) / 2), s.Upper((1 - level) / 2), true
		}},
		{"t", func(d []float64, level float64, _ uint64) (float64, float64, bool) {
			s, ok := stats.PairedMeanShift(d, nil)
			if !ok {
				return 0, 0, false
			}
			return s.Lower((1 - level) / 2), s.Upper((1 - level) / 2), true
		}},
		{"trimmed t, 20%", func(d []float64, level float64, _ uint64) (float64, float64, bool) {
			t, ok := stats.TrimmedT(d, 0.2)
			mean := stats.TrimmedMean(d, 0.2)
			half := stats.TQuantile((1+level)/2, t.Freedom) * mean / t.T
			return mean - max(half, -half), mean + max(half, -half), ok
		}},
		{"BCa of the trimmed mean", func(d []float64, level float64, seed uint64) (float64, float64, bool) {
			b, ok := stats.Bootstrap(d, func(x []float64) float64 { return stats.TrimmedMean(x, 0.2) }, level, resamples, seed)
			return b.Low, b.High, ok
		}},
	}
}

// fixed is how often intervals of a fixed number of rounds hold the truth, which is
// that nothing changed.
func (s study) fixed(resamples int) string {
	t := table("noise", "rounds", "interval", "95% holds the truth", "99% holds the truth")
	for _, n := range s.noises {
		for _, size := range []int{20, 80} {
			for _, v := range intervals(resamples) {
				cell := func(level float64) string {
					return share(s.covered(n, size, v, level), s.trials)
				}
				t.add(n.name, fmt.Sprint(size), v.name, cell(0.95), cell(0.99))
			}
		}
	}
	return t.String()
}

func (s study) covered(n noise, size int, v interval, level float64) int {
	return s.count(fmt.Sprint("fixed ", n.name, size), s.trials, func(rnd *rand.Rand) bool {
		next := n.start(rnd)
		d := make([]float64, size)
		for i := range d {
			r := next()
			d[i] = (r.b - r.a) / (r.a/2 + r.b/2)
		}
		low, high, ok := v.of(d, level, rnd.Uint64())
		return !ok || low <= 0 && 0 <= high
	})
}

// stopped is how often the interval that the verdict shows, after however many
// rounds that took, misses the truth, and how often it may: gate.Compare itself.
func (s study) stopped() string {
	t := table("noise", "slower by", "misses the truth", "may miss it (1 - level)")
	const margin = 0.01
	trials := max(s.trials/4, 50)
	for _, n := range s.noises {
		for _, effect := range []float64{0, margin, 0.02} {
			may := make(chan float64, trials)
			missed := s.count(fmt.Sprint("stopped ", n.name, effect), trials, func(rnd *rand.Rand) bool {
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
			t.add(n.name, percent(effect), share(missed, trials), fmt.Sprintf("%.2f%%", 100*sum/float64(trials)))
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
