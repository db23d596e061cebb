package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/internal/store"
	"github.com/org/ebpf-bench-gate/internal/vm"
)

// onHost is the name of the running kernel among those that are asked for.
const onHost = "host"

// A bed is one testbed of a run, and what came of it: a result and its report, or
// the reason that there is none.
type bed struct {
	kernel  string
	results []*runner.Result // by suite
	res     *runner.Result   // of all suites
	report  *gate.Report
	history []*bench.Run // stored ones of the branch that head was held against
	err     error
}

func (f *runFlags) checkKernels() error {
	for i, k := range f.kernels {
		if slices.Contains(f.kernels[:i], k) {
			return usage("--kernel %s is given twice", k)
		}
		if k == onHost || vm.IsVersion(k) {
			continue
		}
		if info, err := os.Stat(k); err != nil || !info.Mode().IsRegular() {
			return &exitError{code: exitUsage, err: fmt.Errorf("--kernel %q: neither a version nor a file", k), hint: "expected a version such as 6.12, the path of a bzImage, or host"}
		}
	}
	return nil
}

// kernelsOf are the testbeds that were asked for, by flag or by any of the configs.
func kernelsOf(f runFlags, suites []*workspace) []string {
	all := slices.Clone(f.kernels)
	for _, w := range suites {
		if len(f.kernels) > 0 || w.suite == nil {
			continue
		}
		for _, k := range w.suite.Kernels {
			if !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	if len(all) == 0 {
		return []string{onHost}
	}
	return all
}

// measureBeds measures the plans on every testbed: first on the host, as others would
// be noise to it, then in the virtual machines, as many at once as there are CPUs.
// The error is the context's; waited is how long another gate had the host.
func (c Command) measureBeds(ctx context.Context, f runFlags, plans []*runner.Plan, kernels []string) (beds []*bed, waited time.Duration, err error) {
	var virtual []*bed
	for _, k := range kernels {
		b := &bed{kernel: k}
		beds = append(beds, b)
		if k != onHost {
			virtual = append(virtual, b)
			continue
		}
		b.results, waited, b.err = c.measureHost(ctx, f, plans)
	}
	if len(virtual) > 0 {
		c.measureVirtual(ctx, f, plans, virtual)
	}
	if err := ctx.Err(); err != nil {
		return nil, waited, err
	}
	return beds, waited, nil
}

func (c Command) measureVirtual(ctx context.Context, f runFlags, plans []*runner.Plan, beds []*bed) {
	h, err := newHypervisor(ctx, c, f, plans)
	if err != nil {
		for _, b := range beds {
			b.err = err
		}
		return
	}
	defer h.done()
	slots := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for _, b := range beds {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			b.results, b.err = h.measure(ctx, b.kernel)
		})
	}
	all.Wait()
}

// A hypervisor boots kernels that measure a plan.
type hypervisor struct {
	c     Command
	f     runFlags
	self  string
	files vm.Files
	plans int
	start time.Time
	// host is what the host knows of the testbed, once it is known.
	host func() hostFacts

	mu    sync.Mutex // fetching, and standard error
	shown bool
}

type hostFacts struct{ qemu, clang string }

func newHypervisor(ctx context.Context, c Command, f runFlags, plans []*runner.Plan) (*hypervisor, error) {
	h := &hypervisor{c: c, f: f, start: plans[0].Time, plans: len(plans)}
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("--kernel: the virtual machine is an x86-64, and this gate is for %s", runtime.GOARCH)
	}
	var err error
	if h.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if err := vm.Static(h.self); err != nil {
		return nil, &exitError{code: exitUnmeasured, err: fmt.Errorf("gate cannot be the first process of a virtual machine: %w", err), hint: "build gate with CGO_ENABLED=0, as make build does"}
	}
	if _, err := exec.LookPath(vm.QEMU); err != nil {
		return nil, vm.ErrNoQEMU
	}
	if h.files, err = guestFiles(plans); err != nil {
		return nil, err
	}
	h.host = sync.OnceValue(func() hostFacts {
		var facts hostFacts
		facts.qemu, _ = vm.Version(ctx)
		facts.clang, _ = build.ClangVersion(ctx)
		return facts
	})
	go h.host()
	return h, nil
}

// measure boots a kernel and returns what it measured.
func (h *hypervisor) measure(ctx context.Context, name string) ([]*runner.Result, error) {
	h.begin(name, "find the kernel")
	h.mu.Lock() // two versions may be one package
	k, err := vm.FindKernel(ctx, name, func(text string) { fmt.Fprintln(h.c.Stderr, text) })
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	h.begin(name, "start "+cmpOr(k.Release, k.Source))
	m := &vm.Machine{
		Kernel: k, Init: h.self, Args: []string{"guest"}, Files: h.files, MaxResult: h.plans * (store.MaxPacked + 4),
		// No collection of garbage and no signals while instructions are counted.
		Env:      []string{"GOGC=off", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1"},
		Progress: func(what string) { h.begin(name, what) },
	}
	if m.Snapshots, err = vm.SnapshotCache(); err != nil {
		return nil, err
	}
	packed, err := m.Boot(ctx)
	if err != nil {
		return nil, err
	}
	h.begin(name, "read the runs")
	parts, err := split(packed, h.plans)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	var results []*runner.Result
	for _, part := range parts {
		bundle, err := store.DecodeBundle(part)
		if err == nil && bundle.Head == nil {
			err = errors.New("it measured nothing")
		}
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", name, err)
		}
		results = append(results, h.result(name, k, bundle))
	}
	return results, nil
}

// result is the host's view of a guest's runs: it knows better what they are of.
func (h *hypervisor) result(name string, k *vm.Kernel, bundle *store.Bundle) *runner.Result {
	facts := h.host()
	for _, r := range []*bench.Run{bundle.Base, bundle.Head} {
		if r == nil {
			continue
		}
		t := &r.Testbed
		t.Name = ""
		if h.f.testbed != "" {
			t.Name = h.f.testbed + "-linux" + strings.Trim(name, "./")
		}
		t.CPU, t.CPUs, t.Virtualization, t.Clang = vm.CPU+", QEMU "+facts.qemu, 1, bench.TCG, facts.clang
		if k.Release != "" {
			t.Kernel = k.Release
		}
	}
	res := &runner.Result{Base: bundle.Base, Head: bundle.Head}
	for _, s := range bundle.Head.Skipped {
		if s.Required {
			res.Failures = append(res.Failures, fmt.Errorf("%s: %s", s.Name, s.Reason))
		}
	}
	return res
}

// begin shows what begins: a line each with --verbose, else one line on a terminal
// that the next one takes the place of.
func (h *hypervisor) begin(kernel, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.f.verbose:
		fmt.Fprintf(h.c.Stderr, "%6.2fs  kernel %s: %s\n", time.Since(h.start).Seconds(), kernel, what)
	case isTerminal(h.c.Stderr):
		line := fmt.Sprintf("kernel %s: %s", kernel, what)
		if w := width(h.c.Stderr); w > 1 && len(line) > w-1 {
			line = line[:w-1]
		}
		fmt.Fprintf(h.c.Stderr, "\r\033[K%s", line)
		h.shown = true
	}
}

func (h *hypervisor) done() {
	if h.shown {
		fmt.Fprint(h.c.Stderr, "\r\033[K")
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// tell prints what came of every testbed, and returns the exit code of all: the worst.
func (c Command) tell(f runFlags, beds []*bed, elapsed time.Duration) error {
	if len(beds) == 1 {
		if b := beds[0]; b.err == nil {
			if err := f.print(c, b.judged(), elapsed); !isVerdict(err) {
				return err
			}
		}
		return c.ending(f, beds[0])
	}
	var all []judged
	for _, b := range beds {
		if b.err == nil {
			all = append(all, b.judged())
		}
	}
	if err := f.put(c, all, len(beds)-len(all), elapsed); err != nil {
		return err
	}
	worst, told := exitPass, ""
	for _, b := range beds {
		err := c.ending(f, b)
		if !isVerdict(err) && err.Error() != told {
			c.printError(err)
			told = err.Error() // what no machine can do is said once
		}
		if code := codeOf(err); severe(code) > severe(worst) {
			worst = code
		}
	}
	if worst == exitPass {
		return nil
	}
	return verdictError{worst}
}

// judged is what there is to tell of a testbed that was measured.
func (b *bed) judged() judged {
	return judged{report: b.report, base: b.res.Base, head: b.res.Head, history: b.history}
}

func isVerdict(err error) bool {
	var v verdictError
	return err == nil || errors.As(err, &v)
}

// ending tells what of a testbed could not be measured, and returns its exit code as
// an error.
func (c Command) ending(f runFlags, b *bed) error {
	if b.err != nil {
		var crash *vm.Crash
		if errors.As(b.err, &crash) {
			c.printCrash(crash)
		}
		return unmeasured(b.err)
	}
	verdict := f.exit(b.report)
	printed := c.printFailures(f, b.res.Failures)
	switch {
	case b.res.Base != nil && verdict != nil, len(b.res.Failures) > 0 && verdict != nil:
		return verdict
	case printed:
		return verdictError{exitUnmeasured}
	case len(b.res.Failures) > 0:
		return &exitError{code: exitUnmeasured, err: fmt.Errorf("not everything was measured: %w", b.res.Failures[0])}
	case b.res.Base == nil && len(b.res.Head.Results) == 0:
		return &exitError{code: exitUnmeasured, err: errors.New("nothing could be measured"), hint: "the report above says why; gate doctor says what this host can measure"}
	}
	return verdict
}

// printCrash shows the last lines of a guest's console.
func (c Command) printCrash(crash *vm.Crash) {
	if crash.Doing != "" {
		fmt.Fprintf(c.Stderr, "kernel %s: the last that it began: %s\n", crash.Kernel, crash.Doing)
	}
	for _, l := range crash.Console {
		fmt.Fprintf(c.Stderr, "  │ %s\n", l)
	}
}
