package render

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/gate"
)

// csvHeader are the columns of [CSV].
var csvHeader = []string{
	"testbed", "benchmark", "program", "measure", "unit", "kind", "verdict", "judged", "base", "head", "floor", "change",
	"low", "high", "level", "margin", "limit", "rounds", "exact", "p", "reason",
}

// CSV writes the comparisons of reports, a line each, in the order of the reports.
// Ratios are as in [gate.Comparison]; what there is not is empty. A text that a
// spreadsheet would take for a formula begins with an apostrophe.
func CSV(w io.Writer, reports []*gate.Report) error {
	out := csv.NewWriter(w)
	if err := out.Write(csvHeader); err != nil {
		return err
	}
	names := bedNames(reports)
	for i, r := range reports {
		for j := range r.Comparisons {
			c := &r.Comparisons[j]
			var low, high, level *float64
			if c.Interval != nil {
				low, high, level = &c.Interval.Low, &c.Interval.High, &c.Interval.Level
			}
			if err := out.Write([]string{
				csvText(names[i]), csvText(c.Benchmark), csvText(c.Program), csvText(c.Measure), csvText(c.Unit), csvText(string(c.Kind)),
				c.Verdict.String(), strconv.FormatBool(c.Judged), csvNumber(c.Base), csvNumber(c.Head), csvNumber(c.Floor), csvNumber(c.Change),
				csvNumber(low), csvNumber(high), csvNumber(level), csvNumber(c.Margin), csvText(c.Limit), strconv.Itoa(c.Rounds),
				strconv.FormatBool(c.Exact), csvNumber(c.P), csvText(c.Reason),
			}); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func csvNumber(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}

// csvText is a name in a cell.
func csvText(s string) string {
	s = clean(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		s = "'" + s
	}
	return s
}
