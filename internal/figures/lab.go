//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/config"
)

// margin is the slowdown, as a share of net time, that the figures judge by.
const margin = 0.03

// A lab is what the figures share: the programs of the running example and of
// the micro lane's tests, compiled, and the benchmarks of the example's config.
type lab struct {
	ctx     context.Context
	top     string // of the checkout
	seed    uint64
	used    uint64 // seeds given away
	testbed bench.Testbed
	suite   *config.Suite
	trees   []*build.Tree
	temp    string
}

func newLab(ctx context.Context, top string, seed uint64) (_ *lab, err error) {
	l := &lab{ctx: ctx, seed: seed}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.top, err = filepath.Abs(top); err != nil {
		return nil, err
	}
	if l.suite, err = config.Load(filepath.Join(l.top, "examples/fun-xdp", config.FileName)); err != nil {
		return nil, err
	}
	if l.testbed, err = bpf.Testbed(); err != nil {
		return nil, err
	}
	if l.testbed.Clang, err = build.ClangVersion(ctx); err != nil {
		return nil, err
	}
	l.temp, err = os.MkdirTemp("", "figures-")
	return l, err
}

func (l *lab) close() {
	for _, t := range l.trees {
		_ = t.Close()
	}
	if l.temp != "" {
		_ = os.RemoveAll(l.temp)
	}
}

// about describes the machine, and what else it was busy with.
func (l *lab) about() string {
	t := l.testbed
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%s, %d CPUs (%s), Linux %s %s, clang %s; load average %s at the start, seed %d, %s.",
		t.CPU, t.CPUs, orNone(t.Virtualization), t.Kernel, t.Arch, t.Clang,
		strings.Join(strings.Fields(string(load))[:1], ""), l.seed, time.Now().UTC().Format("2 January 2006, 15:04 UTC"))
}

func orNone(s string) string {
	if s == "" {
		return "no hypervisor"
	}
	return s
}

// newSeed is different at each call, and follows from the seed of the run.
func (l *lab) newSeed() uint64 {
	l.used++
	return l.seed + l.used
}

// object compiles a source, relative to the top of the checkout or absolute.
func (l *lab) object(source string, cflags ...string) (*bpf.Object, error) {
	if !filepath.IsAbs(source) {
		source = filepath.Join(l.top, source)
	}
	t, err := build.Open(l.ctx, l.top, source)
	if err != nil {
		return nil, err
	}
	l.trees = append(l.trees, t)
	file, err := t.Object(l.ctx, t.File, cflags)
	if err != nil {
		return nil, err
	}
	return bpf.OpenObject(file)
}

// example compiles a version of the running example.
func (l *lab) example(version string) (*bpf.Object, error) {
	return l.object("examples/fun-xdp/" + version + ".bpf.c")
}

// twin compiles a version under another licence: the digest covers the licence,
// so the gate takes it for a changed program, and the code is the same.
func (l *lab) twin(version string) (*bpf.Object, error) {
	dir := filepath.Join(l.top, "examples/fun-xdp")
	src, err := os.ReadFile(filepath.Join(dir, version+".bpf.c"))
	if err != nil {
		return nil, err
	}
	const licence = `= "Dual BSD/GPL"`
	if !strings.Contains(string(src), licence) {
		return nil, errors.New(version + " has another licence than expected")
	}
	name := filepath.Join(l.temp, version+"_twin.bpf.c")
	if err := os.WriteFile(name, []byte(strings.Replace(string(src), licence, `= "GPL"`, 1)), 0o600); err != nil {
		return nil, err
	}
	return l.object(name, "-I"+dir)
}

// benchmark is one of the running example's.
func (l *lab) benchmark(name string) (bench.Benchmark, error) {
	for _, b := range l.suite.Benchmarks {
		if b.Name == name {
			return b, nil
		}
	}
	return bench.Benchmark{}, fmt.Errorf("%s has no benchmark %s", l.suite.File, name)
}

// policy is the default policy with the margin of the figures.
func policy() gate.Policy {
	p := gate.DefaultPolicy()
	p.Limits = map[string]gate.Limit{bench.Latency: {Fail: &gate.Margin{Ratio: margin}}}
	return p
}

// netPolicy is the same with the margin as a share of net time and nothing else.
func netPolicy() gate.Policy {
	p := policy()
	p.MinEffectNS = 0
	return p
}

// aa opens a micro benchmark of an object against itself in a session of its own.
func (l *lab) aa(b bench.Benchmark, o *bpf.Object) (m *bpf.Micro, closeAll func(), err error) {
	s, err := bpf.NewSession(l.newSeed())
	if err != nil {
		return nil, nil, err
	}
	if m, err = s.Micro(b, bpf.Side{Name: "base", Object: o}, bpf.Side{Name: "head", Object: o}); err != nil {
		s.Close()
		return nil, nil, err
	}
	return m, func() {
		m.Close()
		s.Close()
	}, nil
}

// A series is the samples of two sides that were measured together.
type series struct{ base, head []bench.Sample }

// extend measures up to n rounds.
func (s *series) extend(ctx context.Context, n int, round func(int) ([]bench.Sample, error)) error {
	for len(s.base) < n {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, err := round(len(s.base))
		if err != nil {
			return err
		}
		s.base, s.head = append(s.base, x[0]), append(s.head, x[1])
	}
	return nil
}

// differences are those of head from base, as a share of their mean.
func (s *series) differences() []float64 {
	d := make([]float64, len(s.base))
	for i := range d {
		a, b := s.base[i].Value, s.head[i].Value
		d[i] = 2 * (b - a) / (a + b)
	}
	return d
}

// gateBinary is the command that scripts/bench.sh builds beside this one.
func gateBinary() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	gate := filepath.Join(filepath.Dir(self), "gate")
	if _, err := os.Stat(gate); err != nil {
		return "", fmt.Errorf("%w (make bench builds it)", err)
	}
	return gate, nil
}
