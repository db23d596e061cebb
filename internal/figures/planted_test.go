//go:build linux

package main

import (
	"slices"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// TestPlanted holds that the generator writes what it says: programs of some 1,000 instructions that
// load, and that differ in the lines that it names. Of what shows in executed instructions, these name
// the line; they are the same on every machine.
func TestPlanted(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun)
	testkernel.NoLeaks(t)
	l, err := newLab(t.Context(), "../..", 1)
	if err != nil {
		t.Skip(err)
	}
	defer l.close()
	for i, kind := range plants {
		p := newPlant(uint64(i), kind)
		if again := newPlant(uint64(i), kind); again.head != p.head {
			t.Fatal("the same seed gives another program")
		}
		base, head, err := l.compilePlant(p)
		if err != nil {
			t.Fatal(err)
		}
		s, err := bpf.NewSession(1)
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.Insns(plantedBenchmark, bpf.Side{Name: "base", Object: base}, bpf.Side{Name: "head", Object: head})
		s.Close()
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		t.Logf("%s in line %v: %v instructions executed, of which %v are planted", kind, p.lines, in.Sides[0].Mean, in.Sides[1].Mean-in.Sides[0].Mean)
		if n := in.Sides[0].Mean; in.Noise != "" || n < 700 || n > 2000 {
			t.Errorf("%s: %v instructions, noise %q", kind, n, in.Noise)
		}
		lines := bench.ExplainLines(in.Sides[0].Lines, in.Sides[1].Lines)
		if kind != "map" && (len(lines) == 0 || !slices.Contains(p.lines, lines[0].Line)) {
			t.Errorf("%s is in line %v: %+v", kind, p.lines, lines[:min(2, len(lines))])
		}
	}
}
