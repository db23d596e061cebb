//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/stats"
)

// A lab is what the commands share: their flags, and the compiled programs.
type lab struct {
	ctx            context.Context
	example, only  string
	seed           uint64 // each comparison takes the next one
	out            string
	rounds, trials int
	busy           bool
	plant          int     // instructions; 0: the plans
	limit          float64 // beside them, as a ratio

	testbed  bench.Testbed
	suite    *config.Suite
	subjects []subject
	trees    []*build.Tree
	temp     string
	started  time.Time
}

// A subject is a program with an input.
type subject struct {
	name    string // straight code, or a tight loop
	version string
	bench   bench.Benchmark
	object  *bpf.Object
	// same is the object compiled under another licence: another program to the
	// gate, which compares digests, of the same code.
	same *bpf.Object
}

func (l *lab) open() (err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	l.started = time.Now()
	if l.example, err = filepath.Abs(l.example); err != nil {
		return err
	}
	if l.suite, err = config.Load(filepath.Join(l.example, config.FileName)); err != nil {
		return err
	}
	if l.testbed, err = bpf.Testbed(); err != nil {
		return err
	}
	if l.temp, err = os.MkdirTemp("", "record-"); err != nil {
		return err
	}
	for _, s := range []subject{
		{name: "straight", version: "v4_lookup", bench: bench.Benchmark{Name: "fun_xdp/addresses"}},
		{name: "loop", version: "v3_fibonacci", bench: bench.Benchmark{Name: "fun_xdp/worst"}},
	} {
		if l.only != "" && l.only != s.name {
			continue
		}
		for _, b := range l.suite.Benchmarks {
			if b.Name == s.bench.Name {
				s.bench = b
			}
		}
		if s.bench.Program == "" {
			return fmt.Errorf("%s has no benchmark %s", l.suite.File, s.bench.Name)
		}
		if s.name == "loop" {
			s.bench.Repeat = 250 // of some 500 ns each
		}
		if s.object, err = l.compile(filepath.Join(l.example, s.version+".bpf.c")); err != nil {
			return err
		}
		if s.same, err = l.edited(s.version, `= "Dual BSD/GPL"`, `= "GPL"`); err != nil {
			return err
		}
		l.subjects = append(l.subjects, s)
	}
	if l.subjects == nil {
		return fmt.Errorf("-only %s: expected straight or loop", l.only)
	}
	return nil
}

func (l *lab) close() {
	for _, t := range l.trees {
		_ = t.Close()
	}
	if l.temp != "" {
		_ = os.RemoveAll(l.temp)
	}
}

func (l *lab) compile(source string, cflags ...string) (*bpf.Object, error) {
	t, err := build.Open(l.ctx, ".", source)
	if err != nil {
		return nil, err
	}
	l.trees = append(l.trees, t)
	path, err := t.Object(l.ctx, t.File, cflags)
	if err != nil {
		return nil, err
	}
	return bpf.OpenObject(path)
}

// edited compiles a version of the example with one place in its source changed.
func (l *lab) edited(version, old, changed string) (*bpf.Object, error) {
	src, err := os.ReadFile(filepath.Join(l.example, version+".bpf.c"))
	if err != nil {
		return nil, err
	}
	if strings.Count(string(src), old) != 1 {
		return nil, fmt.Errorf("%s has %q other than once", version, old)
	}
	dir, err := os.MkdirTemp(l.temp, "")
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, version+".bpf.c")
	if err := os.WriteFile(name, []byte(strings.Replace(string(src), old, changed, 1)), 0o600); err != nil {
		return nil, err
	}
	return l.compile(name, "-I"+l.example)
}

// newSeed is different at each call, and follows from the flag.
func (l *lab) newSeed() uint64 {
	l.seed++
	return l.seed
}

// netPolicy has a share of the program's own time for its only limit.
func netPolicy(margin float64) gate.Policy {
	p := gate.DefaultPolicy()
	p.MinEffectNS = 0
	p.Limits = map[string]gate.Limit{bench.Latency: {Fail: &gate.Margin{Ratio: margin}}}
	return p
}

// compare measures a pair as gate run does, in a session of its own, and returns what
// it measured and how long all of it took.
func (l *lab) compare(sub subject, base, head *bpf.Object, p gate.Policy) (*runner.Result, time.Duration, error) {
	side := func(name string, o *bpf.Object) runner.Side {
		return runner.Side{Name: name, Objects: []runner.Object{{Name: name, Object: o}}}
	}
	start := time.Now()
	res, err := runner.Run(l.ctx, runner.Plan{
		Sides: []runner.Side{side("base", base), side("head", head)}, Benchmarks: []bench.Benchmark{sub.bench}, Required: true,
		Policy: p, Seed: l.newSeed(), Testbed: l.testbed, Tool: "record", Time: start,
	})
	if err == nil {
		err = runner.FailureSummary(res.Failures)
	}
	return res, time.Since(start), err
}

// latency is the row of a report that is about time.
func latency(r *gate.Report) (gate.Comparison, error) {
	for _, c := range r.Comparisons {
		if c.Measure == bench.Latency {
			if c.Unchanged {
				return c, fmt.Errorf("%s passed as unchanged, without being judged", c.Benchmark)
			}
			return c, nil
		}
	}
	return gate.Comparison{}, fmt.Errorf("no time was measured")
}

// latencies are the times of a run.
func latencies(r *bench.Run) *bench.Result {
	for i := range r.Results {
		if res := &r.Results[i]; res.Measure == bench.Latency && res.Benchmark != bench.Control {
			return res
		}
	}
	return &bench.Result{}
}

// differences are those of head from base in the first n rounds, as shares of their
// means.
func differences(base, head *bench.Result, n int) []float64 {
	d := make([]float64, min(n, len(base.Samples), len(head.Samples)))
	for i := range d {
		a, b := base.Samples[i].Value, head.Samples[i].Value
		d[i] = 2 * (b - a) / (a + b)
	}
	return d
}

// progress tells where a long measurement is.
func (l *lab) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0f s  %s\n", time.Since(l.started).Seconds(), fmt.Sprintf(format, args...))
}

// about is the line under a table: where and when it was measured.
func (l *lab) about(what string) string {
	t := l.testbed
	virtual := ""
	if t.Virtualization != "" {
		virtual = ", " + t.Virtualization
	}
	return fmt.Sprintf("*%s, %d CPUs%s, Linux %s, %s; seed to %d; %s; %.0f s.*", t.CPU, t.CPUs, virtual, t.Kernel,
		l.started.UTC().Format(time.DateOnly), l.seed, what, time.Since(l.started).Seconds())
}

// count is a number of so many, with the 95% interval of the rate.
func count(k, n int) string {
	if n == 0 {
		return "–"
	}
	low, high := stats.BinomialInterval(k, n, 0.95)
	return fmt.Sprintf("%d of %d [%.1f, %.1f]%%", k, n, 100*low, 100*high)
}

// busyLoop ends when its parent has, however that did.
const busyLoop = `while [ -d /proc/$PPID ]; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done`

// crowd keeps every CPU busy until stop is called.
func crowd() (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range runtime.NumCPU() {
		c := exec.Command("sh", "-c", busyLoop)
		if err := c.Start(); err != nil {
			stop()
			return nil, err
		}
		all = append(all, c)
	}
	return stop, nil
}

// hosts calls do on the host as it is, and then beside busy loops.
func hosts(do func(host string) error) error {
	if err := do("quiet"); err != nil {
		return err
	}
	stop, err := crowd()
	if err != nil {
		return err
	}
	defer stop()
	return do("busy")
}
