package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// Verdict is what is known of one comparison or of a suite.
type Verdict int

// The verdicts. Inconclusive is the zero value: what nobody decided is not
// known, and never passes.
const (
	Inconclusive Verdict = iota
	Pass
	Improved
	Regressed
	Added   // only head has it
	Missing // only base has it
)

var verdictNames = [...]string{"inconclusive", "pass", "improved", "regressed", "added", "missing"}

// String is the verdict in lower case, as reports and JSON have it.
func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdictNames) {
		return fmt.Sprintf("verdict(%d)", int(v))
	}
	return verdictNames[v]
}

// MarshalText implements [encoding.TextMarshaler].
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, n := range verdictNames {
		if n == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("unknown verdict %q", b)
}

// A Report is the judgement of a whole suite.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Asked tells that there was something to judge head by. False only where
	// [CompareHistory] found no history (and no Max in the policy), or too few runs
	// and nothing worse: nobody asked for a verdict, Verdict is Inconclusive, and a
	// caller may exit 0.
	Asked bool `json:"asked"`
	// Base is empty where head was held against history or nothing.
	Base        *bench.Revision `json:"base,omitempty"`
	Head        bench.Revision  `json:"head"`
	Testbed     bench.Testbed   `json:"testbed"`
	Seed        uint64          `json:"seed"`
	Baseline    *Baseline       `json:"baseline,omitempty"`
	Comparisons []Comparison    `json:"comparisons"`
	// Programs are those the verifier did not accept in head, or that it
	// answered differently on the two sides.
	Programs []bench.ProgramResult `json:"programs,omitempty"`
	Skipped  []bench.Skip          `json:"skipped,omitempty"`
	Warnings []string              `json:"warnings,omitempty"`
	// Changes are the programs that differ from base, and whether a benchmark
	// executes what differs; those that none does are among the warnings, too.
	Changes []bench.Change `json:"changes,omitempty"`
	// Control is how the session's control came out; nil: it had none.
	Control *Control `json:"control,omitempty"`
	// Suites are those that the report is about, where they are several: their names
	// begin its names, see [bench.JoinSuites].
	Suites []string `json:"suites,omitempty"`
	// Summary is one sentence: the verdict in words.
	Summary string `json:"summary"`
	Hint    string `json:"hint,omitempty"`

	outcomes outcomes // of the verifier
	refused  error    // why the policy cannot be used
}

// Open names the benchmarks that more rounds may still decide, in the order of
// the rows, each once. A session measures them up to the next of [Policy.Looks],
// adds that look to their results and asks [Compare] again.
func (r *Report) Open() []string {
	var names []string
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; c.Open && !slices.Contains(names, c.Benchmark) {
			names = append(names, c.Benchmark)
		}
	}
	return names
}

// Answer is what the verifier's answer to one of Programs means: Regressed where head
// rejects what base accepted, Inconclusive where nobody knows, and else Pass. It holds
// of a report that was read from JSON, too.
func (r *Report) Answer(p bench.ProgramResult) Verdict {
	name := p.Program
	if len(r.Suites) > 0 {
		_, name = bench.SplitSuite(name)
	}
	same := alike(name, p)
	switch {
	case p.Outcome == bench.Accepted, !r.Asked:
		return Pass
	case strings.HasPrefix(p.Reason, acceptedBefore):
		return Regressed
	case slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasSuffix(w, same) }):
		return Pass
	}
	return Inconclusive
}

// A Comparison is one measure of one benchmark, head against base or history.
type Comparison struct {
	Benchmark string `json:"benchmark"`
	Program   string `json:"program"`
	Measure   string `json:"measure"`
	Unit      string `json:"unit"`
	// Better is the declared direction of a figure of the work; empty for all other
	// measures, of which the table of measures says it.
	Better  bench.Better `json:"better,omitempty"`
	Kind    bench.Kind   `json:"kind"`
	Verdict Verdict      `json:"verdict"`
	// Judged tells that the policy has a limit for the measure. A row that is
	// only told has the verdict Pass, Improved or Regressed as its numbers
	// are, and no part in the suite's verdict.
	Judged bool `json:"judged"`
	// Open tells that more rounds may still decide this row: it is judged,
	// paired, Inconclusive, and has a look left.
	Open bool `json:"open,omitempty"`
	// Warn tells that the change surely exceeds the policy's warn margin, or that head
	// came above the value that the policy warns of, while the row does not fail.
	Warn bool `json:"warn,omitempty"`
	// Fixed tells that an absolute limit is broken, which holds whatever base has and
	// no waiver accepts.
	Fixed bool `json:"fixed,omitempty"`
	// Unchanged tells that base and head are the same program to the kernel, so
	// that a difference in time is this run's own noise.
	Unchanged bool `json:"unchanged,omitempty"`
	// Base and Floor, of the empty program, are medians over the rounds, in Unit.
	// Head is Base with the Change where that is an estimate (unless Head's own median
	// is above an absolute limit), else a median, too. Against history, Base is the
	// mean of the stored medians.
	// Nil: there is none.
	Base  *float64 `json:"base,omitempty"`
	Head  *float64 `json:"head,omitempty"`
	Floor *float64 `json:"floor,omitempty"`
	// Change is head against base as a ratio: +0.05 is 5% more. Nil where base
	// is 0 or missing. In pairs it is the Hodges–Lehmann estimate over the rounds,
	// so it may differ a little from Head/Base - 1.
	Change *float64 `json:"change,omitempty"`
	// Interval is the verdict's own interval of Change: at the level that the
	// verdict was held against, so it lies above Margin where Regressed and below
	// it where Pass. Nil where exact, or where there are too few rounds for one.
	Interval *Interval `json:"interval,omitempty"`
	Exact    bool      `json:"exact,omitempty"`
	// Rounds is the number of pairs at the look that decided, or at the last one.
	Rounds int `json:"rounds,omitempty"`
	// Seconds is what measuring the benchmark took, all sides together; 0: unknown.
	// Needs is about how many more would decide an Inconclusive row; nil: none would
	// within the plan of looks, or nobody can say.
	Seconds float64  `json:"seconds,omitempty"`
	Needs   *float64 `json:"needs_seconds,omitempty"`
	// Outliers are the rounds that Tukey's fences set apart; nil: none, or not
	// paired. They are counted and shown, and take part like all others.
	Outliers *Outliers `json:"outliers,omitempty"`
	// P is the p-value that decided, or the smallest one if none did.
	P *float64 `json:"p,omitempty"`
	// T is Welch's or the paired t statistic with its two-sided p, for those
	// who want the classical test. It decides nothing here.
	T *TStatistic `json:"t,omitempty"`
	// KernelLimit is the most that the kernel allows, in Unit, and Used the share of it
	// that head has: 0.9 is 90%. Nil where the kernel has no limit of the measure.
	KernelLimit *float64 `json:"kernel_limit,omitempty"`
	Used        *float64 `json:"used,omitempty"`
	// Limit is the policy's limit in words: "limit +3%", "limit +10, at most 900".
	Limit string `json:"limit,omitempty"`
	// Waived is the policy's waiver for the row, whether or not it still counts;
	// nil: there is none.
	Waived *Waived `json:"waived,omitempty"`
	// Margin is the fail margin on the scale of Change, 0 or more: Interval lies
	// above it (for measures that are better lower) where the row is Regressed.
	Margin *float64 `json:"margin,omitempty"`
	// Detectable is the smallest slowdown, as a ratio of base, that this run
	// would have called Regressed nine times in ten.
	Detectable *float64 `json:"detectable,omitempty"`
	// LayoutFloor is the most that moving code alone changes this benchmark here,
	// as a ratio of base; Layout tells that Change is no more than that.
	LayoutFloor *float64  `json:"layout_floor,omitempty"`
	Layout      bool      `json:"layout,omitempty"`
	Boundary    *Boundary `json:"boundary,omitempty"`
	// Lines are where head executes other instructions than base, those that
	// decide most more of them first, in rows of insns; and where it takes longer,
	// those that do by most first, in rows of latency that regressed.
	Lines []bench.LineCount `json:"lines,omitempty"`
	// Sites are where profiles of both sides show that head allocates more, those with
	// most more first.
	Sites    []bench.Site `json:"sites,omitempty"`
	Reason   string       `json:"reason,omitempty"` // why this verdict, where the numbers do not say
	Path     string       `json:"path,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
}

// An Interval holds the true change with probability Level, whenever the session
// stopped: its bounds are those that the verdict was held against at its look, and
// the level is what they have over all looks. That of a Regressed or Improved row is
// higher the more comparisons the suite has.
type Interval struct {
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Level float64 `json:"level"`
}

// Outliers count rounds whose change lies more than 1.5 interquartile ranges outside
// the quartiles of all (Tukey 1977).
type Outliers struct {
	Worse  int `json:"worse"`  // beyond them on head's bad side
	Better int `json:"better"` // on its good side
	Severe int `json:"severe"` // of both, those more than 3 ranges outside
}

// A TStatistic is the classical t-test of the same samples.
type TStatistic struct {
	T       float64 `json:"t"`
	Freedom float64 `json:"freedom"`
	P       float64 `json:"p"` // two-sided
}

// A Boundary is the number that a [Threshold] gives today.
type Boundary struct {
	Test    Test     `json:"test"`
	Lower   *float64 `json:"lower,omitempty"`
	Upper   *float64 `json:"upper,omitempty"`
	Samples int      `json:"samples"`
}

// A Baseline is what a comparison was held against, and why that.
type Baseline struct {
	Why  string   `json:"why"` // "12 runs of main on this testbed"
	Runs []string `json:"runs"`
}

// Deciding is the row that the verdict Regressed or Improved is about: the first that
// is judged so. Nil: none is, as where the verifier decided.
func (r *Report) Deciding() *Comparison {
	if r.Verdict != Regressed && r.Verdict != Improved {
		return nil
	}
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; c.Judged && c.Verdict == r.Verdict {
			return c
		}
	}
	return nil
}

// Culprits are the lines that decide most of the instructions that head executes
// more, or of the time that it takes longer, those that decide most first: at most
// two, each of them a fifth of the difference.
func (c *Comparison) Culprits() []bench.LineCount {
	if c.Base == nil || c.Head == nil || *c.Head <= *c.Base {
		return nil
	}
	const most, share = 2, 0.2
	n := 0
	for n < min(most, len(c.Lines)) && c.Added(c.Lines[n]) >= share*(*c.Head-*c.Base) {
		n++
	}
	return c.Lines[:n]
}

// Added is what a line adds to the number of the row.
func (c *Comparison) Added(l bench.LineCount) float64 {
	if c.Measure == bench.Latency {
		return l.Time - l.BaseTime
	}
	return l.Decides - l.BaseDecides
}
