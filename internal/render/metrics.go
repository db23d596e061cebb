package render

import (
	"io"
	"strconv"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/openmetrics"
)

// OpenMetrics writes reports in the text format of OpenMetrics 1.0: what was compared,
// the values of both sides, the change with its interval and margin, and the verdicts.
// Ratios are as in [gate.Comparison]: 0.05 is 5% more.
func OpenMetrics(w io.Writer, reports []*gate.Report, missing int) error {
	out := openmetrics.New(w)
	names := bedNames(reports)
	label := func(name, value string) openmetrics.Label { return openmetrics.Label{Name: name, Value: value} }

	out.Family("ebpf_bench_session", openmetrics.Info, "", "What was compared.")
	for i, r := range reports {
		labels := []openmetrics.Label{
			label("testbed", names[i]), label("head", r.Head.Short()), label("commit", r.Head.Commit), label("branch", r.Head.Branch),
			label("against", against(r)), label("kernel", r.Testbed.Kernel), label("arch", r.Testbed.Arch), label("cpu", r.Testbed.CPU),
			label("seed", strconv.FormatUint(r.Seed, 10)),
		}
		out.Sample(1, labels...)
	}
	var verdicts []string
	for _, v := range []gate.Verdict{gate.Inconclusive, gate.Pass, gate.Improved, gate.Regressed, gate.Added, gate.Missing} {
		verdicts = append(verdicts, v.String())
	}
	out.Family("ebpf_bench_report", openmetrics.StateSet, "", "The verdict on all comparisons of a testbed.")
	for i, r := range reports {
		out.State(r.Verdict.String(), verdicts[:4], label("testbed", names[i]))
	}
	out.Family("ebpf_bench_unmeasured_testbeds", openmetrics.Gauge, "testbeds", "Testbeds that were asked for and could not be measured.")
	out.Sample(float64(missing))

	each := func(do func(c *gate.Comparison, labels []openmetrics.Label)) {
		for i, r := range reports {
			for j := range r.Comparisons {
				c := &r.Comparisons[j]
				do(c, []openmetrics.Label{label("testbed", names[i]), label("benchmark", c.Benchmark), label("measure", c.Measure)})
			}
		}
	}
	out.Family("ebpf_bench_verdict", openmetrics.StateSet, "", "The verdict on a comparison that the policy has a limit for.")
	each(func(c *gate.Comparison, labels []openmetrics.Label) {
		if c.Judged {
			out.State(c.Verdict.String(), verdicts, labels...)
		}
	})
	for _, side := range []struct {
		name, help string
		of         func(*gate.Comparison) *float64
	}{
		{"base", "Median of the base, in the unit that the label says.", func(c *gate.Comparison) *float64 { return c.Base }},
		{"head", "Median of the head, in the unit that the label says.", func(c *gate.Comparison) *float64 { return c.Head }},
		{"floor", "The same of an empty program.", func(c *gate.Comparison) *float64 { return c.Floor }},
	} {
		out.Family("ebpf_bench_"+side.name, openmetrics.Gauge, "", side.help)
		each(func(c *gate.Comparison, labels []openmetrics.Label) {
			if x := side.of(c); x != nil {
				out.Sample(*x, append(labels, label("unit", c.Unit))...)
			}
		})
	}
	for _, ratio := range []struct {
		name, help string
		of         func(*gate.Comparison) *float64
	}{
		{"change", "Head against base: 0.05 is 5% more.", func(c *gate.Comparison) *float64 { return c.Change }},
		{"change_low", "Lower end of the interval of the change.", func(c *gate.Comparison) *float64 {
			if c.Interval == nil {
				return nil
			}
			return &c.Interval.Low
		}},
		{"change_high", "Upper end of the interval of the change.", func(c *gate.Comparison) *float64 {
			if c.Interval == nil {
				return nil
			}
			return &c.Interval.High
		}},
		{"margin", "The change in the bad direction that the policy allows.", func(c *gate.Comparison) *float64 { return c.Margin }},
	} {
		out.Family("ebpf_bench_"+ratio.name+"_ratio", openmetrics.Gauge, "ratio", ratio.help)
		each(func(c *gate.Comparison, labels []openmetrics.Label) {
			if x := ratio.of(c); x != nil {
				out.Sample(*x, labels...)
			}
		})
	}
	return out.Close()
}
