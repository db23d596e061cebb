//go:build linux

package bpf

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// A Side is one revision's program in a benchmark.
type Side struct {
	Name   string // "base", "head"
	Object *Object
}

// Readings is how many readings of a side stand behind one sample of [Micro.Round].
const Readings = readings

// A Micro is a benchmark that is driven by BPF_PROG_TEST_RUN.
type Micro struct {
	// Path is how the program is driven: "driver", "attached", "repeat", or
	// "single" (one system call a run).
	Path string
	// Answer is what the program returns, over all packets.
	Answer string
	// Warnings tell what to doubt: base and head differ in what they do.
	Warnings []string

	s       *Session
	b       bench.Benchmark
	sides   []Side
	typ     ebpf.ProgramType
	rng     *rand.Rand
	packets [][]byte
	groups  []span
	driver  *driver
	first   int          // of the packets in the driver
	pads    *attachments // of this round's targets, without a driver
	answers [][]uint32   // by side, by packet
	chance  []bool       // by side: its answers are not a function of the packet
	kept    []map[string]*ebpf.Map
	placers []placer // by side
	phases  []int    // of the rounds to come
	counted []*instrumented
	// counters of the CPU in the last round, see Counters.
	counters [][]bench.Sample
}

// A span is packets that one call may rotate through.
type span struct{ first, end int }

// Micro prepares a benchmark: it chooses how to drive the program, runs every
// packet once on every side, checks the answers against what the benchmark
// expects, and compares the sides. Close it.
//
// It fails where the kernel cannot test-run the type, the program does not load,
// or its answer is not the expected one.
func (s *Session) Micro(b bench.Benchmark, sides ...Side) (m *Micro, err error) {
	err = s.do(func() error {
		m, err = s.newMicro(b, sides)
		return err
	})
	return m, err
}

func (s *Session) newMicro(b bench.Benchmark, sides []Side) (*Micro, error) {
	m := &Micro{s: s, b: b, sides: sides, rng: s.rng(b.Name), kept: make([]map[string]*ebpf.Map, len(sides)), placers: make([]placer, len(sides)), chance: make([]bool, len(sides))}
	if b.Repeat == 0 {
		m.b.Repeat = bench.DefaultRepeat
	}
	spec := sides[0].Object.spec.Programs[b.Program]
	if spec == nil {
		return nil, fmt.Errorf("no program %q in %s", b.Program, sides[0].Object.Path)
	}
	for _, side := range sides[1:] {
		o := side.Object.spec.Programs[b.Program]
		if o == nil {
			return nil, fmt.Errorf("no program %q in %s", b.Program, side.Object.Path)
		}
		if o.Type != spec.Type {
			return nil, fmt.Errorf("%s is of type %s in %s and %s in %s: they cannot be compared", b.Program, programs.TypeName(spec.Type), sides[0].Name, programs.TypeName(o.Type), side.Name)
		}
	}
	m.typ = spec.Type
	if err := m.choosePath(spec); err != nil {
		m.close()
		return nil, err
	}
	if err := m.verify(); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// choosePath decides how the program is driven.
func (m *Micro) choosePath(spec *ebpf.ProgramSpec) error {
	if err := testRunnable(spec); err != nil {
		return err
	}
	m.packets = m.b.Packets
	switch m.typ {
	case ebpf.RawTracepoint, ebpf.Syscall:
		m.Path, m.packets = "single", nil
		m.groups = []span{{}}
		m.Warnings = append(m.Warnings, "the kernel runs this type once a system call: about 1 µs of each run is the call, so changes of less than some 20 ns cannot be seen")
		if m.b.Context == nil {
			m.b.Context = make([]byte, 12*8) // MAX_BPF_FUNC_ARGS arguments, all 0
		}
		return nil
	case ebpf.SkLookup:
		m.packets = nil
		if m.b.Context == nil {
			m.b.Context = defaultLookup()
		}
	}
	if m.typ == ebpf.SocketFilter || m.typ == ebpf.CGroupSKB {
		m.Warnings = m.canary()
	}
	m.packets = slices.Clone(m.packets)
	for i, p := range m.packets {
		if m.typ == ebpf.XDP && len(p) > maxXDP {
			return fmt.Errorf("packet %d has %d bytes: an XDP test run takes at most %d", i, len(p), maxXDP)
		}
	}
	if !m.b.KeepPacket && tailCallable(m.typ) {
		if m.typ == ebpf.SchedCLS || m.typ == ebpf.SchedACT {
			// skb->protocol is set from the first packet of a call, so that only
			// packets of one EtherType may follow each other.
			slices.SortStableFunc(m.packets, func(a, b []byte) int { return etherType(a) - etherType(b) })
		}
		err := m.drive(spec)
		if err == nil {
			m.Path, m.groups = "driver", m.group(restores(m.typ))
			return nil
		}
		m.Warnings = append(m.Warnings, fmt.Sprintf("not driven by the tail-calling driver (%v)", err))
	}
	m.groups = m.group(false)
	m.Path = "repeat"
	if m.typ == ebpf.XDP {
		m.Path = "attached"
	}
	return nil
}

// maxXDP is a page less headroom (256) and struct skb_shared_info (320).
const maxXDP = 4096 - 256 - 320

// group splits the packets into spans that one call may rotate through.
func (m *Micro) group(rotates bool) []span {
	n := len(m.packets)
	switch {
	case n == 0:
		return []span{{}}
	case rotates && m.typ == ebpf.XDP:
		return []span{{0, n}}
	}
	var out []span
	for i := range n {
		if rotates && i > 0 && etherType(m.packets[i]) == etherType(m.packets[i-1]) {
			out[len(out)-1].end = i + 1
			continue
		}
		out = append(out, span{i, i + 1})
	}
	return out
}

func etherType(p []byte) int {
	if len(p) < 14 {
		return 0
	}
	return int(p[12])<<8 | int(p[13])
}

// drive takes the session's driver for such programs, if every side may be
// tail-called from it.
func (m *Micro) drive(spec *ebpf.ProgramSpec) error {
	d, err := m.s.driver(driverKindOf(spec, m.packets), len(m.packets))
	if err != nil {
		return err
	}
	for i, side := range m.sides {
		if slices.ContainsFunc(m.sides[:i], func(o Side) bool { return o.Object.spec == side.Object.spec }) {
			continue // the same program once more
		}
		l, err := side.Object.Load(m.b.Program, LoadOptions{Cache: m.s.cache})
		if err != nil {
			break // told by verify, with the side's name
		}
		err = d.slots.Put(uint32(0), l.Program)
		l.Close()
		if err != nil {
			return fmt.Errorf("%s may not be tail-called: %w", side.Name, err)
		}
		if err := d.slots.Delete(uint32(0)); err != nil {
			return err
		}
	}
	if m.first, err = d.add(m.packets); err != nil {
		return err
	}
	m.driver = d
	return nil
}

// Close ends the benchmark.
func (m *Micro) Close() {
	_ = m.s.do(func() error {
		m.close()
		return nil
	})
}

func (m *Micro) close() {
	if m.pads != nil {
		m.pads.close()
	}
	for _, maps := range m.kept {
		for _, k := range maps {
			k.Close()
		}
	}
}
