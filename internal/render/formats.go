package render

import (
	"fmt"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// Formats that machines read as they are: JUnit, SARIF, OpenMetrics and CSV. Each takes
// the reports of all testbeds, and how many testbeds have none.

// bedNames are the names of the reports' testbeds, of which no two are alike.
func bedNames(reports []*gate.Report) []string {
	seen := map[string]int{}
	names := make([]string, len(reports))
	for i, r := range reports {
		names[i] = clean(r.Testbed.Slug())
		if seen[names[i]]++; seen[names[i]] > 1 {
			names[i] += fmt.Sprintf(" #%d", seen[names[i]])
		}
	}
	return names
}

// inWords is a row in one line without its name: "98.6 ns → 236.9 ns, +140.3%
// (+138.1…+142.6%, 99%), limit +5%".
func inWords(c *gate.Comparison) string {
	var s string
	switch {
	case c.Base != nil && c.Head != nil:
		s = value(c.Base, c.Unit) + " → " + value(c.Head, c.Unit)
		if d := change(c); d != "" {
			s += ", " + d
		}
	case c.Head != nil:
		s = value(c.Head, c.Unit)
	case c.Base != nil:
		s = value(c.Base, c.Unit) + " in base"
	default:
		s = "no value"
	}
	switch {
	case c.Interval != nil:
		s += " (" + points(c.Interval.Low) + "…" + percent(c.Interval.High) + ", " + level(c.Interval.Level) + ")"
	case c.Boundary != nil:
		s += ", boundary " + boundary(c)
	}
	if c.Limit != "" {
		s += ", " + clean(c.Limit)
	}
	if c.Reason != "" {
		s += ": " + clean(c.Reason)
	}
	return s
}

// reasons are the places of the source that explain a row.
func reasons(c *gate.Comparison) []culprit { return append(culprits(c), allocations(c)...) }

// explained are the reasons in words.
func explained(c *gate.Comparison) []string {
	var lines []string
	for _, l := range reasons(c) {
		lines = append(lines, fmt.Sprintf("%s:%d: %s: %s", clean(l.File), l.Line, clean(l.Text), clean(l.does)))
	}
	return lines
}

// programInWords is what the verifier answered, in one line.
func programInWords(p bench.ProgramResult) string {
	s := string(p.Outcome)
	if p.Reason != "" {
		s += ": " + p.Reason
	}
	return clean(s)
}

// logTail is the end of a verifier's log.
func logTail(p bench.ProgramResult) string {
	var lines []string
	for _, l := range p.LogTail[max(0, len(p.LogTail)-maxLogLines):] {
		lines = append(lines, shorten(clean(l), maxLogLine))
	}
	return strings.Join(lines, "\n")
}

// required are the names of what was asked for and is missing.
func required(r *gate.Report) (names []string) {
	for _, s := range r.Skipped {
		if s.Required {
			names = append(names, clean(s.Name))
		}
	}
	return names
}
