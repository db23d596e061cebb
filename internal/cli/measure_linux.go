package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/action"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// measureStaged is the verb of the measuring container: it measures a directory
// that the action has staged, and writes the runs to standard output. It builds
// nothing and stores nothing.
func (c Command) measureStaged() *cobra.Command {
	return &cobra.Command{
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
}

func (c Command) measurePlan(ctx context.Context, dir string) (*store.Bundle, []error, error) {
	plan, err := action.ReadPlan(dir)
	if err != nil {
		return nil, nil, err
	}
	w := &workspace{}
	if w.suite, err = config.Load(filepath.Join(dir, plan.Config)); err != nil {
		return nil, nil, err
	}
	p := runner.Plan{Seed: newSeed(), Tool: version(), Time: time.Now(), Required: true, Partial: len(plan.Only) > 0}
	if plan.Base != nil {
		side, err := w.staged(dir, "base", *plan.Base)
		if err != nil {
			return nil, nil, err
		}
		p.Sides = append(p.Sides, side)
	}
	side, err := w.staged(dir, "head", plan.Head)
	if err != nil {
		return nil, nil, err
	}
	p.Sides = append(p.Sides, side)
	if p.Policy, err = stagedPolicy(dir, plan, w.suite.Policy); err != nil {
		return nil, nil, err
	}
	if plan.Budget > 0 {
		p.Policy.Budget = plan.Budget
	}
	if p.Benchmarks, err = runner.Select(w.suite.Benchmarks, plan.Only); err != nil {
		return nil, nil, err
	}
	if p.Testbed, err = testbed(ctx, plan.Testbed); err != nil {
		return nil, nil, err
	}
	release, _, err := c.lockHost(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	res, err := runner.Run(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	res.Head.Warnings = append(append(plan.Warnings, bpf.Warnings()...), res.Head.Warnings...)
	return &store.Bundle{Base: res.Base, Head: res.Head}, res.Failures, nil
}

// staged opens the objects of one side. Only head must have every program.
func (w *workspace) staged(dir, name string, s action.Side) (runner.Side, error) {
	side := runner.Side{Name: name, Revision: s.Revision}
	var errs []error
	for _, o := range s.Objects {
		objects, err := opened(filepath.Join(dir, o.File), o.Name)
		errs = append(errs, err)
		side.Objects = append(side.Objects, objects...)
	}
	if err := errors.Join(errs...); err != nil {
		return side, err
	}
	return side, w.configure(side.Objects, name == "head")
}

// stagedPolicy is base's policy, so that nobody loosens their own gate.
func stagedPolicy(dir string, plan *action.Plan, head gate.Policy) (gate.Policy, error) {
	if plan.Policy == "" {
		return head, nil
	}
	src, err := os.ReadFile(filepath.Join(dir, plan.Policy))
	if err != nil {
		return gate.Policy{}, err
	}
	return config.ParsePolicy(plan.Policy, src)
}
