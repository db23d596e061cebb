package cover

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// LCOV writes a tracefile as lcov's geninfo does (man geninfo, FILES): read by lcov,
// genhtml, and whatever shows coverage on a forge. Counts are sums over all inputs.
// A jump whose ways the counts do not tell is left out.
func LCOV(w io.Writer, r *Report) error {
	b := bufio.NewWriter(w)
	for _, f := range r.Files {
		name := f.Source
		if name == "" {
			name = f.Path
		}
		t := f.Totals()
		fmt.Fprintf(b, "TN:\nSF:%s\n", field(name))
		for _, fn := range f.Functions {
			fmt.Fprintf(b, "FN:%d,%s\n", max(1, fn.Line), field(fn.Name))
		}
		for _, fn := range f.Functions {
			fmt.Fprintf(b, "FNDA:%d,%s\n", fn.Calls, field(fn.Name))
		}
		fmt.Fprintf(b, "FNF:%d\nFNH:%d\n", t.Functions, t.FunctionsReached)
		numbers := f.numbers()
		for _, n := range numbers {
			for i, br := range f.Lines[n].Branches {
				if !br.Known {
					continue
				}
				for way, count := range []uint64{br.Taken, br.Not} {
					taken := "-" // the jump was not reached
					if br.executed {
						taken = fmt.Sprint(count)
					}
					fmt.Fprintf(b, "BRDA:%d,%d,%d,%s\n", n, i, way, taken)
				}
			}
		}
		fmt.Fprintf(b, "BRF:%d\nBRH:%d\n", t.Branches, t.BranchesReached)
		for _, n := range numbers {
			fmt.Fprintf(b, "DA:%d,%d\n", n, f.Lines[n].Executions)
		}
		fmt.Fprintf(b, "LF:%d\nLH:%d\nend_of_record\n", t.Lines, t.LinesReached)
	}
	return b.Flush()
}

// field is a name that cannot begin another record.
func field(s string) string { return strings.Map(oneLine, s) }

func oneLine(r rune) rune {
	if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 || r == 0x85 {
		return '?'
	}
	return r
}
