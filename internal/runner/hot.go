//go:build linux

package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
)

// What became slower is sampled once all is measured, for so long a side, and for the first so many
// benchmarks: it is told beside the verdict and decides nothing.
const (
	hotEach = 150 * time.Millisecond
	maxHot  = 8
)

// explain samples where the time of benchmarks goes whose latency regressed, and puts the lines that
// explain it beside the numbers.
func (r *run) explain(ctx context.Context) error {
	if r.report == nil {
		return nil
	}
	left := maxHot
	for i := range r.report.Comparisons {
		row := &r.report.Comparisons[i]
		if row.Verdict != gate.Regressed || row.Measure != bench.Latency || left == 0 {
			continue
		}
		at := slices.IndexFunc(r.cases, func(c *benchCase) bool { return c.Name == row.Benchmark })
		if at < 0 {
			continue
		}
		c := r.cases[at]
		m, ok := c.lane.(*micro)
		if !ok || len(c.objects) != 2 {
			continue
		}
		left--
		r.begin("sample where the time of " + c.Name + " goes")
		hot, err := m.Hotspots(ctx, 2, hotEach)
		if stopped := ctx.Err(); stopped != nil {
			return stopped
		}
		head := c.results[len(c.results)-1]
		if err != nil {
			head[0].Warnings = append(slices.Clone(head[0].Warnings), fmt.Sprintf("where its time goes is not known: %v", err))
			continue
		}
		c.tellTime(hot[0], hot[1])
	}
	return nil
}

// tellTime puts lines with their time beside the latency of head, and their time beside the lines
// that explain its executed instructions.
func (c *benchCase) tellTime(base, head *bpf.Hotspots) {
	const few = 20 // samples: fewer say nothing
	if base.Inside < few || head.Inside < few {
		return
	}
	slower := bpf.ExplainTime(base, head)
	last := len(c.results) - 1
	all := slices.Clone(c.results[last])
	if c.exact != nil {
		all = append(all, c.exact[last]...)
	}
	for _, res := range all {
		if res.Measure != bench.Insns {
			continue
		}
		for i := range res.Lines {
			l := &res.Lines[i]
			for j := range slower {
				s := &slower[j]
				if s.File == l.File && s.Line == l.Line && s.Function == l.Function {
					l.Time, l.Share, l.BaseTime = s.Time, s.Share, s.BaseTime
					s.Executions, s.BaseExecutions = l.Executions, l.BaseExecutions
				}
			}
		}
	}
	for _, res := range c.results[last] {
		if res.Measure == bench.Latency {
			res.Lines = slower
		}
	}
}
