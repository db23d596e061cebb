//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// Insns is how many BPF instructions each side of a benchmark executes.
//
// An instruction is one of the program as it is given to the kernel: after
// relocation, before the verifier rewrites anything. An ld_imm64, which takes two
// places, is one. Instructions of helpers and kfuncs are not BPF's and do not
// count; those of subprograms, callbacks and programs that are tail-called do.
//
// The number is exact: equal for the same program and inputs on any machine of
// any speed, while the program does not ask for the time, for random numbers, or
// for what else differs from run to run.
type Insns struct {
	Sides []SideInsns // in the order of the sides
	// Warnings tell what to doubt.
	Warnings []string
}

// A SideInsns is what one side executes.
type SideInsns struct {
	Name string
	// Mean is the executed instructions of one run, on average over the packets.
	Mean float64
	// Worst is those of the packet that takes most, and WorstPacket its index
	// (for tc, among the packets sorted by EtherType).
	Worst       uint64
	WorstPacket int
	Packets     int
	// Lines and Functions are where the instructions are, in the order of the
	// code. An object without line information has no lines.
	Lines     []bench.LineCount
	Functions []bench.FunctionCount
	// Calls are the helpers and kfuncs that were called, by name.
	Calls []bench.CallCount
}

// Insns counts the instructions that each side executes for the benchmark's
// inputs. The program is loaded with a counter in every basic block, its maps are
// prepared as for timing, and each packet runs once.
//
// The error says why there is no exact number: the program cannot be
// instrumented, does something else with counters than without, or executes
// different numbers of instructions in two loads of the same.
//
// It needs Linux 5.5.
func (s *Session) Insns(b bench.Benchmark, sides ...Side) (*Insns, error) {
	m, err := s.Micro(b, sides...)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Insns()
}

// Insns is [Session.Insns] of a benchmark that is ready.
func (m *Micro) Insns() (out *Insns, err error) {
	err = m.s.do(func() error {
		out = &Insns{}
		for i, side := range m.sides {
			if j := slices.IndexFunc(m.sides[:i], func(o Side) bool { return o.Object == side.Object }); j >= 0 {
				same := out.Sides[j] // the control
				same.Name = side.Name
				out.Sides = append(out.Sides, same)
				continue
			}
			c, err := m.insnsOf(i)
			if err != nil {
				return fmt.Errorf("executed instructions of %s: %w", side.Name, err)
			}
			out.Sides = append(out.Sides, c.SideInsns)
			if c.stateful != "" {
				out.Warnings = append(out.Warnings, c.stateful)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Loads and passes that have to agree.
const (
	insnsLoads  = 2
	insnsPasses = 2
)

type sideCount struct {
	SideInsns
	stateful string
}

// insnsOf counts one side. Its loads are separate from those of the rounds, and
// draw from a source of their own, so that counting changes no order.
func (m *Micro) insnsOf(side int) (*sideCount, error) {
	s := m.sides[side]
	in, err := s.Object.instrument(m.b.Program)
	if err != nil {
		return nil, fmt.Errorf("cannot be instrumented: %w", err)
	}
	c := *m
	c.rng, c.pads = m.s.rng(m.b.Name+" insns"), nil
	c.sides = []Side{{s.Name, in.plain}, {s.Name, in.Object}}
	plain, _, err := c.passes(0, nil, 1)
	if err != nil {
		return nil, err
	}
	var tallies [][]tally // by load, by pass
	for range insnsLoads {
		effects, got, err := c.passes(1, in, insnsPasses)
		if err != nil {
			return nil, in.rejection(err)
		}
		for p := range plain {
			plain[p].events = nil // their order and contents may depend on the load
			if d := plain[p].difference(effects[p], m.typ); d != "" {
				return nil, fmt.Errorf("without and with counters packet %d gives different results: %s%s", p, d, in.suspects(got[0].blocks))
			}
		}
		tallies = append(tallies, got)
	}
	for pass, t := range tallies[0] {
		if o := tallies[1][pass]; !slices.Equal(t.blocks, o.blocks) || !maps.Equal(t.insns, o.insns) {
			what := fmt.Sprintf("%d and %d instructions for all packets", t.total(), o.total())
			if t.total() == o.total() {
				what = "different instructions, though as many"
			}
			return nil, fmt.Errorf("not exact: two loads of the same executed %s%s", what, in.suspects(t.blocks))
		}
	}
	out := &sideCount{SideInsns: in.report(s.Name, tallies[0][0])}
	if first, second := tallies[0][0].total(), tallies[0][1].total(); first != second {
		out.stateful = fmt.Sprintf("insns are those of the first pass over the packets: %s executes %d instructions in it and %d in the second, as the first changes its maps; write `warm: 1` or `drain:` to count another state",
			s.Name, first, second)
	}
	return out, nil
}

// passes loads a side afresh, maps included, and runs every packet once a pass.
// It returns what the first pass did, and the tally of each where in counts.
func (m *Micro) passes(side int, in *instrumented, n int) (first []effect, tallies []tally, err error) {
	m.kept = make([]map[string]*ebpf.Map, len(m.sides))
	defer m.forget()
	t, err := m.load(side)
	if err != nil {
		return nil, nil, err
	}
	targets := []*target{t}
	defer func() { m.remove(targets) }()
	if in != nil {
		if t.counters, err = in.count(t.load); err != nil {
			return nil, nil, err
		}
	}
	if err := m.seat(targets); err != nil {
		return nil, nil, err
	}
	for range n {
		if in != nil {
			t.counters.reset()
		}
		effects, err := m.effects(t)
		if err != nil {
			return nil, nil, err
		}
		if first == nil {
			first = effects
		}
		if in != nil {
			tallies = append(tallies, t.counters.pass)
		}
	}
	return first, tallies, nil
}

// forget closes the maps that a load keeps for the next.
func (m *Micro) forget() {
	for _, maps := range m.kept {
		for _, k := range maps {
			k.Close()
		}
	}
	m.kept = make([]map[string]*ebpf.Map, len(m.sides))
}

// rejection says that it is the counters that the verifier does not take: the
// program without them has been loaded.
func (in *instrumented) rejection(err error) error {
	var ve *ebpf.VerifierError
	if !errors.As(err, &ve) {
		return err
	}
	const refused = "this kernel rejects the program with its counters"
	if errors.Is(err, unix.E2BIG) {
		const mostMaps = 64 // MAX_USED_MAPS
		if in.maps > mostMaps {
			return fmt.Errorf("%s: with theirs it uses %d maps, at most %d", refused, in.maps, mostMaps)
		}
		return fmt.Errorf("%s: the verifier would have to process more than 1,000,000 instructions", refused)
	}
	if in.quiet {
		// Once more, for its words.
		in.quiet = false
		if l, again := in.Load(in.programs[0].name, LoadOptions{}); again == nil {
			l.Close()
		} else {
			err = again
		}
	}
	return fmt.Errorf("%s: %s", refused, Diagnose("", "", "", err).Reason)
}

func (t tally) total() (n uint64) {
	for _, insns := range t.insns {
		n += insns
	}
	return n
}

// report turns the counts of a pass into numbers for one run.
func (in *instrumented) report(name string, t tally) SideInsns {
	out := SideInsns{Name: name, Packets: len(t.insns), WorstPacket: -1}
	for _, p := range slices.Sorted(maps.Keys(t.insns)) {
		if n := t.insns[p]; out.WorstPacket < 0 || n > out.Worst {
			out.Worst, out.WorstPacket = n, p
		}
	}
	runs := float64(max(1, out.Packets))
	out.Mean = float64(t.total()) / runs
	for _, p := range in.programs {
		counts := t.blocks[p.first : p.first+len(p.flow.blocks)]
		out.Functions = append(out.Functions, p.functions(counts, runs)...)
		out.Lines = append(out.Lines, p.lines(counts, runs)...)
	}
	out.Calls = in.calls(t.blocks, runs)
	return out
}

// varying are the helpers whose answer is not a function of the input.
var varying = map[asm.BuiltinFunc]bool{
	asm.FnKtimeGetNs: true, asm.FnKtimeGetBootNs: true, asm.FnKtimeGetCoarseNs: true, asm.FnKtimeGetTaiNs: true,
	asm.FnJiffies64: true, asm.FnGetPrandomU32: true, asm.FnGetSmpProcessorId: true, asm.FnGetNumaNodeId: true,
	asm.FnGetHashRecalc: true, asm.FnGetCurrentPidTgid: true, asm.FnGetCurrentComm: true, asm.FnGetCurrentTask: true,
	asm.FnGetCurrentTaskBtf: true, asm.FnGetCurrentCgroupId: true, asm.FnGetSocketCookie: true, asm.FnGetNetnsCookie: true,
	asm.FnPerfEventRead: true, asm.FnPerfEventReadValue: true, asm.FnGetStackid: true, asm.FnGetStack: true, asm.FnGetTaskStack: true,
	asm.FnProbeRead: true, asm.FnProbeReadKernel: true, asm.FnProbeReadKernelStr: true, asm.FnProbeReadUser: true,
	asm.FnProbeReadUserStr: true, asm.FnProbeReadStr: true, asm.FnUserRingbufDrain: true, asm.FnTimerStart: true,
}

// suspects names what makes a program's runs differ: the helpers that it called
// and that do not always answer the same, and maps that forget by themselves.
func (in *instrumented) suspects(blocks []uint64) string {
	names := map[string]bool{}
	for _, p := range in.programs {
		for b, bl := range p.flow.blocks {
			for i := bl.start; i < bl.end; i++ {
				ins := &p.flow.insns[i]
				if ins.IsBuiltinCall() && blocks[p.first+b] > 0 && varying[asm.BuiltinFunc(ins.Constant)] {
					names[callName(ins)] = true
				}
				if m := in.spec.Maps[ins.Reference()]; m != nil && ins.IsLoadFromMap() && (m.Type == ebpf.LRUHash || m.Type == ebpf.LRUCPUHash) {
					names["the LRU map "+m.Name] = true
				}
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; it uses " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
