package gate

import "time"

// A Policy says how runs are judged.
type Policy struct {
	// Alpha is the chance that a suite of unchanged programs is called
	// Regressed, over all its comparisons and looks; 0 < Alpha < 1.
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
