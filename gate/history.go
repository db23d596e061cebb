package gate

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/org/ebpf-bench-gate/bench"
)

// CompareHistory judges head against stored runs, in any order; those of other
// testbeds, and head itself, are left out. Each run gives one value a row: the
// median of a noisy measure's samples.
//
// A measure with a threshold of its own, or a noisy one with a limit, is Regressed
// where its value lies beyond the threshold's boundary on the bad side, Improved
// beyond the one on the good side if the rule has one, and Inconclusive with fewer
// than MinSamples values or where a noisy one's do not vary at all; an exact one's
// boundary is then that value. Other exact measures are held against the newest
// value, by their limit. A maximum and a static threshold hold without history.
//
// The history of a series begins at its last change point; see [History].
//
// Nobody asks for a comparison by measuring one side. So where nothing is stored to
// judge by, or too few runs, and nothing else is unknown or worse, Asked is false and
// the summary says so. The rows of too few runs are Inconclusive, and so is the report.
func CompareHistory(head *bench.Run, history []*bench.Run, p Policy) *Report {
	head = orEmpty(head)
	r := newReport(head)
	if err := p.Check(); err != nil {
		r.Asked = true
		return r.refuse(err)
	}
	r.Skipped = mergeSkips(head.Skipped)
	r.Warnings = merge(head.Warnings)
	p = p.on(head.Testbed)
	runs := r.usable(head, history)
	series := newSeries(runs)

	var o outcomes
	if len(runs) > 0 {
		o = r.judgePrograms(runs[0], head)
		r.Asked = len(o.broken)+len(o.unknown) > 0
	} else {
		r.Programs = slices.DeleteFunc(slices.Clone(head.Programs), func(p bench.ProgramResult) bool { return p.Outcome == bench.Accepted })
	}
	var few []string // the reasons of rows with too few stored runs
	rows := make([]*row, len(head.Results))
	parallel(len(rows), func(i int) {
		if head.Results[i].Benchmark == bench.Control {
			return
		}
		w := newRow(nil, &head.Results[i], head.Time, p)
		w.skipped = skipReason(r.Skipped, w.Benchmark)
		w.againstHistory(series.of(w.head), p.Threshold)
		w.settleWaiver()
		w.applyMax()
		w.applyStatic()
		w.applyMaxWarn()
		rows[i] = w
	})
	for _, w := range rows {
		if w == nil {
			continue
		}
		if w.Judged && w.Verdict == Inconclusive && w.few {
			few = append(few, w.Reason)
		} else {
			r.Asked = r.Asked || w.Judged && w.Verdict == Inconclusive
		}
		r.Comparisons = append(r.Comparisons, w.Comparison)
	}
	r.conclude(o)
	switch {
	case len(head.Results)+len(head.Programs)+len(head.Skipped) == 0:
		r.Asked = true // nothing measured is not the same as nothing asked
	case r.Asked:
	case r.Verdict != Inconclusive:
		r.Asked = true
	case len(few) > 0:
		r.tooEarly(few)
	case len(runs) == 0:
		r.Summary = "nothing to compare with: no stored run of this testbed."
	default:
		r.Summary = "nothing to compare with: no stored run has a measure of these benchmarks that has a limit."
	}
	return r
}

// tooEarly is the sentence of a report in which nothing speaks against head, and
// some rows have too few stored runs to speak at all: there is no comparison yet
// that could have been asked for, and no pass either.
func (r *Report) tooEarly(reasons []string) {
	slices.Sort(reasons)
	reasons = slices.Compact(reasons)
	r.Summary = reasons[0] + ": not judged yet"
	if len(reasons) > 1 {
		r.Summary = "some measures have too few stored runs: not judged yet"
	}
	for _, v := range []Verdict{Improved, Pass} {
		if n := count(r.Comparisons)[v]; n > 0 {
			r.Summary += fmt.Sprintf("; %d %s", n, map[Verdict]string{Improved: "improved", Pass: "passed"}[v])
		}
	}
	r.Summary += "."
	r.Hint = "each run is stored and counts; to compare at once, measure against a base"
}

// parallel calls do for 0 to n-1 on all processors.
func parallel(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}

// againstHistory judges a row by stored results, newest first: by its own
// threshold where it has one, else by its limit if it is exact, else by the
// policy's threshold.
func (w *row) againstHistory(past []stored, t Threshold) {
	own := w.limit.Threshold
	w.Judged = w.Judged || own != nil
	if w.sign() < 0 {
		t = t.mirrored()
	}
	switch {
	case own != nil && own.Test == Static:
		w.setMedians()
		if w.Head == nil {
			w.inconclusive("not measured")
			return
		}
		w.Verdict = Pass // within the limits, until applyStatic says otherwise
		w.Limit = own.words()
	case len(past) == 0:
		w.added()
	case own != nil:
		w.judgeThreshold(past, *own)
	case w.Exact && !noisy(past[0].result):
		w.base = past[0].result
		w.judgeExact()
	case w.measure.Static:
		w.base = past[0].result
		w.tellOnce()
	default:
		w.judgeThreshold(past, t)
	}
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
	newestFirst(runs)
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

// A stored is one result of a stored run.
type stored struct {
	run    *bench.Run
	result *bench.Result
}

// series holds the stored results of each benchmark and measure, newest first.
type series map[[2]string][]stored

func newSeries(runs []*bench.Run) series {
	s := series{}
	for _, run := range runs {
		for i := range run.Results {
			if res := &run.Results[i]; len(res.Samples) > 0 {
				k := [2]string{res.Benchmark, res.Measure}
				s[k] = append(s[k], stored{run, res})
			}
		}
	}
	return s
}

func (s series) of(r *bench.Result) []stored { return s[[2]string{r.Benchmark, r.Measure}] }
