package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// maxBundles is the number of testbeds that one report has.
const maxBundles = 64

// A judgement is what there is to tell.
type judgement struct {
	reports []*gate.Report // the worst first
	of      map[*gate.Report]judged
	verdict gate.Verdict
	code    int // the exit code, before fail-on
	title   string
	base    *policySource
}

func (r *reporting) judge(ctx context.Context) (*judgement, error) {
	source, err := r.policy(ctx)
	if err != nil {
		return nil, err
	}
	if r.f.needs != "" && r.f.needs != "success" {
		r.problem("a measuring job ended with %q", r.f.needs)
	}
	bundles, err := r.bundles(ctx)
	if err != nil {
		return nil, err
	}
	r.readHistory(ctx)
	r.measures = map[string]bool{}
	j := &judgement{base: source, of: map[*gate.Report]judged{}}
	for _, b := range bundles {
		report := r.judgeOne(b, source)
		j.reports = append(j.reports, report)
		j.of[report] = judged{report: report, base: b.Base, head: b.Head, history: r.history.Runs}
	}
	r.missingTestbeds(bundles)
	j.conclude(r)
	return j, nil
}

// judgeOne judges the runs of one testbed. Pairs decide; history only advises.
func (r *reporting) judgeOne(b *store.Bundle, s *policySource) *gate.Report {
	r.stamp(b.Base, b.Head)
	r.measures[b.Head.ID] = true
	if several := len(b.Head.Suites) > 0; several != s.pattern {
		r.problem("the runs of %s are of another config than %s", b.Head.Testbed.Slug(), r.f.config)
	}
	report := r.compare(b, s)
	for _, name := range s.missing(b.Head) {
		report.Skipped = append(report.Skipped, bench.Skip{Name: name, Reason: "the base branch asks for it, and it was not measured", Required: true})
	}
	return report
}

func (r *reporting) compare(b *store.Bundle, s *policySource) *gate.Report {
	var past []*bench.Run
	for _, h := range r.history.Runs {
		if h.ID != b.Head.ID {
			past = append(past, h)
		}
	}
	if b.Base == nil {
		report := gate.CompareHistorySuites(b.Head, past, s.of)
		// A pull request asks for a comparison, whether or not one can be made.
		report.Asked = report.Asked || !r.event.Stored()
		return report
	}
	report := gate.CompareSuites(b.Base, b.Head, s.of)
	advice := gate.CompareHistorySuites(b.Head, past, s.of)
	for i := range advice.Comparisons {
		a := &advice.Comparisons[i]
		if a.Judged && a.Verdict == gate.Regressed && !regressed(report, a) {
			r.note("history advises, and does not fail this: %s %s is %s on %s", a.Benchmark, a.Measure, a.Reason, b.Head.Testbed.Slug())
		}
	}
	return report
}

func regressed(r *gate.Report, a *gate.Comparison) bool {
	return slices.ContainsFunc(r.Comparisons, func(c gate.Comparison) bool {
		return c.Benchmark == a.Benchmark && c.Measure == a.Measure && c.Verdict == gate.Regressed
	})
}

// bundles reads what was measured: from a directory of downloaded artifacts, or
// from the API. What is damaged is a problem, and never left out in silence.
func (r *reporting) bundles(ctx context.Context) ([]*store.Bundle, error) {
	type source struct {
		name github.Name
		read func() (*store.Bundle, error)
	}
	var sources []source
	if dir := r.getenv("GATE_RESULTS"); dir != "" && r.f.artifacts == "" && r.event.Name != "workflow_run" {
		// This very job measured (mode: all).
		sources = append(sources, source{read: func() (*store.Bundle, error) { return store.ReadBundle(dir) }})
	} else if r.f.artifacts != "" {
		found, err := os.ReadDir(r.f.artifacts)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the artifacts: %w", err)
		}
		newest := map[string]github.Name{}
		for _, d := range found {
			n, err := github.ParseName(d.Name())
			if err == nil && d.IsDir() && newest[n.Key()].Attempt < n.Attempt {
				newest[n.Key()] = n
			}
		}
		for _, k := range slices.Sorted(maps.Keys(newest)) {
			n := newest[k]
			sources = append(sources, source{n, func() (*store.Bundle, error) { return store.ReadBundle(filepath.Join(r.f.artifacts, n.String())) }})
		}
	} else {
		found, err := r.client.Artifacts(ctx, r.event.Run)
		if err != nil {
			return nil, err
		}
		for _, a := range found {
			sources = append(sources, source{a.Name, func() (*store.Bundle, error) { return r.client.Bundle(ctx, a) }})
		}
	}
	var out []*store.Bundle
	for _, s := range sources {
		if s.name.Kind == github.KindHistory || s.name.Kind != "" && s.name.ID != r.f.id {
			continue
		}
		if len(out) == maxBundles {
			r.problem("more than %d testbeds", maxBundles)
			break
		}
		b, err := s.read()
		if err == nil && b.Head == nil {
			err = errors.New("it holds no measurement")
		}
		if err != nil {
			r.problem("the runs of %s cannot be read: %v", s.name.Testbed, err)
			continue
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		r.problem("no measuring job left any runs")
	}
	return out, nil
}

// readHistory finds the baseline. That there is none costs advice, not a verdict.
func (r *reporting) readHistory(ctx context.Context) {
	r.history = &github.History{}
	e := r.event
	if r.f.store == "none" {
		return
	}
	q := github.HistoryQuery{Repo: e.RepoID, Workflow: e.Workflow, Branch: e.BaseBranch, Base: e.BaseSHA, ID: r.f.id}
	find := r.client.History
	if e.Stored() {
		q.Base = e.HeadSHA
		find = r.client.Collect
	}
	if r.f.inStore() {
		find = r.storedHistory
	}
	h, err := find(ctx, q)
	if err != nil {
		r.note("no baseline: %v", err)
		return
	}
	r.history = h
	r.note("baseline of %s: %s", e.BaseBranch, h)
	for _, p := range h.Problems {
		r.say("warning: not counted: %v", p)
	}
}

// missingTestbeds fails closed where the newest baseline has a testbed, by the
// name that its workflow gave it, that this pull request did not measure.
func (r *reporting) missingTestbeds(bundles []*store.Bundle) {
	if r.event.Stored() {
		return
	}
	for _, name := range r.history.Testbeds() {
		if !slices.ContainsFunc(bundles, func(b *store.Bundle) bool { return b.Head.Testbed.Name == name }) {
			r.problem("testbed %s of %s was not measured", name, r.event.BaseBranch)
		}
	}
}

// severity orders exit codes: what is known to be worse before what is not known.
var severity = map[int]int{exitRegressed: 3, exitUnmeasured: 2, exitInconclusive: 1, exitPass: 0}

func (j *judgement) conclude(r *reporting) {
	code := func(x *gate.Report) int {
		var v verdictError
		if errors.As((&output{}).exit(x), &v) && v.code == exitRegressed {
			return v.code
		}
		// What base asks for and nobody measured cannot pass, whatever else did.
		if slices.ContainsFunc(x.Skipped, func(s bench.Skip) bool { return s.Required }) {
			return exitUnmeasured
		}
		return v.code
	}
	slices.SortStableFunc(j.reports, func(a, b *gate.Report) int { return severity[code(b)] - severity[code(a)] })
	if len(j.reports) > 0 {
		worst := j.reports[0]
		j.verdict, j.code, j.title = worst.Verdict, code(worst), worst.Summary
		same := 0
		for _, x := range j.reports {
			if code(x) == j.code {
				same++
			}
		}
		if j.code == exitUnmeasured && (j.verdict == gate.Pass || j.verdict == gate.Improved) {
			j.verdict = gate.Inconclusive
			j.title = "not all that the base branch asks for was measured."
		}
		if j.code == exitPass && slices.ContainsFunc(j.reports, func(x *gate.Report) bool { return x.Verdict == gate.Improved }) {
			j.verdict = gate.Improved
		}
		if n := len(j.reports); n > 1 && j.code != exitPass {
			j.title = fmt.Sprintf("%s (%d of %d testbeds)", strings.TrimSuffix(worst.Summary, "."), same, n)
		}
	}
	if len(r.problems) > 0 && severity[exitUnmeasured] > severity[j.code] {
		j.verdict, j.code = gate.Inconclusive, exitUnmeasured
		j.title = strings.Join(r.problems, "; ") + "."
		if len(r.problems) < 3 {
			return
		}
		j.title = fmt.Sprintf("%s; and %d more.", r.problems[0], len(r.problems)-1)
	}
	for _, p := range r.problems {
		r.note("%s", p)
	}
}
