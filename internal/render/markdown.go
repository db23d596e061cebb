package render

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/english"
)

const (
	maxCell      = 100 // characters of a name in a comment
	maxParagraph = 400 // of a sentence
	maxRows      = 100 // of the first table
)

var emoji = [...]string{told: "", bad: "❌", doubtful: "⚠️", good: "✅", better: "🚀", added: "🆕"}

// Marker is the first line of the comment with this id, by which it is found
// again.
func Marker(id string) string {
	if id == "" {
		id = "default"
	}
	// Nothing in it can end the HTML comment.
	id = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
	return "<!-- ebpf-bench-gate id=" + id + " -->"
}

// Markdown writes the report as a comment: the marker, the verdict in words, why, the
// rows that need a reader, the rest folded, and what can be done. It is [Suite] of one
// testbed.
func Markdown(w io.Writer, r *gate.Report, o MarkdownOptions) error {
	return Suite(w, []*gate.Report{r}, SuiteOptions{MarkdownOptions: o})
}

// The parts that may be left out, by what they are called.
const (
	partChart    = "the chart of the history"
	partLogs     = "verifier logs"
	partSkipped  = "skipped programs"
	partAll      = "the table of all comparisons"
	partWarnings = "warnings"
	partAccept   = "waivers to copy"
)

// dropOrder is what is left out first, where not everything fits. After these come
// the last rows of the first table, and everything but the verdicts.
var dropOrder = []string{partChart, partLogs, partSkipped, partAll, partWarnings, partAccept}

// A comment is the part of one testbed in the making.
type comment struct {
	b       strings.Builder
	r       *gate.Report
	s       *sheet
	o       *MarkdownOptions
	dropped []string
	rows    int // of the first table, at most
	skips   []note
	// told are lines of the source that stand elsewhere already, by name and text.
	told map[[2]string]bool
}

func (c *comment) has(part string) bool { return !slices.Contains(c.dropped, part) }

func (c *comment) printf(format string, args ...any) { fmt.Fprintf(&c.b, format, args...) }

// words are the verdict, where the summary does not begin with it.
func words(r *gate.Report) string {
	switch {
	case !r.Asked && r.Verdict == gate.Inconclusive:
		return ""
	case r.Verdict == gate.Regressed:
		return "Regressed: "
	case r.Verdict == gate.Pass:
		return "Passed: "
	case r.Verdict == gate.Improved:
		return "Improved: "
	}
	return "Inconclusive: "
}

// first is the table of what needs a reader.
func (c *comment) first() {
	var rows []*gate.Comparison
	for _, row := range c.s.rows {
		if m := c.s.mark(row); m == bad || m == doubtful || m == better {
			rows = append(rows, row)
		}
	}
	shown := rows[:min(len(rows), c.rows)]
	c.table(shown)
	if n := len(rows) - len(shown); n > 0 {
		c.printf("…and %s like these.\n\n", english.Count(n, "more row"))
	}
	why, _ := rowNotes(shown, 0)
	n := 0
	for _, w := range why {
		if w.line != nil && c.toldAll(w) {
			continue
		}
		text := escape(w.text, maxParagraph)
		if w.line != nil {
			text = c.source(*w.line)
		}
		c.printf("- %s: %s\n", w.who(code), text)
		n++
	}
	if n > 0 {
		c.printf("\n")
	}
}

// toldAll marks a line of the source as told for its benchmarks, and tells whether it
// was.
func (c *comment) toldAll(n note) bool {
	all := true
	for _, name := range n.names {
		key := [2]string{name, n.text}
		all = all && c.told[key]
		c.told[key] = true
	}
	return all
}

func (c *comment) table(rows []*gate.Comparison) {
	if len(rows) == 0 {
		return
	}
	netTitle, netRule := "", ""
	if c.s.net {
		netTitle, netRule = "net|", "-:|"
	}
	c.printf("||benchmark|measure|base|head|change|%s%s|verdict|\n|-|-|-|-:|-:|-:|%s-:|-|\n", netTitle, c.s.interval, netRule)
	for _, row := range rows {
		delta := or(change(row))
		if m := c.s.mark(row); m == bad || m == better {
			delta = "**" + delta + "**"
		}
		netCell := ""
		if c.s.net {
			netCell = or(net(row)) + "|"
		}
		c.printf("|%s|%s|%s|%s|%s|%s|%s%s|%s|\n", emoji[c.s.mark(row)], code(row.Benchmark), escape(row.Measure, maxCell),
			or(escape(value(row.Base, row.Unit), maxCell)), or(escape(value(row.Head, row.Unit), maxCell)), delta,
			netCell, or(escape(c.s.intervalCell(row), maxCell)), or(c.s.verdict(row)))
	}
	c.printf("\n")
}

func or(cell string) string {
	if cell == "" {
		return dash
	}
	return cell
}

// all is every row, and what static measures a new program has.
func (c *comment) all() {
	header, static := c.s.staticTable()
	if len(c.s.rows)+len(static) == 0 {
		return
	}
	c.table(c.s.rows)
	if len(static) > 0 {
		c.printf("|%s|\n|-|%s\n", strings.Join(each(header, func(h string) string { return escape(h, maxCell) }), "|"), strings.Repeat("-:|", len(header)-1))
		for _, row := range static {
			c.printf("|%s|%s|\n", code(row[0]), strings.Join(each(row[1:], func(v string) string { return or(escape(v, maxCell)) }), "|"))
		}
		c.printf("\n")
	}
	for _, s := range []string{floors(c.s.rows), c.s.limits(), c.s.others()} {
		if s != "" {
			c.printf("%s\n\n", escape(s, maxParagraph))
		}
	}
}

func each(list []string, f func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}

func (c *comment) programs() {
	most := min(20, c.rows)
	for i, p := range c.r.Programs {
		if i == most {
			c.printf("…and %s that the verifier did not accept.\n\n", english.Count(len(c.r.Programs)-most, "more program"))
			break
		}
		m := bad
		if p.Outcome == bench.Accepted {
			m = good
		}
		c.printf("%s %s is %s", emoji[m], code(p.Program), escape(string(p.Outcome), maxCell))
		if p.Reason != "" {
			c.printf(": %s", escape(p.Reason, maxParagraph))
		}
		c.printf("\n\n")
		if len(p.LogTail) == 0 || !c.has(partLogs) {
			continue
		}
		c.printf("<details><summary>End of the verifier's log</summary>\n\n<pre>\n")
		for _, l := range p.LogTail[max(0, len(p.LogTail)-3*maxLogLines):] {
			c.printf("%s\n", html.EscapeString(shorten(clean(l), maxLogLine)))
		}
		c.printf("</pre>\n\n</details>\n\n")
	}
}

func (c *comment) warnings() {
	const most = 20
	_, warn := rowNotes(c.s.rows, c.r.Budget())
	n := len(c.r.Warnings) + len(warn)
	for i := range min(n, most) {
		var line string
		if i < len(c.r.Warnings) {
			line = escape(c.r.Warnings[i], maxParagraph)
		} else {
			note := warn[i-len(c.r.Warnings)]
			line = note.who(code) + note.joint() + escape(note.text, maxParagraph)
		}
		c.printf("- %s %s\n", emoji[doubtful], line)
	}
	if n > most {
		c.printf("- …and %s\n", english.Count(n-most, "more warning"))
	}
	if n > 0 {
		c.printf("\n")
	}
}

func (c *comment) skipped() {
	for _, n := range c.skips {
		c.printf("- %s: %s", n.who(code), escape(n.text, maxParagraph))
		if n.hint != "" {
			c.printf(". %s", escape(n.hint, maxParagraph))
		}
		c.printf("\n")
	}
	if len(c.skips) > 0 {
		c.printf("\n")
	}
}

func (c *comment) footer() {
	line := "head " + shorten(clean(c.r.Head.Short()), maxCell)
	if a := against(c.r); a != "" {
		line += " against " + shorten(a, 2*maxCell)
	}
	parts := []string{line}
	if tb := testbed(c.r.Testbed); tb != "" {
		parts = append(parts, tb)
	}
	if n := rounds(c.r); n != "" {
		parts = append(parts, n)
		if c.r.Seed != 0 {
			parts = append(parts, "seed "+seed(c.r))
		}
	}
	if p := power(c.s.rows); p != "" {
		parts = append(parts, p)
	}
	if c.o.Policy != "" {
		parts = append(parts, "policy from "+shorten(clean(c.o.Policy), 2*maxCell))
	}
	c.printf("<sub>%s</sub>\n", escape(strings.Join(parts, " · "), maxParagraph))
}

// seed is what every order was drawn from; 0: nothing was drawn, as in results of
// other tools.
func seed(r *gate.Report) string { return strconv.FormatUint(r.Seed, 10) }

// code shows a name as code. An HTML tag with entities, and not backticks, since
// entities are inert in tables too, whatever the name holds.
func code(s string) string {
	return "<code>" + entities(shorten(clean(s), maxCell)) + "</code>"
}

// escape shows text as text. A page links and notifies by what text looks like,
// even from entities, so that an invisible space breaks "@name", "#1", "http://"
// and "www.".
func escape(s string, most int) string {
	const gap = "&#8203;"
	var b strings.Builder
	runes := []rune(shorten(clean(s), most))
	for i, r := range runes {
		entity(&b, r)
		next := i+1 < len(runes) && !unicode.IsSpace(runes[i+1])
		switch {
		case (r == '@' || r == '#' || r == ':' || r == '!') && next:
			b.WriteString(gap)
		case r == '-' && next && unicode.IsDigit(runes[i+1]) && i >= 2 && strings.EqualFold(string(runes[i-2:i]), "gh"):
			b.WriteString(gap)
		case (r == 'w' || r == 'W') && next && runes[i+1] == '.' && i >= 2 && strings.EqualFold(string(runes[i-2:i]), "ww"):
			b.WriteString(gap)
		}
	}
	return b.String()
}

func entities(s string) string {
	var b strings.Builder
	for _, r := range s {
		entity(&b, r)
	}
	return b.String()
}

// entity writes a character, by its number where it means something to Markdown
// or HTML.
func entity(b *strings.Builder, r rune) {
	if strings.ContainsRune("&<>\"'`*_~[]!\\|#@$^={}", r) {
		b.WriteString("&#" + strconv.Itoa(int(r)) + ";")
		return
	}
	b.WriteRune(r)
}
