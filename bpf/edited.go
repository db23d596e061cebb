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
		gone, came := difference(old[fn.name], now[fn.name])
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

// difference are the lines of two versions that a longest common subsequence leaves
// over, white space aside. Of functions that are too long for one, it is all between
// the lines that are the same at both ends.
func difference(a, b []*lineTotal) (gone, came []*lineTotal) {
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
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		a, b, x, y = a[1:], b[1:], x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		n, m := len(x)-1, len(y)-1
		a, b, x, y = a[:n], b[:m], x[:n], y[:m]
	}
	const most = 4 << 20 // cells
	if len(x)*len(y) > most {
		return a, b
	}
	// length[i][j] of the longest one of x[i:] and y[j:].
	length := make([][]int32, len(x)+1)
	for i := range length {
		length[i] = make([]int32, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(x) && j < len(y) {
		switch {
		case x[i] == y[j]:
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			gone, i = append(gone, a[i]), i+1
		default:
			came, j = append(came, b[j]), j+1
		}
	}
	return append(gone, a[i:]...), append(came, b[j:]...)
}
