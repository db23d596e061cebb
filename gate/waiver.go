package gate

import (
	"fmt"
	"time"
)

// A Waiver accepts an expected regression of one benchmark's measures, for a
// time and up to a limit. While it lasts its limit stands in the place of the
// policy's fail margin, so that what was accepted is itself tested: a slowdown
// beyond it fails, and everything that holds for margins (looks, correction for
// many comparisons, intervals) holds for it. It waives neither a maximum nor the
// verifier's answer.
type Waiver struct {
	// Benchmark is a pattern as in [Override].
	Benchmark string
	// Max is, by measure, the change in the bad direction that is accepted.
	Max map[string]Margin
	// Since is the day on which it was granted; zero is unknown.
	Since time.Time
	// Until is the last day on which it counts, by UTC.
	Until  time.Time
	Reason string
}

// For tells whether it is one for a benchmark.
func (v Waiver) For(benchmark string) bool { return matches(v.Benchmark, benchmark) }

// Waived is a waiver as it stood when a row was judged, at head's time.
type Waived struct {
	Reason string `json:"reason"`
	// Since and Until are days (2006-01-02); Since may be empty.
	Since string `json:"since,omitempty"`
	Until string `json:"until"`
	// Age is the number of whole days since Since, nil where that is unknown;
	// Left that of days until Until is over, negative where it is over.
	Age  *int `json:"age_days,omitempty"`
	Left int  `json:"days_left"`
	// Max is the accepted change in words: "+6%".
	Max     string `json:"max"`
	Expired bool   `json:"expired,omitempty"`
	// Used tells that the row would have failed without the waiver, as far as its
	// estimate tells: otherwise it has done its work and can go.
	Used bool `json:"used,omitempty"`
}

const day = 24 * time.Hour

// dayOf is the start of a day by UTC.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(day) }

func (v Waiver) check() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if v.Reason == "" {
		bad("no reason")
	}
	if v.Until.IsZero() {
		bad("no date until which it counts")
	}
	if v.Since.After(v.Until) {
		bad("it ends before it starts")
	}
	if len(v.Max) == 0 {
		bad("no measure")
	}
	for name, m := range v.Max {
		if !atLeastZero(m.Ratio) || !atLeastZero(m.Absolute) {
			bad("%s: max is not 0 or more", name)
		}
	}
	return errs
}

// expired tells that the waiver no longer counts at a time. A run that does not
// know when it was measured has no right to one.
func (v Waiver) expired(now time.Time) bool {
	return now.IsZero() || dayOf(now).After(dayOf(v.Until))
}

// waive finds the waiver of a row: the last one that counts, or the last one that
// no longer does. One that counts moves the fail margin, never below the policy's.
func (w *row) waive(waivers []Waiver) {
	var found *Waiver
	for i := range waivers {
		v := &waivers[i]
		if _, ok := limitOf(v.Max, w.Measure); !ok || !v.For(w.Benchmark) {
			continue
		}
		if found == nil || !v.expired(w.now) || found.expired(w.now) {
			found = v
		}
	}
	if found == nil || w.limit.Fail == nil && w.limit.Threshold == nil {
		return
	}
	accepted, _ := limitOf(found.Max, w.Measure)
	w.Waived = &Waived{
		Reason: found.Reason, Until: found.Until.UTC().Format(time.DateOnly),
		Max: changeInWords(w.measure, accepted, 0), Expired: found.expired(w.now),
	}
	if !w.now.IsZero() {
		w.Waived.Left = int(dayOf(found.Until).Sub(dayOf(w.now)) / day)
		if !found.Since.IsZero() {
			w.Waived.Age = new(int)
			*w.Waived.Age = max(int(dayOf(w.now).Sub(dayOf(found.Since))/day), 0)
		}
	}
	if !found.Since.IsZero() {
		w.Waived.Since = found.Since.UTC().Format(time.DateOnly)
	}
	if w.Waived.Expired {
		return
	}
	w.accepted = &accepted
	if f := w.limit.Fail; f != nil {
		w.unwaived = f
		w.limit.Fail = &Margin{Ratio: max(f.Ratio, accepted.Ratio), Absolute: max(f.Absolute, accepted.Absolute)}
	}
}

// settleWaiver tells what the waiver did to the row's verdict.
func (w *row) settleWaiver() {
	v := w.Waived
	if v == nil || !w.Judged {
		return
	}
	if v.Expired {
		if w.Verdict == Regressed {
			w.Reason = fmt.Sprintf("the waiver expired on %s (%s)", v.Until, v.Reason)
		} else {
			w.warn("the waiver expired on %s and can go: %s", v.Until, v.Reason)
		}
		return
	}
	if w.unwaived != nil && w.Change != nil && w.Base != nil {
		floor := 0.0
		if w.Floor != nil {
			floor = *w.Floor
		}
		v.Used = v.Used || w.sign()**w.Change**w.Base > w.margin(w.unwaived, *w.Base, floor)
	}
	switch {
	case w.Verdict == Regressed && w.Reason == "":
		w.Reason = fmt.Sprintf("beyond the %s that is accepted until %s (%s)", v.Max, v.Until, v.Reason)
	case v.Used && w.Verdict == Pass:
		w.Reason = fmt.Sprintf("up to %s is accepted until %s (%s)", v.Max, v.Until, v.Reason)
	}
}

// acceptAlarm lets a waiver answer an alarm against history, whose boundary knows
// no margin: up to the accepted change from the mean of the stored values.
func (w *row) acceptAlarm(mean float64) {
	if w.Verdict != Regressed || w.accepted == nil || w.Head == nil {
		return
	}
	if w.sign()*(*w.Head-mean) <= w.accepted.of(mean) {
		w.Verdict, w.Reason = Pass, ""
		w.Waived.Used = true
		return
	}
	w.Reason = ""
}
