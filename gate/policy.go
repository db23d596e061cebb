package gate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Policy says how runs are judged.
type Policy struct {
	// Alpha is the chance that a suite whose every slowdown is within its margin
	// is called Regressed, over all its comparisons and looks; 0 < Alpha < 0.5.
	Alpha float64
	// Budget is the time that measuring the suite may take; 0 is
	// [DefaultBudget] for each benchmark.
	Budget time.Duration
	// MinEffectNS is the slowdown in ns a run that is never a regression,
	// however large a share of a short program it is.
	MinEffectNS float64
	// Limits by name of measure. A measure that is not named is told, not
	// judged.
	Limits map[string]Limit
	// Threshold is the rule against history.
	Threshold Threshold
}

// A Limit is what may happen to one measure.
type Limit struct {
	// Warn is the change that is told, Fail the change that fails. Nil: none.
	Warn, Fail *Margin
	// Max is the value that head may not exceed whatever base has. Nil: none.
	Max *float64
}

// A Margin is a change in the bad direction: relative ("3%" is Ratio 0.03) or,
// for counts, absolute ("10"). Exactly one of them is set; both zero is "any".
type Margin struct {
	Ratio    float64
	Absolute float64
}

// DefaultBudget is the measuring time of one benchmark.
const DefaultBudget = 10 * time.Second

// DefaultPolicy is the judgement of those who did not write one.
func DefaultPolicy() Policy {
	return Policy{
		Alpha:       0.01,
		MinEffectNS: 1,
		Limits: map[string]Limit{
			"latency": {Warn: &Margin{Ratio: 0.02}, Fail: &Margin{Ratio: 0.05}},
			"insns":   {Warn: &Margin{}, Fail: &Margin{Ratio: 0.05}},
		},
		Threshold: Threshold{Test: TTest, Upper: 0.99, MinSamples: 10, MaxSamples: 64},
	}
}

// A Threshold is a rule that turns the stored values of a measure into a
// [Boundary] for the next one.
type Threshold struct {
	Test Test
	// Upper and Lower are percentiles in (0.5, 1) for t_test; 0 is no boundary
	// on that side. They are of "worse" and "better" only after the measure's
	// direction was applied: Upper guards the bad side.
	Upper, Lower float64
	// MinSamples is the number of stored values below which nothing is
	// judged; MaxSamples keeps the newest.
	MinSamples, MaxSamples int
}

// Test names the formula of a [Threshold].
type Test string

// TTest is a prediction interval by Student's t.
const TTest Test = "t_test"

// Looks are the numbers of rounds after which a session asks for a verdict, in
// order: 20 to 320, each twice the one before. What share of alpha each may
// spend is in docs/statistics.md.
func (p Policy) Looks() []int { return []int{20, 40, 80, 160, 320} }

// Check tells everything that a policy may not be, joined by [errors.Join].
func (p Policy) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !(p.Alpha > 0 && p.Alpha < 0.5) {
		bad("alpha is %v, not between 0 and 0.5", p.Alpha)
	}
	if p.Budget < 0 {
		bad("budget is %v, not 0 or more", p.Budget)
	}
	if !atLeastZero(p.MinEffectNS) {
		bad("min_effect_ns is %v, not 0 or more", p.MinEffectNS)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Limits)) {
		l := p.Limits[name]
		for what, m := range map[string]*Margin{"warn": l.Warn, "fail": l.Fail} {
			switch {
			case m == nil:
			case !atLeastZero(m.Ratio) || !atLeastZero(m.Absolute):
				bad("%s: %s is not 0 or more", name, what)
			case m.Ratio > 0 && m.Absolute > 0:
				bad("%s: %s is both a ratio and a number", name, what)
			}
		}
		if l.Max != nil && !finite(*l.Max) {
			bad("%s: max is not a finite number", name)
		}
	}
	t := p.Threshold
	if t.Test != "" && t.Test != TTest {
		bad("threshold: unknown test %q, expected %q", t.Test, TTest)
	}
	for what, q := range map[string]float64{"upper": t.Upper, "lower": t.Lower} {
		if q != 0 && !(q > 0.5 && q < 1) {
			bad("threshold: %s is %v, not between 0.5 and 1", what, q)
		}
	}
	if t.MinSamples < 0 || t.MaxSamples < 0 || t.MaxSamples > 0 && t.MaxSamples < t.MinSamples {
		bad("threshold: at least %d and at most %d samples", t.MinSamples, t.MaxSamples)
	}
	// Maps have no order, and the same policy must give the same report.
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func atLeastZero(x float64) bool { return finite(x) && x >= 0 }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
