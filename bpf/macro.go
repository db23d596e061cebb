//go:build linux

package bpf

import (
	"fmt"
	"math/rand/v2"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// A Macro is a benchmark of programs that are attached and run by real work. The
// kernel counts and times their runs.
//
// Base, head and an empty program of their type hang on a veth pair each at the
// same time, and which hangs on which is drawn anew in every round; so they can
// take turns every few hundred packets, which no re-attaching (25 ms) could.
type Macro struct {
	// Path is where the program hangs: "veth native", "veth generic",
	// "veth tcx ingress", "veth clsact egress", …
	Path string
	// Answer is empty: the kernel counts runs, not what they return.
	Answer string
	// Warnings tell what to doubt.
	Warnings []string

	s     *Session
	b     bench.Benchmark
	sides []Side
	mode  string
	count int // packets a side and round
	least int // runs that make a sample
	rng   *rand.Rand
	train *train
	pairs []*pair
	hooks []hook
	kept  []map[string]*ebpf.Map
	// surplus tells that there is a warning about more runs than packets.
	surplus bool
	// events are counted inside of the programs in the first rounds; nil: none are.
	events []perfEvent
}

// insideRounds is how many rounds count what the CPU does inside of the programs, and
// insidePackets by how many packets: attaching the counters takes longer than a round.
const (
	insideRounds  = 20
	insidePackets = 1000
)

// A MacroSample is what one round counted of one side.
type MacroSample struct {
	// Latency is run_time_ns by run_cnt, in ns a run: the median of readings
	// of some 256 packets. It holds what the kernel's counting costs (45 to 50
	// ns a run), as does its Floor, the empty program in the same round.
	Latency bench.Sample
	// Runs is run_cnt: equal to the packets that were sent, unless some were
	// lost or the program sees its own output.
	Runs bench.Sample
	// RecursionMisses counts the runs that the kernel skipped since the program
	// was running on that CPU already (trampolines and kprobes only).
	RecursionMisses bench.Sample
	// Counters are what the CPU counted inside of the program, of one run, in the
	// order of [Session.Hardware]; nil where this round counted nothing.
	Counters []bench.Sample
}

// Macro prepares a benchmark on veth pairs: b.Veth says where the program hangs,
// b.Packets what is sent there, from the pair's other end. Close it.
//
// It fails where the program's type cannot hang there, and where the kernel
// cannot do it: XDP needs Linux 5.9, tc 5.8. Counting needs CAP_SYS_ADMIN. What
// the program returns is not seen, so b.Expect is not checked.
func (s *Session) Macro(b bench.Benchmark, sides ...Side) (m *Macro, err error) {
	err = s.do(func() error {
		m, err = s.newMacro(b, sides)
		return err
	})
	return m, err
}

func (s *Session) newMacro(b bench.Benchmark, sides []Side) (_ *Macro, err error) {
	m := &Macro{s: s, b: b, sides: sides, rng: s.rng(b.Name), kept: make([]map[string]*ebpf.Map, len(sides)), events: s.gauge.events()}
	if b.Veth == nil {
		return nil, &bench.Diagnostic{Pos: b.Pos, Message: b.Name + " says no work for attached programs", Hint: "write `veth: {mode: native}`"}
	}
	if m.count = b.Veth.Count; m.count == 0 {
		m.count = bench.DefaultVethCount
	}
	if m.least = b.Veth.MinRuns; m.least == 0 {
		m.least = m.count - m.count/10
	}
	if m.mode, err = m.chooseMode(); err != nil {
		return nil, err
	}
	if m.train, err = newTrain(b.Packets); err != nil {
		return nil, &bench.Diagnostic{Pos: b.Pos, Message: fmt.Sprintf("%s: %v", b.Name, err)}
	}
	if n := len(b.Packets); n > m.count {
		m.Warnings = append(m.Warnings, fmt.Sprintf("only the first %d of %d packets are sent in a round: raise count", m.count, n))
	}
	if b.Expect != "" {
		m.Warnings = append(m.Warnings, "expect is not checked on a veth pair, since the kernel counts runs and not what they return: expect it of a benchmark without veth too")
	}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	frame := 0
	for _, p := range b.Packets {
		frame = max(frame, len(p))
	}
	if m.pairs, err = newPairs(len(sides)+1, frame, m.mode == egress); err != nil {
		return nil, err
	}
	p, err := m.empty()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	for _, pair := range m.pairs {
		h, path, err := newHook(pair.dev.Index, m.mode, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		m.Path, m.hooks = path, append(m.hooks, h)
	}
	return m, nil
}

// chooseMode checks that all sides are of one type, and that it can hang where
// the benchmark says.
func (m *Macro) chooseMode() (string, error) {
	var typ ebpf.ProgramType
	for i, side := range m.sides {
		spec := side.Object.spec.Programs[m.b.Program]
		switch {
		case spec == nil:
			return "", fmt.Errorf("no program %q in %s", m.b.Program, side.Object.Path)
		case i > 0 && spec.Type != typ:
			return "", fmt.Errorf("%s is of type %s in %s and %s in %s: they cannot be compared", m.b.Program, programs.TypeName(typ), m.sides[0].Name, programs.TypeName(spec.Type), side.Name)
		}
		typ = spec.Type
	}
	modes := map[ebpf.ProgramType][2]string{ebpf.XDP: {native, generic}, ebpf.SchedCLS: {ingress, egress}}[typ]
	mode := m.b.Veth.Mode
	if mode == "" {
		mode = modes[0]
	}
	switch {
	case modes[0] == "":
		return "", &bench.Diagnostic{Pos: m.b.Pos, Message: fmt.Sprintf("%s: %s programs cannot be attached to a veth pair, only xdp and sched_cls (tc)", m.b.Name, programs.TypeName(typ))}
	case mode != modes[0] && mode != modes[1]:
		return "", &bench.Diagnostic{
			Pos: m.b.Pos, Message: fmt.Sprintf("%s: %s programs cannot be attached in mode %q", m.b.Name, programs.TypeName(typ), mode),
			Hint: fmt.Sprintf("expected %s or %s", modes[0], modes[1]),
		}
	}
	return mode, nil
}

// empty loads the program that measures the floor.
func (m *Macro) empty() (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(emptyLike(m.sides[0].Object.spec.Programs[m.b.Program]))
	if err != nil {
		return nil, fmt.Errorf("load the empty program: %w", err)
	}
	return p, nil
}

// Round loads every side anew, in random order, attaches them to pairs drawn at
// random, and has them take turns at the packets. It returns one sample a side,
// in the order of the sides. The kernel counts run times only meanwhile.
//
// Fewer runs than b.Veth.MinRuns are an error that says why.
func (m *Macro) Round(round int) (samples []MacroSample, err error) {
	err = m.s.do(func() error {
		samples, err = m.round(round)
		return err
	})
	return samples, err
}

func (m *Macro) round(round int) ([]MacroSample, error) {
	all := make([]*subject, len(m.sides)+1)
	defer func() {
		for _, t := range all {
			if t != nil {
				t.close()
			}
		}
	}()
	smallest := 0
	for _, i := range m.rng.Perm(len(all)) {
		if err := m.s.stopped(); err != nil {
			return nil, err
		}
		t, err := m.load(i)
		if err != nil {
			return nil, err
		}
		all[i] = t
		if t.load == nil {
			continue
		}
		if n := t.smallest(m.b.Drain); n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	if err := m.place(all); err != nil {
		return nil, err
	}
	stats, err := programs.EnableStats()
	if err != nil {
		return nil, err
	}
	defer stats.Close()
	shape := newShape(m.count, m.train.count, smallest)
	for _, i := range m.rng.Perm(len(all)) {
		if err := m.warm(all[i], shape); err != nil {
			return nil, err
		}
	}
	steal := m.s.steal()
	for _, n := range shape.readings {
		for _, i := range m.rng.Perm(len(all)) {
			if err := m.read(all[i], n, shape.burst); err != nil {
				return nil, err
			}
		}
	}
	steal = m.s.steal() - steal
	for _, t := range all {
		if _, err := t.meter.Agreed(); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		if t.total.Runs == 0 || t.total.Runs < uint64(m.least) {
			return nil, m.tooFew(t)
		}
	}
	samples := make([]MacroSample, len(m.sides))
	for i := range samples {
		t := all[i]
		s := bench.Sample{Round: round, Offset: t.load.offset(), Switches: t.switches, Steal: steal}
		samples[i] = MacroSample{Latency: s, Runs: s, RecursionMisses: s}
		samples[i].Latency.Value, samples[i].Latency.Floor = median(t.perNS), median(all[len(m.sides)].perNS)
		samples[i].Runs.Value = float64(t.total.Runs)
		samples[i].RecursionMisses.Value = float64(t.total.Misses)
		if t.total.Runs > uint64(t.sent) && !m.surplus {
			m.surplus = true
			m.Warnings = append(m.Warnings, fmt.Sprintf("%s ran %d times for %d packets: it sees its own output, or packets that nobody sent on purpose", t.name, t.total.Runs, t.sent))
		}
	}
	if round < insideRounds && len(m.events) > 0 {
		if err := m.inside(round, all, shape, samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// inside counts what the CPU does inside of each side's program, after all else that
// the round measures. Where that cannot be, it is told once, and not tried again.
func (m *Macro) inside(round int, all []*subject, shape shape, samples []MacroSample) error {
	for _, i := range m.rng.Perm(len(samples)) {
		t := all[i]
		c, err := countInside(t.prog, m.b.Program, m.events)
		if err != nil {
			m.Warnings = append(m.Warnings, fmt.Sprintf("nothing is counted inside of %s: %v", t.name, err))
			m.events = nil
			return nil
		}
		err = m.read(t, min(m.count, insidePackets), shape.burst)
		if err == nil {
			samples[i].Counters, err = c.samples(round, m.events)
		}
		c.close()
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// place attaches the subjects, in random order and to random pairs.
func (m *Macro) place(all []*subject) error {
	pairs := m.rng.Perm(len(m.pairs))
	for _, i := range m.rng.Perm(len(all)) {
		t, k := all[i], pairs[i]
		t.pair = m.pairs[k]
		if t.socket = t.pair.socket; m.mode == egress {
			t.socket = t.pair.own
		}
		if err := m.hooks[k].put(t.prog); err != nil {
			return fmt.Errorf("attach %s: %w", t.name, err)
		}
	}
	return nil
}

// Close detaches the programs and takes the veth pairs down.
func (m *Macro) Close() {
	_ = m.s.do(func() error {
		m.close()
		return nil
	})
}

func (m *Macro) close() {
	for _, h := range m.hooks {
		_ = h.close()
	}
	closePairs(m.pairs)
	m.hooks, m.pairs = nil, nil
	for _, maps := range m.kept {
		for _, k := range maps {
			k.Close()
		}
	}
}
