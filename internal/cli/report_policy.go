package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/github"
)

// A policySource is how a report is judged, and where that comes from.
type policySource struct {
	// suites are those of the configs, by name: one of the empty name, or, of a
	// pattern, all that it names in base.
	suites  map[string]*suitePolicy
	pattern bool
	from    string // in words, such as "main 81d04ba"
}

// A suitePolicy is what one config says about judging.
type suitePolicy struct {
	file       string
	policy     gate.Policy
	benchmarks []string // that it names
	cases      map[string]any
	dropped    bool // head removes it, and somebody accepted that
}

// of is the policy of a suite: the built-in one where nobody wrote any.
func (s *policySource) of(suite string) gate.Policy {
	if p := s.suites[suite]; p != nil {
		return p.policy
	}
	return gate.DefaultPolicy()
}

// file is the config of a suite.
func (s *policySource) file(suite string) string {
	if p := s.suites[suite]; p != nil {
		return p.file
	}
	return config.FileName
}

// missing are the benchmarks that base asks for and head did not measure, nor said why
// not. A suite that names none is asked for as a whole.
func (s *policySource) missing(head *bench.Run) []string {
	var names []string
	for _, suite := range slices.Sorted(maps.Keys(s.suites)) {
		p := s.suites[suite]
		for _, name := range p.benchmarks {
			if s.pattern {
				name = bench.InSuite(suite, name)
			}
			if !slices.ContainsFunc(head.Results, func(res bench.Result) bool { return bench.Within(res.Benchmark, name) }) &&
				!slices.ContainsFunc(head.Skipped, func(k bench.Skip) bool { return k.Name == name && k.Required }) {
				names = append(names, name)
			}
		}
		if s.pattern && len(p.benchmarks) == 0 && !p.dropped && !slices.Contains(head.Suites, suite) {
			names = append(names, bench.InSuite(suite, "*"))
		}
	}
	return names
}

// policy reads how is judged: from base, so that nobody loosens their own gate.
func (r *reporting) policy(ctx context.Context) (*policySource, error) {
	e := r.event
	base := e.BaseSHA
	if e.Stored() {
		base = e.HeadSHA // is on the branch already
	}
	name := path.Clean(filepath.ToSlash(r.f.config))
	s := &policySource{suites: map[string]*suitePolicy{}, pattern: config.IsPattern(name), from: e.BaseBranch + " " + base[:7]}
	files := []config.File{{Path: name}}
	fresh := files // those of head, of which base may lack some
	if s.pattern {
		var err error
		if files, err = r.suiteFiles(ctx, name, base); err != nil {
			return nil, err
		}
		if fresh = nil; !e.Stored() {
			if fresh, err = r.suiteFiles(ctx, name, e.HeadSHA); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range files {
		p, err := r.readPolicy(ctx, f.Path, base)
		switch {
		case errors.Is(err, github.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		}
		s.suites[f.Suite] = p
		if !e.Stored() {
			r.headPolicy(ctx, p)
		}
	}
	inBase := len(s.suites)
	for _, f := range fresh {
		if s.suites[f.Suite] != nil {
			continue
		}
		if err := r.newPolicy(ctx, f, s); err != nil {
			return nil, err
		}
	}
	switch {
	case inBase > 0:
	case len(s.suites) > 0:
		s.from = "this pull request"
	default:
		s.from = "this version of gate"
	}
	return s, nil
}

// suiteFiles are the configs of a commit that a pattern names.
func (r *reporting) suiteFiles(ctx context.Context, pattern, sha string) ([]config.File, error) {
	all, err := r.client.Tree(ctx, sha)
	if err != nil {
		return nil, err
	}
	return config.Select(all, pattern)
}

// newPolicy is that of a config which base does not have: head's, without waivers. A
// stranger's is not believed even then.
func (r *reporting) newPolicy(ctx context.Context, f config.File, s *policySource) error {
	e := r.event
	if !e.Stored() && !e.Fork() {
		p, err := r.readPolicy(ctx, f.Path, e.HeadSHA)
		if err == nil {
			r.note("%s has no %s yet: judged by the policy of this pull request, which adds it", e.BaseBranch, f.Path)
			p.policy.Waivers = nil
			s.suites[f.Suite] = p
			return nil
		}
		if !errors.Is(err, github.ErrNotFound) {
			return err
		}
	}
	r.note("%s has no %s: judged by the built-in policy", e.BaseBranch, f.Path)
	return nil
}

func (r *reporting) readPolicy(ctx context.Context, name, sha string) (*suitePolicy, error) {
	src, err := r.client.File(ctx, name, sha)
	if err != nil {
		return nil, err
	}
	p, err := config.ParsePolicy(name, src)
	if err != nil {
		return nil, fmt.Errorf("the policy of %.7s: %w", sha, err)
	}
	s := &suitePolicy{file: name, policy: p}
	// Only the names: what else stands there may need files of its tree.
	var names struct {
		Benchmarks map[string]any `yaml:"benchmarks"`
	}
	if yaml.Unmarshal(src, &names) == nil {
		s.cases = names.Benchmarks
		s.benchmarks = slices.Sorted(maps.Keys(names.Benchmarks))
	}
	return s, nil
}

// headPolicy names what head's policy would loosen, and takes its waivers where
// somebody who may write accepted them after the push.
func (r *reporting) headPolicy(ctx context.Context, base *suitePolicy) {
	name := base.file
	head, err := r.readPolicy(ctx, name, r.event.HeadSHA)
	gone := errors.Is(err, github.ErrNotFound)
	switch {
	case gone:
		r.note("head has no %s", name)
		head = &suitePolicy{policy: base.policy, cases: base.cases}
	case err != nil:
		r.note("head's %s cannot be read, and changes nothing about this verdict: %v", name, err)
		return
	}
	for _, what := range loosened(base.policy, head.policy) {
		r.note("head %s; that counts once it is merged, and not for this verdict", what)
	}
	if changed := changedCases(base.cases, head.cases); len(changed) > 0 {
		r.note("head changes what %s measures, on both sides of this comparison", someOf(changed))
	}
	removed := slices.DeleteFunc(slices.Clone(base.benchmarks), func(b string) bool { return slices.Contains(head.benchmarks, b) })
	added := slices.DeleteFunc(slices.Clone(head.policy.Waivers), func(w gate.Waiver) bool {
		return slices.ContainsFunc(base.policy.Waivers, func(b gate.Waiver) bool { return sameWaiver(b, w) })
	})
	for _, b := range removed {
		r.note("head removes the benchmark %s, which %s asks for", b, r.event.BaseBranch)
	}
	if len(added)+len(removed) == 0 && !gone {
		return
	}
	what := fmt.Sprintf("%d waivers of head and %d removed benchmarks of %s", len(added), len(removed), name)
	by, err := r.acceptedBy(ctx)
	switch {
	case err != nil:
		r.note("%s do not count: %v", what, err)
	case by == "":
		r.note("%s do not count: they need the label %s, set after the last push by somebody who may write, and this job run again", what, r.f.label)
	default:
		r.note("%s count: %s set the label %s", what, by, r.f.label)
		base.policy.Waivers = append(slices.Clone(base.policy.Waivers), added...)
		base.benchmarks = slices.DeleteFunc(base.benchmarks, func(b string) bool { return slices.Contains(removed, b) })
		base.dropped = gone
	}
}

// acceptedBy is who set the label that lets waivers of head count, after the push;
// empty: nobody who may write. It is asked for once.
func (r *reporting) acceptedBy(ctx context.Context) (string, error) {
	if r.accepted != nil {
		return *r.accepted, nil
	}
	p, since := r.event.Pull, r.measured
	if p == nil {
		// What was accepted on the pull request has to pass its merge queue, too.
		queued, measured, err := r.client.Queued(ctx, r.event)
		if err != nil {
			return "", err
		}
		p, since = &queued, measured
	}
	by, err := r.client.Accepted(ctx, p.Number, r.f.label, since)
	if err != nil {
		return "", err
	}
	r.accepted = &by
	return by, nil
}

func sameWaiver(a, b gate.Waiver) bool {
	return a.Benchmark == b.Benchmark && a.Until.Equal(b.Until) && maps.Equal(a.Max, b.Max)
}

// loosened says what of the policy head would soften, drop or replace.
func loosened(base, head gate.Policy) []string {
	var out []string
	for _, m := range slices.Sorted(maps.Keys(base.Limits)) {
		b, h := base.Limits[m], head.Limits[m]
		switch {
		case b.Fail != nil && (h.Fail == nil || h.Fail.Ratio > b.Fail.Ratio || h.Fail.Absolute > b.Fail.Absolute):
			out = append(out, "loosens the fail limit of "+m)
		case b.Max != nil && (h.Max == nil || *h.Max > *b.Max):
			out = append(out, "loosens the maximum of "+m)
		}
		if b.Threshold != nil && !reflect.DeepEqual(b.Threshold, h.Threshold) {
			out = append(out, "changes the rule of "+m+" against history")
		}
	}
	if head.MinEffectNS > base.MinEffectNS {
		out = append(out, "loosens min_effect")
	}
	if head.Alpha < base.Alpha {
		out = append(out, "loosens alpha")
	}
	if head.Test != base.Test {
		out = append(out, "changes the test")
	}
	if !reflect.DeepEqual(base.Threshold, head.Threshold) {
		out = append(out, "changes the rule against history")
	}
	if !reflect.DeepEqual(base.Overrides, head.Overrides) {
		out = append(out, "changes the limits of single benchmarks")
	}
	var gone []string
	for _, w := range base.Waivers {
		if !slices.ContainsFunc(head.Waivers, func(h gate.Waiver) bool { return sameWaiver(w, h) }) && !slices.Contains(gone, w.Benchmark) {
			gone = append(gone, w.Benchmark)
		}
	}
	if len(gone) > 0 {
		out = append(out, "removes or changes the waiver of "+someOf(gone))
	}
	return out
}

// changedCases are the benchmarks of base that head gives another content.
func changedCases(base, head map[string]any) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(base)) {
		if h, ok := head[name]; ok && !reflect.DeepEqual(base[name], h) {
			out = append(out, name)
		}
	}
	return out
}

// someOf lists a few names.
func someOf(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
