package render

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// floors says what the floor is of each way of driving.
func floors(rows []*gate.Comparison) string {
	var parts []string
	seen := map[string]bool{}
	for _, c := range rows {
		if c.Floor == nil {
			continue
		}
		by := clean(c.Path)
		if by == "" {
			by = string(c.Kind)
		}
		if !seen[by] {
			seen[by] = true
			parts = append(parts, quantity(*c.Floor, c.Unit)+" ("+by+")")
		}
	}
	if parts == nil {
		return ""
	}
	return "an empty program reads " + strings.Join(parts, ", ") + "; net is the change without it"
}

// power says what the run could have shown: of the judged noisy rows, the least
// and the greatest slowdown that it would have found nine times in ten.
func power(rows []*gate.Comparison) string {
	var least, most *gate.Comparison
	for _, c := range rows {
		// What it did find is left out: a large change is noisy by itself.
		if c.Detectable == nil || !c.Judged || c.Verdict == gate.Regressed || c.Verdict == gate.Improved {
			continue
		}
		if least == nil || *c.Detectable < *least.Detectable {
			least = c
		}
		if most == nil || *c.Detectable > *most.Detectable {
			most = c
		}
	}
	if least == nil {
		return ""
	}
	one := func(c *gate.Comparison) string {
		return fmt.Sprintf("%.1f%% (%s)", 100**c.Detectable, clean(c.Benchmark))
	}
	s := "this run finds nine in ten slowdowns of " + one(least)
	if most != least {
		s += " to " + one(most)
	}
	return s
}

// outliers counts the rounds that Tukey's fences set apart.
func outliers(rows []*gate.Comparison) string {
	var worse, better, rounds int
	for _, c := range rows {
		if c.Outliers != nil {
			worse, better = worse+c.Outliers.Worse, better+c.Outliers.Better
			rounds += c.Rounds
		}
	}
	if worse+better == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d rounds lie outside Tukey's fences (%d slower, %d faster) and count like the others", worse+better, rounds, worse, better)
}

// A note is a remark about some names.
type note struct {
	names []string
	text  string
	hint  string
	line  *culprit // nil: the text says all
	verb  bool     // the text begins with one
}

// joint stands between the names and the text.
func (n note) joint() string {
	if n.verb {
		return " "
	}
	return ": "
}

// who lists the names, but not all of hundreds.
func (n note) who(show func(string) string) string {
	const most = 6
	var s []string
	for i, name := range n.names {
		if i == most {
			s = append(s, fmt.Sprintf("and %d more", len(n.names)-most))
			break
		}
		s = append(s, show(name))
	}
	return strings.Join(s, ", ")
}

// notes gathers remarks that say the same.
type notes struct {
	list []note
	at   map[[2]string]int // by text and hint
	seen map[[3]string]bool
}

func (n *notes) add(name, text, hint string) *note {
	i, ok := n.at[[2]string{text, hint}]
	if !ok {
		if n.at == nil {
			n.at, n.seen = map[[2]string]int{}, map[[3]string]bool{}
		}
		i = len(n.list)
		n.at[[2]string{text, hint}] = i
		n.list = append(n.list, note{text: text, hint: hint})
	}
	if key := [3]string{text, hint, name}; !n.seen[key] {
		n.seen[key] = true
		n.list[i].names = append(n.list[i].names, name)
	}
	return &n.list[i]
}

func skipNotes(r *gate.Report) []note {
	var n notes
	for _, s := range r.Skipped {
		if !toldElsewhere(r, s) {
			n.add(s.Name, s.Reason, s.Hint)
		}
	}
	return n.list
}

// toldElsewhere tells that what the verifier said of its program, or the reason of
// its row, tells all that the skip does.
func toldElsewhere(r *gate.Report, s bench.Skip) bool {
	program, _, _ := strings.Cut(s.Name, "/")
	return slices.ContainsFunc(r.Programs, func(p bench.ProgramResult) bool { return p.Program == program }) ||
		s.Hint == "" && slices.ContainsFunc(r.Comparisons, func(c gate.Comparison) bool {
			return c.Judged && bench.Within(c.Benchmark, s.Name) && s.Reason != "" && strings.HasSuffix(c.Reason, s.Reason)
		})
}

// rowNotes are the reasons and warnings of rows, and what an undecided one could have
// shown and would need. The budget is that of a suite in which each has what it needs.
func rowNotes(rows []*gate.Comparison, budget time.Duration) (_, _ []note) {
	var why, warn notes
	for _, c := range rows {
		name := c.Benchmark + " " + c.Measure
		if c.Verdict == gate.Regressed {
			for _, l := range culprits(c) {
				l = inInstructions(rows, c, l)
				why.add(c.Benchmark, l.String(), "").line = &l
			}
			for _, l := range allocations(c) {
				why.add(name, l.String(), "").line = &l
			}
		}
		if c.Reason != "" {
			why.add(name, c.Reason, "")
		}
		if c.Verdict == gate.Inconclusive && c.Detectable != nil {
			why.add(name, fmt.Sprintf("this run would have shown %.1f%% nine times in ten", 100**c.Detectable), "")
		}
		if c.Needs != nil {
			warn.add(c.Benchmark, fmt.Sprintf("needs about %s more to decide (--budget %.0fs)", seconds(*c.Needs), budget.Seconds()), "").verb = true
		}
		for _, w := range c.Warnings {
			warn.add(c.Benchmark, w, "")
		}
	}
	return why.list, warn.list
}

// A culprit is a line of the source that explains a row.
type culprit struct {
	bench.LineCount
	does string // how often it runs, and what that makes
}

func (l culprit) place() string { return fmt.Sprintf("%s:%d", path.Base(l.File), l.Line) }

func (l culprit) String() string { return l.place() + "  " + l.Text + "  " + l.does }

// culprits are the lines that decide most of the instructions that head executes
// more, or of the time that it takes longer: at most two, each of them a fifth of the
// difference.
func culprits(c *gate.Comparison) []culprit {
	var out []culprit
	for _, l := range c.Culprits() {
		var does []string
		was := "not in base"
		if l.Executions > 0 {
			does = append(does, times(l.Executions))
		}
		if c.Measure != bench.Latency {
			if !l.New {
				was = "in base " + times(l.BaseExecutions)
			}
			does = append(does, fmt.Sprintf("%.0f%% of the added instructions", 100*min(1, c.Added(l)/(*c.Head-*c.Base))))
		} else if !l.New {
			was = fmt.Sprintf("%s a run, in base %s", quantity(l.Time, "ns"), quantity(l.BaseTime, "ns"))
		}
		if l.Share > 0 {
			does = append(does, fmt.Sprintf("%.0f%% of head's time", 100*min(1, l.Share)))
		}
		out = append(out, culprit{l, strings.Join(does, ", ") + "; " + was})
	}
	return out
}

// inInstructions is a line that explains a time as the row of executed instructions tells
// it, where that names it too: it is told once.
func inInstructions(rows []*gate.Comparison, c *gate.Comparison, l culprit) culprit {
	for _, o := range rows {
		if c.Measure != bench.Latency || o.Benchmark != c.Benchmark || o.Measure != bench.Insns || o.Verdict != gate.Regressed {
			continue
		}
		for _, same := range culprits(o) {
			if same.File == l.File && same.Line == l.Line {
				return same
			}
		}
	}
	return l
}

// allocations are the places where head allocates most more than base.
func allocations(c *gate.Comparison) []culprit {
	if c.Base == nil || c.Head == nil || *c.Head <= *c.Base {
		return nil
	}
	const most = 2
	var out []culprit
	for i, s := range c.Sites[:min(len(c.Sites), most)] {
		if first := c.Sites[0]; i > 0 && s.Value-s.Base < (first.Value-first.Base)/2 {
			break
		}
		was := "not in base"
		if s.Base > 0 {
			was = "in base " + quantity(s.Base, c.Unit)
		}
		share := (s.Value - s.Base) / (*c.Head - *c.Base)
		does := fmt.Sprintf("%s, %.0f%% of what was added; %s", quantity(s.Value, c.Unit), 100*min(1, share), was)
		if len(s.Stack) > 1 {
			does += " (" + strings.Join(s.Stack[:min(len(s.Stack), 4)], " ← ") + ")"
		}
		out = append(out, culprit{bench.LineCount{File: s.File, Line: s.Line, Text: s.Text}, does})
	}
	return out
}

// times says how often a line runs.
func times(n float64) string {
	if n == 1 {
		return "once a run"
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", n), "0"), ".") + " times a run"
}
