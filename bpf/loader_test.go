//go:build linux

package bpf

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// ownLoader loads a program as another process would, and counts.
type ownLoader struct {
	t             *testing.T
	from          *Object
	loads, closed int
}

func (o *ownLoader) load(program string) (uint32, func(), error) {
	l, err := o.from.Load(program, LoadOptions{})
	if err != nil {
		return 0, nil, err
	}
	o.loads++
	return testkernel.ProgramID(o.t, l.Program), func() { o.closed++; l.Close() }, nil
}

// A program that its own loader loads is measured, judged by what that did.
func TestLoadBy(t *testing.T) {
	s := newTestSession(t)
	compiled := compile(t, "testdata/types.bpf.c")
	own := &ownLoader{t: t, from: compiled}
	o := &Object{Path: compiled.Path, spec: compiled.spec}
	o.LoadBy("xdp_encap", own.load)
	if d := o.Digest("xdp_encap"); d != "" {
		t.Errorf("the digest says that nothing else matters: %s", d)
	}
	m, err := s.Micro(bench.Benchmark{Name: "x/y", Program: "xdp_encap", Packets: ipv4(3), Repeat: 300}, Side{"base", o}, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	before := own.loads
	for r := range 3 {
		samples, err := m.Round(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(samples) != 2 || samples[0].Value <= 0 || samples[1].Value <= 0 {
			t.Errorf("%+v", samples)
		}
	}
	if got := own.loads - before; got != 6 {
		t.Errorf("%d loads in 3 rounds of two sides, want 6", got)
	}
	if _, err := m.Insns(); err == nil || !strings.Contains(err.Error(), "its own loader loads it") {
		t.Errorf("instructions: %v", err)
	}
	m.Close()
	if own.closed != own.loads {
		t.Errorf("%d of %d loads were ended", own.closed, own.loads)
	}
	// Static measures are those of the program in the kernel.
	l, err := s.Load(o, "xdp_encap")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	results, err := Static(l)
	if err != nil || len(results) == 0 {
		t.Errorf("%v, %v", results, err)
	}
}

// The maps are found by name, and the config's contents are put over the loader's.
func TestLoadByMaps(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Clang)
	testkernel.NoLeaks(t)
	compiled := macroObject(t, "v4_lookup")
	own := &ownLoader{t: t, from: compiled}
	o := &Object{Path: compiled.Path, spec: compiled.spec}
	o.LoadBy("fun_xdp", own.load)
	l, err := o.Load("fun_xdp", LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if m := l.coll.Maps["SOURCE_ADDR_QUEUE"]; m == nil || m.Type() != ebpf.Queue { // 17 characters
		t.Errorf("maps %v", l.Maps())
	}
	if _, err := l.drainer("SOURCE_ADDR_QUEUE"); err != nil {
		t.Error(err)
	}
}

func TestLoadByLies(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Clang)
	testkernel.NoLeaks(t)
	compiled := compile(t, "testdata/types.bpf.c")
	own := &ownLoader{t: t, from: compiled}
	o := &Object{Path: compiled.Path, spec: compiled.spec}
	other := ""
	for _, name := range o.Programs() {
		if o.Type(name) == "sched_cls" {
			other = name
		}
	}
	o.LoadBy("xdp_encap", func(string) (uint32, func(), error) { return own.load(other) })
	if _, err := o.Load("xdp_encap", LoadOptions{}); err == nil || !strings.Contains(err.Error(), "as sched_cls") {
		t.Errorf("error %v", err)
	}
	o.LoadBy("xdp_encap", func(string) (uint32, func(), error) { own.loads++; return 1<<31 - 1, func() { own.closed++ }, nil })
	if _, err := o.Load("xdp_encap", LoadOptions{}); err == nil {
		t.Error("a program that is not there was taken")
	}
	if own.closed != own.loads {
		t.Errorf("%d of %d loads were ended", own.closed, own.loads)
	}
}
