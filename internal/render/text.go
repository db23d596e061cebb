package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

const (
	maxName     = 60 // columns of a name in a table that need not fit
	minName     = 16 // that it is not shortened below
	maxLogLine  = 160
	maxLogLines = 10
)

// symbols and colours by mark.
var (
	symbols = [...]string{told: " ", bad: "✗", doubtful: "!", good: "✓", better: "↑", added: "+"}
	colors  = [...]string{told: "", bad: "31", doubtful: "33", good: "32", better: "32", added: "36"}
)

// Text writes the report for a terminal: what was compared, a line a row, what
// explains or doubts them, and the verdict in one sentence, which stands last
// because that is where the reader's eyes are.
func Text(w io.Writer, r *gate.Report, o Options) error {
	t := &terminal{o: o}
	s := newSheet(r)
	t.header(r)
	t.table(s)
	t.static(s)
	if other := s.others(); other != "" {
		t.line("  ", other)
	}
	t.blank()
	if f := floors(s.rows); f != "" {
		t.line("net:  ", f)
	}
	if l := s.limits(); l != "" {
		t.line("uses: ", l)
	}
	if p := power(s.rows); p != "" {
		t.line("sees: ", p)
	}
	if o := outliers(s.rows); o != "" {
		t.line("odd:  ", o)
	}
	t.programs(r)
	why, warn := rowNotes(s.rows, r.Budget())
	t.notes("why:  ", why)
	for _, msg := range r.Warnings {
		t.line(t.paint("warn:", doubtful)+" ", clean(msg))
	}
	t.notes(t.paint("warn:", doubtful)+" ", warn)
	t.notes("skip: ", skipNotes(r))
	t.summary(r)
	_, err := io.WriteString(w, t.b.String())
	return err
}

type terminal struct {
	b strings.Builder
	o Options
}

func (t *terminal) line(label, s string) {
	t.b.WriteString(strings.TrimRight(label+s, " ") + "\n")
}

// blank separates what is there from what follows, once.
func (t *terminal) blank() {
	if s := t.b.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		t.b.WriteString("\n")
	}
}

func (t *terminal) paint(s string, m mark) string {
	if !t.o.Color || colors[m] == "" {
		return s
	}
	return "\x1b[" + colors[m] + "m" + s + "\x1b[0m"
}

func (t *terminal) bold(s string) string {
	if !t.o.Color {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

func name(s string) string { return shorten(clean(s), maxName) }

func (t *terminal) header(r *gate.Report) {
	line := "head " + name(r.Head.Short())
	if a := against(r); a != "" {
		line += " against " + shorten(a, 2*maxName)
	}
	if tb := testbed(r.Testbed); tb != "" {
		line += "   " + tb
	}
	if n := rounds(r); n != "" {
		line += "   " + n
		if r.Seed != 0 {
			line += ", seed " + seed(r)
		}
	}
	t.line("", line)
	t.blank()
}

// A column of a table. Numbers stand right.
type column struct {
	title string
	right bool
	cells []string
}

func (t *terminal) table(s *sheet) {
	columns := []column{
		{title: "benchmark"}, {title: "measure"}, {title: "base", right: true}, {title: "head", right: true},
		{title: "change", right: true}, {title: "net", right: true}, {title: s.interval}, {title: "verdict"},
	}
	var marks []mark
	for _, c := range s.rows {
		for i, cell := range []string{
			clean(c.Benchmark), clean(c.Measure), value(c.Base, c.Unit), value(c.Head, c.Unit),
			change(c), net(c), s.intervalCell(c), s.verdict(c),
		} {
			columns[i].cells = append(columns[i].cells, cell)
		}
		marks = append(marks, s.mark(c))
	}
	t.columns(columns, marks)
}

func (t *terminal) static(s *sheet) {
	header, rows := s.staticTable()
	if len(rows) == 0 {
		return
	}
	if len(s.rows) > 0 {
		t.blank()
	}
	columns := make([]column, len(header))
	for i, h := range header {
		columns[i] = column{title: clean(h), right: i > 0}
		for _, row := range rows {
			columns[i].cells = append(columns[i].cells, clean(row[i]))
		}
	}
	t.columns(columns, make([]mark, len(rows)))
}

// columns writes a table, without the columns that no row fills. The last column
// has the colour of the row's mark.
func (t *terminal) columns(all []column, marks []mark) {
	if len(marks) == 0 {
		return
	}
	var columns []column
	for i, c := range all {
		filled := i == 0
		for j, cell := range c.cells {
			filled = filled || cell != ""
			if cell == "" {
				c.cells[j] = dash
			}
		}
		if filled {
			columns = append(columns, c)
		}
	}
	widths := make([]int, len(columns))
	others := 2 * len(columns) // the mark's column, and a gap after each but the last
	for i, c := range columns {
		widths[i] = width(c.title)
		for _, cell := range c.cells {
			widths[i] = max(widths[i], width(cell))
		}
		if i > 0 {
			others += widths[i]
		}
	}
	limit := maxName
	if t.o.Width > 0 {
		limit = max(minName, min(limit, t.o.Width-others))
	}
	widths[0] = min(widths[0], limit)

	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = pad(strings.ToUpper(c.title), widths[i], c.right)
	}
	t.line("  ", strings.Join(cells, "  "))
	for row, m := range marks {
		for i, c := range columns {
			cell := shorten(c.cells[row], widths[i])
			if i == len(columns)-1 && !c.right {
				cells[i] = t.paint(cell, m)
				continue
			}
			cells[i] = pad(cell, widths[i], c.right)
		}
		t.line(t.paint(symbols[m], m)+" ", strings.Join(cells, "  "))
	}
}

// programs tells what the verifier did not accept, with the end of its log.
func (t *terminal) programs(r *gate.Report) {
	for _, p := range r.Programs {
		line := name(p.Program)
		if p.Object != "" {
			line += " (" + name(p.Object) + ")"
		}
		line += ": " + clean(string(p.Outcome))
		if p.Reason != "" {
			line += ": " + shorten(clean(p.Reason), 2*maxLogLine)
		}
		m := bad
		if p.Outcome == bench.Accepted {
			m = good
		}
		t.line(t.paint("load:", m)+" ", line)
		for _, l := range p.LogTail[max(0, len(p.LogTail)-maxLogLines):] {
			t.line("      │ ", shorten(clean(l), maxLogLine))
		}
		if p.LogPath != "" {
			t.line("      ", "full log: "+clean(p.LogPath))
		}
	}
}

func (t *terminal) notes(label string, all []note) {
	for _, n := range all {
		t.line(label, n.who(name)+n.joint()+clean(n.text))
		if n.hint != "" {
			t.line("      ", clean(n.hint))
		}
	}
}

func (t *terminal) summary(r *gate.Report) {
	word, m := headline(r)
	line := t.paint(t.bold(word), m)
	if s := clean(r.Summary); s != "" {
		line += "  " + s
	}
	if t.o.Elapsed > 0 {
		line += " " + elapsed(t.o.Elapsed)
	}
	t.line("", line)
	if r.Hint != "" {
		t.line("hint: ", clean(r.Hint))
	}
	if lines, _ := waivers([]*gate.Report{r}, t.o.Until, t.o.ConfigOf); len(lines) > 0 {
		more := ""
		if len(lines) > 1 {
			more = fmt.Sprintf("; %d more with --format markdown", len(lines)-1)
		}
		t.line("hint: ", "to accept it, give a reason in "+name(lines[0].file)+": policy: {waivers: ["+lines[0].text+"]}"+more)
	}
}

// headline is the suite's verdict in one word.
func headline(r *gate.Report) (string, mark) {
	switch {
	case !r.Asked && r.Verdict == gate.Inconclusive:
		return "DONE", told
	case r.Verdict == gate.Regressed:
		return "FAIL", bad
	case r.Verdict == gate.Pass:
		return "PASS", good
	case r.Verdict == gate.Improved:
		return "IMPROVED", better
	}
	return "INCONCLUSIVE", doubtful
}
