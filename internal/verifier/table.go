package verifier

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/render"
)

// The columns that are shown where nobody chooses: those of veristat, and in tables
// how much of the kernel's limits is used. A comparison shows less of more.
var (
	tableColumns   = []string{statFile, statProgram, statVerdict, "duration", "total_insns", "total_states", "prog_size", "prog_size_jited", statUsed}
	compareColumns = []string{statFile, statProgram, statVerdict, "total_insns", "total_states"}
	csvColumns     = []string{
		statFile, statProgram, statVerdict, "duration", "total_insns", "total_states", "peak_states",
		"max_states_per_insn", "max_mark_read_len", "prog_size", "prog_size_jited", statType, statAttach,
		"stack_depth", statMemPeak,
	}
)

// shown are the columns that a table or CSV has.
func (q *Query) shown(usual []string) []Column {
	if q.Columns != nil {
		return q.Columns
	}
	return columns(usual...)
}

func compared(pairs []Pair) bool { return len(pairs) > 0 && pairs[0].compared }

// isKey tells that both sides of a comparison share the column.
func (c Column) isKey() bool { return c.stat.Name() == statFile || c.stat.Name() == statProgram }

// cells are what a column shows of a pair: one cell, or in a comparison base, head
// and the difference as veristat writes it, "-627 (-2.91%)".
func (c Column) cells(p *Pair, unknown string) []string {
	side := func(r *Row) string {
		if r == nil {
			return "N/A"
		}
		if s := render.Clean(r.text(c.stat)); s != "" {
			return s
		}
		return unknown
	}
	switch {
	case c.stat.Name() == statFile:
		return []string{render.Clean(p.File)}
	case c.stat.Name() == statProgram:
		return []string{render.Clean(p.Program)}
	case !p.compared:
		return []string{side(p.Head)}
	}
	a, b := side(p.Base), side(p.Head)
	diff := "N/A"
	switch {
	case p.Base == nil || p.Head == nil:
	case c.stat.text || c.stat.Name() == statVerdict:
		if diff = "MISMATCH"; a == b {
			diff = "MATCH"
		}
	default:
		x, y := p.Base.number(c.stat), p.Head.number(c.stat)
		if d := y - x; c.stat.Name() == statUsed {
			diff = fmt.Sprintf("%+.1f%%", d) // points, and not a share of a share
		} else {
			diff = fmt.Sprintf("%+.0f (%+.2f%%)", d, change(x, y))
		}
		if math.IsNaN(y - x) {
			diff = "N/A"
		}
	}
	return []string{a, b, diff}
}

// WriteTable shows the pairs as veristat's tables do.
func (q *Query) WriteTable(w io.Writer, pairs []Pair) error {
	comparison := compared(pairs)
	usual := tableColumns
	if comparison {
		usual = compareColumns
	}
	var fields []field
	for _, c := range q.shown(usual) {
		suffixes := []string{""}
		if comparison && !c.isKey() {
			suffixes = []string{" (A)", " (B)", " (DIFF)"}
		}
		at := len(fields)
		for _, s := range suffixes {
			fields = append(fields, field{header: c.stat.Header + s, left: c.stat.left})
		}
		for i := range pairs {
			for j, cell := range c.cells(&pairs[i], dash) {
				fields[at+j].cells = append(fields[at+j].cells, cell)
			}
		}
	}
	return writeFields(w, fields, true)
}

// dash stands in tables where something is not known.
const dash = "-"

// A field is a column of a table.
type field struct {
	header string
	left   bool
	cells  []string
}

// writeFields writes a table, ruled as veristat's are or without lines.
func writeFields(w io.Writer, fields []field, ruled bool) error {
	widths := make([]int, len(fields))
	rules := make([]string, len(fields))
	for i, f := range fields {
		widths[i] = render.Width(f.header)
		for _, cell := range f.cells {
			widths[i] = max(widths[i], render.Width(cell))
		}
		rules[i] = strings.Repeat("-", widths[i])
	}
	var b strings.Builder
	line := make([]string, len(fields))
	flush := func() { b.WriteString(strings.TrimRight(strings.Join(line, "  "), " ") + "\n") }
	row := func(cell func(f *field) string) {
		for i := range fields {
			text := cell(&fields[i])
			fill := strings.Repeat(" ", widths[i]-render.Width(text))
			if fields[i].left {
				line[i] = text + fill
			} else {
				line[i] = fill + text
			}
		}
		flush()
	}
	rule := func() {
		if ruled {
			copy(line, rules)
			flush()
		}
	}
	row(func(f *field) string { return f.header })
	rule()
	for i := range fields[0].cells {
		row(func(f *field) string { return f.cells[i] })
	}
	rule()
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteCSV writes CSV that veristat reads (veristat -R, and -C for two of them) as
// far as the columns are veristat's. It knows no quotes and no empty fields: commas
// in names are written as '_', an unknown number as 0, or -1 for mem_peak, as
// veristat does it itself.
func (q *Query) WriteCSV(w io.Writer, pairs []Pair) error {
	var b strings.Builder
	comparison := compared(pairs)
	cs := q.shown(csvColumns)
	var fields []string
	flush := func() {
		for i, f := range fields {
			if f = strings.Trim(strings.NewReplacer(",", "_", `"`, "_").Replace(f), " "); f == "" {
				f = "_"
			}
			fields[i] = f
		}
		b.WriteString(strings.Join(fields, ",") + "\n")
		fields = fields[:0]
	}
	for _, c := range cs {
		suffixes := []string{""}
		if comparison && !c.isKey() {
			suffixes = []string{"_base", "_comp", "_diff"}
		}
		for _, s := range suffixes {
			fields = append(fields, c.stat.Name()+s)
		}
	}
	flush()
	for i := range pairs {
		for _, c := range cs {
			unknown := "0"
			switch {
			case c.stat.Name() == statMemPeak:
				unknown = "-1"
			case c.stat.text:
				unknown = "N/A"
			}
			fields = append(fields, c.cells(&pairs[i], unknown)...)
		}
		flush()
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// side is a row in JSON.
type side struct {
	row *Row
}

// MarshalJSON writes every statistic that is known, by its first name.
func (s side) MarshalJSON() ([]byte, error) {
	out := map[string]any{statVerdict: s.row.text(lookup(statVerdict))}
	for i := range stats {
		st := &stats[i]
		if v := s.row.number(st); !math.IsNaN(v) && st.Name() != statVerdict && st.Name() != statUsed {
			out[st.Name()] = v
		}
	}
	if used, of := s.row.used(); of != nil {
		out[statUsed], out["limit"] = math.Round(100*used)/100, of.Name()
	}
	for name, v := range map[string]string{statType: s.row.Type, statAttach: s.row.AttachType, statReason: s.row.Reason, "outcome": string(s.row.Outcome)} {
		if v != "" {
			out[name] = v
		}
	}
	if len(s.row.Log) > 0 {
		out["log"] = s.row.Log
	}
	if len(s.row.Functions) > 0 {
		out["functions"] = s.row.Functions
	}
	if len(s.row.Passed) > 0 {
		out["top_src_lines"] = s.row.Passed
	}
	return json.Marshal(out)
}

// WriteJSON writes a list with an object for each pair: its file_name and prog_name,
// and every statistic that is known by its name in CSV; in a comparison those of
// "base" and "head". It regards no choice of columns.
func (q *Query) WriteJSON(w io.Writer, pairs []Pair) error {
	list := make([]map[string]any, 0, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		object := map[string]any{}
		if !p.compared {
			b, err := side{p.Head}.MarshalJSON()
			if err == nil {
				err = json.Unmarshal(b, &object)
			}
			if err != nil {
				return err
			}
		}
		object[statFile], object[statProgram] = p.File, p.Program
		if p.compared && p.Base != nil {
			object["base"] = side{p.Base}
		}
		if p.compared && p.Head != nil {
			object["head"] = side{p.Head}
		}
		list = append(list, object)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(list)
}

// WriteFunctions shows the functions of programs that have several, base before head.
func WriteFunctions(w io.Writer, pairs []Pair) error {
	fields := []field{
		{header: "File", left: true}, {header: "Program", left: true}, {header: "Function", left: true}, {header: "Kind", left: true},
		{header: "Insns (self)"}, {header: "Insns (total)"}, {header: "Stack depth"}, {header: "Xlated insns"}, {header: "Jited size"},
	}
	number := func(n *int) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(*n)
	}
	add := func(p *Pair, r *Row, mark string) {
		if r == nil {
			return
		}
		for _, f := range r.Functions {
			for i, cell := range []string{
				p.File + mark, p.Program, f.Name, f.Kind, number(f.InsnsSelf), number(f.InsnsTotal), number(f.Stack), number(f.Xlated), number(f.Jited),
			} {
				fields[i].cells = append(fields[i].cells, render.Clean(cell))
			}
		}
	}
	for i := range pairs {
		if p := &pairs[i]; p.compared {
			add(p, p.Base, " (A)")
			add(p, p.Head, " (B)")
		} else {
			add(p, p.Head, "")
		}
	}
	if len(fields[0].cells) == 0 {
		_, err := io.WriteString(w, "No program has subprograms.\n")
		return err
	}
	// What this kernel does not tell of any function needs no column.
	fields = slices.DeleteFunc(fields, func(f field) bool {
		return !slices.ContainsFunc(f.cells, func(s string) bool { return s != "" })
	})
	for _, f := range fields {
		for i, cell := range f.cells {
			if cell == "" {
				f.cells[i] = dash
			}
		}
	}
	return writeFields(w, fields, true)
}

// WritePassed shows the lines of source that the verifier went over most often in
// each program, base before head, as veristat does.
func WritePassed(w io.Writer, pairs []Pair) error {
	var b strings.Builder
	add := func(p *Pair, r *Row, mark string) {
		if r == nil || len(r.Passed) == 0 {
			return
		}
		fmt.Fprintf(&b, "Top source lines (%s/%s%s):\n", render.Clean(p.File), render.Clean(p.Program), mark)
		for _, l := range r.Passed {
			where := ""
			if l.File != "" {
				where = fmt.Sprintf("(%s:%d)\t", render.Clean(l.File), l.Line)
			}
			fmt.Fprintf(&b, "%5d: %s%s\n", l.Times, where, render.Clean(l.Text))
		}
		b.WriteString("\n")
	}
	for i := range pairs {
		if p := &pairs[i]; p.compared {
			add(p, p.Base, " (A)")
			add(p, p.Head, " (B)")
		} else {
			add(p, p.Head, "")
		}
	}
	if b.Len() == 0 {
		b.WriteString("No program has line information (clang -g).\n\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Outcomes counts rows by what became of them.
func Outcomes(rows []Row) (accepted, rejected, notLoaded int) {
	for i := range rows {
		switch {
		case rows[i].Accepted:
			accepted++
		case rows[i].Outcome == bench.NotLoaded:
			notLoaded++
		default:
			rejected++
		}
	}
	return accepted, rejected, notLoaded
}
