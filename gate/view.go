package gate

import (
	"fmt"
	"math"
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/stats"
)

// maxRounds bounds what a look regards: three times the longest plan. Only a file
// made by hand has more; its first rounds are as good as any.
const maxRounds = 1000

// minUnpaired is the number of samples a side below which two samples that were
// not measured side by side are not compared.
const minUnpaired = 5

// A view is what the data of a noisy row say at one look: a test of every
// possible slowdown t at once. t is positive where head is worse, and on the scale
// of Comparison.Change: a share of base's raw value.
type view struct {
	shift  shift
	margin float64 // the fail margin, as a t; 0 where there is none
	warn   float64 // the warn margin, as a t
	// scale turns t into Change: 1, or 0 where base has zeros, so that t is in
	// the measure's unit and no ratio of base can be told.
	scale             float64
	rounds            int
	base, head, floor float64
	t                 stats.TTest
	tOK               bool
	noise             []float64 // paired only: t of each round
	// same tells that all samples of both sides are one number.
	same bool
}

// A shift is a test of every t: [stats.Shift] or [stats.MeanShift].
type shift interface {
	Greater(t float64) float64
	Less(t float64) float64
	Estimate() float64
	Lower(p float64) float64
	Upper(p float64) float64
	SmallestP() float64
}

// pairedShift is the policy's test of pairs; ok is false where the numbers are not
// fit for it.
func (t PairedTest) pairedShift(d, weights []float64) (s shift, ok bool) {
	if t == PairedT {
		return notNil(stats.PairedMeanShift(d, weights))
	}
	return notNil(stats.PairedShift(d, weights))
}

// twoSampleShift is its counterpart for two samples.
func (t PairedTest) twoSampleShift(a, b []float64) (s shift, ok bool) {
	if t == PairedT {
		return notNil(stats.WelchShift(a, b))
	}
	return notNil(stats.TwoSampleShift(a, b))
}

// notNil keeps a nil pointer from becoming an interface that is none.
func notNil[T shift](s T, ok bool) (shift, bool) {
	if !ok {
		return nil, false
	}
	return s, true
}

// unfit says why a test has no answer for numbers that are fit for others.
func (t PairedTest) unfit() string {
	if t == PairedT {
		return "the differences do not vary or are out of range, which a t-test cannot judge"
	}
	return "the values are out of range"
}

// A round is a pair of samples: base, head, and the floor beside base.
type round struct{ a, b, floor float64 }

// pairUp matches samples by round, up to and including round last.
func pairUp(base, head []bench.Sample, last int) []round {
	var all []round
	i := 0
	for _, h := range head {
		for i < len(base) && base[i].Round < h.Round {
			i++
		}
		if h.Round > last || i == len(base) {
			break
		}
		if base[i].Round == h.Round {
			all = append(all, round{base[i].Value, h.Value, base[i].Floor})
		}
	}
	return all
}

// pairedView tests, for each t, whether the rounds' values of
//
//	y(t) = [(B - A)/A - t*w] * c,  w = g/(median of g),  c = 2A/(A + B)
//
// are symmetric around 0, where g = max(ratio*(A - f), min_effect)/A is what the
// policy allows in that round as a share of A. At t = the median of g this is
//
//	[B - A - max(ratio*(A - f), min_effect)] / ((A + B)/2)
//
// the test that decides; elsewhere it is the line through it, so that bounds,
// estimate and decision come from one model and cannot disagree. Where the floor
// is steady w is 1, and t is simply the change.
//
// The margin is of the program's own time, A - f: what the driver adds to both
// sides is not the author's to slow down by some per cent.
//
// c makes the test of equal programs exact: with it, exchanging A and B only
// changes the sign. Shares of A alone are larger where A happens to be low, which
// is where B - A is positive; docs/statistics.md has what that did.
func (w *row) pairedView(l look) (*view, string) {
	n := min(l.rounds, len(w.head.Samples))
	if n == 0 {
		return nil, w.unmeasured()
	}
	rounds := pairUp(w.base.Samples, w.head.Samples, w.head.Samples[n-1].Round)
	if len(rounds) > maxRounds {
		rounds = rounds[:maxRounds]
		w.warn("only the first %d rounds are judged", maxRounds)
	}
	if len(rounds) == 0 {
		return nil, "no round has both sides"
	}
	if reason := w.unusable(rounds); reason != "" {
		return nil, reason
	}
	relative := !slices.ContainsFunc(rounds, func(r round) bool { return r.a == 0 })
	d, margins, warns := make([]float64, len(rounds)), make([]float64, len(rounds)), make([]float64, len(rounds))
	raw := make([]float64, len(rounds))
	for i, r := range rounds {
		unit := 1.0
		if relative {
			unit = r.a
		}
		raw[i] = r.b - r.a
		d[i] = w.sign() * (r.b - r.a) / unit
		margins[i] = w.margin(w.limit.Fail, r.a, r.floor) / unit
		warns[i] = w.margin(w.limit.Warn, r.a, r.floor) / unit
	}
	v := &view{rounds: len(rounds), margin: stats.Median(margins), warn: stats.Median(warns)}
	if relative {
		v.scale = 1
	}
	weights := make([]float64, len(d))
	v.noise = make([]float64, len(d))
	for i, r := range rounds {
		weights[i] = 1
		if v.margin > 0 { // a round whose floor is above it has next to none
			weights[i] = max(margins[i]/v.margin, 1e-6)
		}
		v.noise[i] = d[i] / weights[i]
		if relative {
			c := r.a / (r.a/2 + r.b/2)
			d[i] *= c
			weights[i] *= c
		}
	}
	test := w.test
	if v.same = !slices.ContainsFunc(rounds, func(r round) bool { return r.a != rounds[0].a || r.b != rounds[0].a }); v.same {
		test = SignedRank // which has an answer where nothing varies
	}
	var ok bool
	if v.shift, ok = test.pairedShift(d, weights); !ok {
		return nil, w.test.unfit()
	}
	v.base, v.head, v.floor = medians(rounds)
	v.t, v.tOK = stats.PairedT(raw)
	return v, ""
}

// margin is what a limit allows beside a base of a and its floor, in the
// measure's unit: a share of the program's own time, but in time never less than
// min_effect_ns.
func (w *row) margin(m *Margin, a, floor float64) float64 {
	if m == nil {
		return 0
	}
	return max(m.of(a-floor), w.minEffect)
}

// unpairedView tests each t as the shift between two samples. Its margin is one
// number, from the medians.
func (w *row) unpairedView(look) (*view, string) {
	base, head := w.base.Samples, w.head.Samples
	if len(base) < minUnpaired || len(head) < minUnpaired {
		return nil, fmt.Sprintf("%d and %d samples, at least %d a side are needed", len(base), len(head), minUnpaired)
	}
	if len(base) > maxRounds || len(head) > maxRounds {
		base, head = base[:min(len(base), maxRounds)], head[:min(len(head), maxRounds)]
		w.warn("only the first %d samples a side are judged", maxRounds)
	}
	a, b := values(base, sampleValue), values(head, sampleValue)
	for _, x := range slices.Concat(a, b) {
		if reason := w.unusable([]round{{x, x, 0}}); reason != "" {
			return nil, reason
		}
	}
	floor := stats.Median(values(base, sampleFloor))
	v := &view{rounds: min(len(a), len(b)), base: stats.Median(a), head: stats.Median(b), floor: floor}
	v.t, v.tOK = stats.WelchT(b, a)
	unit := 1.0
	if v.base > 0 {
		unit, v.scale = v.base, 1
	}
	v.margin = w.margin(w.limit.Fail, v.base, floor) / unit
	v.warn = w.margin(w.limit.Warn, v.base, floor) / unit
	test := w.test
	if v.same = !slices.ContainsFunc(slices.Concat(a, b), func(x float64) bool { return x != a[0] }); v.same {
		test = SignedRank
	}
	for _, x := range [][]float64{a, b} {
		for i := range x {
			x[i] *= w.sign() / unit
		}
	}
	var ok bool
	if v.shift, ok = test.twoSampleShift(a, b); !ok {
		return nil, w.test.unfit()
	}
	return v, ""
}

// unusable says why rounds cannot be judged: a time or a count is never below 0,
// so that whatever made it knows nothing.
func (w *row) unusable(rounds []round) string {
	for _, r := range rounds {
		switch {
		case !finite(r.a) || !finite(r.b) || !finite(r.floor):
			return "a value is not a finite number"
		case r.a < 0 || r.b < 0 || r.floor < 0:
			return "a value is negative"
		case w.measure.Unit == "ns" && (r.a == 0 || r.b == 0):
			return "a run that took no time was not measured: the clock was too coarse"
		}
	}
	return ""
}

func medians(rounds []round) (a, b, floor float64) {
	x, y, z := make([]float64, len(rounds)), make([]float64, len(rounds)), make([]float64, len(rounds))
	for i, r := range rounds {
		x[i], y[i], z[i] = r.a, r.b, r.floor
	}
	return stats.Median(x), stats.Median(y), stats.Median(z)
}

// slowMode tells of rounds in which head was slower by more than the margin, as
// seen from the estimate, far oftener than it was as much faster: some layouts or
// states of head are slow, though most are not, and a typical change is not all
// there is to say. Where noise is symmetric, as random orders make it, extreme
// rounds fall on either side with equal chance, so a sign test among them is
// exact.
func (v *view) slowMode() string {
	if v.noise == nil || v.margin <= 0 {
		return ""
	}
	const level = 0.01
	center := v.shift.Estimate()
	slow, fast := 0, 0
	for _, t := range v.noise {
		switch {
		case t-center > v.margin:
			slow++
		case center-t > v.margin:
			fast++
		}
	}
	if slow <= fast || stats.SignTest(slow, slow+fast) > level {
		return ""
	}
	return fmt.Sprintf("a slow mode: in %d of %d rounds head was slower than usual by more than the limit, in %d faster",
		slow, v.rounds, fast)
}

// agree makes head's number that of base with the change. The medians of two sides
// need not differ by the median change within rounds: where the host has two speeds,
// and each side has seen about half its rounds at either, its median lies in one of
// them by chance, and 88 ns beside 101 ns would stand next to a change of +0.4%.
//
// An absolute limit is about head's own median, which it leaves where that broke it.
func (w *row) agree() {
	if w.last == nil || w.Change == nil || w.Base == nil || w.Fixed {
		return
	}
	if h := *w.Base * (1 + *w.Change); finite(h) {
		w.Head = &h
	}
}

// show writes a view into its row, with the interval whose bounds have the errors low
// and high at this look, which has a share of what all looks spend.
func (w *row) show(v *view, errorLow, errorHigh, share float64) {
	w.last = v
	w.Rounds = v.rounds
	w.Base, w.Head = pointer(v.base), pointer(v.head)
	if v.floor > 0 {
		w.Floor = pointer(v.floor)
	}
	if v.tOK {
		w.T = &TStatistic{T: v.t.T, Freedom: v.t.Freedom, P: v.t.P}
	}
	w.Outliers = nil
	if o := stats.Tukey(v.noise); o.Count() > 0 {
		w.Outliers = &Outliers{Worse: o.HighMild + o.HighSevere, Better: o.LowMild + o.LowSevere, Severe: o.LowSevere + o.HighSevere}
	}
	w.Change, w.Interval, w.Margin = nil, nil, nil
	if v.scale == 0 {
		return
	}
	// Nothing is below zero, and so no change below -100%, though a shift of one sample
	// against another may be estimated there.
	if e := v.shift.Estimate(); finite(e) {
		w.Change = pointer(max(w.sign()*e, -1))
	}
	low, high := v.shift.Lower(errorLow), v.shift.Upper(errorHigh)
	if finite(low) && finite(high) && errorLow > 0 && errorHigh > 0 {
		w.Interval = &Interval{
			Low: max(min(w.sign()*low, w.sign()*high), -1), High: max(w.sign()*low, w.sign()*high, -1),
			// Rounded, so that equal levels of different looks are equal.
			Level: math.Round((1-(errorLow+errorHigh)/share)*1e12) / 1e12,
		}
	}
	if w.limit.Fail != nil {
		w.Margin = pointer(v.margin)
	}
}
