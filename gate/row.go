package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/stats"
)

// A row is a comparison in the making.
type row struct {
	Comparison
	measure    bench.Measure
	limit      Limit
	test       PairedTest
	minEffect  float64       // the least margin of a noisy row, in the measure's unit
	base, head *bench.Result // either may be nil
	now        time.Time     // when head was measured
	// skipped is why the benchmark was not measured; empty if nothing says so.
	skipped string
	// few tells that too few runs are stored for a rule against history.
	few bool
	// first tells of an alarm against history that the run before did not have.
	first bool
	// byThreshold tells that a rule against history gave the verdict.
	byThreshold bool
	// accepted is the change that a waiver accepts, unwaived the fail margin that
	// it took the place of.
	accepted, unwaived *Margin
	looks              []look
	// view reads the data up to a look.
	view func(look) (*view, string)
	last *view // at the last look that was regarded
	// slowLevel is what Greater was held against at that look.
	slowLevel float64
}

func newRow(base, head *bench.Result, now time.Time, p Policy) *row {
	r := head
	if r == nil {
		r = base
	}
	m := measured(r)
	w := &row{measure: m, base: base, head: head, now: now, test: p.Test, limit: p.Limit(r.Benchmark, r.Measure)}
	w.Comparison = Comparison{
		Benchmark: r.Benchmark, Program: r.Program, Measure: r.Measure, Unit: m.Unit, Kind: r.Kind,
		Exact: m.Exact && !noisy(base) && !noisy(head), Path: r.Path,
		Judged: w.limit.Fail != nil || w.limit.Max != nil || w.limit.Threshold != nil && w.limit.Threshold.Test == Static,
	}
	if r.Better == m.Better {
		w.Better = m.Better
	}
	w.waive(p.Waivers)
	w.Limit = limitInWords(m, w.limit, p.MinEffectNS)
	if w.accepted != nil {
		w.Limit += " by a waiver"
	}
	switch family, _, _ := bench.SplitMember(m.Name); {
	case m.Unit == "ns":
		w.minEffect = p.MinEffectNS
	case family == bench.Counts:
		// A count that differs from run to run is not known to less than one, and where
		// it mostly is 0 there is no share of it.
		w.minEffect = 1
	}
	if m.Static && !m.Exact {
		w.Judged = false // one reading of a clock decides nothing
	}
	if base != nil {
		w.Warnings = merge(w.Warnings, base.Warnings)
	}
	if head != nil {
		w.Warnings = merge(w.Warnings, head.Warnings)
		w.Lines, w.Sites, w.Seconds = head.Lines, head.Sites, head.Seconds
		if share := stats.Median(values(head.Samples, func(s bench.Sample) float64 { return s.Counted })); share > 0 {
			w.warn("counted %.0f%% of the time and scaled up: the CPU has fewer counters than events", 100*share)
		}
	}
	if base != nil && head != nil && base.Answer != "" && head.Answer != "" && base.Answer != head.Answer {
		w.warn("the program's answer changed from %s to %s", base.Answer, head.Answer)
	}
	return w
}

// noisy tells that a measure that is exact elsewhere is not in this result.
func noisy(r *bench.Result) bool { return r != nil && r.Noisy != "" }

func (w *row) warn(format string, args ...any) {
	w.Warnings = merge(w.Warnings, []string{fmt.Sprintf(format, args...)})
}

func (w *row) inconclusive(reason string) {
	w.Verdict = Inconclusive
	w.Reason = reason
}

// sign makes differences positive where head is worse.
func (w *row) sign() float64 {
	if w.measure.Better == bench.Higher {
		return -1
	}
	return 1
}

// added is a row that only head has: nothing to hold it against, so that only an
// absolute maximum judges it.
func (w *row) added() {
	w.Verdict = Added
	w.Judged = false
	w.setMedians()
}

// missing is a row that only base has. It fails closed where the measure is
// judged: a benchmark that is not there cannot pass.
func (w *row) missing(head *bench.Run) {
	w.Verdict = Missing
	w.Reason = "not measured in head"
	for _, p := range head.Programs {
		if p.Program == w.Program && p.Outcome != bench.Accepted {
			w.Reason = fmt.Sprintf("the program is %s in head", p.Outcome)
		}
	}
	for _, s := range head.Skipped {
		if bench.Within(w.Benchmark, s.Name) || s.Name == w.Program {
			w.Reason = "skipped in head: " + s.Reason
		}
	}
	w.setMedians()
}

// tellOnce is for a noisy number that is read once a load and never judged. Its
// verdict is a matter of form.
func (w *row) tellOnce() {
	w.setMedians()
	if w.Base == nil || w.Head == nil {
		w.inconclusive("not read on both sides")
		return
	}
	w.Verdict = Pass
	w.setRatio(*w.Base, *w.Head)
}

// judgeExact compares one number with another. Nothing is estimated: beyond the
// margin is beyond the margin.
func (w *row) judgeExact() {
	b, okB := constant(w.base)
	h, okH := constant(w.head)
	w.setMedians()
	w.Rounds = min(len(w.base.Samples), len(w.head.Samples))
	switch {
	case w.Rounds == 0:
		w.inconclusive("not measured on both sides")
	case !okB || !okH:
		w.inconclusive("the samples of one revision differ, so the measure is not exact here")
	default:
		w.judgeNumbers(b, h, exactFloor(w.base))
	}
}

// exactFloor is what every run of base's program has besides its own, as the empty
// program shows it; 0 where none was measured.
func exactFloor(r *bench.Result) float64 {
	f := r.Samples[0].Floor
	if !finite(f) || f < 0 || f > r.Samples[0].Value {
		return 0
	}
	return f
}

// judgeNumbers gives the verdict of an exact measure that went from b to h. The
// margin is of the program's own number, without the floor, which is in both.
func (w *row) judgeNumbers(b, h, floor float64) {
	w.setRatio(b, h)
	if floor > 0 {
		w.Floor = pointer(floor)
	}
	worse := w.sign() * (h - b)
	fail := w.limit.Fail
	if fail == nil {
		fail = &Margin{} // told (or bounded by Max): any difference is one
	}
	margin := fail.of(b - floor)
	switch {
	case worse > margin && (w.limit.Fail != nil || !w.Judged):
		w.Verdict = Regressed
	case -worse > margin:
		w.Verdict = Improved
	default:
		w.Verdict = Pass
	}
	if w.limit.Fail != nil && b > 0 {
		w.Margin = pointer(margin / b)
	}
	w.Warn = w.limit.Warn != nil && worse > w.limit.Warn.of(b-floor) && !(w.Judged && w.Verdict == Regressed)
}

// applyMax fails what is above the absolute maximum, whatever base has. For a
// noisy measure that is its median: the maximum is a rule about the number, not a
// claim about a difference.
func (w *row) applyMax() {
	if w.limit.Max == nil || w.Head == nil || w.Verdict == Missing || w.measure.Static && !w.measure.Exact {
		return
	}
	if *w.Head > *w.limit.Max {
		w.fixed(fmt.Sprintf("%s is above the maximum of %s", number(*w.Head), number(*w.limit.Max)))
		return
	}
	if w.Verdict == Added {
		return
	}
	// Within a maximum that is the only limit, a noisy row has nothing left to
	// decide; an exact one has had its say.
	if w.limit.Fail == nil && !w.byThreshold && !w.Exact && w.Verdict != Inconclusive {
		w.Verdict = Pass
	}
}

// applyMaxWarn tells how much head has of what the kernel allows, and warns of what is
// above the policy's value: where it came there, or came further. Who has been above
// it for a year is not told each day.
func (w *row) applyMaxWarn() {
	if w.Head == nil || w.Verdict == Missing {
		return
	}
	of := ""
	if most := w.measure.KernelLimit(); most > 0 {
		w.KernelLimit, w.Used = &most, pointer(*w.Head/most)
		of = fmt.Sprintf("%.1f%% of the kernel's limit of %s", 100**w.Used, number(most))
	}
	warn := w.limit.MaxWarn
	if warn == nil || *w.Head <= *warn || w.Judged && w.Verdict == Regressed || w.measure.Static && !w.measure.Exact {
		return
	}
	if w.Base != nil && *w.Base > *warn && (!w.Exact || *w.Head <= *w.Base) {
		return
	}
	w.Warn = true
	if of == "" {
		of = "above " + number(*warn)
	}
	w.warn("%s of %s is %s", w.Measure, number(*w.Head), of)
}

// setMedians shows the numbers of both sides, whatever becomes of the row.
func (w *row) setMedians() {
	median := func(r *bench.Result, of func(bench.Sample) float64) *float64 {
		if r == nil || len(r.Samples) == 0 {
			return nil
		}
		m := stats.Median(values(r.Samples, of))
		if !finite(m) {
			return nil
		}
		return &m
	}
	w.Base = median(w.base, sampleValue)
	w.Head = median(w.head, sampleValue)
}

// setRatio sets Change from two plain numbers.
func (w *row) setRatio(b, h float64) {
	w.Base, w.Head = pointer(b), pointer(h)
	if c := h/b - 1; b > 0 && finite(c) {
		w.Change = &c
	}
}

// of is the margin of a value, in its unit.
func (m *Margin) of(value float64) float64 {
	return max(m.Ratio*value, m.Absolute, 0)
}

// constant is the one value that all samples have.
func constant(r *bench.Result) (float64, bool) {
	if len(r.Samples) == 0 {
		return 0, false
	}
	v := r.Samples[0].Value
	return v, finite(v) && !slices.ContainsFunc(r.Samples, func(s bench.Sample) bool { return s.Value != v })
}

func values(samples []bench.Sample, of func(bench.Sample) float64) []float64 {
	x := make([]float64, len(samples))
	for i, s := range samples {
		x[i] = of(s)
	}
	return x
}

func pointer(x float64) *float64 { return &x }

func sampleValue(s bench.Sample) float64 { return s.Value }
func sampleFloor(s bench.Sample) float64 { return s.Floor }
