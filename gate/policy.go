package gate

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// A Policy says how runs are judged.
type Policy struct {
	// Alpha is the chance that a suite whose every slowdown is within its margin
	// is called Regressed, over all its comparisons and looks; 0 < Alpha < 0.5.
	Alpha float64
	// Test is what judges pairs of samples; empty is [SignedRank].
	Test PairedTest
	// Budget is the time that measuring the suite may take; 0 is
	// [DefaultBudget] for each benchmark.
	Budget time.Duration
	// MinEffectNS is the slowdown in ns a run that is never a regression,
	// however large a share of a short program it is.
	MinEffectNS float64
	// Limits by name of measure; that of a family ([bench.IsFamily]) is one for each
	// of its members. A measure that is not named is told, not judged.
	Limits map[string]Limit
	// Overrides change limits for some benchmarks; the last one that matches a
	// benchmark and names the measure counts.
	Overrides []Override
	// Waivers accept expected regressions.
	Waivers []Waiver
	// Threshold is the rule against history for noisy measures that have no
	// rule of their own. It is written for measures that are better lower, and
	// mirrored for the others. Its zero value is no rule.
	Threshold Threshold
}

// PairedTest names the test that judges base and head.
type PairedTest string

// The tests of pairs. For runs that were not measured side by side their
// counterparts for two samples take their place: Mann–Whitney and Welch.
const (
	// SignedRank is Wilcoxon's test, exact whatever the tails of the noise.
	SignedRank PairedTest = "signed_rank"
	// PairedT is Student's t-test. Its level is nominal: heavy tails cost it
	// power, and a slow mode that most rounds do not have may be missed.
	PairedT PairedTest = "t_test"
)

// A Limit is what may happen to one measure.
type Limit struct {
	// Warn is the change that is told, Fail the change that fails. Nil: none.
	Warn, Fail *Margin
	// Max is the value that head may not exceed whatever base has. MaxWarn is the one
	// above which head is told, where base was not as high already. Nil: none.
	Max, MaxWarn *float64
	// Threshold is the measure's own rule against history. A [Static] one holds
	// beside a base, too. Nil: the policy's.
	Threshold *Threshold
}

// An Override is a set of limits for the benchmarks that a pattern names.
type Override struct {
	// Benchmark is a pattern as in [path.Match], but * and ? match a slash, too:
	// "fun_xdp/*" are all cases of a program, "fun_xdp*" also its static measures.
	// Empty, beside a Kernel: all.
	Benchmark string
	// Kernel is a pattern of kernels by [bench.Testbed.HasKernel]; empty: any.
	Kernel string
	// Limits by measure. Each replaces the policy's limit of that measure, but
	// keeps its Threshold where it has none.
	Limits map[string]Limit
}

// For tells whether it is one for a benchmark, on kernels that it is for.
func (o Override) For(benchmark string) bool {
	return o.Benchmark == "" || matches(o.Benchmark, benchmark)
}

// A Margin is a change in the bad direction: relative ("3%" is Ratio 0.03) or,
// for counts, absolute ("10"). Exactly one of them is set; both zero is "any".
type Margin struct {
	Ratio    float64
	Absolute float64
}

// DefaultBudget is the measuring time of one benchmark.
const DefaultBudget = 10 * time.Second

// DefaultPolicy is the judgement of those who did not write one.
func DefaultPolicy() Policy {
	p := Policy{
		Alpha:       0.01,
		MinEffectNS: 1,
		Limits: map[string]Limit{
			"latency":      {Warn: &Margin{Ratio: 0.02}, Fail: &Margin{Ratio: 0.05}},
			"insns":        {Warn: &Margin{}, Fail: &Margin{Ratio: 0.05}},
			"kernel_insns": {Warn: &Margin{}, Fail: &Margin{Ratio: 0.05}},
			// Work that lasts for a time runs a faster program more often, so this
			// fails where somebody says that the work is fixed.
			"runs": {Warn: &Margin{Ratio: 0.1}},
		},
		Threshold: Threshold{Test: TTest, Upper: pointer(0.99), MinSamples: 10, MaxSamples: 64},
	}
	for _, m := range judgedCounts {
		p.Limits[bench.Member(bench.Counts, m)] = Limit{Warn: &Margin{}, Fail: &Margin{Ratio: 0.05}}
	}
	for _, m := range bench.Measures() {
		if most := m.KernelLimit(); most > 0 {
			p.Limits[m.Name] = Limit{MaxWarn: pointer(DefaultMaxWarn * most)}
		}
	}
	return p
}

// judgedCounts are the counts of other tools that are judged by default. Accesses of
// simulated caches are not: where there are few, one more is no news.
var judgedCounts = []string{"instructions", "total-bytes", "total-blocks", "at-t-gmax-bytes", "B/op", "allocs/op"}

// DefaultMaxWarn is the share of a limit of the kernel's above which a program is
// told by default: while there is room left, and not where there is none. Nothing
// fails by default, since a program that is above the limit does not load.
const DefaultMaxWarn = 0.8

// on is the policy for a testbed: without the overrides for other kernels.
func (p Policy) on(t bench.Testbed) Policy {
	p.Overrides = slices.DeleteFunc(slices.Clone(p.Overrides), func(o Override) bool {
		return o.Kernel != "" && !t.HasKernel(o.Kernel)
	})
	return p
}

// Limit is what may happen to a measure of a benchmark.
func (p Policy) Limit(benchmark, measure string) Limit {
	l, _ := limitOf(p.Limits, measure)
	for _, o := range p.Overrides {
		if own, ok := limitOf(o.Limits, measure); ok && o.For(benchmark) {
			if own.Threshold == nil {
				own.Threshold = l.Threshold
			}
			l = own
		}
	}
	return l
}

// limitOf is what is written for a measure, or for the family that it is a member of.
func limitOf[T any](all map[string]T, measure string) (l T, ok bool) {
	if l, ok = all[measure]; ok {
		return l, true
	}
	if family, _, member := bench.SplitMember(measure); member {
		l, ok = all[family]
	}
	return l, ok
}

// matches tells whether a pattern names a benchmark. Slashes are made characters
// like any other to path.Match.
func matches(pattern, benchmark string) bool {
	plain := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	ok, err := path.Match(plain(pattern), plain(benchmark))
	return ok && err == nil
}

// Looks are the numbers of rounds after which a session asks for a verdict, in
// order: 20 to 320, each twice the one before. What share of alpha each may
// spend is in docs/statistics.md.
func (p Policy) Looks() []int { return []int{20, 40, 80, 160, 320} }

// Check tells everything that a policy may not be, joined by [errors.Join].
func (p Policy) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !(p.Alpha > 0 && p.Alpha < 0.5) {
		bad("alpha is %v, not between 0 and 0.5", p.Alpha)
	}
	if !slices.Contains([]PairedTest{"", SignedRank, PairedT}, p.Test) {
		bad("test is %q, not %q or %q", p.Test, SignedRank, PairedT)
	}
	if p.Budget < 0 {
		bad("budget is %v, not 0 or more", p.Budget)
	}
	if !atLeastZero(p.MinEffectNS) {
		bad("min_effect_ns is %v, not 0 or more", p.MinEffectNS)
	}
	for name, l := range p.Limits {
		for _, err := range l.check() {
			bad("%s: %w", name, err)
		}
	}
	for _, o := range p.Overrides {
		if _, err := path.Match(o.Benchmark, ""); err != nil || o.Benchmark == "" && o.Kernel == "" {
			bad("override %q: not a pattern", o.Benchmark)
		}
		if _, err := path.Match(o.Kernel, ""); err != nil {
			bad("override %q: kernel %q is not a pattern", o.Benchmark, o.Kernel)
		}
		for name, l := range o.Limits {
			for _, err := range l.check() {
				bad("override %q: %s: %w", o.Benchmark, name, err)
			}
		}
	}
	for _, v := range p.Waivers {
		if _, err := path.Match(v.Benchmark, ""); err != nil || v.Benchmark == "" {
			bad("waiver %q: not a pattern", v.Benchmark)
		}
		for _, err := range v.check() {
			bad("waiver %q: %w", v.Benchmark, err)
		}
	}
	switch p.Threshold.Test {
	case "": // no rule: what needs one is inconclusive
	case Static:
		bad("threshold: %s limits are those of a measure", Static)
	default:
		for _, err := range p.Threshold.check() {
			bad("threshold: %w", err)
		}
	}
	// Maps have no order, and the same policy must give the same report.
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func (l Limit) check() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for what, m := range map[string]*Margin{"warn": l.Warn, "fail": l.Fail} {
		switch {
		case m == nil:
		case !atLeastZero(m.Ratio) || !atLeastZero(m.Absolute):
			bad("%s is not 0 or more", what)
		case m.Ratio > 0 && m.Absolute > 0:
			bad("%s is both a ratio and a number", what)
		}
	}
	if l.Max != nil && !finite(*l.Max) || l.MaxWarn != nil && !finite(*l.MaxWarn) {
		bad("max is not a finite number")
	}
	if l.Max != nil && l.MaxWarn != nil && *l.MaxWarn > *l.Max {
		bad("max warns above %v and fails above %v", *l.MaxWarn, *l.Max)
	}
	if l.Threshold != nil {
		for _, err := range l.Threshold.check() {
			bad("threshold: %w", err)
		}
	}
	return errs
}

func atLeastZero(x float64) bool { return finite(x) && x >= 0 }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
