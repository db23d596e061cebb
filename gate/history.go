package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/stats"
)

// CompareHistory judges head against stored runs, in any order; those of other
// testbeds, and head itself, are left out. Each run gives one value a row: the
// median of a noisy measure's samples.
//
// A noisy measure that has a limit is Regressed where its value lies beyond the
// threshold's boundary on the bad side, Improved beyond the one on the good side
// if the policy has one, and Inconclusive with fewer than MinSamples values or
// where these do not vary at all. An exact one is held against the newest value,
// by its limit. A maximum holds without history.
//
// Where no row could be judged because nothing is stored to judge it by, Asked is
// false, and the summary says so.
func CompareHistory(head *bench.Run, history []*bench.Run, p Policy) *Report {
	head = orEmpty(head)
	r := newReport(head)
	if err := p.Check(); err != nil {
		r.Asked = true
		return r.refuse(err)
	}
	r.Skipped = mergeSkips(head.Skipped)
	r.Warnings = merge(head.Warnings)
	runs := r.usable(head, history)
	series := newSeries(runs)

	var o outcomes
	if len(runs) > 0 {
		o = r.judgePrograms(runs[0], head)
		r.Asked = len(o.broken)+len(o.unknown) > 0
	} else {
		r.Programs = slices.DeleteFunc(slices.Clone(head.Programs), func(p bench.ProgramResult) bool { return p.Outcome == bench.Accepted })
	}
	for i := range head.Results {
		w := newRow(nil, &head.Results[i], p)
		past := series.of(w.head)
		switch {
		case len(past) == 0:
			w.added()
		case w.measure.Exact:
			w.base = past[0]
			w.judgeExact()
		case w.measure.Static:
			w.base = past[0]
			w.tellOnce()
		default:
			w.judgeThreshold(past, p.Threshold)
		}
		w.applyMax()
		r.Asked = r.Asked || w.Judged
		r.Comparisons = append(r.Comparisons, w.Comparison)
	}
	r.conclude(o)
	switch {
	case len(head.Results)+len(head.Programs)+len(head.Skipped) == 0:
		r.Asked = true // nothing measured is not the same as nothing asked
	case r.Asked:
	case len(runs) == 0:
		r.Summary = "nothing to compare with: no stored run of this testbed."
	default:
		r.Summary = "nothing to compare with: no stored run has a measure of these benchmarks that has a limit."
	}
	return r
}

// usable keeps the runs of head's testbed, newest first, and says so.
func (r *Report) usable(head *bench.Run, history []*bench.Run) []*bench.Run {
	var runs []*bench.Run
	others := 0
	for _, h := range history {
		switch {
		case h == nil || h == head || h.ID == head.ID && h.ID != "":
		case !h.Testbed.Equal(head.Testbed):
			others++
		default:
			runs = append(runs, h)
		}
	}
	slices.SortStableFunc(runs, func(a, b *bench.Run) int {
		if d := b.Time.Compare(a.Time); d != 0 {
			return d
		}
		return strings.Compare(b.ID, a.ID)
	})
	why := fmt.Sprintf("%d stored runs of this testbed", len(runs))
	if len(runs) == 1 {
		why = "1 stored run of this testbed"
	}
	if others > 0 {
		why += fmt.Sprintf("; %d of other testbeds left out", others)
	}
	if len(runs) > 0 {
		r.Baseline = &Baseline{Why: why}
		for _, h := range runs {
			r.Baseline.Runs = append(r.Baseline.Runs, h.ID)
		}
	} else if others > 0 {
		r.warn("no stored run is of this testbed: %d of other testbeds left out", others)
	}
	return runs
}

// series holds the stored results of each benchmark and measure, newest first.
type series map[[2]string][]*bench.Result

func newSeries(runs []*bench.Run) series {
	s := series{}
	for _, run := range runs {
		for i := range run.Results {
			if res := &run.Results[i]; len(res.Samples) > 0 {
				k := [2]string{res.Benchmark, res.Measure}
				s[k] = append(s[k], res)
			}
		}
	}
	return s
}

func (s series) of(r *bench.Result) []*bench.Result { return s[[2]string{r.Benchmark, r.Measure}] }

// judgeThreshold holds the median of the row against the boundary that the past
// ones give.
func (w *row) judgeThreshold(past []*bench.Result, t Threshold) {
	w.setMedians()
	if w.Head == nil {
		w.inconclusive("not measured")
		return
	}
	if t.MaxSamples > 0 && len(past) > t.MaxSamples {
		past = past[:t.MaxSamples]
	}
	x := make([]float64, 0, len(past))
	for _, r := range past {
		if m := stats.Median(values(r.Samples, sampleValue)); finite(m) {
			x = append(x, m)
		}
	}
	b := &Boundary{Test: TTest, Samples: len(x)}
	w.Boundary = b
	if w.limit.Fail == nil && w.limit.Max != nil {
		w.Verdict = Pass // the maximum is all there is, see applyMax
	}
	if need := max(t.MinSamples, 2); len(x) < need {
		if w.limit.Fail != nil || !w.Judged {
			w.inconclusive(fmt.Sprintf("%d of %d runs", len(x), need))
		}
		return
	}
	mean, sd := stats.Mean(x), math.Sqrt(stats.Variance(x))
	w.setRatio(mean, *w.Head)
	bad, good := t.boundary(mean, sd, len(x), w.sign())
	b.Upper, b.Lower = bad, good
	if w.sign() < 0 {
		b.Upper, b.Lower = good, bad
	}
	if w.limit.Fail == nil && w.Judged {
		return
	}
	switch {
	case bad == nil && good == nil && sd == 0:
		w.inconclusive(fmt.Sprintf("all %d runs have the same value, so they show no noise to judge by", len(x)))
	case bad == nil:
		w.inconclusive("the policy's threshold has no boundary for this side")
	case w.sign()*(*w.Head-*bad) > 0:
		w.Verdict = Regressed
		w.Reason = fmt.Sprintf("beyond the boundary of %d runs", len(x))
	case good != nil && w.sign()*(*good-*w.Head) > 0:
		w.Verdict = Improved
		w.Reason = fmt.Sprintf("beyond the boundary of %d runs", len(x))
	default:
		w.Verdict = Pass
	}
}

// boundary gives the limits on the bad and on the good side; nil where the policy
// has none there, or the data give none. sign is 1 where more is worse.
func (t Threshold) boundary(mean, sd float64, n int, sign float64) (bad, good *float64) {
	at := func(p, side float64) *float64 {
		lower, upper, ok := stats.TBoundary(mean, sd, n, p)
		switch {
		case t.Test != TTest || p == 0 || !ok:
			return nil
		case side > 0:
			return &upper
		default:
			return &lower
		}
	}
	return at(t.Upper, sign), at(t.Lower, -sign)
}
