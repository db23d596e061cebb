package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// Compare judges head against base. It is pure: the same files and the same
// policy give the same report, whoever asks and whenever. A run that is nil
// counts as an empty one, and nothing passes because something is not there.
//
// Runs of one session are compared in pairs, round by round. Their verdicts
// follow the looks at which the session stopped to ask (Result.Looks and Final of
// head): a row is decided at the first look that can decide it, and what came
// later is not regarded. A result without looks is a replay of a measurement
// whose length was fixed beforehand: one final look at all rounds.
//
// A session calls Compare after each look with all it has so far, and goes on
// with [Report.Open]. Every benchmark that it means to measure must have its
// results in both runs from the start, without samples if need be: their number
// is what the correction for many comparisons divides by, and it may not grow.
// Where no further look fits into the budget, it sets Final before it asks.
//
// Runs of different sessions are compared as two samples, with a warning, and
// only where their testbeds are equal.
func Compare(base, head *bench.Run, p Policy) *Report {
	base, head = orEmpty(base), orEmpty(head)
	r := newReport(head)
	revision := base.Revision
	r.Base = &revision
	r.Asked = true
	r.Baseline = &Baseline{Why: "base " + base.Revision.Short(), Runs: []string{base.ID}}
	if err := p.Check(); err != nil {
		return r.refuse(err)
	}
	r.Skipped = mergeSkips(base.Skipped, head.Skipped)
	r.Warnings = merge(base.Warnings, head.Warnings)
	if base.ID != "" && base.ID == head.ID {
		r.warn("base and head are the same run")
	}
	differences := base.Testbed.Differences(head.Testbed)
	if len(differences) > 0 {
		r.warn("the testbeds differ (%s): noisy measures cannot be compared, and exact ones may depend on it",
			strings.Join(differences, ", "))
	}
	p = p.on(head.Testbed)
	r.changes(base, head)
	unpaired := base.Session == "" || base.Session != head.Session

	outcomes := r.judgePrograms(base, head)
	var rows, family []*row
	var control *row
	for _, pair := range match(base, head) {
		w := newRow(pair.base, pair.head, head.Time, p)
		w.skipped = skipReason(r.Skipped, w.Benchmark)
		if w.Benchmark == bench.Control {
			if !unpaired && pair.base != nil && pair.head != nil {
				w.prepare(false, p)
				control = w
			}
			continue
		}
		rows = append(rows, w)
		switch {
		case pair.base == nil:
			w.added()
		case pair.head == nil:
			w.missing(head)
		case w.Exact:
			w.judgeExact()
		case w.measure.Static: // the verifier's clock: told, and read once
			w.tellOnce()
		case pair.base.Unit != pair.head.Unit || pair.base.Better != pair.head.Better:
			w.inconclusive("base and head declare it in other units or directions")
			w.setMedians()
		case len(differences) > 0:
			w.inconclusive("the testbeds differ: " + strings.Join(differences, ", "))
			w.setMedians()
		default:
			// How often it runs is the work's doing; all else is the program's own.
			own := w.measure.Unit == "ns" || w.measure.Exact
			w.Unchanged = own && unchanged(base, head, w.Program)
			for _, with := range slices.Concat(pair.base.With, pair.head.With) {
				w.Unchanged = w.Unchanged && unchanged(base, head, with)
			}
			w.prepare(unpaired, p)
			family = append(family, w)
		}
	}
	if unpaired && len(family) > 0 {
		r.warn("base and head were not measured side by side: a difference may be the host's, not the program's")
	}
	judgeFamily(family, p)
	r.warnOfNoise(family)
	judgeLayout(family, base, head)
	r.control(control, family, p)
	for _, w := range rows {
		w.settleWaiver()
		w.applyMax()
		w.applyStatic()
		w.applyMaxWarn()
		w.agree()
		r.Comparisons = append(r.Comparisons, w.Comparison)
	}
	r.conclude(outcomes)
	return r
}

func newReport(head *bench.Run) *Report {
	return &Report{
		Head: head.Revision, Testbed: head.Testbed, Seed: head.Seed, Suites: head.Suites,
		Comparisons: []Comparison{}, // an empty list in JSON, not null
	}
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = merge(r.Warnings, []string{fmt.Sprintf(format, args...)})
}

// refuse is the report where the policy cannot be used.
func (r *Report) refuse(err error) *Report {
	r.Verdict, r.refused = Inconclusive, err
	r.Summary = "nothing was judged: " + strings.ReplaceAll(err.Error(), "\n", "; ") + "."
	return r
}

func orEmpty(r *bench.Run) *bench.Run {
	if r == nil {
		return &bench.Run{}
	}
	return r
}

// A matched is one benchmark and measure of two runs; one of them may be nil.
type matched struct{ base, head *bench.Result }

// match pairs the results of two runs by benchmark and measure: head's in their
// order, then what only base has.
func match(base, head *bench.Run) []matched {
	type key struct{ benchmark, measure string }
	old := make(map[key]*bench.Result, len(base.Results))
	for i := range base.Results {
		b := &base.Results[i]
		old[key{b.Benchmark, b.Measure}] = b
	}
	inBase, inHead := countedIn(base), countedIn(head)
	var all []matched
	for i := range head.Results {
		h := &head.Results[i]
		k := key{h.Benchmark, h.Measure}
		b := old[k]
		if b == nil {
			b = uncalled(inBase, h)
		}
		all = append(all, matched{b, h})
		delete(old, k)
	}
	for i := range base.Results {
		b := &base.Results[i]
		if old[key{b.Benchmark, b.Measure}] == b {
			all = append(all, matched{b, uncalled(inHead, b)})
		}
	}
	return all
}

// outcomes is what the verifier's answers do to the suite's verdict.
type outcomes struct {
	broken  []string // head rejected, base accepted
	unknown []string // not loaded, or new and rejected
	refused []string // suites that were not judged, and why
}

// judgePrograms holds the verifier's answers against each other. A program that
// it accepted in base and rejects in head is a regression like no other: nothing
// of it can be measured. Programs are matched by name alone, since base and head
// may have other files.
func (r *Report) judgePrograms(base, head *bench.Run) outcomes {
	var o outcomes
	old := map[string][]bench.ProgramResult{}
	for _, p := range base.Programs {
		old[p.Program] = append(old[p.Program], p)
	}
	for _, p := range head.Programs {
		was := old[p.Program]
		accepted := has(was, bench.Accepted)
		rejected := has(was, bench.Rejected) || has(was, bench.NotLoaded)
		switch {
		case p.Outcome == bench.Accepted && !rejected:
			continue
		case p.Outcome == bench.Accepted:
			i := slices.IndexFunc(was, func(p bench.ProgramResult) bool { return p.Outcome != bench.Accepted })
			p.Reason = fmt.Sprintf("it was %s in base: %s", was[i].Outcome, was[i].Reason)
		case rejected && has(was, p.Outcome):
			r.warn("%s", alike(p.Program, p))
		case p.Outcome == bench.Rejected && accepted:
			o.broken = append(o.broken, p.Program)
			p.Reason = acceptedBefore + p.Reason
		default:
			o.unknown = append(o.unknown, p.Program)
		}
		r.Programs = append(r.Programs, p)
	}
	return o
}

// acceptedBefore begins the reason of a program that only head rejects.
const acceptedBefore = "accepted in base; "

// alike says that a program is no worse off than in base.
func alike(name string, p bench.ProgramResult) string {
	return fmt.Sprintf("%s is %s in base and head alike: %s", name, p.Outcome, p.Reason)
}

func has(programs []bench.ProgramResult, o bench.Outcome) bool {
	return slices.ContainsFunc(programs, func(p bench.ProgramResult) bool { return p.Outcome == o })
}

// unchanged tells that a program is, to the kernel, the same in both runs: equal
// instructions after relocation, flags, attach type and initial map contents, and
// those of all that it can reach (see [bench.ProgramResult.Digest]). Its speed
// then cannot have changed, and a difference in time is the noise or the code
// placement of this one session. So its rows never fail: they pass, with that
// reason, and serve as a control of the host instead ([Report.warnOfNoise]).
//
// This holds for times alone. How often a program runs (runs, recursion_misses)
// also depends on what drives it.
func unchanged(base, head *bench.Run, program string) bool {
	digests := func(r *bench.Run) []string {
		var d []string
		for _, p := range r.Programs {
			if p.Program == program {
				d = append(d, p.Digest)
			}
		}
		slices.Sort(d)
		return d
	}
	b, h := digests(base), digests(head)
	return len(h) > 0 && slices.Equal(b, h) && !slices.Contains(h, "")
}

func merge(lists ...[]string) []string {
	var all []string
	for _, l := range lists {
		for _, s := range l {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// skipReason is why the benchmark was skipped, or empty.
func skipReason(skips []bench.Skip, benchmark string) string {
	i := slices.IndexFunc(skips, func(s bench.Skip) bool { return bench.Within(benchmark, s.Name) })
	if i < 0 {
		return ""
	}
	return skips[i].Reason
}

func mergeSkips(lists ...[]bench.Skip) []bench.Skip {
	var all []bench.Skip
	for _, l := range lists {
		for _, s := range l {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}
