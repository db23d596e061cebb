package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/cover"
	"github.com/org/ebpf-bench-gate/internal/runner"
)

// coverFlags are the flags of gate cover.
type coverFlags struct {
	config, format, lcov, html string
	only, sources              []string
}

func (c Command) cover() *cobra.Command {
	var f coverFlags
	cmd := &cobra.Command{
		Use:   "cover [OBJECT|SOURCE]...",
		Short: "Say which code of the programs the benchmarks execute",
		Long: `Cover runs the inputs of each benchmark once, in programs with a counter in every
basic block, and says how often each function, line and branch was executed, and
which never. Objects, sources and the config are found as gate run finds them.

Exit codes: 0 covered, 2 usage or config, 3 something could not be covered.`,
		Example: `  gate cover --html cover.html
  gate cover --only 'fun_xdp/*' --lcov cover.info
  gate cover /usr/lib/x86_64-linux-gnu/bpf/xdpfilt_alw_eth.o`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return c.covered(cmd.Context(), f, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "read `FILE` (default: ebpf-bench.yml here or above, if no objects are named)")
	fl.StringSliceVar(&f.only, "only", nil, "only the benchmarks that match `GLOB`")
	fl.StringVar(&f.format, "format", "text", "text or json")
	fl.StringVar(&f.lcov, "lcov", "", "write a tracefile for lcov and genhtml to `FILE`")
	fl.StringVar(&f.html, "html", "", "write a page of annotated source to `FILE`")
	fl.StringSliceVar(&f.sources, "source", nil, "look for source files in `DIRECTORY`, too")
	return cmd
}

func (f *coverFlags) check() error {
	switch f.format {
	case "text", "json":
	default:
		return usage("--format %s: expected one of text, json", f.format)
	}
	for flag, name := range map[string]string{"lcov": f.lcov, "html": f.html} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
			return usage("--%s %s: there is no directory %s", flag, name, filepath.Dir(name))
		}
	}
	for _, dir := range f.sources {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return usage("--source %s: there is no such directory", dir)
		}
	}
	return nil
}

// covered is gate cover.
func (c Command) covered(ctx context.Context, f coverFlags, args []string) (err error) {
	w := &workspace{args: args}
	if w.suite, err = findSuite(f.config, args); err != nil {
		return err
	}
	defer func() {
		if e := w.close(); e != nil && err == nil {
			err = unmeasured(e)
		}
	}()
	side, tree, err := w.head(ctx)
	if err != nil {
		return unmeasured(err)
	}
	sides := []runner.Side{side}
	skips := w.distinct(sides)
	side = sides[0]
	benchmarks, more, err := w.benchmarks(sides, f.only)
	if err != nil {
		return usage("%w", err)
	}
	release, _, err := c.lockHost(ctx)
	if err != nil {
		return unmeasured(err)
	}
	defer release()
	// Real work runs programs where they are attached, without counters.
	real := func(b bench.Benchmark) bool { return b.Work != nil }
	for _, b := range benchmarks {
		if real(b) {
			more = append(more, bench.Skip{Name: b.Name, Reason: "real work runs attached programs, which have no counters"})
		}
	}
	objects, failed, err := coverage(ctx, &side, slices.DeleteFunc(slices.Clone(benchmarks), real))
	if err != nil {
		return unmeasured(err)
	}
	r := cover.New(named(side.Revision, objects), objects)
	roots := slices.Clone(f.sources)
	if tree != nil {
		roots = append(roots, tree.Root)
	}
	r.FindSources(append(roots, ".")...)
	for _, s := range slices.Concat(skips, more) {
		r.Warnings = append(r.Warnings, s.Name+": not covered: "+s.Reason)
	}
	for _, err := range failed {
		r.Warnings = append(r.Warnings, err.Error())
	}
	if err := f.write(c, r); err != nil {
		return &exitError{code: exitUnmeasured, err: fmt.Errorf("write the coverage: %w", err)}
	}
	switch {
	case len(failed) > 0 && (w.suite != nil || len(objects) == 0):
		return &exitError{code: exitUnmeasured, err: failed[0]}
	case len(objects) == 0:
		return &exitError{code: exitUnmeasured, err: errors.New("nothing could be covered"), hint: "gate doctor says what this host can measure"}
	}
	return nil
}

// named is the title of a coverage: its objects, and the revision that they are of.
func named(r bench.Revision, objects []bench.Coverage) string {
	const most = 3
	var names []string
	for i, o := range objects {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(objects)-most))
			break
		}
		names = append(names, o.Object)
	}
	title := strings.Join(names, ", ")
	if r.Commit != "" {
		title += " of " + r.Short()
	}
	return title
}

// coverage counts what the benchmarks execute, by object. Real packets are run as
// test runs: attached programs have no counters.
func coverage(ctx context.Context, side *runner.Side, benchmarks []bench.Benchmark) (out []bench.Coverage, failed []error, err error) {
	s, err := bpf.NewSession(newSeed())
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	s.Stop = ctx.Err
	counts := map[string]*bpf.Executions{} // by name of object
	names := map[string][]string{}
	for _, b := range benchmarks {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		b.Veth = nil
		i := slices.IndexFunc(side.Objects, func(o runner.Object) bool { return o.Has(b.Program) })
		if i < 0 {
			failed = append(failed, fmt.Errorf("%s: not covered: no object has program %q", b.Name, b.Program))
			continue
		}
		o := side.Objects[i]
		e, err := s.Executions(b, bpf.Side{Name: side.Name, Object: o.Object})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: not covered: %w", b.Name, err))
			continue
		}
		if counts[o.Name] == nil {
			counts[o.Name] = &bpf.Executions{}
		}
		counts[o.Name].Add(e)
		names[o.Name] = append(names[o.Name], b.Name)
	}
	for _, o := range side.Objects {
		if e := counts[o.Name]; e != nil {
			cov := bench.Coverage{Object: o.Name, Benchmarks: names[o.Name]}
			cov.Runs, cov.Programs = e.Coverage()
			out = append(out, cov)
			delete(counts, o.Name)
		}
	}
	return out, failed, nil
}

func (f *coverFlags) write(c Command, r *cover.Report) error {
	if f.format == "json" {
		e := json.NewEncoder(c.Stdout)
		e.SetIndent("", " ")
		if err := e.Encode(r.Objects); err != nil {
			return err
		}
	} else if err := cover.Text(c.Stdout, r); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer, *cover.Report) error{f.lcov: cover.LCOV, f.html: cover.HTML} {
		if name == "" {
			continue
		}
		if err := toFile(name, func(w io.Writer) error { return write(w, r) }); err != nil {
			return err
		}
	}
	return nil
}

func toFile(name string, write func(io.Writer) error) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(out), out.Close())
}
