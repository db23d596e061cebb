//go:build linux

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// An insideCounter counts what the CPU does inside of one program, whoever runs it and
// wherever: a program at its entry reads the performance counters of that CPU, one at
// its exit adds what came since. It is what `bpftool prog profile` does.
//
// Both are a part of what they count, some ten instructions and a helper call for
// each event, the same for every program. They lengthen its runs, so that no time is
// to be taken meanwhile.
//
// It needs Linux 5.7, trampolines of this architecture, a target that was loaded with
// types, and CAP_PERFMON.
type insideCounter struct {
	events []perfEvent // in the order of values
	fds    []int
	maps   []*ebpf.Map // one perf event array an event
	start  *ebpf.Map   // per CPU: what stood at entry
	sum    *ebpf.Map   // per CPU: what came between
	progs  []*ebpf.Program
	links  []link.Link
}

// words of struct bpf_perf_event_value: counter, enabled, running.
const insideWords = 3

// countInside begins to count events in a program, by the name that its types give it.
// Events that a CPU has not, it leaves out.
func countInside(target *ebpf.Program, function string, events []perfEvent) (c *insideCounter, err error) {
	c = &insideCounter{}
	defer func() {
		if err != nil {
			c.close()
			c = nil
		}
	}()
	if err := c.open(events); err != nil {
		return c, err
	}
	size := uint32(8 * (insideWords*len(c.events) + 1))
	for _, m := range []**ebpf.Map{&c.start, &c.sum} {
		if *m, err = ebpf.NewMap(&ebpf.MapSpec{Name: "gate_inside", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: size, MaxEntries: 1}); err != nil {
			return c, fmt.Errorf("a map of counters: %w", err)
		}
	}
	for _, p := range []struct {
		attach ebpf.AttachType
		insns  asm.Instructions
	}{{ebpf.AttachTraceFEntry, c.atEntry()}, {ebpf.AttachTraceFExit, c.atExit()}} {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "gate_inside", Type: ebpf.Tracing, AttachType: p.attach, AttachTarget: target, AttachTo: function,
			License: "Dual BSD/GPL", Instructions: p.insns,
		})
		if err != nil {
			return c, explainLoad(ebpf.Tracing, err)
		}
		c.progs = append(c.progs, prog)
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		if err != nil {
			return c, fmt.Errorf("attach to %s: %w", function, err)
		}
		c.links = append(c.links, l)
	}
	return c, nil
}

// open opens the events on every CPU: as one group each, so that they are counted at
// the same times.
func (c *insideCounter) open(events []perfEvent) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for cpu := range cpus {
		groups, _, err := openGroups(events, func(e perfEvent, leader int) (int, error) { return openPerfOn(e, cpu, leader) })
		switch {
		case errors.Is(err, unix.ENODEV): // offline
			continue
		case err != nil:
			return fmt.Errorf("performance counters of CPU %d: %w", cpu, err)
		}
		var opened []perfEvent
		first := len(c.fds)
		for _, g := range groups {
			c.fds, opened = append(c.fds, g.fds...), append(opened, g.events...)
		}
		if c.events == nil {
			c.events = opened
			for range opened {
				m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "gate_events", Type: ebpf.PerfEventArray, KeySize: 4, ValueSize: 4, MaxEntries: uint32(cpus)})
				if err != nil {
					return fmt.Errorf("a map of events: %w", err)
				}
				c.maps = append(c.maps, m)
			}
		}
		if len(opened) != len(c.events) {
			return fmt.Errorf("CPU %d counts %d events, and others %d", cpu, len(opened), len(c.events))
		}
		for i, m := range c.maps {
			if err := m.Put(uint32(cpu), uint32(c.fds[first+i])); err != nil {
				return fmt.Errorf("event %s of CPU %d: %w", c.events[i].name, cpu, err)
			}
		}
	}
	if c.events == nil {
		return errors.New("no CPU is online")
	}
	return nil
}

// openPerfOn opens an event of everything that runs on a CPU.
func openPerfOn(e perfEvent, cpu, leader int) (int, error) {
	attr := unix.PerfEventAttr{Type: e.typ, Config: e.config, Size: perfEventAttrSize}
	return unix.PerfEventOpen(&attr, -1, cpu, leader, unix.PERF_FLAG_FD_CLOEXEC)
}

const insideKey = -4 // on the stack: the number 0

// lookupInside puts the address of a map's value into a register, or goes out.
func lookupInside(m *ebpf.Map, to asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, insideKey, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, insideKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(to, asm.R0),
	}
}

// readInside reads an event of this CPU to where R3 points.
func readInside(m *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.LoadImm(asm.R2, math.MaxUint32, asm.DWord), // BPF_F_CURRENT_CPU
		asm.Mov.Imm(asm.R4, 8*insideWords),
		asm.FnPerfEventReadValue.Call(),
	}
}

func outInside() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return()}
}

// atEntry keeps what stands. An event that cannot be read has all zeros.
func (c *insideCounter) atEntry() asm.Instructions {
	insns := lookupInside(c.start, asm.R6)
	for i, m := range c.maps {
		insns = append(insns, asm.Mov.Reg(asm.R3, asm.R6), asm.Add.Imm(asm.R3, int32(8*insideWords*i)))
		insns = append(insns, readInside(m)...)
	}
	return append(insns, outInside()...)
}

// atExit adds what came since the entry, the last event first: so none has the
// reading of those before it in it that it did not have at entry.
func (c *insideCounter) atExit() asm.Instructions {
	const value = insideKey - 4 - 8*insideWords // on the stack
	insns := append(lookupInside(c.start, asm.R6), lookupInside(c.sum, asm.R7)...)
	for i := len(c.maps) - 1; i >= 0; i-- {
		at, next := int16(8*insideWords*i), fmt.Sprint("next", i)
		insns = append(insns, asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, value))
		insns = append(insns, readInside(c.maps[i])...)
		insns = append(insns,
			asm.JNE.Imm(asm.R0, 0, next),
			asm.LoadMem(asm.R1, asm.R6, at+8, asm.DWord),
			asm.JEq.Imm(asm.R1, 0, next), // not read at entry
		)
		for w := range int16(insideWords) {
			insns = append(insns,
				asm.LoadMem(asm.R1, asm.RFP, value+8*w, asm.DWord),
				asm.LoadMem(asm.R2, asm.R6, at+8*w, asm.DWord),
				asm.Sub.Reg(asm.R1, asm.R2),
				asm.LoadMem(asm.R2, asm.R7, at+8*w, asm.DWord),
				asm.Add.Reg(asm.R2, asm.R1),
				asm.StoreMem(asm.R7, at+8*w, asm.R2, asm.DWord),
			)
		}
		insns = append(insns, asm.Mov.Reg(asm.R0, asm.R0).WithSymbol(next))
	}
	runs := int16(8 * insideWords * len(c.maps))
	insns = append(insns,
		asm.LoadMem(asm.R1, asm.R7, runs, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R7, runs, asm.R1, asm.DWord),
	)
	return append(insns, outInside()...)
}

// read returns what each event counted of one run, on average over so many runs, and
// the least share of the time for which any was counted: values are scaled up to all
// of it. They are nil where nothing was counted.
func (c *insideCounter) read() (perRun []float64, share float64, runs uint64, err error) {
	var perCPU [][]byte
	if err := c.sum.Lookup(uint32(0), &perCPU); err != nil {
		return nil, 0, 0, fmt.Errorf("read counters: %w", err)
	}
	total := make([]uint64, insideWords*len(c.events)+1)
	for _, b := range perCPU {
		if len(b) != 8*len(total) {
			return nil, 0, 0, fmt.Errorf("read counters: %d bytes, expected %d", len(b), 8*len(total))
		}
		for i := range total {
			total[i] += binary.NativeEndian.Uint64(b[8*i:])
		}
	}
	runs = total[len(total)-1]
	if runs == 0 {
		return nil, 0, 0, nil
	}
	share = 1
	for i := range c.events {
		w := total[insideWords*i:]
		values, s := perfReading{enabled: w[1], running: w[2], values: w[:1]}.since(perfReading{values: make([]uint64, 1)})
		if s == 0 {
			return nil, 0, runs, nil
		}
		perRun, share = append(perRun, values[0]/float64(runs)), min(share, s)
	}
	return perRun, share, runs, nil
}

// samples are what was counted of one run, in the order of the events that were
// asked for; nil where nothing was.
func (c *insideCounter) samples(round int, events []perfEvent) ([]bench.Sample, error) {
	perRun, share, _, err := c.read()
	if err != nil || perRun == nil {
		return nil, err
	}
	if share == 1 {
		share = 0 // what [bench.Sample] says of all of the time
	}
	out := make([]bench.Sample, len(events))
	for i, e := range events {
		out[i] = bench.Sample{Round: -1}
		if at := slices.Index(c.events, e); at >= 0 {
			out[i] = bench.Sample{Round: round, Value: perRun[at], Offset: -1, Counted: share}
		}
	}
	return out, nil
}

func (c *insideCounter) close() {
	for _, l := range c.links {
		_ = l.Close()
	}
	for _, p := range c.progs {
		p.Close()
	}
	for _, m := range append(c.maps, c.start, c.sum) {
		m.Close()
	}
	for _, fd := range c.fds {
		_ = unix.Close(fd)
	}
}
