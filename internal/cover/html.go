package cover

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/english"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Parse(page))

// A longer file than wholeFile lines, a header full of types, is shown only around
// its code.
const (
	wholeFile = 2000
	around    = 20
)

// HTML writes a page of annotated source, in one file that asks for nothing else.
func HTML(w io.Writer, r *Report) error {
	v := view{Title: visible(r.Title), Runs: english.Count(r.Runs(), "run")}
	for _, o := range r.Objects {
		for _, name := range o.Benchmarks {
			v.Benchmarks = append(v.Benchmarks, visible(name))
		}
		for _, p := range o.Programs {
			for _, fn := range p.Functions {
				v.Functions = append(v.Functions, functionView(p, fn))
			}
		}
	}
	for _, s := range r.Warnings {
		v.Warnings = append(v.Warnings, visible(s))
	}
	for i, f := range r.Files {
		v.Files = append(v.Files, fileViewOf(f, i))
	}
	return pageTemplate.Execute(w, v)
}

type view struct {
	Title, Runs string
	Benchmarks  []string
	Warnings    []string
	Functions   []funcView
	Files       []fileView
}

type funcView struct {
	Program, Name, Calls, Insns, Lines, Blocks, Branches string
	Never, Background                                    bool
}

type fileView struct {
	ID, Path, Lines, Branches string
	Note                      string
	Rows                      []lineView
}

type lineView struct {
	Number                   string
	Class                    string // hit, part, miss; empty: no code
	Executions, Insns, Notes string
	Text                     string
	Gap                      bool // lines without code are left out
}

func functionView(p bench.ProgramCoverage, fn bench.FunctionCoverage) funcView {
	lines, reached := linesOf(fn)
	ways, gone, _ := waysOf(fn)
	return funcView{
		Program: visible(p.Program), Name: visible(fn.Name), Calls: separate(fn.Calls),
		Insns: number(float64(fn.Insns) / float64(max(1, fn.Calls))),
		Lines: share(reached, lines), Blocks: share(fn.BlocksReached, fn.Blocks), Branches: share(gone, ways),
		Never: fn.Calls == 0, Background: fn.Background,
	}
}

func fileViewOf(f *File, i int) fileView {
	t := f.Totals()
	v := fileView{
		ID: "f" + strconv.Itoa(i), Path: visible(f.Path),
		Lines: share(t.LinesReached, t.Lines), Branches: share(t.BranchesReached, t.Branches),
	}
	text := f.Text
	if text == nil {
		v.Note = "The source was not found: only lines that have code are shown, as the object holds them. --source DIRECTORY says where it is."
	}
	last := 0
	for _, n := range f.numbers() {
		from, to := n, n // what is shown for this line
		if text != nil {
			from, to = last+1, n
			if len(text) > wholeFile {
				from = max(from, n-around)
			}
		}
		if from > last+1 {
			v.Rows = append(v.Rows, lineView{Gap: true})
		}
		for k := from; k < to; k++ {
			v.Rows = append(v.Rows, lineView{Number: strconv.Itoa(k), Text: visible(text[k-1])})
		}
		row := lineRow(f.Lines[n])
		if text != nil {
			row.Text = visible(text[n-1])
		}
		v.Rows = append(v.Rows, row)
		last = n
	}
	for k := last + 1; k <= len(text) && (len(text) <= wholeFile || k <= last+around); k++ {
		v.Rows = append(v.Rows, lineView{Number: strconv.Itoa(k), Text: visible(text[k-1])})
	}
	return v
}

// lineRow is a line with code.
func lineRow(l *Line) lineView {
	v := lineView{Number: strconv.Itoa(l.Number), Class: "hit", Executions: separate(l.Executions), Text: visible(l.Text)}
	v.Insns = separate(l.Insns)
	if l.Executions == 0 {
		v.Class, v.Insns = "miss", ""
	} else if l.Reached < l.Size {
		v.Class = "part"
		v.Notes = fmt.Sprintf("%d of its %s were reached. ", l.Reached, english.Count(l.Size, "instruction"))
	}
	for _, b := range l.Branches {
		switch {
		case !b.executed:
			continue
		case !b.Known:
			v.Notes += "Which way its branch went cannot be told. "
			continue
		case !b.Reached():
			v.Class = "part"
		}
		v.Notes += fmt.Sprintf("Branch: jumped %s, went on %s. ", separate(b.Taken), separate(b.Not))
	}
	return v
}

// separate puts spaces between the thousands.
func separate(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
