//go:build linux

package bpf

import (
	"math"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// cpuClock counts nanoseconds of a CPU: an event that every kernel has. In the machine
// that counts instructions, they are that.
var cpuClock = perfEvent{"cpu_clock", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK}

// secondClock is the same once more. Linux 6.12 does not count software events of two
// kinds on a CPU while they are in one group.
var secondClock = perfEvent{"second_clock", cpuClock.typ, cpuClock.config}

// Two programs of which one has a thousand instructions more, in a machine without a
// PMU: by the CPU's clock.
func TestInside(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun)
	o := compileForTest(t, `
SEC("xdp") int quick(struct xdp_md *c) { return 2; }
SEC("xdp") int slow(struct xdp_md *c) { int n = 0; asm volatile(".rept 1000\n%0 += 1\n.endr" : "+r"(n)); return n ? 2 : 1; }
`)
	testkernel.Require(t, testkernel.Fentry)
	testkernel.NoLeaks(t)
	const runs = 500
	perRun := map[string]float64{}
	for _, name := range []string{"quick", "slow"} {
		l, err := o.Load(name, LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		run := func() {
			if _, err := l.Program.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: runs}); err != nil {
				t.Fatal(err)
			}
		}
		run() // is not counted
		c, err := countInside(l.Program, name, []perfEvent{cpuClock, secondClock})
		if err != nil {
			t.Fatal(err)
		}
		run()
		values, share, counted, err := c.read()
		if err != nil || counted != runs || share != 1 || len(values) != 2 {
			t.Fatalf("%s: %v in %d runs, for %v of the time: %v", name, values, counted, share, err)
		}
		perRun[name] = values[0]
		samples, err := c.samples(3, []perfEvent{secondClock, {"none", 0, 0}, cpuClock})
		if err != nil || samples[0].Value != values[1] || samples[1].Round != -1 || samples[2].Value != values[0] || samples[2].Round != 3 {
			t.Errorf("%s: samples %+v, %v", name, samples, err)
		}
		c.close()
		run()
	}
	if perRun["quick"] <= 0 || perRun["slow"] <= perRun["quick"] {
		t.Errorf("ns inside of a run: %v", perRun)
	}
	short, err := countdown(0)
	if err != nil {
		t.Fatal(err)
	}
	if long, err := countdown(1000); err != nil || long-short != 1000 {
		t.Logf("ns inside of a run: %v; this clock counts no instructions (%v)", perRun, err)
		return
	}
	// The conditional jump of slow's answer, and what the verifier and the compiler
	// make around, are a few more.
	if more := perRun["slow"] - perRun["quick"]; math.Abs(more-1000) > 20 {
		t.Errorf("a thousand instructions more are %v more inside of a run: %v", more, perRun)
	}
}

// On a pair of interfaces, of every side by itself; what cannot be counted is told
// once, and the rounds stay.
func TestInsideMacro(t *testing.T) {
	s := macroSession(t, 1)
	v2, v3 := macroObject(t, "v2_fizzbuzz"), macroObject(t, "v3_fibonacci")
	m, err := s.Macro(veth("native", 1500), Side{"base", v2}, Side{"head", v3})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.events = []perfEvent{cpuClock}
	for round := range 2 {
		got, err := m.Round(round)
		if err != nil {
			t.Fatal(err)
		}
		refused := testkernel.Probe(testkernel.Fentry) != nil
		for i, g := range got {
			if refused != (g.Counters == nil) {
				t.Fatalf("side %d: counters %+v; warnings %q", i, g.Counters, m.Warnings)
			}
			if !refused && (len(g.Counters) != 1 || g.Counters[0].Value <= 0 || g.Counters[0].Round != round) {
				t.Errorf("side %d: counters %+v", i, g.Counters)
			}
			if g.Runs.Value != 1500 {
				t.Errorf("side %d: %v runs", i, g.Runs.Value)
			}
		}
		if refused && len(m.Warnings) != 1 {
			t.Errorf("warnings %q", m.Warnings)
		}
		if !refused && round == 0 && got[1].Counters[0].Value <= got[0].Counters[0].Value {
			t.Errorf("v3 takes no longer than v2: %+v, %+v", got[1].Counters, got[0].Counters)
		}
	}
}
