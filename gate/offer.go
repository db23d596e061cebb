package gate

import (
	"math"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// Waivers are those that would accept what the report calls Regressed: one a
// benchmark, in the order of the rows, each measure with a round limit above the
// upper bound of its change. They lack the reason, which is not ours to give, and
// [Policy.Check] refuses them without one.
//
// What no waiver accepts has none: an absolute limit, the verifier's answer, and a
// time that lies below its floor, of which there is no share to allow.
func (r *Report) Waivers(until time.Time) []Waiver {
	var all []Waiver
	at := map[string]int{}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		m, ok := c.acceptable()
		if !ok {
			continue
		}
		pattern := literal(c.Benchmark)
		j, ok := at[pattern]
		if !ok {
			j = len(all)
			at[pattern] = j
			all = append(all, Waiver{Benchmark: pattern, Max: map[string]Margin{}, Until: until})
		}
		all[j].Max[c.Measure] = m
	}
	return all
}

// mostRatio is the change from which on a count is better told as a number, and a
// time as what it is: another program.
const mostRatio = 1000

// acceptable is the margin that a waiver of the row needs.
func (c *Comparison) acceptable() (Margin, bool) {
	if !c.Judged || c.Verdict != Regressed || c.Fixed || c.Base == nil || c.Head == nil {
		return Margin{}, false
	}
	sign := 1.0
	m := declared(measureOf(c.Measure), c.Unit, c.Better)
	if m.Better == bench.Higher {
		sign = -1
	}
	if *c.Base <= 0 {
		if worse := sign * (*c.Head - *c.Base); m.Unit != "ns" && m.Unit != "us" && finite(worse) {
			return Margin{Absolute: roundUp(worse)}, true
		}
		return Margin{}, false
	}
	worse := sign * (*c.Head / *c.Base - 1)
	if c.Change != nil {
		worse = sign * *c.Change
	}
	if i := c.Interval; i != nil {
		worse = max(sign*i.Low, sign*i.High)
	}
	if c.Floor != nil && (c.Interval != nil || c.Exact) { // margins are of the program's own
		if *c.Base <= *c.Floor {
			return Margin{}, false
		}
		worse *= *c.Base / (*c.Base - *c.Floor)
	}
	switch {
	case !finite(worse) || worse <= 0:
		return Margin{}, false
	case worse < mostRatio:
		return Margin{Ratio: roundUp(100*worse) / 100}, true
	case m.Unit == "ns" || m.Unit == "us":
		return Margin{}, false
	}
	return Margin{Absolute: roundUp(worse * *c.Base)}, true
}

// roundUp is the next round number above x: whole numbers up to 20, multiples of 5
// up to 200, of 50 up to 2000, and so on.
func roundUp(x float64) float64 {
	step := 1.0
	for limit := 20.0; x >= limit; limit *= 10 {
		step = limit / 4
	}
	return (math.Floor(x/step) + 1) * step
}

// literal is the pattern that matches a name and nothing else.
func literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}
