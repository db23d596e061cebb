package gate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/stats"
)

// A Threshold is a rule that turns the stored values of a measure into a
// [Boundary] for the next one. The formulas are Bencher's; see package stats.
type Threshold struct {
	Test Test
	// Lower and Upper are what the test takes for the limit on that side; nil is
	// no limit there. They are limits themselves for [Static] (in the measure's
	// unit), a share of the mean for [Percentage] (0 or more), percentiles from 0.5
	// up to but not including 1 for [ZScore], [TTest] and [LogNormal], and multiples of
	// the interquartile range for [IQR] and [DeltaIQR] (0 or more).
	Lower, Upper *float64
	// MinSamples is the number of stored values below which nothing is judged,
	// but never less than the test needs: one for [Percentage], two for the others.
	// MaxSamples keeps the newest; 0 is all. [Static] regards neither.
	MinSamples, MaxSamples int
	// Window leaves out what is older than this before head's time; 0 is none.
	Window time.Duration
	// KeepChanges also judges by values from before the last change point of the
	// series; see [History]. Otherwise the history begins there.
	KeepChanges bool
}

// Test names the formula of a [Threshold].
type Test string

// The tests. What each makes of its limits is told at the functions of package
// stats that compute them.
const (
	Static     Test = "static"     // the limits as they stand, without any history
	Percentage Test = "percentage" // the mean and a share of it
	ZScore     Test = "z_score"    // the normal distribution
	TTest      Test = "t_test"     // a prediction interval by Student's t
	LogNormal  Test = "log_normal" // the normal distribution of logarithms
	IQR        Test = "iqr"        // the median and multiples of the interquartile range
	DeltaIQR   Test = "delta_iqr"  // the same of the changes from run to run
)

// Tests are all tests, in the order of the documentation.
func Tests() []Test {
	return []Test{Static, Percentage, ZScore, TTest, LogNormal, IQR, DeltaIQR}
}

// Limits are the least and the most that Lower and Upper may be for a test, and
// whether the most itself may be.
func (t Test) Limits() (least, most float64, closed bool) {
	switch t {
	case Static:
		return -maxLimit, maxLimit, true
	case ZScore, TTest, LogNormal: // see percentile
		return 0.5, 1, false
	default:
		return 0, maxLimit, true
	}
}

// maxLimit is a number that no measure reaches and no formula overflows with.
const maxLimit = 1e18

// NoiseBlind tells the tests that make a boundary of history that does not vary.
func (t Test) NoiseBlind() bool { return t == Percentage || t == IQR || t == DeltaIQR }

func (t Threshold) check() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(Tests(), t.Test) {
		bad("unknown test %q", t.Test)
		return errs
	}
	least, most, closed := t.Test.Limits()
	for what, q := range map[string]*float64{"upper": t.Upper, "lower": t.Lower} {
		if q != nil && !(*q >= least && (*q < most || closed && *q == most)) {
			bad("%s of %s is %v, not from %v to %v", what, t.Test, *q, least, most)
		}
	}
	if t.Upper == nil && t.Lower == nil {
		bad("%s has neither upper nor lower", t.Test)
	}
	if t.Test == Static && t.Upper != nil && t.Lower != nil && *t.Lower > *t.Upper {
		bad("lower of static is above upper")
	}
	if t.MinSamples < 0 || t.MaxSamples < 0 || t.MaxSamples > 0 && t.MaxSamples < t.MinSamples {
		bad("at least %d and at most %d samples", t.MinSamples, t.MaxSamples)
	}
	if t.Window < 0 {
		bad("window is %v, not 0 or more", t.Window)
	}
	return errs
}

// mirrored is the rule for a measure that is better the other way.
func (t Threshold) mirrored() Threshold {
	if t.Test != Static {
		t.Lower, t.Upper = t.Upper, t.Lower
	}
	return t
}

// shared is the rule for one of m rows that it judges: their limits are so much
// farther out that all of them together alarm as seldom as the rule says of one,
// p = 1 - (1-p)/m (Bonferroni). Multiples and shares are no probabilities, and stay.
func (t Threshold) shared(m int) Threshold {
	if m < 2 || !t.Test.percentile() {
		return t
	}
	for _, q := range []**float64{&t.Lower, &t.Upper} {
		if *q != nil {
			*q = pointer(1 - (1-**q)/float64(m))
		}
	}
	return t
}

// percentile tells the tests whose limits are percentiles.
func (t Test) percentile() bool { return t == ZScore || t == TTest || t == LogNormal }

// least is the number of values below which the rule says nothing.
func (t Threshold) least() int {
	switch t.Test {
	case Static:
		return 0
	case Percentage:
		return max(t.MinSamples, 1)
	default:
		return max(t.MinSamples, 2)
	}
}

// Boundary holds the limits that the rule gives after the values x, newest first,
// of which it takes the newest MaxSamples. Neither limit is set where there are
// fewer than MinSamples, or where the formula has no answer.
func (t Threshold) Boundary(x []float64) Boundary {
	if t.MaxSamples > 0 && len(x) > t.MaxSamples && t.Test != Static {
		x = x[:t.MaxSamples]
	}
	b := Boundary{Test: t.Test, Samples: len(x)}
	if len(x) < t.least() {
		return b
	}
	var mean, sd float64
	if t.Test == ZScore || t.Test == TTest {
		// The sum of equal values may differ from their multiple, so that a
		// deviation of rounding alone would look like noise.
		if mean = stats.Mean(x); !same(x) {
			sd = stats.Deviation(x)
		}
	}
	of := func(q *float64) (lower, upper *float64) {
		if q == nil {
			return nil, nil
		}
		var l, u float64
		var ok bool
		switch t.Test {
		case Static:
			l, u, ok = *q, *q, finite(*q)
		case Percentage:
			l, u, ok = stats.PercentageBoundary(x, *q)
		case ZScore:
			l, u, ok = stats.ZBoundary(mean, sd, *q)
		case TTest:
			l, u, ok = stats.TBoundary(mean, sd, len(x), *q)
		case LogNormal:
			if !same(x) {
				l, u, ok = stats.LogNormalBoundary(x, *q)
			}
		case IQR:
			l, u, ok = stats.IQRBoundary(x, *q)
		case DeltaIQR:
			l, u, ok = stats.DeltaIQRBoundary(x, *q)
		}
		if !ok {
			return nil, nil
		}
		return &l, &u
	}
	_, b.Upper = of(t.Upper)
	b.Lower, _ = of(t.Lower)
	return b
}

func same(x []float64) bool {
	return !slices.ContainsFunc(x, func(v float64) bool { return v != x[0] })
}

// words are the rule as a row tells it: "t_test, upper 0.99".
func (t Threshold) words() string {
	parts := []string{string(t.Test)}
	for _, side := range []struct {
		name string
		q    *float64
	}{{"lower", t.Lower}, {"upper", t.Upper}} {
		if side.q == nil {
			continue
		}
		n := strconv.FormatFloat(*side.q, 'g', 6, 64)
		switch t.Test {
		case Static:
			n = number(*side.q)
		case Percentage:
			n = strconv.FormatFloat(100**side.q, 'g', 6, 64) + "%"
		}
		parts = append(parts, side.name+" "+n)
	}
	return strings.Join(parts, ", ")
}

// judgeThreshold holds the median of the row against the boundary that the past
// ones, newest first, give. With twice, one alarm decides nothing.
func (w *row) judgeThreshold(past []stored, t Threshold, twice bool) {
	w.setMedians()
	if w.Head == nil {
		w.inconclusive("not measured")
		return
	}
	if w.limit.Fail == nil && w.limit.Threshold == nil && w.limit.Max != nil {
		w.Verdict = Pass // the maximum is all there is, see applyMax
	}
	judged := w.limit.Fail != nil || w.limit.Threshold != nil || !w.Judged
	if judged {
		w.Limit = t.words()
		if w.limit.Max != nil {
			w.Limit += ", at most " + number(*w.limit.Max)
		}
	}
	h, reason := w.history(past, t)
	streak := 0
	if twice && reason == "" {
		streak = w.streak(h, t)
	}
	x, since := w.sinceChange(h, streak, t)
	b := t.Boundary(x)
	w.Boundary = &b
	if reason == "" && b.Samples < t.least() {
		w.few = true
		reason = fmt.Sprintf("%d of %d runs%s", len(x), t.least(), since)
	}
	if reason != "" {
		if judged {
			w.inconclusive(reason)
		}
		return
	}
	x = x[:b.Samples]
	w.setRatio(stats.Mean(x), *w.Head)
	if !judged {
		return
	}
	w.byThreshold = true
	w.holdAgainst(b, x)
	w.acceptAlarm(stats.Mean(x))
	switch {
	case !twice || w.Verdict != Regressed:
	case streak == 0:
		w.first = true
		w.inconclusive(fmt.Sprintf("a first alarm, beyond the boundary of %d runs: a second in a row is a regression", len(x)))
	case w.Reason != "":
		w.Reason += fmt.Sprintf(", %d times in a row", streak+1)
	}
}

// maxStreak is the number of alarms before head's that are looked for: where there
// are more the series has a change point.
const maxStreak = 4

// streak is the number of runs directly before head that lie beyond the boundary of
// the runs before them, together with head: the fewest that do, 0 for none. They are
// no part of the history that head is held against, or else two slow runs would
// widen it, or be taken for its change of level, until a third one passes.
func (w *row) streak(h history, t Threshold) int {
	worse := func(a, b float64) bool { return w.sign()*(a-b) > 0 }
	for n := 1; n <= min(maxStreak, len(h.x)-t.least()); n++ {
		if !worse(h.x[n-1], stats.Median(h.x[n:n+t.least()])) {
			return 0 // no alarm; and change points take their time
		}
		x, _ := h.cut(n, t)
		bad := w.bad(t.Boundary(x))
		if bad != nil && worse(*w.Head, *bad) && !slices.ContainsFunc(h.x[:n], func(v float64) bool { return !worse(v, *bad) }) {
			return n
		}
	}
	return 0
}

// bad is the limit on the side where head is worse.
func (w *row) bad(b Boundary) *float64 {
	if w.sign() < 0 {
		return b.Lower
	}
	return b.Upper
}

// holdAgainst gives the verdict of a value beside a boundary of the values x.
func (w *row) holdAgainst(b Boundary, x []float64) {
	if b.Upper == nil && b.Lower == nil && same(x) {
		// No variation, no formula. What has always been the same number and is
		// exact has that number for a boundary; what is noisy has shown too little.
		if !w.Exact {
			w.inconclusive(fmt.Sprintf("all %d runs have the same value, so they show no noise to judge by", len(x)))
			return
		}
		b.Lower, b.Upper = pointer(x[0]), pointer(x[0])
		w.Boundary = &b
	}
	bad, good := w.bad(b), b.Lower
	if w.sign() < 0 {
		good = b.Upper
	}
	beyond := fmt.Sprintf("beyond the boundary of %d runs", len(x))
	if len(x) == 1 {
		beyond = "beyond the boundary of 1 run"
	}
	switch {
	case bad != nil && w.sign()*(*w.Head-*bad) > 0:
		w.Verdict, w.Reason = Regressed, beyond
	case good != nil && w.sign()*(*good-*w.Head) > 0:
		w.Verdict, w.Reason = Improved, beyond
	case bad == nil && good == nil:
		w.inconclusive(fmt.Sprintf("the %d runs give %s no boundary", len(x), b.Test))
	case bad == nil:
		w.inconclusive("the policy's threshold has no boundary for this side")
	default:
		w.Verdict = Pass
	}
}

// A history are the values of a series, newest first, and the runs that they are of.
type history struct {
	x     []float64
	runs  []*bench.Run
	since string // where the window cut it
}

// history is what the rule's window leaves of the past.
func (w *row) history(past []stored, t Threshold) (h history, reason string) {
	if t.Window > 0 {
		if w.now.IsZero() {
			return h, "the run has no time, so the threshold's window has no end"
		}
		oldest := w.now.Add(-t.Window)
		past = slices.DeleteFunc(slices.Clone(past), func(s stored) bool { return s.run.Time.Before(oldest) })
		h.since = " in the window of " + inDays(t.Window)
	}
	for _, s := range past {
		if m := stats.Median(values(s.result.Samples, sampleValue)); finite(m) {
			h.x, h.runs = append(h.x, m), append(h.runs, s.run)
		}
	}
	return h, ""
}

// cut leaves out the newest values, so many, and what was before the last change point
// of the others; at is the first run after that, nil where there is none.
func (h history) cut(newest int, t Threshold) (x []float64, at *bench.Run) {
	x = h.x[newest:]
	if t.KeepChanges {
		return x, nil
	}
	if n := sinceChange(x); n < len(x) {
		return x[:n], h.runs[newest+n-1]
	}
	return x, nil
}

// sinceChange is the history that is judged by, and where it was cut.
func (w *row) sinceChange(h history, newest int, t Threshold) (x []float64, since string) {
	x, at := h.cut(newest, t)
	if at == nil {
		return x, h.since
	}
	w.warn("the series changed at %s: older runs are not judged by", at.Revision.Short())
	return x, " since the change at " + at.Revision.Short()
}

func inDays(d time.Duration) string {
	if day := 24 * time.Hour; d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}

// applyStatic fails what lies outside fixed limits, whatever base or history
// have. For a noisy measure that is its median: a fixed limit is a rule about the
// number, not a claim about a difference.
func (w *row) applyStatic() {
	t := w.limit.Threshold
	if t == nil || t.Test != Static || w.Head == nil || w.Verdict == Missing || w.measure.Static && !w.measure.Exact {
		return
	}
	b := t.Boundary(nil)
	w.Boundary = &b
	w.Judged = true
	switch {
	case b.Upper != nil && *w.Head > *b.Upper:
		w.fixed(fmt.Sprintf("%s is above the limit of %s", number(*w.Head), number(*b.Upper)))
	case b.Lower != nil && *w.Head < *b.Lower:
		w.fixed(fmt.Sprintf("%s is below the limit of %s", number(*w.Head), number(*b.Lower)))
	case w.Verdict == Added:
		w.Judged = false
	case w.limit.Fail == nil && !w.Exact && w.Verdict != Inconclusive:
		w.Verdict = Pass // nothing else is asked of it
	}
}

// fixed is a row that broke an absolute rule.
func (w *row) fixed(reason string) {
	w.Verdict, w.Reason = Regressed, reason
	w.Judged, w.Warn, w.Open, w.Fixed = true, false, false, true
}
