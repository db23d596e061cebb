// Package plot says what there is to draw of a comparison: the samples of both sides
// with their densities, the rounds in order, the interval of the change against its
// margin, and how the measure went before.
//
// It draws nothing: package plot/svg draws these as files, and package render's page in
// the browser.
package plot

import (
	"math"
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// Places is the number of places at which a density is told.
const Places = 48

// MaxHistory is the number of newest runs that a history has.
const MaxHistory = 200

// A Sheet finds what there is to draw of the comparisons of one report.
type Sheet struct {
	base, head map[name]*bench.Result
	history    map[name]*gate.Series
	paired     bool
}

// A name is a benchmark and a measure.
type name struct{ benchmark, measure string }

// A Side is the samples of base or head.
type Side struct {
	Values   []float64
	Rounds   []int     // of each value
	Density  []float64 // at Places from From to To; nil: there is none
	From, To float64
}

// A Figure is what there is to draw of a comparison.
type Figure struct {
	Base, Head Side // without values where there are none, or exact ones
	// Low and High hold what is drawn: all values but those that are farther out than
	// three times the range between the quartiles of their side (Tukey's outer fences).
	Low, High float64
	// Paired tells that equal rounds of both sides are pairs.
	Paired bool
	// Bad is the direction of a change for the worse, 1 or -1.
	Bad float64
	// History are stored runs without these; nil: fewer than two.
	History *gate.Series
}

// New is the sheet of a report on base and head; base, or both, may be nil. Of the past
// runs those of head's testbed are its history.
func New(base, head *bench.Run, past []*bench.Run) *Sheet {
	s := &Sheet{base: results(base), head: results(head), history: map[name]*gate.Series{}}
	if head == nil {
		return s
	}
	s.paired = base != nil && base.Session != "" && base.Session == head.Session
	var runs []*bench.Run
	for _, r := range past {
		if r == nil || r.ID == head.ID || base != nil && r.ID == base.ID || !r.Testbed.Equal(head.Testbed) {
			continue
		}
		only := *r
		only.Results = slices.DeleteFunc(slices.Clone(r.Results), func(res bench.Result) bool {
			return s.head[name{res.Benchmark, res.Measure}] == nil
		})
		runs = append(runs, &only)
	}
	slices.SortStableFunc(runs, func(a, b *bench.Run) int { return a.Time.Compare(b.Time) })
	series := gate.History(runs[max(0, len(runs)-MaxHistory):])
	for i := range series {
		if len(series[i].Points) > 1 {
			s.history[name{series[i].Benchmark, series[i].Measure}] = &series[i]
		}
	}
	return s
}

func results(r *bench.Run) map[name]*bench.Result {
	all := map[name]*bench.Result{}
	if r != nil {
		for i := range r.Results {
			all[name{r.Results[i].Benchmark, r.Results[i].Measure}] = &r.Results[i]
		}
	}
	return all
}

// Of is the figure of a comparison of the report.
func (s *Sheet) Of(c *gate.Comparison) Figure {
	n := name{c.Benchmark, c.Measure}
	f := Figure{Bad: bad(c), Paired: s.paired, History: s.history[n]}
	if c.Exact {
		return f
	}
	f.Base, f.Head = side(s.base[n]), side(s.head[n])
	f.Low, f.High = math.Inf(1), math.Inf(-1)
	for _, of := range []Side{f.Base, f.Head} {
		if len(of.Values) > 0 {
			low, high := fences(of.Values)
			f.Low, f.High = min(f.Low, low), max(f.High, high)
		}
	}
	if f.Low > f.High || math.IsInf(f.High-f.Low, 0) {
		f.Base, f.Head, f.Low, f.High = Side{}, Side{}, 0, 0
		return f
	}
	f.Base.density()
	f.Head.density()
	return f
}

// density tells it as far beyond the values as it is to be seen there.
func (s *Side) density() {
	if len(s.Values) == 0 {
		return
	}
	low, high := fences(s.Values)
	const beyond = 0.35
	s.From, s.To = low-beyond*(high-low), high+beyond*(high-low)
	if low >= 0 && s.From < 0 { // times and counts
		s.From = 0
	}
	at := make([]float64, Places)
	for i := range at {
		at[i] = s.From + (s.To-s.From)*float64(i)/float64(Places-1)
	}
	s.Density = stats.Density(s.Values, at)
}

// Drawn tells that there are samples to draw.
func (f *Figure) Drawn() bool { return len(f.Base.Values) > 1 || len(f.Head.Values) > 1 }

func side(r *bench.Result) Side {
	var s Side
	if r == nil {
		return s
	}
	for _, sample := range r.Samples {
		s.Values, s.Rounds = append(s.Values, sample.Value), append(s.Rounds, sample.Round)
	}
	return s
}

// Thin leaves every n-th sample of a side, so that there are no more than most.
func (s Side) Thin(most int) Side {
	step := (len(s.Values) + most - 1) / max(most, 1)
	if step <= 1 {
		return s
	}
	thin := Side{Density: s.Density, From: s.From, To: s.To}
	for i := 0; i < len(s.Values); i += step {
		thin.Values, thin.Rounds = append(thin.Values, s.Values[i]), append(thin.Rounds, s.Rounds[i])
	}
	return thin
}

// fences are the least and the greatest value within Tukey's outer fences.
func fences(x []float64) (low, high float64) {
	first, third := stats.Quantile(x, 0.25), stats.Quantile(x, 0.75)
	reach := 3 * (third - first)
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range x {
		if reach == 0 || v >= first-reach && v <= third+reach {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}

func bad(c *gate.Comparison) float64 {
	better := c.Better
	if m, ok := bench.LookupMeasure(c.Measure); ok && !bench.IsDeclared(c.Measure) {
		better = m.Better
	}
	if better == bench.Higher {
		return -1
	}
	return 1
}
