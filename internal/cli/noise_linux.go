package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/packet"
	"github.com/org/ebpf-bench-gate/internal/runner"
)

func (c Command) noise() *cobra.Command {
	var f runFlags
	var rounds int
	cmd := &cobra.Command{
		Use:   "noise [OBJECT|SOURCE]...",
		Short: "Measure identical programs, and say what slowdown this host can show",
		Long: `Noise measures programs against themselves, as gate run measures base and head. It
prints how much identical programs differ here, the smallest slowdown that a run of
each length would call regressed nine times in ten by the policy's limit, and what
would help to see smaller ones, or to see them sooner. Without arguments it takes a
program of its own.`,
		Example: `  gate noise
  gate noise --rounds 80 prog.bpf.c`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if rounds < 20 || rounds > 2000 {
				return usage("--rounds %d: expected 20 to 2000", rounds)
			}
			return c.measureNoise(cmd.Context(), f, rounds, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "take programs and benchmarks from `FILE`")
	fl.StringSliceVar(&f.only, "only", nil, "measure only the benchmarks that match `GLOB`")
	fl.IntVar(&rounds, "rounds", 320, "measure `N` rounds of each")
	fl.Uint64Var(&f.seed, "seed", 0, "make every random order from `N` (default: a new one each time)")
	return cmd
}

func (c Command) measureNoise(ctx context.Context, f runFlags, rounds int, args []string) error {
	w := &workspace{args: args}
	defer w.close()
	side := runner.Side{Name: "base", Objects: []runner.Object{{Name: "built in", Object: bpf.Reference()}}}
	var err error
	if f.config != "" || len(args) > 0 {
		if w.suite, err = findSuite(f.config, args); err != nil {
			return err
		}
		if side, _, err = w.head(ctx); err != nil {
			return unmeasured(err)
		}
	}
	benchmarks, _ := runner.BuiltIn(&side, packet.BuiltIn())
	if w.suite != nil {
		if benchmarks, _, err = w.benchmarks([]runner.Side{side}, f.only); err != nil {
			return usage("%w", err)
		}
	}
	if f.seed == 0 {
		f.seed = newSeed()
	}
	release, _, err := c.lockHost(ctx)
	if err != nil {
		return unmeasured(err)
	}
	defer release()
	s, err := bpf.NewSession(f.seed)
	if err != nil {
		return unmeasured(err)
	}
	defer s.Close()
	s.Stop = ctx.Err
	watch := bpf.WatchNoise(ctx)
	policy := gate.DefaultPolicy()
	if w.suite != nil {
		policy = w.suite.Policy
	}
	var measured []*stillness
	for _, b := range benchmarks {
		if b.Veth != nil || b.Work != nil || b.Agent != nil {
			fmt.Fprintf(c.Stderr, "skipped: %s is run by real work\n", b.Name)
			continue
		}
		o, ok := objectOf(side, b.Program)
		if !ok {
			continue
		}
		n, err := c.noiseOf(ctx, s, b, o, rounds, policy)
		if err == nil {
			err = n.print(c.Stdout)
		}
		if err != nil {
			return unmeasured(fmt.Errorf("%s: %w", b.Name, err))
		}
		fmt.Fprintln(c.Stdout)
		measured = append(measured, n)
	}
	if len(measured) == 0 {
		return unmeasured(fmt.Errorf("nothing here can be test-run"))
	}
	c.printHelps(measured, watch())
	return nil
}

// printHelps says what would help, as these rounds and the host have it.
func (c Command) printHelps(measured []*stillness, checks []bpf.Check) {
	fmt.Fprintln(c.Stdout, "what would help")
	for _, n := range measured {
		for _, line := range n.helps() {
			if len(measured) > 1 {
				line = n.benchmark + ": " + line
			}
			fmt.Fprintf(c.Stdout, "  %s\n", line)
		}
	}
	for _, k := range checks {
		if k.State == bpf.CheckWarn {
			fmt.Fprintf(c.Stdout, "  %s: %s; %s\n", k.Name, k.Detail, k.Hint)
		}
	}
}

func objectOf(side runner.Side, program string) (*bpf.Object, bool) {
	for _, o := range side.Objects {
		if o.Has(program) {
			return o.Object, true
		}
	}
	return nil, false
}

// noiseOf measures one benchmark against itself.
func (c Command) noiseOf(ctx context.Context, s *bpf.Session, b bench.Benchmark, o *bpf.Object, rounds int, p gate.Policy) (*stillness, error) {
	m, err := s.Micro(b, bpf.Side{Name: "base", Object: o}, bpf.Side{Name: "head", Object: o})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	start := time.Now()
	n := &stillness{benchmark: b.Name, path: m.Path, policy: p}
	for r := range rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x, err := m.Round(r)
		if err != nil {
			return nil, err
		}
		n.base, n.head = append(n.base, x[0]), append(n.head, x[1])
	}
	n.took = time.Since(start)
	return n, nil
}
