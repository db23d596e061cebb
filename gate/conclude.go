package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// conclude orders the rows, and gives the suite its verdict and its sentence.
func (r *Report) conclude(o outcomes) {
	r.outcomes = o
	order(r.Comparisons)
	r.Verdict = suite(r.Comparisons, o)
	r.Summary = r.summary(o)
	r.Hint = r.hint()
}

// suite is the verdict of all. One regression is enough to fail; then one unknown
// is enough not to pass; and a suite without a single judged row knows nothing.
func suite(rows []Comparison, o outcomes) Verdict {
	n := count(rows)
	switch {
	case n[Regressed] > 0 || len(o.broken) > 0:
		return Regressed
	case n[Inconclusive]+n[Missing] > 0 || len(o.unknown)+len(o.refused) > 0 || n[Pass]+n[Improved] == 0:
		return Inconclusive
	case n[Improved] > 0:
		return Improved
	default:
		return Pass
	}
}

// count counts the judged rows by verdict.
func count(rows []Comparison) map[Verdict]int {
	n := map[Verdict]int{}
	for i := range rows {
		if rows[i].Judged {
			n[rows[i].Verdict]++
		}
	}
	return n
}

// order puts first what needs a reader: regressed, not known, improved, passed,
// and then what is only told. Within these the benchmark that changed most comes
// first with all its measures.
func order(rows []Comparison) {
	class := func(c *Comparison) int {
		if !c.Judged {
			return 10
		}
		return map[Verdict]int{Regressed: 0, Missing: 1, Inconclusive: 2, Improved: 3, Pass: 4, Added: 5}[c.Verdict]
	}
	type key struct {
		benchmark string
		class     int
	}
	most := map[key]float64{}
	for i := range rows {
		c := &rows[i]
		if c.Change != nil {
			k := key{c.Benchmark, class(c)}
			most[k] = max(most[k], math.Abs(*c.Change))
		}
	}
	slices.SortStableFunc(rows, func(a, b Comparison) int {
		i, j := class(&a), class(&b)
		if i != j {
			return i - j
		}
		if i != 10 { // what is only told stays in the order of names
			if d := cmp.Compare(most[key{b.Benchmark, j}], most[key{a.Benchmark, i}]); d != 0 {
				return d
			}
		}
		return cmp.Or(strings.Compare(a.Benchmark, b.Benchmark), bench.MeasureOrder(a.Measure, b.Measure))
	})
}

func (r *Report) summary(o outcomes) string {
	n := count(r.Comparisons)
	var counts []string
	for _, v := range []Verdict{Regressed, Missing, Inconclusive, Improved, Pass} {
		if n[v] > 0 {
			name := v.String()
			if v == Pass {
				name = "passed"
			}
			// Next to a failure, what went well is not news.
			if (v == Improved || v == Pass) && r.Verdict == Regressed {
				continue
			}
			counts = append(counts, fmt.Sprintf("%d %s", n[v], name))
		}
	}
	if u := len(o.unknown); u > 0 {
		counts = append(counts, fmt.Sprintf("%d not loaded", u))
	}
	headline := r.headline(o)
	if len(counts) == 0 {
		return headline + "."
	}
	return headline + "; " + strings.Join(counts, ", ") + "."
}

func (r *Report) headline(o outcomes) string {
	if len(o.broken) > 0 {
		return fmt.Sprintf("the verifier rejects %s, which it accepted before", strings.Join(o.broken, ", "))
	}
	if len(o.refused) > 0 && r.Verdict != Regressed {
		return "not judged: " + strings.Join(o.refused, "; ")
	}
	var first *Comparison
	if len(r.Comparisons) > 0 && r.Comparisons[0].Judged {
		first = &r.Comparisons[0]
	}
	switch {
	case r.Verdict == Regressed || r.Verdict == Improved:
		i := slices.IndexFunc(r.Comparisons, func(c Comparison) bool { return c.Judged && c.Verdict == r.Verdict })
		return r.Comparisons[i].sentence()
	case r.Verdict == Pass:
		return "nothing is worse than its limit allows"
	case len(r.Comparisons) == 0:
		return "nothing was judged: there are no results"
	case first != nil && first.Verdict == Missing:
		return fmt.Sprintf("%s %s is missing: %s", first.Benchmark, first.Measure, first.Reason)
	case first != nil && first.Verdict == Inconclusive:
		return first.sentence()
	case len(o.unknown) > 0:
		return fmt.Sprintf("%s could not be loaded", strings.Join(o.unknown, ", "))
	default:
		return "nothing was judged: no measure that has a limit was measured on both sides"
	}
}

// sentence says what became of a row: "fun_xdp/worst is 2.40× slower (limit +5%)".
func (c *Comparison) sentence() string {
	limit := ""
	if c.Limit != "" {
		limit = " (" + c.Limit + ")"
	}
	if c.Verdict == Inconclusive {
		why := ""
		switch {
		case c.Reason != "":
			why = ": " + c.Reason
		case c.Interval != nil:
			why = fmt.Sprintf(": between %s and %s", percent(c.Interval.Low), percent(c.Interval.High))
		}
		if strings.HasPrefix(c.Reason, notMeasured) {
			return fmt.Sprintf("%s %s %s%s", c.Benchmark, c.Measure, c.Reason, limit)
		}
		return fmt.Sprintf("%s %s could not be decided%s%s", c.Benchmark, c.Measure, why, limit)
	}
	switch {
	case c.Change != nil && c.Unit == "ns" && *c.Change > -1:
		return c.Benchmark + " is " + speed(*c.Change) + limit
	case c.Exact && c.Base != nil && c.Head != nil:
		return fmt.Sprintf("%s %s went from %s to %s%s", c.Benchmark, c.Measure, number(*c.Base), number(*c.Head), limit)
	case c.Change != nil:
		return fmt.Sprintf("%s %s changed by %s%s", c.Benchmark, c.Measure, percent(*c.Change), limit)
	case c.Head != nil:
		return fmt.Sprintf("%s %s is %s%s", c.Benchmark, c.Measure, number(*c.Head), limit)
	default:
		return fmt.Sprintf("%s %s is %s%s", c.Benchmark, c.Measure, c.Verdict, limit)
	}
}

// speed is a change of time in words; from half as much again on, as a factor.
func speed(change float64) string {
	const factors = 0.5
	switch {
	case change >= factors:
		return fmt.Sprintf("%.2f× slower", 1+change)
	case change >= 0:
		return fmt.Sprintf("%.1f%% slower", 100*change)
	case 1/(1+change)-1 >= factors:
		return fmt.Sprintf("%.2f× faster", 1/(1+change))
	default:
		return fmt.Sprintf("%.1f%% faster", -100*change)
	}
}

func percent(x float64) string { return fmt.Sprintf("%+.1f%%", 100*x) }

// number has no more digits than it needs, and commas in whole ones.
func number(x float64) string {
	if x != math.Trunc(x) || math.Abs(x) >= 1e15 {
		return strconv.FormatFloat(x, 'g', 6, 64)
	}
	s := strconv.FormatFloat(math.Abs(x), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if x < 0 {
		s = "-" + s
	}
	return s
}

// limitInWords is "limit +5%", "limit +10", "limit +5%, at most 900,000".
func limitInWords(m bench.Measure, l Limit, minEffect float64) string {
	var parts []string
	if l.Fail != nil {
		parts = append(parts, changeInWords(m, *l.Fail, minEffect))
	}
	if l.Max != nil {
		most := "at most " + number(*l.Max)
		if limit := m.KernelLimit(); limit > 0 {
			most += " of " + number(limit)
		}
		parts = append(parts, most)
	}
	if parts == nil {
		return ""
	}
	return "limit " + strings.Join(parts, ", ")
}

// changeInWords is a margin with the sign of the bad direction: "+5%", "+10".
func changeInWords(m bench.Measure, f Margin, minEffect float64) string {
	sign := "+"
	if m.Better == bench.Higher {
		sign = "-"
	}
	switch {
	case f.Absolute > 0:
		return sign + number(f.Absolute)
	case f.Ratio == 0 && m.Unit == "ns" && minEffect > 0:
		return sign + number(minEffect) + " ns"
	default:
		return sign + strconv.FormatFloat(100*f.Ratio, 'g', 4, 64) + "%"
	}
}

// hint says what would help, where more than reading the rows does.
func (r *Report) hint() string {
	if r.Verdict != Inconclusive || !r.Asked {
		return ""
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		if !c.Judged || c.Verdict != Inconclusive && c.Verdict != Missing {
			continue
		}
		switch {
		case c.Verdict == Missing:
			return fmt.Sprintf("measure %s in head too, or remove it from base", c.Benchmark)
		case c.Boundary != nil:
			return "store more runs, or measure against a base"
		case c.Kind == bench.Imported && !c.Exact && c.Rounds == 0:
			return fmt.Sprintf("%s needs more samples", c.Benchmark)
		case c.Kind == bench.Imported && !c.Exact:
			return fmt.Sprintf("%s has %d samples a side; more of them decide more", c.Benchmark, c.Rounds)
		case c.Needs != nil:
			return fmt.Sprintf("%s was measured for %d rounds; --budget %s gives it more", c.Benchmark, c.Rounds, inSeconds(r.Budget()))
		case c.P != nil && c.Seconds > 0 && c.Interval != nil:
			return fmt.Sprintf("%s lies too close to its limit for more rounds to decide it", c.Benchmark)
		case c.P != nil:
			return fmt.Sprintf("%s was measured for %d rounds; a larger --budget gives it more", c.Benchmark, c.Rounds)
		}
	}
	return ""
}
