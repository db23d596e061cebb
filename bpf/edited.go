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

// sameText compares lines but for their white space.
func sameText(a, b *lineTotal) bool {
	return slices.Equal(strings.Fields(a.text), strings.Fields(b.text))
}

// difference are the lines of two versions that a longest common subsequence leaves
// over. Functions that are too long for one are compared line by line from both ends.
func difference(a, b []*lineTotal) (gone, came []*lineTotal) {
	for len(a) > 0 && len(b) > 0 && sameText(a[0], b[0]) {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && sameText(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	const most = 4 << 20 // cells
	if len(a)*len(b) > most {
		return a, b
	}
	// length[i][j] of the longest one of a[i:] and b[j:].
	length := make([][]int32, len(a)+1)
	for i := range length {
		length[i] = make([]int32, len(b)+1)
	}
	same := func(i, j int) bool { return sameText(a[i], b[j]) }
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if same(i, j) {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case same(i, j):
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			gone, i = append(gone, a[i]), i+1
		default:
			came, j = append(came, b[j]), j+1
		}
	}
	return append(gone, a[i:]...), append(came, b[j:]...)
}
