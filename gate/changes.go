package gate

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/stats"
)

// A Series is one measure of one benchmark over stored runs.
type Series struct {
	Benchmark string       `json:"benchmark"`
	Program   string       `json:"program"`
	Measure   string       `json:"measure"`
	Unit      string       `json:"unit"`
	Better    bench.Better `json:"better"`
	Exact     bool         `json:"exact,omitempty"`
	// Points are the medians of the runs, oldest first.
	Points []Point `json:"points"`
	// Changes are where the series changed its level or its spread, oldest first.
	Changes []ChangePoint `json:"changes,omitempty"`
}

// A Point is what one run had.
type Point struct {
	Run      string         `json:"run"`
	Time     time.Time      `json:"time"`
	Revision bench.Revision `json:"revision"`
	Value    float64        `json:"value"`
}

// A ChangePoint is a place in a series after which it was another one.
type ChangePoint struct {
	// At is the index of the first point after the change: what changed it came
	// after the revision From and not after To. With noise the true place may lie
	// some runs away.
	At   int            `json:"at"`
	From bench.Revision `json:"from"`
	To   bench.Revision `json:"to"`
	// Before and After are the medians of the stretches on both sides, up to the
	// neighbouring changes.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Change is the Hodges–Lehmann shift between the stretches as a ratio of
	// Before, with its interval by Mann–Whitney; nil where Before is 0. A change of
	// the spread alone has an interval that holds 0.
	Change   *float64  `json:"change,omitempty"`
	Interval *Interval `json:"interval,omitempty"`
	// P is the p-value of the permutation test, 0 for exact measures: confidence
	// is 1 - P.
	P float64 `json:"p"`
	// Worse tells that the change is in the bad direction.
	Worse bool `json:"worse"`
}

// changeSeed makes the permutations of every series the same in every process, so
// that the same runs give the same report.
const changeSeed = 0x65627066

// maxChangeRuns is the number of newest runs in which a threshold looks for change
// points.
const maxChangeRuns = 256

// History gives the series of stored runs, which should be of one testbed and
// branch, in any order, by benchmark and measure, each with its change points:
// E-divisive with a permutation test for noisy measures ([stats.Changes], p at most
// .01, at least five runs between changes); for exact ones every run whose value is
// not the one before.
func History(runs []*bench.Run) []Series {
	return HistoryOf(func(yield func(*bench.Run) bool) {
		for _, r := range runs {
			if r != nil && !yield(r) {
				return
			}
		}
	})
}

// HistoryOf is [History] of runs of which nothing is kept, so that it can be had of
// more of them than fit into memory.
func HistoryOf(runs iter.Seq[*bench.Run]) []Series {
	type track struct {
		Series
		newest time.Time
		id     string
		noisy  bool
	}
	tracks := map[[2]string]*track{}
	for run := range runs {
		for i := range run.Results {
			res := &run.Results[i]
			if len(res.Samples) == 0 {
				continue
			}
			key := [2]string{res.Benchmark, res.Measure}
			t := tracks[key]
			if t == nil {
				t = &track{}
				tracks[key] = t
			}
			t.noisy = t.noisy || noisy(res)
			if d := run.Time.Compare(t.newest); t.id == "" || d > 0 || d == 0 && run.ID >= t.id {
				m := measured(res)
				t.Benchmark, t.Program, t.Measure, t.Unit, t.Better, t.Exact = res.Benchmark, res.Program, m.Name, m.Unit, m.Better, m.Exact
				t.newest, t.id = run.Time, run.ID
			}
			if v := stats.Median(values(res.Samples, sampleValue)); finite(v) {
				t.Points = append(t.Points, Point{run.ID, run.Time, run.Revision, v})
			}
		}
	}
	var all []Series
	for _, t := range tracks {
		if len(t.Points) == 0 {
			continue
		}
		t.Exact = t.Exact && !t.noisy
		slices.SortStableFunc(t.Points, func(a, b Point) int {
			return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Run, b.Run))
		})
		all = append(all, t.Series)
	}
	parallel(len(all), func(i int) { all[i].find() })
	slices.SortFunc(all, func(a, b Series) int {
		if d := strings.Compare(a.Benchmark, b.Benchmark); d != 0 {
			return d
		}
		return bench.MeasureOrder(a.Measure, b.Measure)
	})
	return all
}

// find sets the changes.
func (s *Series) find() {
	x := make([]float64, len(s.Points))
	for i, p := range s.Points {
		x[i] = p.Value
	}
	var changes []stats.Change
	if s.Exact {
		for i := 1; i < len(x); i++ {
			if x[i] != x[i-1] {
				changes = append(changes, stats.Change{At: i})
			}
		}
	} else {
		changes = stats.Changes(x[max(0, len(x)-stats.MaxChangeValues):], stats.ChangeOptions{Seed: changeSeed})
		for i := range changes {
			changes[i].At += max(0, len(x)-stats.MaxChangeValues)
		}
	}
	from := 0
	for i, c := range changes {
		to := len(x)
		if i+1 < len(changes) {
			to = changes[i+1].At
		}
		s.Changes = append(s.Changes, s.change(c, x[from:c.At], x[c.At:to]))
		from = c.At
	}
}

func (s *Series) change(c stats.Change, before, after []float64) ChangePoint {
	const level = 0.95
	p := ChangePoint{
		At: c.At, From: s.Points[c.At-1].Revision, To: s.Points[c.At].Revision,
		Before: stats.Median(before), After: stats.Median(after), P: c.P,
	}
	p.Worse = p.After > p.Before != (s.Better == bench.Higher) && p.After != p.Before
	shift, ok := stats.TwoSampleShift(before[max(0, len(before)-maxRounds):], after[:min(len(after), maxRounds)])
	if !ok || !(p.Before > 0) {
		return p
	}
	if e := shift.Estimate() / p.Before; finite(e) {
		p.Change = &e
	}
	low, high := shift.Lower((1-level)/2)/p.Before, shift.Upper((1-level)/2)/p.Before
	if !s.Exact && finite(low) && finite(high) {
		p.Interval = &Interval{Low: low, High: high, Level: level}
	}
	return p
}

// sinceChange is how many of the values, newest first, are from after the last
// change point.
func sinceChange(x []float64) int {
	if same(x) {
		return len(x)
	}
	series := slices.Clone(x[:min(len(x), maxChangeRuns)])
	slices.Reverse(series)
	changes := stats.Changes(series, stats.ChangeOptions{Seed: changeSeed})
	if len(changes) == 0 {
		return len(x)
	}
	return len(series) - changes[len(changes)-1].At
}

// newestFirst sorts runs by time, and by ID where that is equal.
func newestFirst(runs []*bench.Run) {
	slices.SortStableFunc(runs, func(a, b *bench.Run) int {
		if d := b.Time.Compare(a.Time); d != 0 {
			return d
		}
		return strings.Compare(b.ID, a.ID)
	})
}

// measureOf is what the table says of a measure. One of a later version, or
// imported, gets the careful reading: noisy, better lower.
func measureOf(name string) bench.Measure {
	if m, ok := bench.LookupMeasure(name); ok {
		return m
	}
	return bench.Measure{Name: name, Better: bench.Lower}
}

// measured is what a result is a measure of: what the table says, but for figures and
// counts, whose unit and direction were declared with them.
func measured(r *bench.Result) bench.Measure {
	return declared(measureOf(r.Measure), r.Unit, r.Better)
}

// declared believes a declaration of figures and counts alone: nobody turns the
// direction of another measure.
func declared(m bench.Measure, unit string, better bench.Better) bench.Measure {
	if !bench.IsDeclared(m.Name) {
		return m
	}
	switch m.Unit = unit; unit {
	case "ns": // these are units of the program's own times, and are judged as such
		m.Unit = "nsec"
	case "us":
		m.Unit = "µs"
	}
	if better == bench.Higher {
		m.Better = better
	}
	return m
}
