//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// KernelInsns is how many instructions the CPU executes for a run of each side:
// those of the program as the JIT made it, of the helpers and kfuncs that it calls,
// and of what puts the packet back, calls the program and counts the runs.
//
// They are read off the clock, so that they only mean this where the clock advances
// by one nanosecond with every instruction, as in the machine of package vm. See
// [Session.CountsInstructions].
type KernelInsns struct {
	Sides []SideKernelInsns // in the order of the sides
	// Noise is why the numbers of the same program differ; empty: they are exact.
	Noise string
}

// A SideKernelInsns is what the CPU executes for one side.
type SideKernelInsns struct {
	Name string
	// Mean is the executed instructions of one run, on average over the packets.
	Mean float64
	// Floor is the same of the empty program.
	Floor float64
	// Offset is where the machine code starts within its 64-byte line, or -1.
	Offset int
}

const (
	// Loads and runs that have to agree.
	kernelLoads = 2
	kernelRuns  = 2
	// chunk is how many runs a reading has, as far as the number of packets allows:
	// the tick of a kernel's timer falls into few readings so short.
	chunk = 32
	// A reading counts when its number came twice, of at most so many passes.
	kernelPasses = 12
	// kernelSettle is some grace periods of RCU.
	kernelSettle = 100 * time.Millisecond
)

// KernelInsns counts what the CPU executes for each side. Every side is loaded
// twice, maps included and with fixed hash seeds, prepared as for timing, and read
// twice.
func (m *Micro) KernelInsns() (out *KernelInsns, err error) {
	err = m.s.do(func() error {
		return m.tolerating(func() error {
			out, err = m.kernelInsns()
			return err
		})
	})
	return out, err
}

func (m *Micro) kernelInsns() (*KernelInsns, error) {
	defer m.s.hurry()()
	c := m.seedlessTwin()
	out := &KernelInsns{Sides: make([]SideKernelInsns, len(c.sides))}
	var seen [][]float64 // by side
	for range c.sides {
		seen = append(seen, nil)
	}
	for range kernelLoads {
		got, err := c.kernelLoad(kernelRuns, true)
		if err != nil {
			return nil, err
		}
		for i := range got {
			out.Sides[i] = got[i].SideKernelInsns
			seen[i] = append(seen[i], got[i].means...)
		}
	}
	for i, means := range seen {
		if slices.Min(means) == slices.Max(means) {
			continue
		}
		out.Noise = fmt.Sprintf("%s: two runs of two loads of the same took %s instructions%s", c.sides[i].Name, listed(means), m.whimsical(i))
		break
	}
	return out, nil
}

// KernelInsnsRound counts what the CPU executes in one fresh load of the first
// sides, on average over one pass: a sample of a program that does not always do
// the same.
func (m *Micro) KernelInsnsRound(sides int) (out []SideKernelInsns, err error) {
	err = m.s.do(func() error {
		return m.tolerating(func() error {
			defer m.s.hurry()()
			c := m.seedlessTwin()
			c.sides = c.sides[:sides]
			got, err := c.kernelLoad(1, false)
			out = out[:0]
			for i := range got {
				out = append(out, got[i].SideKernelInsns)
			}
			return err
		})
	})
	return out, err
}

// seedlessTwin is the benchmark with programs whose hash maps have fixed seeds, and
// nothing that is kept from one load to the next.
func (m *Micro) seedlessTwin() *Micro {
	c := *m
	c.pads, c.kept = nil, make([]map[string]*ebpf.Map, len(m.sides))
	c.sides = slices.Clone(m.sides)
	for i := range c.sides {
		c.sides[i].Object = c.sides[i].Object.seedless()
	}
	return &c
}

// seedless is the object with fixed hash seeds.
func (o *Object) seedless() *Object {
	spec := *o.spec
	spec.Maps = maps.Clone(o.spec.Maps)
	for name := range spec.Maps {
		spec.Maps[name] = seedless(spec.Maps[name])
	}
	out := *o
	out.spec = &spec
	return &out
}

type kernelCount struct {
	SideKernelInsns
	means []float64 // of each run
}

// kernelLoad loads every side, and the empty program, and reads each so many times.
// Confirmed readings are the smallest ones: an interrupt only adds to them.
func (m *Micro) kernelLoad(runs int, confirmed bool) ([]kernelCount, error) {
	defer m.forget()
	targets := make([]*target, len(m.sides)+1)
	defer func() { m.remove(targets) }()
	var err error
	for i := range m.sides {
		if targets[i], err = m.load(i); err != nil {
			return nil, err
		}
	}
	floor := len(m.sides)
	if targets[floor], err = m.empty(); err != nil {
		return nil, err
	}
	if err := m.seat(targets); err != nil {
		return nil, err
	}
	// The kernel goes on with what the loads left to it (such as what it frees after a
	// grace period) when a test run ends: behind 220,000 verified instructions, every
	// call took up to a fifth more for longer than all passes. It is done while the session
	// sleeps, which is short where the clock jumps over idle time.
	time.Sleep(kernelSettle)
	means := make([][]float64, len(targets))
	for i, t := range targets {
		m.arm(t, 0)
		if err := m.kernelWarm(t); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		for range runs {
			if err := m.s.stopped(); err != nil {
				return nil, err
			}
			mean, err := m.kernelRead(t, confirmed)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			means[i] = append(means[i], mean)
		}
	}
	out := make([]kernelCount, floor)
	for i := range out {
		out[i] = kernelCount{SideKernelInsns{m.sides[i].Name, means[i][0], slices.Min(means[floor]), targets[i].load.offset()}, means[i]}
	}
	return out, nil
}

func (m *Micro) kernelWarm(t *target) error {
	for range m.b.Warm {
		for _, s := range t.shots {
			if err := m.pass(t, s); err != nil {
				return err
			}
		}
	}
	for _, r := range m.kernelReadings(t) {
		if _, err := m.kernelReading(t, r); err != nil {
			return err
		}
	}
	return nil
}

// A kernelShot is a few packets and how many runs they are for: whole passes over
// them. Its reading is the difference of two system calls, of so many runs and of
// twice as many, so that what a call itself takes is no part of it.
type kernelShot struct {
	shot
	repeat int
}

// kernelReadings splits the packets into readings of about chunk runs.
func (m *Micro) kernelReadings(t *target) []kernelShot {
	var out []kernelShot
	for _, s := range t.shots {
		for first := s.first; ; first += chunk {
			part := s
			part.first, part.end = first, min(first+chunk, s.end)
			repeat := part.runs()
			if len(t.shots) == 1 && s.runs() < chunk {
				repeat *= chunk / repeat
			}
			out = append(out, kernelShot{part, repeat})
			if first+chunk >= s.end {
				break
			}
		}
	}
	return out
}

// A smallest keeps the smallest of some numbers, and how often it came.
type smallest struct {
	ns    float64
	times int
}

func (s *smallest) add(ns float64) {
	switch {
	case s.times == 0 || ns < s.ns:
		*s = smallest{ns, 1}
	case ns == s.ns:
		s.times++
	}
}

// kernelRead reads the instructions of one run, on average over all packets. A pass
// goes over all of them, so that maps see what they see under load.
func (m *Micro) kernelRead(t *target, confirmed bool) (float64, error) {
	readings := m.kernelReadings(t)
	once, twice := make([]smallest, len(readings)), make([]smallest, len(readings))
	for range kernelPasses {
		open := false
		for i, r := range readings {
			ns, err := m.kernelReading(t, r)
			if err != nil {
				return 0, err
			}
			once[i].add(ns)
			if m.Path == "single" { // each run is a call
				open = open || once[i].times < 2
				continue
			}
			r.repeat *= 2
			if ns, err = m.kernelReading(t, r); err != nil {
				return 0, err
			}
			twice[i].add(ns)
			open = open || once[i].times < 2 || twice[i].times < 2
		}
		if !confirmed || !open {
			break
		}
	}
	sum, runs := 0.0, 0
	for i, r := range readings {
		runs += r.repeat
		if m.Path == "single" {
			sum += once[i].ns
		} else {
			sum += twice[i].ns - once[i].ns
		}
	}
	return sum / float64(runs), nil
}

func (m *Micro) kernelReading(t *target, r kernelShot) (ns float64, err error) {
	_, err = again(func() error {
		for _, d := range t.drain {
			if err := d.empty(nil); err != nil {
				return fmt.Errorf("drain: %w", err)
			}
		}
		var answer uint32
		if answer, ns, err = m.fire(t, r.shot, r.first, r.repeat); err != nil || t.side < 0 {
			return err
		}
		last := r.first + r.runs() - 1
		if want := m.answers[t.side][last]; answer != want && !m.chance[t.side] {
			return m.changedAnswer(t, last, r.repeat, want, answer)
		}
		return nil
	})
	return ns, err
}

// whimsical names the helpers and kfuncs of a side whose answer is not a function of
// the input, and the maps that forget by themselves.
func (m *Micro) whimsical(side int) string {
	reachable, err := m.sides[side].Object.prune(m.b.Program)
	if err != nil {
		return ""
	}
	names := map[string]bool{}
	for _, p := range reachable.Programs {
		for i := range p.Instructions {
			if ins := &p.Instructions[i]; varies(ins) {
				names[callName(ins)] = true
			}
		}
	}
	for name, spec := range reachable.Maps {
		if spec.Type == ebpf.LRUHash || spec.Type == ebpf.LRUCPUHash {
			names["the LRU map "+name] = true
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; it uses " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

func listed(numbers []float64) string {
	var s []string
	for _, n := range numbers {
		s = append(s, fmt.Sprintf("%.7g", n))
	}
	return strings.Join(s, ", ")
}

// errNotCounting is that the clock does not count instructions.
var errNotCounting = errors.New("this clock does not count instructions")

// CountsInstructions checks that the clock is what [KernelInsns] takes it for: a
// thousand instructions more in a program are a thousand nanoseconds more, exactly.
func (s *Session) CountsInstructions() error {
	return s.do(func() error {
		defer s.hurry()()
		const more = 1000
		short, err := countdown(0)
		if err != nil {
			return err
		}
		long, err := countdown(more)
		if err != nil {
			return err
		}
		if got := long - short; got != more {
			return fmt.Errorf("%w: %d instructions more took %g ns", errNotCounting, more, got)
		}
		return nil
	})
}

// countdown is the time of one run of a program with n additions, in ns, as a reading
// of [Micro.kernelRead] has it: the difference of two calls, each the smallest time that
// came twice.
func countdown(n int) (float64, error) {
	insns := asm.Instructions{asm.Mov.Imm(asm.R0, 0)}
	for range n {
		insns = append(insns, asm.Add.Imm(asm.R0, 1))
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "gate_count", Type: ebpf.SocketFilter, License: "Dual BSD/GPL", Instructions: append(insns, asm.Return())})
	if err != nil {
		return 0, fmt.Errorf("load a program that counts: %w", err)
	}
	defer p.Close()
	run := newTestRun(p.FD(), make([]byte, 64), nil, 0)
	var once, twice smallest
	for range kernelPasses {
		for _, r := range []struct {
			runs int
			to   *smallest
		}{{chunk, &once}, {2 * chunk, &twice}} {
			var ns float64
			if _, err := again(func() error {
				_, d, err := run.call(r.runs)
				ns = float64(d)
				return err
			}); err != nil {
				return 0, err
			}
			r.to.add(ns)
		}
		if once.times > 1 && twice.times > 1 {
			break
		}
	}
	return (twice.ns - once.ns) / chunk, nil
}
