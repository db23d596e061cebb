package cli

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/runner"
)

// findSuites opens what is measured: one workspace, or, where the config is a pattern,
// one for each config, with a name.
func findSuites(file string, args []string) ([]*workspace, error) {
	if _, err := os.Stat(file); err == nil || !config.IsPattern(file) {
		w := &workspace{args: args}
		w.suite, err = findSuite(file, args)
		return []*workspace{w}, err
	}
	if len(args) > 0 {
		return nil, usage("--config %s names several configs, which say themselves what is measured: leave out %s", file, strings.Join(args, " "))
	}
	files, err := suiteFiles(file)
	if err != nil {
		return nil, err
	}
	var all []*workspace
	for _, f := range files {
		w := &workspace{name: f.Suite, dir: path.Dir(f.Path)}
		if w.suite, err = config.Load(f.here); err != nil {
			return nil, &exitError{code: exitUsage, err: err}
		}
		all = append(all, w)
	}
	return all, nil
}

// onlySuites keeps of several suites those that have a benchmark which one of the
// globs names ("lb:balancer/*", or "balancer/*" of any suite), each with its globs.
// Every glob has to name something.
func onlySuites(all []*workspace, globs []string) ([]*workspace, error) {
	if len(all) == 1 && all[0].name == "" {
		all[0].only = globs
		return all, nil
	}
	if len(globs) == 0 {
		return all, nil
	}
	var kept []*workspace
	hit := make([]bool, len(globs))
	for _, w := range all {
		for i, g := range globs {
			rest := g
			if suite, in, ok := strings.Cut(g, ":"); ok {
				if match, err := path.Match(suite, w.name); err != nil || !match && suite != w.name {
					continue
				}
				rest = in
			}
			if _, err := runner.Select(w.suite.Benchmarks, []string{rest}); err == nil {
				w.only, hit[i] = append(w.only, rest), true
			}
		}
		if w.only != nil {
			kept = append(kept, w)
		}
	}
	if i := slices.Index(hit, false); i >= 0 {
		var names []string
		for _, w := range all {
			for _, b := range w.suite.Benchmarks {
				names = append(names, bench.InSuite(w.name, b.Name))
			}
		}
		return nil, usage("--only %s: no such benchmark; there are %s", globs[i], strings.Join(names, ", "))
	}
	return kept, nil
}

// shareBudget gives each suite its part of a time for all of them, by the number of its
// benchmarks. 0 leaves each what its policy says.
func shareBudget(plans []*runner.Plan, all time.Duration) {
	n := 0
	for _, p := range plans {
		n += len(p.Benchmarks)
	}
	for _, p := range plans {
		if all > 0 {
			p.Policy.Budget = max(all*time.Duration(len(p.Benchmarks))/time.Duration(max(n, 1)), time.Millisecond)
		}
	}
}

// joinSuites makes one result of those of several suites. Base lacks those that it
// did not have; base is its revision.
func joinSuites(all []*workspace, results []*runner.Result, base *bench.Revision) *runner.Result {
	if all[0].name == "" {
		if results[0].Base == nil && base != nil {
			results[0].Base = emptyBase(results[0].Head, *base)
		}
		return results[0]
	}
	out := &runner.Result{}
	var names, baseNames []string
	var heads, bases []*bench.Run
	for i, w := range all {
		r := results[i]
		fromTop := func(file *string) {
			if *file != "" && !path.IsAbs(*file) { // from where the config is
				*file = path.Join(w.dir, *file)
			}
		}
		for j := range r.Head.Results {
			for k := range r.Head.Results[j].Lines {
				fromTop(&r.Head.Results[j].Lines[k].File)
			}
			for k := range r.Head.Results[j].Sites {
				fromTop(&r.Head.Results[j].Sites[k].File)
			}
		}
		for j := range r.Head.Changes {
			for k := range r.Head.Changes[j].Lines {
				fromTop(&r.Head.Changes[j].Lines[k].File)
			}
		}
		names, heads = append(names, w.name), append(heads, r.Head)
		if r.Base != nil {
			baseNames, bases = append(baseNames, w.name), append(bases, r.Base)
		}
		for _, err := range r.Failures {
			out.Failures = append(out.Failures, fmt.Errorf("%s: %w", w.name, err))
		}
	}
	out.Head = bench.JoinSuites(names, heads)
	switch {
	case len(bases) > 0:
		out.Base = bench.JoinSuites(baseNames, bases)
	case base != nil: // all suites are new
		out.Base = emptyBase(out.Head, *base)
	}
	return out
}

// emptyBase is the run of a base that has nothing of what head has.
func emptyBase(head *bench.Run, rev bench.Revision) *bench.Run {
	base := *head
	base.ID, base.Revision = strings.Replace(base.ID, "-head-", "-base-", 1), rev
	base.Suites, base.Programs, base.Results, base.Changes, base.Skipped, base.Warnings = nil, nil, nil, nil, nil, nil
	return &base
}

// policyOfSuites gives the policies of workspaces by name.
func policyOfSuites(all []*workspace) func(string) gate.Policy {
	return func(suite string) gate.Policy {
		for _, w := range all {
			if w.name == suite {
				return w.policy
			}
		}
		return gate.DefaultPolicy()
	}
}

// configOfSuites gives the files of workspaces by name; nil: there are none.
func configOfSuites(all []*workspace) func(string) string {
	if all[0].suite == nil {
		return nil
	}
	return func(suite string) string {
		for _, w := range all {
			if w.name == suite {
				return filepath.ToSlash(w.suite.File)
			}
		}
		return config.FileName
	}
}
