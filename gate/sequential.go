package gate

import (
	"fmt"

	"github.com/org/ebpf-bench-gate/stats"
)

// spending is the share of alpha that each planned look may spend: little while
// there is little to see. The shares add up to 1 (alpha spending: Lan & DeMets
// 1983), and whatever stops a session leaves the rest to its final look.
var spending = [...]float64{.10, .15, .20, .25, .30}

// passAlpha is the chance that a row which is slower than its margin passes, over
// all looks. It needs no correction for many rows: a suite passes wrongly only if
// each row that is too slow does.
const passAlpha = 0.05

// detectPower is the power of Comparison.Detectable.
const detectPower = 0.9

// A look is a point at which a session asked for a verdict.
type look struct {
	rounds int
	share  float64 // of alpha
}

// schedule gives the looks of a result and what each may spend.
//
// The last look may spend what is left only where Final says that it was chosen
// by the clock, whatever the data were. A session that stopped because its policy
// was content, and is judged again by a stricter one, has no such right: its row
// stays undecided.
func schedule(looks []int, final bool, samples int) []look {
	if len(looks) == 0 {
		if samples == 0 {
			return nil
		}
		return []look{{samples, 1}}
	}
	if extra := len(looks) - len(spending); extra > 0 {
		// Not a plan of ours. Later looks have nothing to spend, unless the last
		// one is final.
		last := looks[len(looks)-1]
		looks = append([]int{}, looks[:len(spending)]...)
		if final {
			looks[len(looks)-1] = last
		}
	}
	plan := make([]look, len(looks))
	left := 1.0
	for i, n := range looks {
		plan[i] = look{n, spending[i]}
		if i == len(looks)-1 && (final || i == len(spending)-1) {
			plan[i].share = left
		}
		left -= spending[i]
	}
	return plan
}

// prepare makes a noisy row ready for [judgeFamily].
func (w *row) prepare(unpaired bool, p Policy) {
	w.view = w.pairedView
	if unpaired {
		w.view = w.unpairedView
		w.looks = []look{{len(w.head.Samples), 1}}
		return
	}
	w.looks = schedule(w.head.Looks, w.head.Final, len(w.head.Samples))
	// Before its last look a session may go on.
	w.Open = w.limit.Fail != nil && !w.head.Final && len(w.looks) < len(p.Looks()) &&
		(len(w.head.Looks) > 0 || len(w.head.Samples) == 0)
}

// judgeFamily gives the noisy rows of a suite their verdicts.
//
// The family is every row with a fail margin that is not known to be unchanged;
// their number m is fixed before the first round. At look k Holm's step-down
// procedure runs over the rows that are still undecided, with alpha times the
// look's share, and m less the rejections so far: only a rejection returns its
// share to the others, a Pass does not. Then the chance of any false Regressed in
// the suite is at most alpha. For take the first false rejection: all before it
// were right, so its level was at most alpha*share/m0 for the m0 rows whose
// slowdown is within the margin, and these levels add up to alpha over those rows
// and their looks. Rows may have different shares at one look (one is final, the
// others are not), so what is ordered and held against Holm's levels is p/share.
//
// Improved is the mirror image, a family of its own with its own alpha.
func judgeFamily(rows []*row, p Policy) {
	var open []*row
	defer func() {
		for _, w := range rows {
			w.setDetectable()
		}
	}()
	for _, w := range rows {
		switch {
		case w.Unchanged || w.limit.Fail == nil:
			w.tell(p)
		case len(w.looks) == 0:
			w.inconclusive(w.unmeasured())
			w.setMedians()
			open = append(open, w)
		default:
			open = append(open, w)
		}
	}
	m := len(open)
	slower, faster := 0, 0 // rejections so far
	for k := 0; len(open) > 0; k++ {
		var now []*row
		var views []*view
		for _, w := range open {
			if k >= len(w.looks) {
				continue
			}
			v, reason := w.view(w.looks[k])
			if v == nil {
				w.inconclusive(reason)
				w.setMedians()
				continue
			}
			now, views = append(now, w), append(views, v)
		}
		slow, fast := make([]float64, len(now)), make([]float64, len(now))
		for i, v := range views {
			share := now[i].looks[k].share
			slow[i] = v.shift.Greater(v.margin) / share
			fast[i] = v.shift.Less(-v.margin) / share
		}
		regressed, slowLevel := stats.Holm(slow, m-slower, p.Alpha)
		improved, fastLevel := stats.Holm(fast, m-faster, p.Alpha)
		open = open[:0]
		for i, w := range now {
			share := w.looks[k].share
			switch w.decide(views[i], decision{regressed[i], improved[i], slowLevel[i] * share, fastLevel[i] * share, passAlpha * share, share}) {
			case Regressed:
				slower++
			case Improved:
				faster++
			case Inconclusive:
				open = append(open, w)
			}
		}
	}
}

// A decision is what one look says about one row, and the levels at which it does.
type decision struct {
	regressed, improved           bool
	slowLevel, fastLevel, passLev float64
	share                         float64 // of what all looks spend, what this one does
}

// decide gives the row its verdict at a look, with the interval of that verdict: the
// bounds that were held against the margin.
//
// The level told is that over all looks, since it was the data that chose this one:
// a bound with the error e*share at each look misses the truth at any look with
// probability e at most. It is lower than that of the same bounds after a number of
// rounds fixed beforehand, which would be a prettier one than the procedure has.
func (w *row) decide(v *view, d decision) Verdict {
	open := w.Open
	w.Open, w.Reason, w.Needs = false, "", nil
	// The errors of the lower and of the upper bound, on the scale where more is
	// worse.
	var low, high, pv float64
	notSlower := v.shift.Less(v.margin)
	slow := v.slowMode()
	switch {
	case d.regressed:
		w.Verdict, low, high, pv = Regressed, d.slowLevel, d.slowLevel, v.shift.Greater(v.margin)
	case d.improved:
		w.Verdict, low, high, pv = Improved, d.fastLevel, d.fastLevel, v.shift.Less(-v.margin)
	case notSlower <= d.passLev && slow == "":
		w.Verdict, low, high, pv = Pass, d.passLev, d.passLev, notSlower
	case v.same && v.shift.SmallestP() <= d.passLev:
		// Only a margin of zero comes here, which the difference of zero does not pass
		// and no test can tell it from. Enough samples that are one number are as good
		// as an exact measure.
		w.Verdict, low, high, pv = Pass, d.passLev, d.passLev, v.shift.SmallestP()
		w.Reason = "every sample of base and head is the same number"
	default:
		// Neither bound passed the margin, so the interval between them holds it.
		w.Verdict, low, high = Inconclusive, d.slowLevel, d.passLev
		pv = min(v.shift.Greater(v.margin), notSlower)
		w.Open = open
		switch {
		case slow != "":
			w.Reason = slow
		case v.shift.SmallestP() > d.passLev:
			w.Reason = fmt.Sprintf("%d rounds are too few to decide anything", v.rounds)
		case v.noise != nil && !open && !w.head.Final && len(w.head.Looks) > 0 && len(w.looks) < len(spending):
			w.Reason = "the session stopped here under another policy"
		}
		if slow == "" {
			w.Needs = w.needs(v, low, high)
		}
	}
	w.show(v, low, high, d.share)
	w.P = pointer(pv)
	w.slowLevel = d.slowLevel
	w.Warn = w.Verdict != Regressed && w.limit.Warn != nil && v.shift.Lower(low) > v.warn
	return w.Verdict
}

// unmeasured says why a row has no samples. Only a session that is still going on
// asks about rows that are yet to be measured, and shows nobody what it is told.
func (w *row) unmeasured() string {
	if w.skipped != "" {
		return notMeasured + ": " + w.skipped
	}
	return notMeasured
}

const notMeasured = "could not be measured"

// setDetectable says what the look that decided would have found.
func (w *row) setDetectable() {
	if v := w.last; v != nil && v.noise != nil && v.scale != 0 && w.slowLevel > 0 {
		detectable := stats.Detectable
		if w.test == PairedT {
			detectable = stats.DetectableMean
		}
		if e := v.margin + detectable(v.noise, w.slowLevel, detectPower); finite(e) {
			w.Detectable = &e
		}
	}
}

// tell gives a row that nobody judges (or that is unchanged) the verdict that its
// numbers alone would have, at alpha and without a margin.
func (w *row) tell(p Policy) {
	w.Open = false
	v, reason := (*view)(nil), w.unmeasured()
	if n := len(w.looks); n > 0 {
		v, reason = w.view(w.looks[n-1])
	}
	if v == nil {
		w.inconclusive(reason)
		w.setMedians()
		return
	}
	level := p.Alpha / 2
	w.show(v, level, level, 1)
	slow, fast := v.shift.Greater(0), v.shift.Less(0)
	w.P = pointer(min(1, 2*min(slow, fast)))
	switch {
	case w.Unchanged:
		w.Verdict = Pass
		w.Reason = "unchanged: same instructions, maps and flags; any difference is this run's own noise"
		return
	case slow <= level:
		w.Verdict = Regressed
	case fast <= level:
		w.Verdict = Improved
	default:
		w.Verdict = Pass
	}
	w.Warn = w.limit.Warn != nil && v.shift.Lower(level) > v.warn
}

// warnOfNoise takes the rows that cannot have changed as a control of the host: a
// difference between equal programs that chance explains once in a thousand runs
// means that something here measures the two sides differently.
func (r *Report) warnOfNoise(rows []*row) {
	const level = 0.001
	var p []float64
	var controls []*row
	for _, w := range rows {
		if w.Unchanged && w.P != nil {
			p, controls = append(p, *w.P), append(controls, w)
		}
	}
	suspicious, _ := stats.Holm(p, len(p), level)
	for i, w := range controls {
		if suspicious[i] {
			r.warn("%s is unchanged and yet measured different (p = %.2g): this host's numbers cannot be trusted", w.Benchmark, *w.P)
		}
	}
}
