package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crypto/rand"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/packet"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// runFlags are the flags of gate run.
type runFlags struct {
	output
	atWork
	base, config, store, testbed string
	only                         []string
	budget                       time.Duration
	seed                         uint64
	noStore, verbose             bool
	kernels                      []string
	adapter                      string
	command                      []string // of user space, in the place of objects
}

func (c Command) run() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [OBJECT|SOURCE]... | run --adapter NAME -- COMMAND",
		Short: "Measure eBPF programs, against a base or against history",
		Long: `Run builds and loads the programs of head and base, measures them side by side on
the running kernel, and judges head. OBJECT is a compiled object (.o) or an
executable that holds some; SOURCE is a C source (.bpf.c), compiled with clang.
Without arguments, ebpf-bench.yml says what is built and measured.

Without --base, head is measured alone, stored, and held against the stored runs
of its branch and testbed. Until there are ten it is not judged, which is said.

With --kernel the programs are loaded and run in a virtual machine of another
kernel, which counts every instruction and needs no root: kernel_insns is then
exact, and times are not measured. Several kernels are several testbeds.

With --adapter, COMMAND is a benchmark of user space that measures itself: it is run
in the trees of base and head by turns, and what it says is read in that format
(magic finds out which). Needs neither root nor eBPF.

Exit codes: 0 pass or improved, 1 regressed, 2 usage or config, 3 could not
measure, 4 inconclusive or no baseline.`,
		Example: `  gate run --base main
  gate run --base merge-base:origin/main --only 'fun_xdp/*'
  gate run --base v2.bpf.c v3.bpf.c
  gate run --base main --kernel 6.1,6.12
  gate run --pid 4711 --work COMMAND
  gate run --adapter gobench --base main -- go test -bench .
  gate run /usr/lib/x86_64-linux-gnu/bpf/xdpfilt_alw_eth.o`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			args, err := f.commandOf(args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			if f.budget < 0 || f.budget == 0 && cmd.Flags().Changed("budget") {
				return usage("--budget %v: expected a time, such as 30s", f.budget)
			}
			if err := f.checkKernels(); err != nil {
				return err
			}
			if err := f.validate(&f, args); err != nil {
				return err
			}
			return c.measure(cmd.Context(), f, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.base, "base", "", "compare with `REV`: a git ref, merge-base:REF, a file or a directory")
	fl.StringVar(&f.config, "config", "", "read `FILE` (default: ebpf-bench.yml here or above, if no objects are named); a pattern such as */ebpf-bench.yml makes one report of several")
	fl.StringSliceVar(&f.only, "only", nil, "measure only the benchmarks that match `GLOB`")
	fl.DurationVar(&f.budget, "budget", 0, "measuring time of the whole suite (default: the policy's, or 10s a benchmark)")
	fl.Uint64Var(&f.seed, "seed", 0, "make every random order from `N` (default: a new one each time)")
	fl.StringVar(&f.testbed, "testbed", "", "name this machine's kind, as runs of one name are compared")
	storeFlag(fl, &f.store)
	fl.BoolVar(&f.noStore, "no-store", false, "store nothing")
	fl.StringSliceVar(&f.kernels, "kernel", nil, "count instructions in a virtual machine of `KERNEL`: 6.12, a bzImage, or host for the running one (default: the config's kernels, or host)")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "tell when what began, on standard error")
	fl.StringVar(&f.adapter, "adapter", "", "measure COMMAND, behind --, whose output is of the format `NAME` (gate import --help lists them), or magic")
	f.define(fl)
	f.flags(fl)
	return cmd
}

// measure is gate run.
func (c Command) measure(ctx context.Context, f runFlags, args []string) (err error) {
	start := time.Now()
	var suites []*workspace
	switch {
	case f.asked():
		suites, err = f.suites(f.config)
	case f.command != nil:
		suites = []*workspace{{suite: f.commandSuite()}}
	default:
		suites, err = findSuites(f.config, args)
	}
	if err != nil {
		return err
	}
	if suites, err = onlySuites(suites, f.only); err != nil {
		return err
	}
	f.configFlag, f.configOf = f.config, configOfSuites(suites)
	defer func() {
		for _, w := range suites {
			if e := w.close(); e != nil && err == nil {
				err = unmeasured(e)
			}
		}
	}()
	common := runner.Plan{Seed: f.seed, Tool: version(), Time: start, Partial: len(f.only) > 0}
	if common.Seed == 0 {
		common.Seed = newSeed()
	}
	var plans []*runner.Plan
	for _, w := range suites {
		w.first = suites[0]
		p, err := w.plan(ctx, f, common)
		if err != nil {
			return err
		}
		p.Policy = w.policy.ShareAlpha(len(suites))
		plans = append(plans, p)
	}
	shareBudget(plans, f.budget)
	dir, err := storeDir(ctx, f, suites[0])
	if err != nil {
		return unmeasured(err)
	}
	// Before anything is measured: minutes of work would be lost.
	runs, err := c.openStoreAt(ctx, dir)
	if err != nil {
		return err
	}
	defer runs.Close()
	if !f.noStore {
		for _, p := range plans {
			p.SaveLog = func(name, text string) (string, error) { return runs.PutLog(ctx, name, text) }
		}
	}
	beds, waited, err := c.measureBeds(ctx, f, plans, kernelsOf(f, suites))
	if err != nil {
		return unmeasured(err)
	}
	for _, b := range beds {
		if b.err != nil {
			continue
		}
		for i, w := range suites {
			res := b.results[i]
			res.Head.Warnings = slices.Concat(w.warnings, res.Head.Warnings)
			res.Head.Skipped = append(res.Head.Skipped, w.skips...)
			if f.base != "" {
				// A comparison was asked for, and a part of it was not made.
				for _, s := range w.shadowed {
					res.Failures = append(res.Failures, fmt.Errorf("%s: %s", s.Name, s.Reason))
				}
			}
		}
		b.res = joinSuites(suites, b.results, suites[0].baseRevision)
		if b.report, b.history, err = c.judge(ctx, f, suites, runs, b.res); err != nil {
			return err
		}
	}
	return c.tell(f, beds, time.Since(start)-waited)
}

// measureHost measures the plan of each suite on the running kernel.
func (c Command) measureHost(ctx context.Context, f runFlags, plans []*runner.Plan) (results []*runner.Result, waited time.Duration, err error) {
	bed, err := testbed(ctx, f.testbed)
	if err != nil {
		return nil, 0, err
	}
	release, waited, err := c.lockHost(ctx)
	if err != nil {
		return nil, waited, err
	}
	defer release()
	for _, plan := range plans {
		p := *plan
		p.Testbed = bed
		done := c.progress(&p)
		res, err := runner.Run(ctx, p)
		done()
		if err != nil {
			return nil, waited, err
		}
		res.Head.Warnings = slices.Concat(bpf.Warnings(), res.Head.Warnings)
		results = append(results, res)
	}
	return results, waited, nil
}

// plan builds both sides of a suite, and says what is measured of them.
func (w *workspace) plan(ctx context.Context, f runFlags, p runner.Plan) (*runner.Plan, error) {
	if p.Required = w.suite != nil; p.Required {
		var err error
		if p.Dir, err = filepath.Abs(w.suite.Dir); err != nil {
			return nil, unmeasured(err)
		}
	}
	head, headTree, err := w.head(ctx)
	if err != nil {
		return nil, unmeasured(err)
	}
	if w.found != "" { // not of this checkout
		head.Revision = bench.Revision{Name: w.found}
	}
	p.Sides = []runner.Side{head}
	var baseTree *build.Tree
	if f.base != "" {
		base, t, err := w.base(ctx, f.base, headTree)
		switch {
		case w.first.whole != nil && t == nil && errors.Is(err, fs.ErrNotExist):
			w.warnings = append(w.warnings, "new: base has no such suite")
		case err != nil:
			return nil, unmeasured(err)
		default:
			base.Lacks = w.lacks(t)
			p.Sides, baseTree = []runner.Side{base, head}, t
		}
	}
	var warning string
	if w.policy, warning, err = w.policyOf(baseTree); err != nil {
		return nil, err
	}
	if warning != "" {
		w.warnings = append(w.warnings, warning)
	}
	w.shadowed = w.distinct(p.Sides)
	if p.Benchmarks, w.skips, err = w.benchmarks(p.Sides, w.only); err != nil {
		return nil, usage("%w", err)
	}
	w.skips = append(w.skips, w.shadowed...)
	for _, t := range w.trees {
		w.warnings = append(w.warnings, t.Warnings...)
	}
	return &p, nil
}

// lockHost waits until no other gate measures on this host, and says so where it
// has to. How long that took is no part of what this gate's own work did.
func (c Command) lockHost(ctx context.Context) (release func(), waited time.Duration, err error) {
	start := time.Now()
	release, err = bpf.LockHost(ctx, func(owner string) {
		fmt.Fprintf(c.Stderr, "waiting: another gate measures on this host (%s)\n", owner)
	})
	return release, time.Since(start), err
}

// printFailures tells which benchmarks could not be measured. What has a place in
// the config is shown with it; the text report has told the others already. First
// tells that the first of them was printed.
func (c Command) printFailures(f runFlags, failures []error) (first bool) {
	told := f.format == "text" && f.file == ""
	for i, err := range failures {
		// The report has the reason in a line; a place, advice or what a command said
		// need more.
		if !told || len(diagnostics(err)) > 0 || hintOf(err) != "" || strings.Contains(err.Error(), "\n") {
			c.printError(err)
			first = first || i == 0
		}
	}
	return first
}

// judge judges the runs and stores them. The history is that of base, or else of head;
// beside a base it is read only where the report shows it.
func (c Command) judge(ctx context.Context, f runFlags, suites []*workspace, s *store.Store, res *runner.Result) (report *gate.Report, past []*bench.Run, err error) {
	of := policyOfSuites(suites)
	whose := res.Head
	if res.Base != nil {
		whose = res.Base
	}
	if res.Base == nil || f.format == "html" {
		var problems []store.Problem
		past, problems, err = s.History(ctx, store.Filter{Branch: whose.Revision.Branch, Testbed: whose.Testbed.Slug()})
		if err != nil {
			return nil, nil, unmeasured(err)
		}
		c.uncounted(problems)
	}
	if res.Base != nil {
		report = gate.CompareSuites(res.Base, res.Head, of)
	} else {
		if len(f.only) > 0 {
			onlyOf(res.Head, past)
		}
		report = gate.CompareHistorySuites(res.Head, past, of)
	}
	if f.noStore {
		return report, past, nil
	}
	for _, r := range []*bench.Run{res.Base, res.Head} {
		if r == nil {
			continue
		}
		if _, err := s.Put(ctx, r); err != nil {
			if err = c.spare(ctx, suites[0], s, r, err); err != nil {
				return nil, nil, &exitError{code: exitUnmeasured, err: fmt.Errorf("store the run: %w", err), hint: "--store DIRECTORY chooses another place, --no-store stores nothing"}
			}
		}
	}
	return report, past, nil
}

// onlyOf leaves stored runs what head measured of them: what --only left out is not
// missed.
func onlyOf(head *bench.Run, history []*bench.Run) {
	for _, h := range history {
		h.Results = slices.DeleteFunc(h.Results, func(r bench.Result) bool {
			return !slices.ContainsFunc(head.Results, func(m bench.Result) bool { return m.Benchmark == r.Benchmark })
		})
	}
}

// spare keeps a run that a bucket did not take, where runs usually are: what was
// measured cannot be measured again.
func (c Command) spare(ctx context.Context, w *workspace, s *store.Store, r *bench.Run, why error) error {
	if !s.Remote() || errors.Is(why, fs.ErrExist) {
		return why
	}
	dir, err := usualStore(ctx, w)
	if err != nil {
		return errors.Join(why, err)
	}
	local, err := store.Open(ctx, dir)
	if err != nil {
		return errors.Join(why, err)
	}
	if _, err := local.Put(ctx, r); err != nil {
		return errors.Join(why, err)
	}
	fmt.Fprintf(c.Stderr, "warning: %v\nwarning: it is in %s; when the bucket can be reached: gate baseline sync %[2]s %[3]s\n", why, local, s)
	return nil
}

func findSuite(file string, args []string) (*config.Suite, error) {
	if file == "" {
		if len(args) > 0 {
			return nil, nil
		}
		found, err := config.Find(".")
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &exitError{code: exitUsage, err: err, hint: "name objects (.o) or sources (.bpf.c): gate run PROGRAM.bpf.c"}
		}
		if err != nil {
			return nil, usage("%w", err)
		}
		file = found
	}
	s, err := config.Load(file)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return s, nil
}

// benchmarks are the config's for the programs at hand, or built-in ones.
func (w *workspace) benchmarks(sides []runner.Side, only []string) ([]bench.Benchmark, []bench.Skip, error) {
	head := &sides[len(sides)-1]
	if w.suite == nil {
		all, skips := runner.BuiltIn(head, packet.BuiltIn())
		all, err := runner.Select(all, only)
		if err != nil {
			err = fmt.Errorf("%w: gate's own, since --config names no file that has others", err)
		}
		return all, skips, err
	}
	all := w.suite.Benchmarks
	if len(w.args) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(b bench.Benchmark) bool {
			return !slices.ContainsFunc(head.Objects, func(o runner.Object) bool { return o.Has(b.Program) })
		})
		if len(all) == 0 {
			return nil, nil, fmt.Errorf("%s has no benchmarks for the programs of %s", w.suite.File, strings.Join(w.args, ", "))
		}
	}
	all, err := runner.Select(all, only)
	return withInputs(all, head), nil, err
}

// withInputs gives the built-in packets to benchmarks that say nothing of what their
// programs are run on, where they are run on anything.
func withInputs(all []bench.Benchmark, head *runner.Side) []bench.Benchmark {
	out := slices.Clone(all)
	for i := range out {
		b := &out[i]
		if b.Packets == nil && b.Context == nil && b.Work == nil && slices.ContainsFunc(head.Objects, func(o runner.Object) bool {
			return o.Has(b.Program) && o.TestRunnable(b.Program) == nil
		}) {
			b.Packets = packet.BuiltIn()
		}
	}
	return out
}

func testbed(ctx context.Context, name string) (bench.Testbed, error) {
	t, err := bpf.Testbed()
	if err != nil {
		return t, err
	}
	t.Name = name
	if v, err := build.ClangVersion(ctx); err == nil {
		t.Clang = v
	}
	return t, nil
}

// storeDir is where runs go: the flag's, or the default at the top of the
// repository that the config or the current directory is in.
func storeDir(ctx context.Context, f runFlags, w *workspace) (string, error) {
	if f.store != "" {
		return f.store, nil
	}
	return usualStore(ctx, w)
}

func usualStore(ctx context.Context, w *workspace) (string, error) {
	dir := "."
	if w.suite != nil {
		dir = w.suite.Dir
	}
	t, err := build.Open(ctx, dir, "")
	if err != nil {
		return "", err
	}
	defer t.Close()
	return filepath.Join(t.Root, store.DefaultDir), nil
}

func newSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return binary.LittleEndian.Uint64(b[:]) % 1e6
}

// progress shows how far measuring is on a terminal's standard error, and
// returns what takes the line away again.
func (c Command) progress(p *runner.Plan) (done func()) {
	if !isTerminal(c.Stderr) {
		return func() {}
	}
	var last time.Time
	p.Progress = func(s runner.Progress) {
		if time.Since(last) < 100*time.Millisecond {
			return
		}
		last = time.Now()
		what := strings.Join(s.Open, ", ")
		if len(s.Open) > 2 {
			what = fmt.Sprintf("%s and %d more", s.Open[0], len(s.Open)-1)
		}
		if s.Sure != "" {
			what += " (" + s.Sure + ")"
		}
		line := fmt.Sprintf("measuring %s: round %d of %d, at most %s left", what, s.Round, s.Look, max(0, s.Budget-s.Elapsed).Round(time.Second))
		if w := width(c.Stderr); w > 1 && len(line) > w-1 {
			line = line[:w-1]
		}
		fmt.Fprintf(c.Stderr, "\r\033[K%s", line)
	}
	return func() { fmt.Fprint(c.Stderr, "\r\033[K") }
}
