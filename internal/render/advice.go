package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/english"
)

// What people copy out of a comment is made of these alone: a name that would be
// anything else to a shell or to YAML is left out.
var (
	plainName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+=:@/-]*$`)
	plainPath   = regexp.MustCompile(`^[A-Za-z0-9_.+][A-Za-z0-9_.+/-]*$`)
	plainGlob   = regexp.MustCompile(`^[A-Za-z0-9_.+*?][A-Za-z0-9_.+/*?-]*$`)
	plainMember = regexp.MustCompile(`^[a-z_]+\[[A-Za-z0-9_./-]+\]$`)
	plainCommit = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
	plainURL    = regexp.MustCompile(`^https?://[A-Za-z0-9.:-]+/[A-Za-z0-9._~/%@+=,#-]*$`)
)

// lead says, in a sentence below the verdict, what it rests on and why.
func (c *comment) lead() {
	d := c.r.Deciding()
	if d == nil {
		return
	}
	var parts []string
	if d.Interval != nil {
		parts = append(parts, fmt.Sprintf("%s interval %s…%s.", level(d.Interval.Level), points(d.Interval.Low), percent(d.Interval.High)))
	}
	why, _ := rowNotes(rowsOf(c.s.rows, d.Benchmark), 0)
	for _, n := range why {
		if n.line != nil {
			parts = append(parts, "Why: "+c.source(*n.line)+".")
			c.toldAll(n)
			break
		}
	}
	if len(parts) > 0 {
		c.printf("%s\n\n", strings.Join(parts, " "))
	}
}

func rowsOf(rows []*gate.Comparison, benchmark string) []*gate.Comparison {
	var out []*gate.Comparison
	for _, c := range rows {
		if c.Benchmark == benchmark {
			out = append(out, c)
		}
	}
	return out
}

// source shows a line of the source: where it is, linked, what it says and does.
func (c *comment) source(l culprit) string {
	at := code(l.place())
	if c.o.Link != nil {
		if url := c.o.Link(l.LineCount); plainURL.MatchString(url) {
			at = "[" + at + "](" + url + ")"
		}
	}
	return at + " " + code(l.Text) + ": " + escape(l.does, maxParagraph)
}

// reproduce is the command that measures again what the reports are about, or empty.
func reproduce(reports []*gate.Report, o *MarkdownOptions) string {
	i := slices.IndexFunc(reports, func(r *gate.Report) bool { return r.Base != nil && plainCommit.MatchString(r.Base.Commit) })
	if i < 0 {
		return ""
	}
	const most = 3
	commit := reports[i].Base.Commit
	command := []string{"gate run --base", commit[:min(12, len(commit))]}
	switch {
	case o.Config == "" || o.Config == configName:
	case plainPath.MatchString(o.Config):
		command = append(command, "--config", o.Config)
	case plainGlob.MatchString(o.Config):
		command = append(command, "--config", "'"+o.Config+"'")
	}
	for _, name := range openNames(reports, most) {
		command = append(command, "--only", name)
	}
	return strings.Join(command, " ")
}

const configName = "ebpf-bench.yml"

// openNames are the benchmarks that regressed, or else those that were not decided:
// none where there are more than so many.
func openNames(reports []*gate.Report, most int) []string {
	for _, v := range []gate.Verdict{gate.Regressed, gate.Inconclusive} {
		var names []string
		for _, r := range reports {
			for i := range r.Comparisons {
				c := &r.Comparisons[i]
				// What has no case is a program, which is measured whatever is asked for.
				if c.Judged && c.Verdict == v && strings.Contains(c.Benchmark, "/") && !slices.Contains(names, c.Benchmark) {
					if len(names) == most {
						return nil
					}
					names = append(names, c.Benchmark)
				}
			}
		}
		if slices.ContainsFunc(names, func(n string) bool { return !plainName.MatchString(n) || len(n) > maxCell }) {
			return nil
		}
		if len(names) > 0 {
			return names
		}
	}
	return nil
}

// A waiver is the line that accepts what regressed of one benchmark, and the file that
// it goes into.
type waiver struct{ file, text string }

// waivers are the lines that accept what regressed, on all testbeds and of one file
// after the other, and how many more there are whose names nobody should copy.
func waivers(reports []*gate.Report, until time.Time, configOf func(string) string) (lines []waiver, more int) {
	if until.IsZero() {
		return nil, 0
	}
	type key struct{ file, benchmark string }
	at := map[key]map[string]gate.Margin{}
	var order []key
	for _, r := range reports {
		for _, w := range r.Waivers(until) {
			k := key{configName, w.Benchmark}
			suite := ""
			if len(r.Suites) > 0 {
				suite, k.benchmark = bench.SplitSuite(k.benchmark)
			}
			if configOf != nil {
				k.file = configOf(suite)
			}
			if at[k] == nil {
				at[k] = map[string]gate.Margin{}
				order = append(order, k)
			}
			for name, m := range w.Max {
				at[k][name] = gate.Margin{Ratio: max(m.Ratio, at[k][name].Ratio), Absolute: max(m.Absolute, at[k][name].Absolute)}
			}
		}
	}
	files := map[string]int{}
	for _, k := range order {
		if _, ok := files[k.file]; !ok {
			files[k.file] = len(files)
		}
	}
	slices.SortStableFunc(order, func(a, b key) int { return files[a.file] - files[b.file] })
	for _, k := range order {
		limits := limitsText(at[k])
		if limits == "" || !plainName.MatchString(k.benchmark) || !plainPath.MatchString(k.file) {
			more++
			continue
		}
		name := k.benchmark
		if strings.ContainsAny(name, ":=") { // which YAML takes for its own
			name = `"` + name + `"`
		}
		lines = append(lines, waiver{k.file, fmt.Sprintf(`{benchmark: %s, max: {%s}, until: %s, reason: ""}`, name, limits, until.UTC().Format(time.DateOnly))})
	}
	return lines, more
}

// limitsText are the limits that a config knows, in its order; empty: it knows none.
func limitsText(limits map[string]gate.Margin) string {
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(limits), bench.MeasureOrder) {
		shown := name
		if _, _, member := bench.SplitMember(name); member {
			if !plainMember.MatchString(name) {
				continue
			}
			shown = `"` + name + `"`
		}
		if _, ok := bench.LookupMeasure(name); ok {
			parts = append(parts, shown+": "+marginText(limits[name]))
		}
	}
	return strings.Join(parts, ", ")
}

func marginText(m gate.Margin) string {
	if m.Absolute > m.Ratio {
		return strconv.FormatFloat(m.Absolute, 'f', -1, 64)
	}
	return strconv.FormatFloat(100*m.Ratio, 'g', 6, 64) + "%"
}

// accept offers the waivers, and says what to do with them.
func accept(reports []*gate.Report, o *MarkdownOptions) string {
	const most = 10
	lines, more := waivers(reports, o.Until, o.ConfigOf)
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	several := lines[0].file != lines[len(lines)-1].file
	where := code(lines[0].file)
	if several {
		where = "these files"
	}
	b.WriteString("**Accept** where it is worth it: add to <code>policy</code> in " + where + ", with a reason:\n\n```yaml\n")
	for i, l := range lines {
		if i == most {
			more += len(lines) - most
			break
		}
		if i == 0 || l.file != lines[i-1].file {
			if several {
				b.WriteString("# " + l.file + "\n")
			}
			b.WriteString("waivers:\n")
		}
		b.WriteString("  - " + l.text + "\n")
	}
	b.WriteString("```\n\n")
	if more > 0 {
		fmt.Fprintf(&b, "…and %s like these.\n\n", english.Count(more, "more waiver"))
	}
	if o.Label != "" {
		b.WriteString("It counts once it is merged; before that, where somebody who may write sets the label " + code(o.Label) + " after the push and runs the report again.\n\n")
	}
	return b.String()
}
