package cover

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/english"
)

// maxUnreached is how many functions and lines are named that were never reached;
// the page and the tracefile have all of them.
const maxUnreached = 20

// Text writes a table of functions and what was never reached, for a terminal.
func Text(w io.Writer, r *Report) error {
	var b strings.Builder
	benchmarks := 0
	for _, o := range r.Objects {
		benchmarks += len(o.Benchmarks)
	}
	if len(r.Objects) == 0 {
		return warnings(w, r)
	}
	fmt.Fprintf(&b, "%s   %s, %s\n\n", visible(r.Title), english.Count(benchmarks, "benchmark"), english.Count(r.Runs(), "run"))
	rows := [][]string{{"", "PROGRAM", "FUNCTION", "CALLS", "INSNS A CALL", "LINES", "BLOCKS", "BRANCHES"}}
	for _, o := range r.Objects {
		for _, p := range o.Programs {
			for _, fn := range p.Functions {
				mark, name := "", visible(fn.Name)
				if fn.Calls == 0 {
					mark = "!"
				}
				if fn.Background {
					name += " (by itself)"
				}
				lines, reached := linesOf(fn)
				ways, gone, _ := waysOf(fn)
				rows = append(rows, []string{mark, visible(p.Program), name, strconv.FormatUint(fn.Calls, 10),
					number(float64(fn.Insns) / float64(max(1, fn.Calls))), share(reached, lines), share(fn.BlocksReached, fn.Blocks), share(gone, ways)})
			}
		}
	}
	table(&b, rows, 3)
	b.WriteString("\n")
	r.unreached(&b)
	if n := r.unknown(); n > 0 {
		fmt.Fprintf(&b, "of %s the counts do not tell the ways\n", english.Count(n, "branch"))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return warnings(w, r)
}

func warnings(w io.Writer, r *Report) error {
	for _, s := range r.Warnings {
		if _, err := fmt.Fprintf(w, "warn: %s\n", visible(s)); err != nil {
			return err
		}
	}
	return nil
}

// table writes rows of equal length, the first columns left and the others right.
func table(b *strings.Builder, rows [][]string, left int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < left {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
			line.WriteString("  "[:min(2, 1+i)])
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func linesOf(fn bench.FunctionCoverage) (lines, reached int) {
	for _, l := range fn.Lines {
		lines++
		if l.Executions > 0 {
			reached++
		}
	}
	return lines, reached
}

// waysOf counts the ways of a function's jumps, those that were gone, and the jumps
// of which that is not known.
func waysOf(fn bench.FunctionCoverage) (ways, gone, unknown int) {
	for _, b := range fn.Branches {
		if !b.Known {
			unknown++
			continue
		}
		ways += 2
		for _, n := range []uint64{b.Taken, b.Not} {
			if n > 0 {
				gone++
			}
		}
	}
	return ways, gone, unknown
}

func (r *Report) unknown() (n int) {
	for _, o := range r.Objects {
		for _, p := range o.Programs {
			for _, fn := range p.Functions {
				_, _, u := waysOf(fn)
				n += u
			}
		}
	}
	return n
}

// unreached names what no input reached: functions, lines, and branches that went
// one way only.
func (r *Report) unreached(b *strings.Builder) {
	var functions []string
	for _, o := range r.Objects {
		for _, p := range o.Programs {
			for _, fn := range p.Functions {
				if name := visible(fn.Name); fn.Calls == 0 && !slices.Contains(functions, name) {
					functions = append(functions, name)
				}
			}
		}
	}
	if n := len(functions); n > 0 {
		more := ""
		if n > maxUnreached {
			functions, more = functions[:maxUnreached], fmt.Sprintf(" and %d more", n-maxUnreached)
		}
		fmt.Fprintf(b, "never called:   %s%s\n", strings.Join(functions, ", "), more)
	}
	tell(b, "never reached:  ", r.linesThat(func(l *Line) bool { return l.Executions == 0 }))
	tell(b, "one way only:   ", r.linesThat(func(l *Line) bool {
		return l.Executions > 0 && slices.ContainsFunc(l.Branches, func(br Branch) bool { return br.executed && br.Known && !br.Reached() })
	}))
	if len(r.Files) == 0 && len(r.Objects) > 0 {
		fmt.Fprintln(b, "the objects have no line information: compile with -g")
	}
}

func tell(b *strings.Builder, label string, lines []string) {
	for i, s := range lines {
		if i == maxUnreached {
			fmt.Fprintf(b, "%sand %s\n", label, english.Count(len(lines)-i, "more line"))
			return
		}
		fmt.Fprintf(b, "%s%s\n", label, s)
	}
}

// linesThat are lines with their text. Where an object has none, the numbers of a
// file stand in one line.
func (r *Report) linesThat(want func(*Line) bool) []string {
	var out []string
	for _, f := range r.Files {
		name := visible(path.Base(f.Path))
		var bare []int
		for _, n := range f.numbers() {
			l := f.Lines[n]
			switch text := strings.TrimSpace(visible(l.Text)); {
			case !want(l):
			case text == "":
				bare = append(bare, n)
			default:
				out = append(out, fmt.Sprintf("%s:%d  %s", name, n, shorten(text, 80)))
			}
		}
		if len(bare) > 0 {
			out = append(out, name+":"+ranges(bare))
		}
	}
	return out
}

// ranges writes numbers as "3-5,9", at most twenty.
func ranges(numbers []int) string {
	const most = 20
	var parts []string
	for i := 0; i < len(numbers); {
		if len(parts) == most {
			parts = append(parts, "…")
			break
		}
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		s := strconv.Itoa(numbers[i])
		if end > i {
			s += "-" + strconv.Itoa(numbers[end])
		}
		parts, i = append(parts, s), end+1
	}
	return strings.Join(parts, ",")
}

// number has no more digits than it needs.
func number(x float64) string {
	s := strconv.FormatFloat(x, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// visible shows what does not show itself: control characters and those that turn
// the direction of text are replaced. Tabs stay.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}
