package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/english"
)

// A sheet is what both layouts show of a report's rows.
type sheet struct {
	rows []*gate.Comparison // those worth a line, in the report's order
	// static are the static measures of programs that only head has, which are
	// not compared: a table of their own.
	static []*gate.Comparison
	// same counts exact measures that nobody judges and that did not change;
	// unsure those whose noise hides whether they did; details those that changed
	// and that other measures tell as well.
	same, unsure, details int

	level    float64 // of all intervals, where they have one
	interval string  // what the column of intervals is called
	net      bool    // some row has a floor
	// alone tells that head was held against nothing, so that no row has a verdict.
	alone bool
	// most are, of each measure that the kernel has a limit for, the programs that
	// use most of it.
	most map[string]*gate.Comparison
}

func newSheet(r *gate.Report) *sheet {
	s := &sheet{alone: r.Base == nil && r.Baseline == nil, most: map[string]*gate.Comparison{}}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		if m := s.most[c.Measure]; c.Used != nil && c.KernelLimit != nil && (m == nil || *c.Used > *m.Used) {
			s.most[c.Measure] = c
		}
		switch {
		case c.Judged, c.Warn, c.Verdict == gate.Missing:
			s.rows = append(s.rows, c)
		case c.Verdict == gate.Added && c.Kind == bench.Static:
			if !detail[c.Measure] {
				s.static = append(s.static, c)
			}
		case c.Verdict == gate.Added:
			s.rows = append(s.rows, c)
		case c.Exact && c.Base != nil && c.Head != nil && *c.Base == *c.Head:
			s.same++
		case detail[c.Measure]:
			s.details++
		case c.Exact:
			s.rows = append(s.rows, c)
		case c.Kind == bench.Static:
			// One reading of a clock; JSON has it.
		case c.Verdict == gate.Regressed, c.Verdict == gate.Improved:
			s.rows = append(s.rows, c)
		default:
			s.unsure++
		}
	}
	s.columns()
	return s
}

// columns finds what the rows have in common.
func (s *sheet) columns() {
	var levels []float64
	boundaries := false
	for _, c := range s.rows {
		s.net = s.net || c.Floor != nil
		boundaries = boundaries || c.Boundary != nil
		if c.Interval != nil && !slices.Contains(levels, c.Interval.Level) {
			levels = append(levels, c.Interval.Level)
		}
	}
	switch {
	case len(levels) == 1:
		s.level = levels[0]
		s.interval = level(s.level) + " interval"
	case len(levels) == 0 && boundaries:
		s.interval = "boundary"
	default:
		s.interval = "interval"
	}
}

// dash stands where a row has no value in a column that others fill.
const dash = "–"

func value(x *float64, unit string) string {
	if x == nil {
		return ""
	}
	return quantity(*x, unit)
}

// change is head against base: in per cent, and where the number is exact first
// the number itself.
func change(c *gate.Comparison) string {
	switch {
	case c.Exact && c.Base != nil && c.Head != nil:
		d := *c.Head - *c.Base
		if d == 0 {
			return "0"
		}
		s := count(d)
		if d > 0 {
			s = "+" + s
		}
		if c.Change != nil {
			s += " (" + percent(*c.Change) + ")"
		}
		return s
	case c.Change != nil:
		return percent(*c.Change)
	}
	return ""
}

// net is the change without the floor that is in both sides.
func net(c *gate.Comparison) string {
	if c.Floor == nil || c.Base == nil || c.Head == nil || *c.Base <= *c.Floor {
		return ""
	}
	return percent((*c.Head-*c.Floor)/(*c.Base-*c.Floor) - 1)
}

// intervalCell is what the verdict rests on.
func (s *sheet) intervalCell(c *gate.Comparison) string {
	switch {
	case c.Interval != nil:
		cell := points(c.Interval.Low) + "…" + percent(c.Interval.High)
		if s.level == 0 {
			cell += " (" + level(c.Interval.Level) + ")"
		}
		return cell
	case c.Boundary != nil:
		return boundary(c)
	case c.Exact && c.Base != nil && c.Head != nil:
		return "exact"
	}
	return ""
}

func boundary(c *gate.Comparison) string {
	b := c.Boundary
	runs := " (" + english.Count(b.Samples, "run") + ")"
	switch {
	case b.Lower != nil && b.Upper != nil:
		return quantity(*b.Lower, c.Unit) + "…" + quantity(*b.Upper, c.Unit) + runs
	case b.Upper != nil:
		return "≤ " + quantity(*b.Upper, c.Unit) + runs
	case b.Lower != nil:
		return "≥ " + quantity(*b.Lower, c.Unit) + runs
	}
	return strings.TrimSpace(runs)
}

// verdict is the last word of a row. What nobody judges has none.
func (s *sheet) verdict(c *gate.Comparison) string {
	switch {
	case c.Warn && !c.Judged:
		return "warning"
	case s.alone && c.Verdict == gate.Added:
		return ""
	case c.Verdict == gate.Added, c.Verdict == gate.Missing:
		return c.Verdict.String()
	case c.Waived != nil && c.Waived.Used && c.Verdict == gate.Pass:
		if c.Waived.Age != nil {
			return fmt.Sprintf("pass, waived for %s", english.Count(*c.Waived.Age, "day"))
		}
		return "pass, waived until " + c.Waived.Until
	case c.Layout && (c.Verdict == gate.Regressed || c.Verdict == gate.Improved):
		return c.Verdict.String() + ", layout"
	case c.Warn:
		return c.Verdict.String() + ", warning"
	case !c.Judged:
		return "not judged"
	}
	return c.Verdict.String()
}

// A mark is the kind of attention that a row asks for.
type mark int

const (
	told mark = iota
	bad
	doubtful
	good
	better
	added
)

func (s *sheet) mark(c *gate.Comparison) mark {
	switch {
	case c.Warn:
		return doubtful
	case s.alone && c.Verdict == gate.Added:
		return told
	case c.Verdict == gate.Added:
		return added
	case !c.Judged:
		return told
	}
	return markOfVerdict(c.Verdict)
}

func markOfVerdict(v gate.Verdict) mark {
	switch v {
	case gate.Regressed:
		return bad
	case gate.Pass:
		return good
	case gate.Improved:
		return better
	case gate.Added:
		return added
	}
	return doubtful
}

// staticTable is a row a program and a column a measure.
func (s *sheet) staticTable() (header []string, rows [][]string) {
	var programs, measures []string
	cells := map[[2]string]string{}
	for _, c := range s.static {
		if !slices.Contains(programs, c.Benchmark) {
			programs = append(programs, c.Benchmark)
		}
		if !slices.Contains(measures, c.Measure) {
			measures = append(measures, c.Measure)
		}
		cells[[2]string{c.Benchmark, c.Measure}] = value(c.Head, c.Unit)
	}
	slices.SortFunc(measures, bench.MeasureOrder)
	header = append([]string{"program"}, measures...)
	for _, p := range programs {
		row := []string{p}
		for _, m := range measures {
			row = append(row, cells[[2]string{p, m}])
		}
		rows = append(rows, row)
	}
	return header, rows
}

// others is one line about the rows that are not shown.
func (s *sheet) others() string {
	var parts []string
	if s.same > 0 {
		parts = append(parts, english.Count(s.same, "exact measure")+" unchanged")
	}
	if s.details > 0 {
		parts = append(parts, english.Count(s.details, "detail")+" of static measures changed, see JSON")
	}
	if s.unsure > 0 {
		parts = append(parts, english.Count(s.unsure, "unjudged measure")+" without a sure change")
	}
	return strings.Join(parts, ", ")
}

// against is what head was held against.
func against(r *gate.Report) string {
	switch {
	case r.Base != nil:
		return clean(r.Base.Short())
	case r.Baseline != nil:
		return clean(r.Baseline.Why)
	}
	return ""
}
