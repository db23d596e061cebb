package cover

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// A Report is the coverage of some objects by file of source.
type Report struct {
	Title    string // what was covered, for people
	Objects  []bench.Coverage
	Files    []*File // by path
	Warnings []string
}

// A File is what was executed of one file of source.
type File struct {
	// Path is the file as the compiler wrote it, cleaned; Source where it was
	// found, or "".
	Path   string
	Source string
	// Lines are those that have code, by number.
	Lines     map[int]*Line
	Functions []*Function
	// Text are all lines of the source, from line 1 on; nil where it was not found.
	Text []string
}

// A Line is what was executed of a line of source, over all functions that hold
// code of it.
type Line struct {
	Number     int
	Text       string // as the object has it
	Executions uint64
	Insns      uint64
	Size       int // instructions
	Reached    int // of these, executed at all
	Branches   []Branch
}

// A Branch is a conditional jump, or several of the same function in several
// programs.
type Branch struct {
	function string
	ordinal  int // among the function's on this line
	Taken    uint64
	Not      uint64
	Known    bool
	executed bool
}

// Reached tells that both ways were gone.
func (b Branch) Reached() bool { return b.Known && b.Taken > 0 && b.Not > 0 }

// A Function is one function of a file; of one that several programs hold a copy of,
// the sum.
type Function struct {
	Name  string
	Line  int
	Calls uint64
}

// New adds up coverages by file.
func New(title string, objects []bench.Coverage) *Report {
	r := &Report{Title: title, Objects: objects}
	files := map[string]*File{}
	file := func(name string) *File {
		name = path.Clean(strings.ReplaceAll(name, `\`, "/"))
		f := files[name]
		if f == nil {
			f = &File{Path: name, Lines: map[int]*Line{}}
			files[name] = f
			r.Files = append(r.Files, f)
		}
		return f
	}
	for _, o := range objects {
		for _, p := range o.Programs {
			for _, fn := range p.Functions {
				for _, l := range fn.Lines {
					file(l.File).add(l)
				}
				if fn.File != "" {
					file(fn.File).call(fn)
				}
				ordinals := map[[2]any]int{}
				for _, b := range fn.Branches {
					if b.File == "" {
						continue
					}
					f := file(b.File)
					k := [2]any{f, b.Line}
					f.branch(fn, b, ordinals[k])
					ordinals[k]++
				}
			}
		}
	}
	slices.SortFunc(r.Files, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range r.Files {
		slices.SortStableFunc(f.Functions, func(a, b *Function) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Name, b.Name))
		})
	}
	return r
}

func (f *File) line(n int) *Line {
	l := f.Lines[n]
	if l == nil {
		l = &Line{Number: n}
		f.Lines[n] = l
	}
	return l
}

func (f *File) add(c bench.LineCoverage) {
	l := f.line(c.Line)
	if l.Text == "" {
		l.Text = c.Text
	}
	l.Executions += c.Executions
	l.Insns += c.Insns
	l.Size += c.Size
	l.Reached += c.Reached
}

func (f *File) call(c bench.FunctionCoverage) {
	i := slices.IndexFunc(f.Functions, func(fn *Function) bool { return fn.Name == c.Name && fn.Line == c.Line })
	if i < 0 {
		i = len(f.Functions)
		f.Functions = append(f.Functions, &Function{Name: c.Name, Line: c.Line})
	}
	f.Functions[i].Calls += c.Calls
}

func (f *File) branch(fn bench.FunctionCoverage, b bench.BranchCoverage, ordinal int) {
	l := f.line(b.Line)
	i := slices.IndexFunc(l.Branches, func(o Branch) bool { return o.function == fn.Name && o.ordinal == ordinal })
	if i < 0 {
		i = len(l.Branches)
		l.Branches = append(l.Branches, Branch{function: fn.Name, ordinal: ordinal, Known: true})
	}
	o := &l.Branches[i]
	o.Taken, o.Not, o.Known = o.Taken+b.Taken, o.Not+b.Not, o.Known && b.Known
	o.executed = o.executed || !b.Known || b.Taken+b.Not > 0
}

// numbers are the numbers of the lines with code, in order.
func (f *File) numbers() []int {
	out := make([]int, 0, len(f.Lines))
	for n := range f.Lines {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// Totals count what there is and what was reached.
type Totals struct {
	Lines, LinesReached         int
	Functions, FunctionsReached int
	Branches, BranchesReached   int // ways: two a jump
	// Unknown are the jumps of which the counts do not tell the ways.
	Unknown int
}

// Totals are those of the file.
func (f *File) Totals() (t Totals) {
	for _, l := range f.Lines {
		t.Lines++
		if l.Executions > 0 {
			t.LinesReached++
		}
		for _, b := range l.Branches {
			if !b.Known {
				t.Unknown++
				continue
			}
			t.Branches += 2
			for _, n := range []uint64{b.Taken, b.Not} {
				if n > 0 {
					t.BranchesReached++
				}
			}
		}
	}
	for _, fn := range f.Functions {
		t.Functions++
		if fn.Calls > 0 {
			t.FunctionsReached++
		}
	}
	return t
}

// Runs is how often programs were entered.
func (r *Report) Runs() (n uint64) {
	for _, o := range r.Objects {
		n += o.Runs
	}
	return n
}

// share is a part in words: "31 of 35".
func share(part, whole int) string {
	if whole == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", part, whole)
}
