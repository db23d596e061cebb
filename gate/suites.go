package gate

import (
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// ShareAlpha is the policy of one of n suites that make one report. Each may be wrong
// with an n-th of its alpha, so that the report is not wrong more often than one of a
// single suite.
func (p Policy) ShareAlpha(n int) Policy {
	p.Alpha /= float64(max(n, 1))
	p.Threshold = p.Threshold.shared(n)
	return p
}

// CompareSuites is [Compare] for runs that may hold several suites (see
// [bench.JoinSuites]): each is judged by the policy that of gives for its name, with
// its share of alpha, and all make one report.
func CompareSuites(base, head *bench.Run, of func(suite string) Policy) *Report {
	base, head = orEmpty(base), orEmpty(head)
	if len(base.Suites)+len(head.Suites) == 0 {
		return Compare(base, head, of(""))
	}
	revision := base.Revision
	whole := newReport(head)
	whole.Base, whole.Asked = &revision, true
	whole.Warnings = merge(base.Warnings, head.Warnings)
	names := merge(head.Suites, base.Suites)
	var parts []*Report
	for _, name := range names {
		parts = append(parts, Compare(base.Suite(name), head.Suite(name), of(name).ShareAlpha(len(head.Suites))))
	}
	whole.join(names, parts)
	return whole
}

// CompareHistorySuites is [CompareHistory] for runs that may hold several suites. In
// stored runs of one suite there is nothing of theirs.
func CompareHistorySuites(head *bench.Run, history []*bench.Run, of func(suite string) Policy) *Report {
	head = orEmpty(head)
	if len(head.Suites) == 0 {
		return CompareHistory(head, history, of(""))
	}
	whole := newReport(head)
	whole.Warnings = merge(head.Warnings)
	var parts []*Report
	for _, name := range head.Suites {
		past := make([]*bench.Run, len(history))
		for i, h := range history {
			past[i] = orEmpty(h).Suite(name)
		}
		parts = append(parts, CompareHistory(head.Suite(name), past, of(name).ShareAlpha(len(head.Suites))))
	}
	whole.join(head.Suites, parts)
	return whole
}

// join fills a report with those of its suites, and concludes it.
func (r *Report) join(names []string, parts []*Report) {
	var o outcomes
	early := -1 // a suite in which there is nothing yet to judge by
	for i, part := range parts {
		in := func(name string) string { return bench.InSuite(names[i], name) }
		for _, c := range part.Comparisons {
			c.Benchmark, c.Program = in(c.Benchmark), in(c.Program)
			r.Comparisons = append(r.Comparisons, c)
		}
		for _, p := range part.Programs {
			p.Program = in(p.Program)
			r.Programs = append(r.Programs, p)
		}
		for _, c := range part.Changes {
			c.Program = in(c.Program)
			r.Changes = append(r.Changes, c)
		}
		for _, s := range part.Skipped {
			s.Name = in(s.Name)
			r.Skipped = append(r.Skipped, s)
		}
		for _, w := range part.Warnings {
			if slices.ContainsFunc(parts, func(other *Report) bool { return !slices.Contains(other.Warnings, w) }) {
				w = names[i] + ": " + w
			}
			r.Warnings = merge(r.Warnings, []string{w})
		}
		for _, p := range part.outcomes.broken {
			o.broken = append(o.broken, in(p))
		}
		for _, p := range part.outcomes.unknown {
			o.unknown = append(o.unknown, in(p))
		}
		if part.refused != nil {
			o.refused = append(o.refused, names[i]+": "+strings.ReplaceAll(part.refused.Error(), "\n", "; "))
		}
		if c := part.Control; c != nil && (r.Control == nil || c.P < r.Control.P) {
			r.Control = c
		}
		if b := part.Baseline; b != nil && (r.Baseline == nil || len(b.Runs) > len(r.Baseline.Runs)) {
			r.Baseline = b
		}
		if !part.Asked && early < 0 {
			early = i
		}
		r.Asked = r.Asked || part.Asked && (part.Verdict == Regressed || part.Verdict == Inconclusive)
	}
	r.conclude(o)
	switch {
	case r.Asked:
	case early >= 0 && r.Verdict == Inconclusive:
		r.Summary, r.Hint = names[early]+": "+parts[early].Summary, parts[early].Hint
	default:
		r.Asked = true
	}
}
