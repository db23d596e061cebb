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
// A measure's own threshold stands as it is written. The policy's holds for the suite,
// since a rule that alarms once in a hundred runs of a benchmark alarms in every fifth
// run of twenty, and in whole suites when a host is slow: see [Threshold.shared], and
// one alarm is not a regression but Inconclusive, until the next run has it, too.
//
// What the newest stored run that has anything in common with head had, and head has
// not, is Missing, if it is judged.
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
	shared := p.Threshold.shared(sharing(head, series, p))
	rows := make([]*row, len(head.Results))
	parallel(len(rows), func(i int) {
		if head.Results[i].Benchmark == bench.Control {
			return
		}
		w := newRow(nil, &head.Results[i], head.Time, p)
		w.skipped = skipReason(r.Skipped, w.Benchmark)
		w.againstHistory(series.of(w.head), shared)
		w.settleWaiver()
		w.applyMax()
		w.applyStatic()
		w.applyMaxWarn()
		rows[i] = w
	})
	var first *row // with a first alarm
	for _, w := range slices.Concat(rows, vanished(head, runs, p)) {
		if w == nil {
			continue
		}
		if w.Judged && w.Verdict == Inconclusive && w.few {
			few = append(few, w.Reason)
		} else {
			r.Asked = r.Asked || w.Judged && (w.Verdict == Inconclusive || w.Verdict == Missing)
		}
		if w.first && w.Verdict == Inconclusive {
			first = w
		}
		r.Comparisons = append(r.Comparisons, w.Comparison)
	}
	r.conclude(o)
	if r.Hint != "" && first != nil {
		r.Hint = "measure again, or side by side with what there was before: gate run --base " + before(head, runs)
	}
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

// before is the newest stored revision that is not head's, as --base takes it.
func before(head *bench.Run, runs []*bench.Run) string {
	for _, r := range runs {
		if c := r.Revision.Commit; c != "" && !r.Revision.Dirty && (c != head.Revision.Commit || head.Revision.Dirty) {
			return c[:min(12, len(c))]
		}
	}
	return "REF"
}

// sharing is the number of rows that the policy's threshold judges.
func sharing(head *bench.Run, past series, p Policy) int {
	m := 0
	for i := range head.Results {
		r := &head.Results[i]
		kind := measureOf(r.Measure)
		if l := p.Limit(r.Benchmark, r.Measure); l.Fail != nil && l.Threshold == nil && !kind.Exact && !kind.Static &&
			r.Benchmark != bench.Control && len(past.of(r)) > 0 {
			m++
		}
	}
	return m
}

// vanished are the judged rows of what stored runs had and head has not. Runs are
// newest first, and any of them may be of another suite, so that the newest that
// shares a benchmark with head tells what was there. A helper or map that is no
// longer used is not missed.
func vanished(head *bench.Run, runs []*bench.Run, p Policy) []*row {
	benchmarks, there := map[string]bool{}, series{}
	for i := range head.Results {
		r := &head.Results[i]
		benchmarks[r.Benchmark] = true
		there[[2]string{r.Benchmark, r.Measure}] = []stored{{}}
	}
	i := slices.IndexFunc(runs, func(run *bench.Run) bool {
		return slices.ContainsFunc(run.Results, func(r bench.Result) bool { return benchmarks[r.Benchmark] && r.Benchmark != bench.Control })
	})
	if i < 0 {
		return nil
	}
	var rows []*row
	for k := range runs[i].Results {
		r := &runs[i].Results[k]
		_, _, member := bench.SplitMember(r.Measure)
		if r.Benchmark == bench.Control || len(r.Samples) == 0 || there.of(r) != nil || member && benchmarks[r.Benchmark] {
			continue
		}
		w := newRow(r, nil, head.Time, p)
		if w.Judged || w.limit.Threshold != nil {
			w.Judged = true
			w.missing(head)
			rows = append(rows, w)
		}
	}
	return rows
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
// policy's threshold t, as all rows share it.
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
		w.judgeThreshold(past, *own, false)
	case w.Exact && !noisy(past[0].result):
		w.base = past[0].result
		w.judgeExact()
	case w.measure.Static:
		w.base = past[0].result
		w.tellOnce()
	default:
		w.judgeThreshold(past, t, true)
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
