//go:build linux

package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// firstLook is the fewest rounds that are judged at all: fewer cannot reach the
// significance that a suite asks for.
const firstLook = 10

// measure goes from look to look. Rounds of different benchmarks are
// interleaved, so that a noisy minute falls on all of them.
func (r *run) measure(ctx context.Context) error {
	open := slices.DeleteFunc(slices.Clone(r.cases), func(c *benchCase) bool { return c.lane == nil })
	for look, rounds := range r.Policy.Looks() {
		if len(open) == 0 {
			break
		}
		if look > 0 {
			// What does not fit was made final at the look before.
			open = slices.DeleteFunc(open, func(c *benchCase) bool { return c.final })
		}
		var err error
		if open, err = r.roundsUpTo(ctx, open, rounds); err != nil {
			return err
		}
		r.setFinal(open, look)
		for _, c := range open {
			for _, res := range c.all() {
				// A counter may have had no sample since the last look.
				if n := len(res.Looks); n == 0 && len(res.Samples) > 0 || n > 0 && res.Looks[n-1] < len(res.Samples) {
					res.Looks = append(res.Looks, len(res.Samples))
				}
				res.Final = c.final
			}
		}
		if len(r.runs) < 2 {
			break // one side is measured, not decided: the first look is all
		}
		r.collect()
		r.report = gate.Compare(r.runs[0], r.runs[1], r.Policy)
		stillOpen := r.report.Open()
		open = slices.DeleteFunc(open, func(c *benchCase) bool { return !c.among(stillOpen) })
	}
	for _, c := range r.cases {
		if h, ok := c.lane.(*harnesses); ok {
			h.explain()
		}
	}
	if err := r.explain(ctx); err != nil {
		return err
	}
	r.collect()
	return nil
}

// roundsUpTo measures until every open benchmark has so many rounds, or its
// time is over. Benchmarks that fail on the way are told and dropped.
func (r *run) roundsUpTo(ctx context.Context, open []*benchCase, rounds int) ([]*benchCase, error) {
	for {
		busy := false
		for _, i := range r.rng.Perm(len(open)) {
			c := open[i]
			if c == nil || c.done >= rounds || c.done >= firstLook && c.spent > r.allowance(c, open) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			busy = true
			start := time.Now()
			samples, err := c.lane.round(c.done)
			c.spent += time.Since(start)
			if stopped := ctx.Err(); stopped != nil {
				return nil, stopped
			}
			if err != nil {
				r.fail(c.Benchmark, err)
				c.drop()
				open[i] = nil
				continue
			}
			c.add(samples)
		}
		open = slices.DeleteFunc(open, func(c *benchCase) bool { return c == nil })
		if !busy {
			return open, nil
		}
		if r.Progress != nil && len(open) > 0 {
			names := make([]string, len(open))
			for i, c := range open {
				names[i] = c.Name
			}
			r.Progress(Progress{Round: open[0].done, Look: rounds, Open: names, Sure: r.sure(names[0]), Elapsed: time.Since(r.start), Budget: r.budget()})
		}
	}
}

// sure is how the last look saw a benchmark.
func (r *run) sure(name string) string {
	if r.report == nil {
		return ""
	}
	for _, c := range r.report.Comparisons {
		if c.Benchmark == name && c.Open && c.Interval != nil && c.Change != nil {
			return fmt.Sprintf("%+.1f%%, %+.1f…%+.1f%%", 100**c.Change, 100*c.Interval.Low, 100*c.Interval.High)
		}
	}
	return ""
}

// budget is the time that measuring the suite may take.
func (r *run) budget() time.Duration {
	if r.Policy.Budget > 0 {
		return r.Policy.Budget
	}
	all := time.Duration(0)
	for _, c := range r.cases {
		all += c.share()
	}
	return max(all, gate.DefaultBudget)
}

// share is the time that a benchmark would have by itself, where nobody says how much.
func (c *benchCase) share() time.Duration {
	if c.Harness != nil {
		return bench.DefaultHarnessBudget
	}
	return gate.DefaultBudget
}

// allowance is the time that an open benchmark may have taken by its end: its own, or
// its share of what the decided ones left over.
func (r *run) allowance(c *benchCase, open []*benchCase) time.Duration {
	if c.Budget > 0 {
		return c.Budget
	}
	left, shares := r.budget(), time.Duration(0)
	for _, o := range r.cases {
		if slices.Contains(open, o) {
			shares += o.share()
			continue
		}
		left -= o.spent
	}
	return time.Duration(float64(left) * float64(c.share()) / float64(max(shares, c.share())))
}

// setFinal marks the benchmarks for which the next look would take longer than
// their time, so that this look spends what is left of alpha.
func (r *run) setFinal(open []*benchCase, look int) {
	looks := r.Policy.Looks()
	for _, c := range open {
		allowed := r.allowance(c, open)
		if look+1 == len(looks) || c.done < looks[look] {
			c.final = true
			continue
		}
		per := c.spent / time.Duration(max(1, c.done))
		c.final = c.spent+per*time.Duration(looks[look+1]-c.done) > allowed
	}
}

// among tells whether one of the names is that of a result of the case.
func (c *benchCase) among(names []string) bool {
	return slices.ContainsFunc(c.all(), func(res *bench.Result) bool { return slices.Contains(names, res.Benchmark) })
}
