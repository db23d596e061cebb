package gate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// needs is about how many more seconds would decide a row that a look left open: up
// to the first planned look at which its bound, shrinking as the root of the rounds,
// has left the margin behind. Nil: there is none, or it is not known what a round
// takes.
func (w *row) needs(v *view, errorLow, errorHigh float64) *float64 {
	if v.noise == nil || v.rounds == 0 || w.Seconds <= 0 {
		return nil
	}
	e := v.shift.Estimate()
	wide := e - v.shift.Lower(errorLow)
	if e < v.margin {
		wide = v.shift.Upper(errorHigh) - e
	}
	ratio := wide / (e - v.margin)
	rounds := float64(v.rounds) * ratio * ratio
	for _, n := range (Policy{}).Looks() {
		if n > v.rounds && float64(n) >= rounds { // false for what is not a number
			return pointer(w.Seconds / float64(v.rounds) * float64(n-v.rounds))
		}
	}
	return nil
}

// inSeconds is a whole number of seconds as --budget takes it.
func inSeconds(d time.Duration) string { return fmt.Sprintf("%.0fs", d.Seconds()) }

// Budget is the time for the whole suite with which every row that says what it
// needs would have had that; 0 where none does.
func (r *Report) Budget() time.Duration {
	spent, needs := map[string]float64{}, map[string]float64{}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		name := c.Benchmark
		if c.Kind == bench.User { // one process measures all benchmarks of a command
			name = c.Program
		}
		spent[name] = max(spent[name], c.Seconds)
		if c.Needs != nil {
			needs[name] = max(needs[name], *c.Needs)
		}
	}
	if len(needs) == 0 {
		return 0
	}
	// Benchmarks that are still open share evenly what the others left.
	total, most := 0.0, 0.0
	for name, s := range spent {
		if n, ok := needs[name]; ok {
			most = max(most, s+n)
		} else {
			total += s
		}
	}
	total = min(total+most*float64(len(needs)), 1e6)
	steps := []float64{1, 5, 10, 30, 60, 300}
	step := steps[len(steps)-1]
	if i := slices.IndexFunc(steps, func(s float64) bool { return total <= 10*s }); i >= 0 {
		step = steps[i]
	}
	// A tenth more, since hosts have moods.
	return time.Duration(math.Ceil(1.1*total/step)*step) * time.Second
}
