//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// Insns is how many BPF instructions each side of a benchmark executes.
//
// An instruction is one of the program as it is given to the kernel: after
// relocation, before the verifier rewrites anything. An ld_imm64, which takes two
// places, is one. Instructions of helpers and kfuncs are not BPF's and do not
// count; those of subprograms, callbacks and programs that are tail-called do. What
// a program leaves to a timer or a work queue is not part of the run.
//
// The numbers are exact: equal for the same program and inputs on any machine of
// any speed, while the program does not ask for the time, for random numbers, or
// for what else differs from run to run. Noise says so where it does; then one
// pass tells little, and [Micro.InsnsRound] takes samples.
type Insns struct {
	Sides []SideInsns // in the order of the sides
	// Noise is why the numbers of the same program differ; empty: they are exact.
	Noise string
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
	// Executed are the executions of blocks in all loads and passes.
	Executed *Executions
	// Counts are the calls of helpers and kfuncs, and the operations on maps, that
	// happened at all.
	Counts []SideCount
}

// Insns counts the instructions that each side executes for the benchmark's
// inputs. The program is loaded with a counter in every basic block, its maps are
// prepared as for timing, and each packet runs once.
//
// The error says why there is no number: the program cannot be instrumented, or
// does something else with counters than without.
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
		m.counted = make([]*instrumented, len(m.sides))
		for i, side := range m.sides {
			if j := slices.IndexFunc(m.sides[:i], func(o Side) bool { return o.Object.spec == side.Object.spec }); j >= 0 {
				same := out.Sides[j] // the control, or base with its code moved
				same.Name = side.Name
				m.counted[i] = m.counted[j]
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
			if c.noise != "" && out.Noise == "" {
				out.Noise = clip(side.Name + ": " + c.noise)
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
	stateful, noise string
}

// insnsOf counts one side. Its loads are separate from those of the rounds, and
// draw from a source of their own, so that counting changes no order.
func (m *Micro) insnsOf(side int) (*sideCount, error) {
	s := m.sides[side]
	in, err := s.Object.instrument(m.b.Program)
	if err != nil {
		return nil, fmt.Errorf("cannot be instrumented: %w", err)
	}
	m.counted[side] = in
	c := *m
	c.rng, c.pads = m.s.rng(m.b.Name+" insns"), nil
	c.sides = []Side{{s.Name, in.plain}, {s.Name, in.Object}}
	plain, _, err := c.passes(0, nil, 1)
	if err != nil {
		return nil, err
	}
	var tallies [][]tally // by load, by pass
	var whims []bool      // packets whose results differ without counters, too
	for range insnsLoads {
		effects, got, err := c.passes(1, in, insnsPasses)
		if err != nil {
			return nil, in.rejection(err)
		}
		tallies = append(tallies, got)
		for p := range plain {
			plain[p].events = nil // their order and contents may depend on the load
			d := plain[p].difference(effects[p], m.typ)
			if d == "" || whims != nil && whims[p] {
				continue
			}
			if whims == nil {
				if whims, err = c.whims(plain); err != nil {
					return nil, err
				}
			}
			// A whim seen on any packet explains one that was not seen on this.
			if slices.Contains(whims, true) || m.chance[side] {
				continue
			}
			switch chance, err := m.byChance(side); {
			case err != nil:
				return nil, err
			case chance:
				m.allow(side)
			default:
				return nil, fmt.Errorf("without and with counters packet %d gives different results: %s%s", p, d, in.suspects(got[0].blocks, got[1].blocks))
			}
		}
	}
	out := &sideCount{SideInsns: in.report(s.Name, tallies[0][0])}
	out.Executed = in.executions(slices.Concat(tallies...)...)
	if out.noise = in.noise(tallies[0], tallies[1]); out.noise != "" {
		return out, nil
	}
	if first, second := tallies[0][0].total(), tallies[0][1].total(); first != second {
		out.stateful = fmt.Sprintf("insns are those of the first pass over the packets: %s executes %d instructions in it and %d in the second, as the first changes its maps; write `warm: 1` or `drain:` to count another state",
			s.Name, first, second)
	}
	return out, nil
}

// whims finds the packets for which the plain program gives other results in other
// loads: what it answers depends on more than its input, so that its results say
// nothing about those with counters.
func (m *Micro) whims(first []effect) ([]bool, error) {
	const tries = 4
	out := make([]bool, len(first))
	for range tries {
		again, _, err := m.passes(0, nil, 1)
		if err != nil {
			return nil, err
		}
		for p := range first {
			again[p].events = nil
			out[p] = out[p] || first[p].difference(again[p], m.typ) != ""
		}
	}
	return out, nil
}

// noise says how two loads of the same program differ, and what made them; empty:
// they executed the same, block for block and packet for packet, in every pass.
func (in *instrumented) noise(a, b []tally) string {
	for pass, t := range a {
		o := b[pass]
		x, y := in.foreground(t.blocks), in.foreground(o.blocks)
		if slices.Equal(x, y) && maps.Equal(t.insns, o.insns) {
			continue
		}
		what := fmt.Sprintf("%d and %d instructions for all packets", t.total(), o.total())
		if t.total() == o.total() {
			what = "different instructions, though as many"
		}
		return fmt.Sprintf("two loads of the same executed %s%s", what, in.suspects(x, y))
	}
	return ""
}

// foreground are the executions of blocks that belong to a run: those of what runs
// by itself are 0.
func (in *instrumented) foreground(blocks []uint64) []uint64 {
	out := slices.Clone(blocks)
	for _, p := range in.programs {
		for b, by := range p.background {
			if by {
				out[p.first+b] = 0
			}
		}
	}
	return out
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
	blocks := in.foreground(t.blocks)
	for _, p := range in.programs {
		counts := blocks[p.first : p.first+len(p.flow.blocks)]
		out.Functions = append(out.Functions, p.functions(counts, runs)...)
		out.Lines = append(out.Lines, p.lines(counts, runs)...)
	}
	out.Counts = in.counts(blocks, runs)
	return out
}
