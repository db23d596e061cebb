//go:build linux

package bpf

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// testRunnable tells why a program cannot be test-run, or nil. The list is that
// of the test_run members of struct bpf_prog_ops up to Linux 6.18.
func testRunnable(spec *ebpf.ProgramSpec) error {
	switch spec.Type {
	case ebpf.XDP:
		if spec.AttachType == ebpf.AttachXDPDevMap || spec.AttachType == ebpf.AttachXDPCPUMap {
			return fmt.Errorf("XDP programs for a devmap or cpumap have %w", errNoTestRun)
		}
		return nil
	case ebpf.SchedCLS, ebpf.SchedACT, ebpf.SocketFilter, ebpf.CGroupSKB, ebpf.LWTIn, ebpf.LWTOut, ebpf.LWTXmit,
		ebpf.LWTSeg6Local, ebpf.FlowDissector, ebpf.SkLookup, ebpf.RawTracepoint, ebpf.Syscall, ebpf.Netfilter:
		return nil
	}
	return fmt.Errorf("%s programs have no test run in the kernel: they are measured where they are attached, under real work", programs.TypeName(spec.Type))
}

// emptyLike is a program of the same type and hook that does nothing: it lets pass
// what it is asked about.
func emptyLike(spec *ebpf.ProgramSpec) *ebpf.ProgramSpec {
	pass := int32(0)
	switch spec.Type {
	case ebpf.XDP:
		pass = 2
	case ebpf.CGroupSKB, ebpf.CGroupSock, ebpf.CGroupSockAddr, ebpf.CGroupSockopt, ebpf.CGroupSysctl, ebpf.CGroupDevice,
		ebpf.SockOps, ebpf.SkLookup, ebpf.SkSKB, ebpf.SkMsg, ebpf.SkReuseport, ebpf.Netfilter:
		pass = 1
	case ebpf.LSM:
		if spec.AttachType == ebpf.AttachLSMCgroup {
			pass = 1
		}
	}
	body := asm.Instructions{asm.Mov.Imm(asm.R0, pass)}
	if spec.Type == ebpf.SkSKB && spec.AttachType == ebpf.AttachSkSKBStreamParser {
		// A parser says how long the message is: all of it. skb->len stands first.
		body = asm.Instructions{asm.LoadMem(asm.R0, asm.R1, 0, asm.Word)}
	}
	out := &ebpf.ProgramSpec{
		Name: "gate_empty", Type: spec.Type, AttachType: spec.AttachType, Flags: spec.Flags, License: "Dual BSD/GPL",
		Instructions: append(body, asm.Return()),
	}
	switch spec.Type {
	case ebpf.Tracing, ebpf.LSM:
		out.AttachTo = spec.AttachTo // the kernel's function or hook
	}
	return out
}

// An effect is what one run did that can be seen from outside.
type effect struct {
	answer uint32
	packet []byte
	events map[string][][]byte // by drained map
}

func (e effect) difference(o effect, typ ebpf.ProgramType) string {
	if e.answer != o.answer {
		return fmt.Sprintf("%s and %s", answerName(typ, e.answer), answerName(typ, o.answer))
	}
	if !bytes.Equal(e.packet, o.packet) {
		return "different packets"
	}
	for name := range e.events {
		if a, b := e.events[name], o.events[name]; !slices.EqualFunc(a, b, bytes.Equal) {
			return fmt.Sprintf("%s and %s in %s", brief(a), brief(b), name)
		}
	}
	return ""
}

// brief shows the entries of a drained map: the first, in hex.
func brief(entries [][]byte) string {
	if len(entries) == 0 {
		return "nothing"
	}
	const most = 16
	first := entries[0]
	s := fmt.Sprintf("%x", first[:min(most, len(first))])
	if len(first) > most {
		s += "…"
	}
	if n := len(entries); n > 1 {
		s = fmt.Sprintf("%d entries beginning with %s", n, s)
	}
	return s
}

// verify runs every packet once on every side: it learns the answers, holds
// them against what the benchmark expects, and tells where the sides differ.
func (m *Micro) verify() error {
	targets := make([]*target, len(m.sides))
	defer func() { m.remove(targets) }()
	var err error
	for i := range m.sides {
		if targets[i], err = m.load(i); err != nil {
			return err
		}
	}
	if err := m.seat(targets); err != nil {
		return err
	}
	effects := make([][]effect, len(targets))
	for i, t := range targets {
		if effects[i], err = m.effects(t); err != nil {
			return err
		}
		answers := make([]uint32, len(effects[i]))
		for j, e := range effects[i] {
			answers[j] = e.answer
		}
		m.answers = append(m.answers, answers)
		if err := m.expected(t.name, answers); err != nil {
			return err
		}
	}
	m.Answer = m.answerSummary()
	for i := 1; i < len(targets); i++ {
		if m.sides[i].Object.spec == m.sides[0].Object.spec && !sameEvents(effects[0], effects[i]) {
			// Events hold times, or what chance made: the program differs from itself.
			for p := range effects[0] {
				effects[0][p].events = nil
			}
			break
		}
	}
	for i := 1; i < len(targets); i++ {
		if m.sides[i].Object.spec == m.sides[0].Object.spec && !slices.Equal(m.answers[0], m.answers[i]) && m.whimsical(0) != "" {
			m.allow(0)
			m.chance[i] = true
		}
	}
	for i := 1; i < len(targets); i++ {
		if m.chance[0] {
			break // it differs from itself
		}
		m.compare(targets[0].name, targets[i].name, effects[0], effects[i])
	}
	return nil
}

// sameEvents tells that two sides left the same in the drained maps. Events are
// what chance and clocks get into first.
func sameEvents(a, b []effect) bool {
	return slices.EqualFunc(a, b, func(x, y effect) bool {
		return maps.EqualFunc(x.events, y.events, func(s, t [][]byte) bool { return slices.EqualFunc(s, t, bytes.Equal) })
	})
}

// effects runs every packet once.
func (m *Micro) effects(t *target) ([]effect, error) {
	out := 0
	if len(m.packets) > 0 {
		out = 1 << 16
	}
	m.arm(t, out)
	for range m.b.Warm {
		for _, s := range t.shots {
			if err := m.pass(t, s); err != nil {
				return nil, err
			}
		}
	}
	effects := make([]effect, max(1, len(m.packets)))
	for _, s := range t.shots {
		for p := s.first; p < max(s.end, s.first+1); p++ {
			e, err := m.effect(t, s, p)
			if err != nil {
				return nil, fmt.Errorf("%s, packet %d: %w", t.name, p, err)
			}
			if err := m.unmutated(t, s, e); err != nil {
				return nil, err
			}
			effects[p] = e
		}
	}
	return effects, nil
}

func (m *Micro) effect(t *target, s shot, packet int) (e effect, err error) {
	_, err = again(func() error {
		e, err = m.effectOnce(t, s, packet)
		return err
	})
	return e, err
}

func (m *Micro) effectOnce(t *target, s shot, packet int) (effect, error) {
	for _, d := range t.drain {
		if err := d.empty(nil); err != nil {
			return effect{}, fmt.Errorf("drain: %w", err)
		}
	}
	t.counters.start()
	answer, _, err := m.fire(t, s, packet, 1)
	if err != nil {
		return effect{}, err
	}
	t.counters.stop(packet)
	e := effect{answer: answer, packet: bytes.Clone(s.run.output()), events: map[string][][]byte{}}
	for i, d := range t.drain {
		name := m.b.Drain[i]
		if err := d.empty(func(b []byte) { e.events[name] = append(e.events[name], bytes.Clone(b)) }); err != nil {
			return effect{}, fmt.Errorf("drain: %w", err)
		}
	}
	return e, nil
}

// unmutated guards the paths without a driver: there a repeat gets the packet
// that the last one left, and a program that changes it would be measured on
// something that nobody asked for.
func (m *Micro) unmutated(t *target, s shot, e effect) error {
	if m.driver != nil && restores(m.typ) || len(m.packets) == 0 || m.b.KeepPacket {
		return nil
	}
	in, out := m.packets[s.first], e.packet
	switch m.typ {
	case ebpf.FlowDissector, ebpf.Netfilter:
		return nil // the output is flow keys; these cannot write packets
	case ebpf.XDP, ebpf.SchedCLS, ebpf.SchedACT:
	default:
		// Types below Ethernet: the kernel gives zeros for its header.
		const ethernet = 14
		if len(in) >= ethernet && len(out) >= ethernet {
			in, out = in[ethernet:], out[ethernet:]
		}
	}
	if bytes.Equal(in, out) {
		return nil
	}
	return fmt.Errorf("%s changes packet %d, and the %s path cannot give every run a fresh one; write `restore: none` to measure it on its own output", t.name, s.first, m.Path)
}

func (m *Micro) expected(side string, answers []uint32) error {
	if m.b.Expect == "" {
		return nil
	}
	for p, v := range answers {
		if !answerIs(m.typ, v, m.b.Expect) {
			return &bench.Diagnostic{
				Pos:     m.b.Pos,
				Message: fmt.Sprintf("%s answers %s for packet %d, expected %s: another path would be measured", side, answerName(m.typ, v), p, m.b.Expect),
				Hint:    "check the packets and what the program's maps must hold (maps:), or correct expect:",
			}
		}
	}
	return nil
}

// answerSummary is the answers of the last side in words, most frequent first.
func (m *Micro) answerSummary() string {
	counts := map[string]int{}
	for _, v := range m.answers[len(m.answers)-1] {
		counts[answerName(m.typ, v)]++
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if d := counts[b] - counts[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	if len(names) == 1 {
		return names[0]
	}
	for i, n := range names {
		names[i] = fmt.Sprintf("%s ×%d", n, counts[n])
	}
	return strings.Join(names, ", ")
}

// compare warns where two sides do different things on the same input: then a
// difference in time is not one of speed alone.
func (m *Micro) compare(base, head string, a, b []effect) {
	n, first, what := 0, -1, ""
	for p := range a {
		if d := a[p].difference(b[p], m.typ); d != "" {
			if n == 0 {
				first, what = p, d
			}
			n++
		}
	}
	if n == 0 {
		return
	}
	where := ""
	if len(m.packets) > 0 {
		where = fmt.Sprintf(" for %d of %d packets, first for packet %d", n, len(a), first)
	}
	m.Warnings = append(m.Warnings, fmt.Sprintf("%s and %s give different results%s: %s", base, head, where, what))
}

// canary tells whether this kernel shows the packet to the program at all: up
// to 6.12 a cgroup_skb test run sees an empty one.
func (m *Micro) canary() []string {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "gate_canary", Type: m.typ, License: "Dual BSD/GPL",
		AttachType: m.sides[0].Object.spec.Programs[m.b.Program].AttachType,
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R0, asm.R1, skbLen, asm.Word),
			asm.JEq.Imm(asm.R0, 0, "empty"),
			asm.Mov.Imm(asm.R0, 1).WithSymbol("empty"),
			asm.Return(),
		},
	})
	if err != nil || len(m.packets) == 0 {
		return nil
	}
	defer p.Close()
	v, _, err := newTestRun(p.FD(), m.packets[0], nil, 0).call(1)
	if err == nil && v == 0 {
		return []string{fmt.Sprintf("this kernel shows an empty packet to test-run %s programs: their early exit was measured", programs.TypeName(m.typ))}
	}
	return nil
}

// defaultLookup is a struct bpf_sk_lookup: TCP from 192.0.2.1:31337 to
// 192.0.2.2:80.
func defaultLookup() []byte {
	ctx := make([]byte, 72)
	put := func(at int, b ...byte) { copy(ctx[at:], b) }
	put(8, 2)             // family: AF_INET
	put(12, 6)            // protocol: TCP
	put(16, 192, 0, 2, 1) // remote_ip4
	put(36, 0x7a, 0x69)   // remote_port, big endian
	put(40, 192, 0, 2, 2) // local_ip4
	put(60, 80, 0, 0, 0)  // local_port, host order
	return ctx
}

// TestRunnable tells why a program cannot be driven by BPF_PROG_TEST_RUN, or
// nil where it can.
func (o *Object) TestRunnable(program string) error {
	p := o.spec.Programs[program]
	if p == nil {
		return fmt.Errorf("no program %q in %s", program, o.Path)
	}
	if p.Type == ebpf.UnspecifiedProgram {
		return fmt.Errorf("section %q does not say what type of program it is; a config can: type: xdp", p.SectionName)
	}
	return testRunnable(p)
}
