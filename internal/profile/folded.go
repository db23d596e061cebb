package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Folded writes a line a stack, as flamegraph.pl, speedscope and others read them: the name of the
// thread and the functions, outermost first, between semicolons, and behind the last space the
// number of samples, or of µs that were waited. Processes are added up.
func Folded(w io.Writer, p *Profile) error {
	sums := map[string]int64{}
	for _, s := range p.Stacks {
		n := int64(s.Count)
		if p.Type == OffCPU {
			n = s.Value / 1000
		}
		sums[fold(s)] += n
	}
	lines := make([]string, 0, len(sums))
	for line := range sums {
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), strings.Compare(a, b)) })
	b := bufio.NewWriter(w)
	for _, line := range lines {
		fmt.Fprintf(b, "%s %d\n", line, sums[line])
	}
	return b.Flush()
}

func fold(s *Stack) string {
	var b strings.Builder
	b.WriteString(word(s.Comm))
	for _, l := range slices.Backward(s.Locations) {
		for _, f := range slices.Backward(l.Frames) {
			b.WriteString(";" + word(name(f)))
		}
	}
	return b.String()
}
