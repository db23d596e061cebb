package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/action"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/internal/store"
	"github.com/org/ebpf-bench-gate/internal/work"
)

// measureStaged is the verb of the measuring container: it measures a directory
// that the action has staged, and writes the runs to standard output. It builds
// nothing and stores nothing.
func (c Command) measureStaged() *cobra.Command {
	contained := false
	cmd := &cobra.Command{
		Use:    "measure DIRECTORY",
		Short:  "Measure what the action staged, inside of its container",
		Hidden: true,
		Args:   takes("DIRECTORY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Whoever started us holds our standard input open. Its end is his,
			// even where he was killed and could tell nobody.
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			go func() {
				_, _ = io.Copy(io.Discard, c.Stdin)
				cancel()
			}()
			if contained {
				work.MountCgroups()
			}
			bundle, failures, err := c.measurePlan(ctx, args[0])
			if err != nil {
				return unmeasured(err)
			}
			packed, err := bundle.Encode()
			if err != nil {
				return unmeasured(err)
			}
			if _, err := c.Stdout.Write(packed); err != nil {
				return unmeasured(err)
			}
			for _, f := range failures {
				c.printError(f)
			}
			if len(failures) > 0 {
				return verdictError{exitUnmeasured}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&contained, action.Contained, false, "this container was made for it: mount what it lacks")
	return cmd
}

func (c Command) measurePlan(ctx context.Context, dir string) (*store.Bundle, []error, error) {
	plan, err := action.ReadPlan(dir)
	if err != nil {
		return nil, nil, err
	}
	var suites []*workspace
	for _, s := range plan.Suites {
		w := &workspace{name: s.Name, dir: s.Dir, warnings: s.Warnings}
		if w.suite, err = config.Load(filepath.Join(dir, s.Config)); err != nil {
			return nil, nil, err
		}
		suites = append(suites, w)
	}
	all := suites
	if suites, err = onlySuites(suites, plan.Only); err != nil {
		return nil, nil, err
	}
	common := runner.Plan{Seed: newSeed(), Tool: version(), Time: time.Now(), Required: true, Partial: len(plan.Only) > 0}
	if common.Testbed, err = testbed(ctx, plan.Testbed); err != nil {
		return nil, nil, err
	}
	var plans []*runner.Plan
	for _, w := range suites {
		p, err := w.stagedPlan(ctx, dir, plan, plan.Suites[slices.Index(all, w)], common)
		if err != nil {
			return nil, nil, err
		}
		p.Policy = w.policy.ShareAlpha(len(suites))
		plans = append(plans, p)
	}
	shareBudget(plans, plan.Budget)
	release, _, err := c.lockHost(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	var results []*runner.Result
	for i, w := range suites {
		res, err := runner.Run(ctx, *plans[i])
		if err != nil {
			return nil, nil, err
		}
		res.Head.Warnings = append(append(w.warnings, bpf.Warnings()...), res.Head.Warnings...)
		results = append(results, res)
	}
	res := joinSuites(suites, results, plan.Base)
	return &store.Bundle{Base: res.Base, Head: res.Head}, res.Failures, nil
}

// stagedPlan is how a suite is measured that the action has staged.
func (w *workspace) stagedPlan(ctx context.Context, dir string, plan *action.Plan, s action.Suite, p runner.Plan) (*runner.Plan, error) {
	own := filepath.Join(dir, filepath.Dir(filepath.FromSlash(s.Config))) // of head
	if s.Base != nil && plan.Base != nil {
		side, err := w.staged(ctx, dir, filepath.Join(filepath.Dir(own), "base"), "base", *s.Base, *plan.Base)
		if err != nil {
			return nil, err
		}
		p.Sides = append(p.Sides, side)
	}
	side, err := w.staged(ctx, dir, own, "head", s.Head, plan.Head)
	if err != nil {
		return nil, err
	}
	p.Sides = append(p.Sides, side)
	if w.policy, err = stagedPolicy(dir, s.Policy, w.suite.Policy); err != nil {
		return nil, err
	}
	p.Dir = w.suite.Dir
	all, err := runner.Select(w.suite.Benchmarks, w.only)
	p.Benchmarks = withInputs(all, &p.Sides[len(p.Sides)-1])
	return &p, err
}

// staged opens the objects of one side, whose agents and loaders run in its own
// directory. Only head must have every program.
func (w *workspace) staged(ctx context.Context, dir, own, name string, s action.Side, rev bench.Revision) (runner.Side, error) {
	side := runner.Side{Name: name, Revision: rev, Dir: own}
	var errs []error
	for _, o := range s.Objects {
		objects, err := opened(filepath.Join(dir, o.File), o.Name)
		errs = append(errs, err)
		side.Objects = append(side.Objects, objects...)
	}
	if err := errors.Join(errs...); err != nil {
		return side, err
	}
	return side, w.configure(ctx, side.Objects, own, name == "head")
}

// stagedPolicy is base's policy, so that nobody loosens their own gate.
func stagedPolicy(dir, file string, head gate.Policy) (gate.Policy, error) {
	if file == "" {
		return head, nil
	}
	src, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return gate.Policy{}, err
	}
	return config.ParsePolicy(file, src)
}
