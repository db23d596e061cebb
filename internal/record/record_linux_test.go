package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func openLab(t *testing.T) *lab {
	t.Helper()
	testkernel.Require(t, testkernel.TestRun)
	testkernel.Require(t, testkernel.Clang)
	testkernel.NoLeaks(t)
	l := &lab{ctx: context.Background(), example: "../../examples/fun-xdp", seed: 1, trials: 1, rounds: 32}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// What is planted is executed, once a run and on every path; what is compiled under
// another licence is another program that executes the same; and what an edit of cold
// code adds is not executed at all.
func TestSubjects(t *testing.T) {
	l := openLab(t)
	s, err := bpf.NewSession(1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const planted = 12
	for _, sub := range l.subjects {
		head, err := l.planted(sub, planted)
		if err != nil {
			t.Fatal(err)
		}
		p := sub.bench.Program
		in, err := s.Insns(sub.bench, bpf.Side{Name: "base", Object: sub.object}, bpf.Side{Name: "planted", Object: head},
			bpf.Side{Name: "same", Object: sub.same}, bpf.Side{Name: "a twin", Object: sub.object.Twin(p, 1)}, bpf.Side{Name: "edited", Object: sub.object.Twin(p, 9)})
		if err != nil {
			t.Fatal(err)
		}
		base := in.Sides[0].Mean
		if more := in.Sides[1].Mean - base; more < planted || more > planted+3 { // with its moves
			t.Errorf("%s: %v instructions more are executed, %d were planted", sub.name, more, planted)
		}
		if in.Sides[2].Mean != base || sub.object.Digest(p) == sub.same.Digest(p) {
			t.Errorf("%s: %v instructions, under another licence %v", sub.name, base, in.Sides[2].Mean)
		}
		if in.Sides[3].Mean != in.Sides[4].Mean || sub.object.Twin(p, 1).Digest(p) == sub.object.Twin(p, 9).Digest(p) {
			t.Errorf("%s: twins execute %v and %v", sub.name, in.Sides[3].Mean, in.Sides[4].Mean)
		}
	}
}

// A program compared with itself is judged by the whole lane, and its true slowdown is
// measured to be next to none.
func TestComparisons(t *testing.T) {
	l := openLab(t)
	sub := l.subjects[0]
	o, err := l.outcomes(1, netPolicy(1), sub, sub.object, sub.same)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.all) != 1 || o.rounds[0] < firstLook || o.within(o.all[0], time.Hour) != 1 || o.within(o.all[0], 0) != 0 {
		t.Errorf("%+v", o)
	}
	if e, low, high, err := l.truth(sub, sub.same); err != nil || !(low <= e && e <= high && low < 0.5 && high > -0.5) {
		t.Errorf("slower than itself by %v, %v to %v, %v", e, low, high, err)
	}
	var tallied tally
	for _, unpadded := range []bool{true, false} {
		base, head, err := l.plain(sub, sub.object, sub.same, unpadded)
		if err == nil {
			err = tallied.add(base, head)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if tallied.comparisons != 2 {
		t.Errorf("%+v", tallied)
	}
}

// Busy loops end when they are told to.
func TestCrowd(t *testing.T) {
	testkernel.NoLeaks(t)
	stop, err := crowd()
	if err != nil {
		t.Fatal(err)
	}
	stop()
}

// And by themselves, when their parent ends.
func TestBusyLoopEnds(t *testing.T) {
	parent := exec.Command("sh", "-c", "sh -c '"+strings.ReplaceAll(busyLoop, "'", `'\''`)+"; echo over' & sleep 0.2; kill -9 $$")
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	parent.Stdout = out
	_ = parent.Run() // killed
	for range 600 {
		if b, _ := os.ReadFile(out.Name()); string(b) == "over\n" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("a busy loop goes on without its parent")
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{nil, {"noises"}, {"aa", "x"}, {"layout", "-trials", "-1"}} {
		if err := run(context.Background(), args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	if got := count(0, 0) + " " + count(1, 4); got != "– 1 of 4 [0.6, 80.6]%" {
		t.Error(got)
	}
}
