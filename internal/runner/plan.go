//go:build linux

package runner

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
)

// A Plan is what is measured and how long that may take.
type Plan struct {
	Sides []Side // head, or base and head
	// Benchmarks in the order of the config.
	Benchmarks []bench.Benchmark
	// Required tells that somebody asked for the benchmarks by name, so that
	// one that cannot be measured is a failure and not a remark.
	Required bool
	// Partial tells that somebody asked for some benchmarks of more.
	Partial bool
	Policy  gate.Policy
	// Dir is where the commands of benchmarks run, and whose owner runs them: that of
	// the config, in head's tree.
	Dir     string
	Seed    uint64
	Testbed bench.Testbed
	Tool    string    // version of gate
	Time    time.Time // of the runs
	// SaveLog keeps the full log of a rejected program and returns its file; nil
	// keeps none.
	SaveLog func(name, text string) (file string, err error)
	// Begin is told what is done next; nil is silent.
	Begin func(what string)
	// Progress is told after every round; nil is silent.
	Progress func(Progress)
}

// A Side is one revision's objects.
type Side struct {
	Name     string // "base" or "head"
	Revision bench.Revision
	Objects  []Object
	// Dir is where agents and commands of user space of this side run: that of the
	// config, in its own tree.
	Dir string
	// Lacks are commands of user space that this side's own config does not have: where
	// they do not run here, they are new.
	Lacks []string
}

// ofKernel tells that something of the plan is a program that the kernel runs.
func (p *Plan) ofKernel() bool {
	return slices.ContainsFunc(p.Sides, func(s Side) bool { return len(s.Objects) > 0 }) ||
		slices.ContainsFunc(p.Benchmarks, func(b bench.Benchmark) bool { return b.Harness == nil })
}

// An Object is an opened object and its name in reports.
type Object struct {
	Name string // as the config or the command line has it
	File string // that it was read from; empty: none
	// Hidden are programs of the object that are left alone, since another
	// object has the program of that name that is meant.
	Hidden map[string]bool
	*bpf.Object
}

// Has tells whether the object has the program, and it is the one that is meant.
func (o Object) Has(program string) bool { return !o.Hidden[program] && o.Object.Has(program) }

// Programs are the programs of the object that are not hidden.
func (o Object) Programs() []string {
	return slices.DeleteFunc(slices.Clone(o.Object.Programs()), func(p string) bool { return o.Hidden[p] })
}

// find is the object that has the program.
func (s *Side) find(program string) (Object, bool) {
	i := slices.IndexFunc(s.Objects, func(o Object) bool { return o.Has(program) })
	if i < 0 {
		return Object{}, false
	}
	return s.Objects[i], true
}

// Progress is how far a measurement is.
type Progress struct {
	Round, Look int // rounds done, and those of the next look
	Open        []string
	// Sure is what the last look said of the first open benchmark, such as
	// "+0.4%, -0.2…+1.1%"; empty before the first look.
	Sure    string
	Elapsed time.Duration
	Budget  time.Duration
}

// BuiltIn are the benchmarks of objects for which nobody wrote any: every
// program of a type that the kernel can test-run, on the packets, with its queues
// and ring buffers emptied as somebody does where it is at work. Programs of
// other types are told as skipped, with the reason and what to write for them.
func BuiltIn(side *Side, packets [][]byte) ([]bench.Benchmark, []bench.Skip) {
	var out []bench.Benchmark
	var skips []bench.Skip
	for _, o := range side.Objects {
		for _, p := range o.Programs() {
			if err := o.TestRunnable(p); err != nil {
				skips = append(skips, bench.Skip{Name: p, Reason: err.Error(), Hint: "give it work in ebpf-bench.yml: benchmarks: {PROGRAM/case: {work: {run: COMMAND}}}"})
				continue
			}
			out = append(out, bench.Benchmark{Name: p + "/builtin", Program: p, Packets: packets, Drain: o.Drainable(p)})
		}
	}
	return out, skips
}

// Select keeps the benchmarks whose name matches one of the globs (as in
// [path.Match], where "fun_xdp" stands for "fun_xdp/*"). A glob that matches
// nothing is an error. Of a command of user space, a glob chooses it as a whole: what it
// measures is known when it runs.
func Select(all []bench.Benchmark, globs []string) ([]bench.Benchmark, error) {
	if len(globs) == 0 {
		return all, nil
	}
	keep := make([]bool, len(all))
	for _, g := range globs {
		full := g
		if !strings.Contains(g, "/") {
			full = g + "/*"
		}
		hit := false
		for i, b := range all {
			glob := full
			if b.Harness != nil {
				glob, _, _ = strings.Cut(full, "/")
			}
			ok, err := path.Match(glob, b.Name)
			if err != nil {
				return nil, fmt.Errorf("--only %s: %w", g, err)
			}
			keep[i], hit = keep[i] || ok, hit || ok
		}
		if !hit {
			names := make([]string, len(all))
			for i, b := range all {
				names[i] = b.Name
			}
			return nil, fmt.Errorf("--only %s: no such benchmark; there are %s", g, strings.Join(names, ", "))
		}
	}
	var out []bench.Benchmark
	for i, b := range all {
		if keep[i] {
			out = append(out, b)
		}
	}
	return out, nil
}
