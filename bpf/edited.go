//go:build linux

package bpf

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// edited finds the lines whose text differs between two versions of a program, by
// function: whether there are any, whether any was executed, and those that were
// not. Code that was inlined belongs to the function that holds it.
//
// An object knows only the lines that have code. One that it lacks may stand in its
// source all the same, without code of its own now that the compiler arranged things
// anew; see [region.compilers].
func edited(base, head *blockCounts) (some, reached bool, unreached []bench.ChangedLine) {
	old, now := base.sourceLines(), head.sourceLines()
	seen := map[lineKey]bool{}
	tell := func(lines []*lineTotal, removed bool) {
		for _, l := range lines {
			some = true
			if l.executions() > 0 {
				reached = true
				continue
			}
			k := lineKey{l.file, l.line, ""}
			if removed {
				k.function = "base"
			}
			if !seen[k] {
				seen[k] = true
				unreached = append(unreached, bench.ChangedLine{
					File: clip(l.file), Line: int(l.line), Text: clip(strings.TrimSpace(l.text)), Function: clip(l.function), Removed: removed,
				})
			}
		}
	}
	for _, fn := range head.flow.functions {
		var gone, came []*lineTotal
		for _, r := range difference(old[fn.name], now[fn.name]) {
			r = r.compilers()
			gone, came = append(gone, r.gone...), append(came, r.came...)
		}
		tell(came, false)
		tell(gone, true)
		delete(old, fn.name)
	}
	for _, fn := range base.flow.functions {
		tell(old[fn.name], true)
	}
	return some, reached, unreached
}

// sourceLines are the lines of each function in the order of the source.
func (c *blockCounts) sourceLines() map[string][]*lineTotal {
	out := map[string][]*lineTotal{}
	for _, t := range c.lineTotals(c.counts) {
		out[t.function] = append(out[t.function], t)
	}
	for _, lines := range out {
		slices.SortStableFunc(lines, func(a, b *lineTotal) int {
			return cmp.Or(strings.Compare(path.Base(a.file), path.Base(b.file)), cmp.Compare(a.line, b.line))
		})
	}
	return out
}

// A region is what differs between two lines that both versions have.
type region struct {
	gone, came []*lineTotal
	// before and after are those lines, base's first; nil at the ends.
	before, after *[2]*lineTotal
}

// compilers takes out of a region the lines that it is likely the compiler, and not
// an edit, that gave or took their code. They are the opening line of a function and
// lone braces; and, since the distance between the lines around tells how many lines
// were added or removed in between, what goes beyond that: where none were, a line
// without a counterpart that has another text at the same place, and where lines were
// added that account for all of the distance, lines that only base has.
func (r region) compilers() region {
	frame := func(l *lineTotal) bool {
		return strings.Trim(l.text, " \t{}();") == "" || strings.Contains(l.text, l.function+"(")
	}
	r.gone, r.came = slices.DeleteFunc(r.gone, frame), slices.DeleteFunc(r.came, frame)
	if r.before == nil || r.after == nil || len(r.gone)+len(r.came) == 0 {
		return r
	}
	for side := range 2 {
		if path.Base(r.before[side].file) != path.Base(r.after[side].file) {
			return r
		}
	}
	grown := (int(r.after[1].line) - int(r.before[1].line)) - (int(r.after[0].line) - int(r.before[0].line))
	switch {
	case grown == 0:
		at := func(l *lineTotal, side int) int { return int(l.line) - int(r.before[side].line) }
		lone := func(others []*lineTotal, side int) func(*lineTotal) bool {
			others = slices.Clone(others)
			return func(l *lineTotal) bool {
				return !slices.ContainsFunc(others, func(o *lineTotal) bool { return at(o, 1-side) == at(l, side) })
			}
		}
		aloneInBase, aloneInHead := lone(r.came, 0), lone(r.gone, 1)
		r.gone, r.came = slices.DeleteFunc(r.gone, aloneInBase), slices.DeleteFunc(r.came, aloneInHead)
	case grown > 0 && len(r.came) <= grown && len(r.came) > 0:
		r.gone = nil
	case grown < 0 && len(r.gone) <= -grown && len(r.gone) > 0:
		r.came = nil
	}
	return r
}

// difference are the regions that a longest common subsequence of the lines leaves
// over, white space aside. Of functions that are too long for one, it is all between
// the lines that are the same at both ends.
func difference(a, b []*lineTotal) []region {
	numbers := map[string]int32{} // by text
	number := func(lines []*lineTotal) []int32 {
		out := make([]int32, len(lines))
		for i, l := range lines {
			text := strings.Join(strings.Fields(l.text), " ")
			if _, ok := numbers[text]; !ok {
				numbers[text] = int32(len(numbers))
			}
			out[i] = numbers[text]
		}
		return out
	}
	x, y := number(a), number(b)
	first := 0
	for first < len(x) && first < len(y) && x[first] == y[first] {
		first++
	}
	n, m := len(x), len(y)
	for n > first && m > first && x[n-1] == y[m-1] {
		n, m = n-1, m-1
	}
	d := differ{a: a, b: b}
	if first > 0 {
		d.open.before = &[2]*lineTotal{a[first-1], b[first-1]}
	}
	const most = 4 << 20 // cells
	if (n-first)*(m-first) > most {
		d.open.gone, d.open.came = a[first:n], b[first:m]
	} else {
		d.walk(x, y, first, n, m)
	}
	if n < len(a) {
		d.meet(n, m)
	}
	d.end()
	return d.regions
}

// A differ collects regions.
type differ struct {
	a, b    []*lineTotal
	open    region
	regions []region
}

// meet ends a region at lines that both have.
func (d *differ) meet(i, j int) {
	pair := &[2]*lineTotal{d.a[i], d.b[j]}
	d.open.after = pair
	d.end()
	d.open = region{before: pair}
}

func (d *differ) end() {
	if len(d.open.gone)+len(d.open.came) > 0 {
		d.regions = append(d.regions, d.open)
	}
	d.open = region{}
}

// walk follows a longest common subsequence of x[first:n] and y[first:m].
func (d *differ) walk(x, y []int32, first, n, m int) {
	// length[i][j] of the longest one of x[i:n] and y[j:m].
	length := make([][]int32, n-first+1)
	for i := range length {
		length[i] = make([]int32, m-first+1)
	}
	at := func(i, j int) *int32 { return &length[i-first][j-first] }
	for i := n - 1; i >= first; i-- {
		for j := m - 1; j >= first; j-- {
			if x[i] == y[j] {
				*at(i, j) = *at(i+1, j+1) + 1
			} else {
				*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			}
		}
	}
	i, j := first, first
	for i < n || j < m {
		switch {
		case i < n && j < m && x[i] == y[j]:
			d.meet(i, j)
			i, j = i+1, j+1
		case j == m || i < n && *at(i+1, j) >= *at(i, j+1):
			d.open.gone, i = append(d.open.gone, d.a[i]), i+1
		default:
			d.open.came, j = append(d.open.came, d.b[j]), j+1
		}
	}
}
