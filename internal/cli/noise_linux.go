package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/packet"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/stats"
)

func (c Command) noise() *cobra.Command {
	var f runFlags
	var rounds int
	cmd := &cobra.Command{
		Use:   "noise [OBJECT|SOURCE]...",
		Short: "Measure identical programs, and say what slowdown this host can show",
		Long: `Noise measures programs against themselves, as gate run measures base and head. It
prints how much identical programs differ here, and the smallest slowdown beyond
the margin that a run of each length would have found nine times in ten. Without
arguments it takes a program of its own.`,
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
	measured := 0
	for _, b := range benchmarks {
		if b.Veth != nil {
			fmt.Fprintf(c.Stderr, "skipped: %s is measured on a veth pair\n", b.Name)
			continue
		}
		o, ok := objectOf(side, b.Program)
		if !ok {
			continue
		}
		if err := c.noiseOf(ctx, s, b, o, rounds); err != nil {
			return unmeasured(fmt.Errorf("%s: %w", b.Name, err))
		}
		measured++
	}
	if measured == 0 {
		return unmeasured(fmt.Errorf("nothing here can be test-run"))
	}
	for _, warning := range bpf.Warnings() {
		fmt.Fprintf(c.Stdout, "warn: %s\n", warning)
	}
	return nil
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
func (c Command) noiseOf(ctx context.Context, s *bpf.Session, b bench.Benchmark, o *bpf.Object, rounds int) error {
	m, err := s.Micro(b, bpf.Side{Name: "base", Object: o}, bpf.Side{Name: "head", Object: o})
	if err != nil {
		return err
	}
	defer m.Close()
	start := time.Now()
	var d, values, floors []float64
	switched := 0
	for r := range rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, err := m.Round(r)
		if err != nil {
			return err
		}
		d = append(d, (x[1].Value-x[0].Value)/((x[0].Value+x[1].Value)/2))
		values, floors = append(values, x[0].Value, x[1].Value), append(floors, x[0].Floor)
		if x[0].Switches+x[1].Switches > 0 {
			switched++
		}
	}
	each := time.Since(start) / time.Duration(rounds)
	shift, ok := stats.PairedShift(d, nil)
	if !ok {
		return fmt.Errorf("the readings are not numbers")
	}
	const level = 0.99
	tail := (1 - level) / 2
	fmt.Fprintf(c.Stdout, "%s against itself, %d rounds (%s)\n", b.Name, rounds, m.Path)
	w := tabwriter.NewWriter(c.Stdout, 2, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  latency\t%.1f ns\tan empty program: %.1f ns\n", stats.Median(values), stats.Median(floors))
	fmt.Fprintf(w, "  one load to the next\t%s\thalf of all rounds differ by less\n", percent(stats.Median(absolute(d))))
	fmt.Fprintf(w, "  base against head\t%+.2f%%\t%.0f%% interval %+.2f…%+.2f%%: holds 0 on an honest host\n",
		100*shift.Estimate(), 100*level, 100*shift.Lower(tail), 100*shift.Upper(tail))
	fmt.Fprintf(w, "  interrupted rounds\t%.0f%%\tthe scheduler ran something else in between\n", 100*float64(switched)/float64(rounds))
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(c.Stdout)
	w = tabwriter.NewWriter(c.Stdout, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "rounds\ttime\tslowdown shown 9 times in 10, beyond the margin\t")
	for n := 20; n <= rounds; n *= 2 {
		e := stats.Detectable(d[:n], 0.01, 0.9)
		shown := "none"
		if !math.IsNaN(e) {
			shown = percent(e)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t\n", n, (time.Duration(n) * each).Round(10*time.Millisecond), shown)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", 100*x) }

func absolute(xs []float64) []float64 {
	out := slices.Clone(xs)
	for i, x := range out {
		out[i] = math.Abs(x)
	}
	return out
}
