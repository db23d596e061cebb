package bench

import (
	"fmt"
	"slices"
	"strings"
)

// A run may hold the results of several suites, one a config. Every name of a
// program, benchmark or skip in it then begins with the suite's name and a colon:
// "lb:balancer/new". [JoinSuites] makes such a run, [Run.Suite] takes one apart.

// MaxSuites is how many suites a run may hold.
const MaxSuites = 64

// CheckSuite tells what the name of a suite may not be.
func CheckSuite(name string) error {
	switch {
	case name == "" || len(name) > maxName/2:
		return fmt.Errorf("the name of a suite has 1 to %d bytes", maxName/2)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' }):
		return fmt.Errorf("%.80q: the name of a suite has neither colons nor control characters", name)
	}
	return nil
}

// SplitSuite splits a name of a run of several suites.
func SplitSuite(name string) (suite, rest string) {
	suite, rest, ok := strings.Cut(name, ":")
	if !ok {
		return "", name
	}
	return suite, rest
}

// InSuite is the name of a suite's program or benchmark in a run of several.
func InSuite(suite, name string) string { return suite + ":" + name }

// JoinSuites makes one run of those of several suites, in their order; at least one.
// What they have in common, revision, testbed and session, is taken from the first that
// has a session. A warning that all have stands once.
func JoinSuites(names []string, runs []*Run) *Run {
	out := *runs[max(0, slices.IndexFunc(runs, func(r *Run) bool { return r.Session != "" }))]
	out.Suites, out.Programs, out.Results, out.Changes, out.Skipped, out.Warnings = names, nil, nil, nil, nil, nil
	for i, r := range runs {
		in := func(name *string) { *name = InSuite(names[i], *name) }
		for _, p := range r.Programs {
			in(&p.Program)
			out.Programs = append(out.Programs, p)
		}
		for _, res := range r.Results {
			in(&res.Benchmark)
			in(&res.Program)
			out.Results = append(out.Results, res)
		}
		for _, c := range r.Changes {
			in(&c.Program)
			out.Changes = append(out.Changes, c)
		}
		for _, s := range r.Skipped {
			in(&s.Name)
			out.Skipped = append(out.Skipped, s)
		}
		for _, w := range r.Warnings {
			if slices.ContainsFunc(runs, func(other *Run) bool { return !slices.Contains(other.Warnings, w) }) {
				w = names[i] + ": " + w
			}
			if !slices.Contains(out.Warnings, w) {
				out.Warnings = append(out.Warnings, w)
			}
		}
	}
	out.Changes = out.Changes[:min(len(out.Changes), MaxChanges)]
	return &out
}

// Suite is one suite's part of a run, under the names that it has alone; its warnings
// stay with the whole. A run of one suite has no other part than itself, whose name is
// empty.
func (r *Run) Suite(name string) *Run {
	if len(r.Suites) == 0 && name == "" {
		return r
	}
	out := *r
	out.Suites, out.Programs, out.Results, out.Changes, out.Skipped, out.Warnings = nil, nil, nil, nil, nil, nil
	mine := func(full *string) bool {
		suite, rest := SplitSuite(*full)
		if len(r.Suites) == 0 || suite != name {
			return false
		}
		*full = rest
		return true
	}
	for _, p := range r.Programs {
		if mine(&p.Program) {
			out.Programs = append(out.Programs, p)
		}
	}
	for _, res := range r.Results {
		if mine(&res.Benchmark) && mine(&res.Program) {
			out.Results = append(out.Results, res)
		}
	}
	for _, c := range r.Changes {
		if mine(&c.Program) {
			out.Changes = append(out.Changes, c)
		}
	}
	for _, s := range r.Skipped {
		if mine(&s.Name) {
			out.Skipped = append(out.Skipped, s)
		}
	}
	return &out
}

// checkSuites tells the first name that is of no suite.
func (r *Run) checkSuites() error {
	if len(r.Suites) == 0 {
		return nil
	}
	if len(r.Suites) > MaxSuites {
		return fmt.Errorf("%d suites, at most %d", len(r.Suites), MaxSuites)
	}
	known := map[string]bool{}
	for _, s := range r.Suites {
		if err := CheckSuite(s); err != nil {
			return err
		}
		if known[s] {
			return fmt.Errorf("the suite %.80s stands twice", s)
		}
		known[s] = true
	}
	foreign := func(name string) error {
		if suite, rest := SplitSuite(name); rest == "" || !known[suite] {
			return fmt.Errorf("%.80q is of no suite", name)
		}
		return nil
	}
	var errs []error
	for i := range r.Programs {
		errs = append(errs, foreign(r.Programs[i].Program))
	}
	for i := range r.Results {
		res := &r.Results[i]
		errs = append(errs, foreign(res.Benchmark), foreign(res.Program))
		if a, _ := SplitSuite(res.Benchmark); a != "" && !strings.HasPrefix(res.Program, a+":") {
			errs = append(errs, fmt.Errorf("%.80q is of a program of another suite", res.Benchmark))
		}
	}
	for i := range r.Changes {
		errs = append(errs, foreign(r.Changes[i].Program))
	}
	for i := range r.Skipped {
		errs = append(errs, foreign(r.Skipped[i].Name))
	}
	if i := slices.IndexFunc(errs, func(e error) bool { return e != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}
