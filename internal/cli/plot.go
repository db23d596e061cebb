package cli

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/plot"
	"github.com/org/ebpf-bench-gate/internal/plot/svg"
	"github.com/org/ebpf-bench-gate/internal/render"
)

// plotFlags are what gate plot is told.
type plotFlags struct {
	dir, store, config, adapter string
	benchmarks, measures, kinds []string
}

func (c Command) plot() *cobra.Command {
	var f plotFlags
	cmd := &cobra.Command{
		Use:   "plot [BASE] HEAD",
		Short: "Draw comparisons as SVG files",
		Long: `Plot judges the run HEAD against the run BASE, as gate compare does, and draws what
the page of gate compare --format html shows, an SVG file each:

  samples   every value of base and head, with their densities
  rounds    the same in the order in which they were measured
  interval  the change with its interval, against the limit
  history   the medians of stored runs, with change points

Without BASE it draws HEAD alone. The history is that of the store, of base's branch or
else of head's; without a store there is none. The same runs give the same bytes.`,
		Example: `  gate plot base.json head.json
  gate plot --benchmark 'fun_xdp/*' --measure latency --kind samples -o out base.json head.json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return c.runPlot(cmd, f, args) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.dir, "output", "o", "plots", "write into `DIRECTORY`, which is made")
	fl.StringSliceVar(&f.benchmarks, "benchmark", nil, "only benchmarks that match `GLOB`, repeatable")
	fl.StringSliceVar(&f.measures, "measure", nil, "only measures that match `GLOB`, repeatable")
	fl.StringSliceVar(&f.kinds, "kind", nil, "only these: `samples,rounds,interval,history`")
	fl.StringVar(&f.config, "config", "", "take the policy from `FILE` (default: the built-in policy)")
	storeFlag(fl, &f.store)
	adapterFlag(cmd, &f.adapter)
	return cmd
}

func (c Command) runPlot(cmd *cobra.Command, f plotFlags, args []string) error {
	kinds, err := f.check()
	if err != nil {
		return err
	}
	var out output
	of, err := policies(f.config, &out)
	if err != nil {
		return err
	}
	var base *bench.Run
	if len(args) == 2 {
		if base, err = c.readRun("base", args[0], f.adapter); err != nil {
			return err
		}
	}
	head, err := c.readRun("head", args[len(args)-1], f.adapter)
	if err != nil {
		return err
	}
	past, err := c.pastOf(cmd, f.store, base, head)
	if err != nil {
		return err
	}
	var report *gate.Report
	if base != nil {
		report = gate.CompareSuites(base, head, of)
	} else {
		report = gate.CompareHistorySuites(head, past, of)
	}
	sheet := plot.New(base, head, past)
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return unmeasured(err)
	}
	written := 0
	for i := range report.Comparisons {
		row := &report.Comparisons[i]
		if !matchesOne(f.benchmarks, row.Benchmark) || !matchesOne(f.measures, row.Measure) {
			continue
		}
		figure := sheet.Of(row)
		for _, kind := range kinds {
			var buf bytes.Buffer
			drawn, err := svg.Draw(&buf, kind, row, &figure, plotTexts(row))
			if err != nil {
				return unmeasured(fmt.Errorf("draw %s: %w", kind, err))
			}
			if !drawn {
				continue
			}
			name := filepath.Join(f.dir, plotFile(row, kind))
			if err := os.WriteFile(name, buf.Bytes(), 0o644); err != nil {
				return unmeasured(err)
			}
			fmt.Fprintln(c.Stdout, name)
			written++
		}
	}
	if written == 0 {
		return usage("there is nothing to draw: no comparison that was asked for has samples, a change or a history")
	}
	return nil
}

// plotTexts are the words of a drawing.
func plotTexts(c *gate.Comparison) svg.Texts {
	const most = 90
	title := []rune(render.Clean(c.Benchmark) + ", " + render.Clean(c.Measure))
	if len(title) > most {
		title = append(title[:most-1], '…')
	}
	return svg.Texts{Title: string(title), Unit: render.Clean(c.Unit)}
}

func (f *plotFlags) check() ([]svg.Kind, error) {
	for _, g := range slices.Concat(f.benchmarks, f.measures) {
		if _, err := path.Match(g, ""); err != nil {
			return nil, usage("%q is no pattern", g)
		}
	}
	if len(f.kinds) == 0 {
		return svg.Kinds(), nil
	}
	var kinds []svg.Kind
	for _, k := range f.kinds {
		if !slices.Contains(svg.Kinds(), svg.Kind(k)) {
			return nil, usage("--kind %s: expected samples, rounds, interval or history", k)
		}
		kinds = append(kinds, svg.Kind(k))
	}
	return kinds, nil
}

// matchesOne tells that a name is one of those that are asked for. A pattern without a
// slash also names all cases of a program.
func matchesOne(globs []string, name string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(g string) bool {
		whole, _ := path.Match(g, name)
		first, _, _ := strings.Cut(name, "/")
		program, _ := path.Match(g, first)
		return whole || program && !strings.Contains(g, "/") || g == name
	})
}

// plotFile is the name of a file: no two comparisons have the same, whatever they are
// called and whether or not the file system tells case apart.
func plotFile(c *gate.Comparison, kind svg.Kind) string {
	const most = 150
	var b strings.Builder
	for _, part := range []string{c.Benchmark, c.Measure} {
		for i := range len(part) {
			switch x := part[i]; {
			case x >= 'a' && x <= 'z', x >= '0' && x <= '9', x == '-', x == '_':
				b.WriteByte(x)
			default:
				fmt.Fprintf(&b, "%%%02x", x)
			}
		}
		b.WriteByte('.')
	}
	name := b.String()
	if len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = fmt.Sprintf("%s~%x.", strings.TrimRight(name[:most-40], "%0123456789abcdef."), sum[:16])
	}
	return name + string(kind) + ".svg"
}
