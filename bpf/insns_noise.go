//go:build linux

package bpf

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/org/ebpf-bench-gate/bench"
)

// InsnsRound counts what the first sides do in one fresh load each with counters: one
// reading like those of [Micro.Round], of about as many runs, whose mean it
// returns by measure, in the order of the sides. It is for programs that do not do
// the same each time: one load is one sample of them. [Micro.Insns] comes first.
func (m *Micro) InsnsRound(round, sides int) (means []map[string]float64, err error) {
	err = m.s.do(func() error {
		return m.tolerating(func() error {
			means, err = m.insnsRound(round, sides)
			return err
		})
	})
	return means, err
}

func (m *Micro) insnsRound(round, sides int) ([]map[string]float64, error) {
	c := *m
	c.rng, c.pads = m.s.rng(fmt.Sprintf("%s insns %d", m.b.Name, round)), nil
	c.sides = slices.Clone(m.sides)
	c.kept = make([]map[string]*ebpf.Map, len(m.sides))
	defer c.forget()
	means := make([]map[string]float64, sides)
	for _, i := range c.rng.Perm(sides) {
		if err := m.s.stopped(); err != nil {
			return nil, err
		}
		in := m.counted[i]
		c.sides[i].Object = in.Object
		var err error
		if means[i], err = c.countReading(i, in, round); err != nil {
			return nil, fmt.Errorf("%s with counters: %w", m.sides[i].Name, err)
		}
	}
	return means, nil
}

// countReading loads a side with counters and takes one reading.
func (m *Micro) countReading(side int, in *instrumented, round int) (map[string]float64, error) {
	t, err := m.load(side)
	if err != nil {
		return nil, in.rejection(err)
	}
	targets := []*target{t}
	defer func() { m.remove(targets) }()
	if t.counters, err = in.count(t.load); err != nil {
		return nil, err
	}
	if err := m.seat(targets); err != nil {
		return nil, err
	}
	m.arm(t, 0)
	if err := m.warm(t); err != nil {
		return nil, err
	}
	var r reading
	_, err = again(func() error {
		t.counters.reset()
		t.counters.start()
		r, err = m.readOnce(t, round)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.counters.stop(0)
	pass := t.counters.pass
	means := map[string]float64{bench.Insns: float64(pass.total()) / float64(r.runs)}
	for _, n := range in.counts(in.foreground(pass.blocks), float64(r.runs)) {
		means[n.Measure] = n.Mean
	}
	return means, nil
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

// varyingKfuncs are the kfuncs of that kind.
var varyingKfuncs = map[string]bool{
	"bpf_cpumask_any_distribute": true, "bpf_cpumask_any_and_distribute": true,
	"bpf_xdp_metadata_rx_timestamp": true, "bpf_xdp_metadata_rx_hash": true,
	"bpf_task_from_pid": true, "bpf_task_from_vpid": true, "bpf_iter_task_new": true, "bpf_iter_css_new": true,
}

func varies(ins *asm.Instruction) bool {
	return ins.IsBuiltinCall() && varying[asm.BuiltinFunc(ins.Constant)] || ins.IsKfuncCall() && varyingKfuncs[ins.Reference()]
}

// suspects names what makes a program's runs differ. a and b are the executions of
// the blocks in two runs that did; where they are the same, or do not tell, it is
// every such helper that was called.
func (in *instrumented) suspects(a, b []uint64) string {
	names := map[string]bool{}
	same := slices.Equal(a, b)
	for _, p := range in.programs {
		for _, name := range p.culprits(a[p.first:], b[p.first:], same) {
			names[name] = true
		}
	}
	if len(names) == 0 {
		in.anyVarying(a, names)
	}
	if len(names) == 0 {
		return ""
	}
	return "; it uses " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// anyVarying names the helpers that were called and do not always answer the same,
// and maps that forget by themselves.
func (in *instrumented) anyVarying(blocks []uint64, names map[string]bool) {
	for _, p := range in.programs {
		for b, bl := range p.flow.blocks {
			for i := bl.start; i < bl.end; i++ {
				ins := &p.flow.insns[i]
				if varies(ins) && blocks[p.first+b] > 0 {
					names[p.flow.callAt(i)] = true
				}
				if m := in.spec.Maps[ins.Reference()]; m != nil && ins.IsLoadFromMap() && (m.Type == ebpf.LRUHash || m.Type == ebpf.LRUCPUHash) {
					names["the LRU map "+m.Name] = true
				}
			}
		}
	}
}

// callAt is the name of the call at an instruction, and its line where that is known.
func (f *flow) callAt(i int) string {
	name := callName(&f.insns[i])
	for fn := f.functionOf(i); i >= fn.start; i-- {
		if l := lineOf(&f.insns[i]); l != nil {
			return fmt.Sprintf("%s (%s:%d)", name, path.Base(l.FileName()), l.LineNumber())
		}
	}
	return name
}

// A taint says which varying calls, by their bits, what a register or a slot of the
// stack holds depends on.
type taint struct {
	registers [10]uint64
	slots     [maxStack / 8]uint64
}

// culprits finds the varying calls that decide the branches at which two runs
// parted: those that what the branch compares was computed from, in registers and
// spilled ones. What went through a map or another program is not followed. Where
// all blocks ran as often in both, by chance, though not for the same packets, any
// branch that went both ways may be one.
func (p counted) culprits(a, b []uint64, same bool) []string {
	f := p.flow
	bit := map[int]uint64{} // by instruction
	inside := make([]uint64, len(f.functions))
	for i := range f.insns {
		if varies(&f.insns[i]) && len(bit) < 64 {
			bit[i] = 1 << len(bit)
			inside[f.functionIndex(i)] |= bit[i]
		}
	}
	if len(bit) == 0 {
		return nil
	}
	f.throughCalls(inside)
	join := func(x, y taint) taint {
		for r := range x.registers {
			x.registers[r] |= y.registers[r]
		}
		for s := range x.slots {
			x.slots[s] |= y.slots[s]
		}
		return x
	}
	step := func(t taint, i int) taint { return f.spread(t, i, bit[i], inside) }
	before := forward(f, join, step)
	parted := func(blk int) bool {
		next := f.successors(blk)
		if same {
			return !slices.ContainsFunc(next, func(to int) bool { return f.of[to] < len(f.blocks) && a[f.of[to]] == 0 })
		}
		return slices.ContainsFunc(next, func(to int) bool { return f.of[to] < len(f.blocks) && a[f.of[to]] != b[f.of[to]] })
	}
	var found uint64
	for blk, bl := range f.blocks {
		parts := conditional(f.insns[bl.end-1].OpCode) && parted(blk)
		t := before[blk]
		for i := bl.start; i < bl.end; i++ {
			ins := &f.insns[i]
			switch {
			case ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnLoop:
				found |= t.registers[asm.R1] // how often it calls back
			case i == bl.end-1 && parts:
				use, _ := effects(ins)
				for _, r := range use.list() {
					found |= t.registers[r]
				}
			}
			t = step(t, i)
		}
	}
	var names []string
	for i, mask := range bit {
		if found&mask != 0 {
			names = append(names, f.callAt(i))
		}
	}
	return names
}

// throughCalls adds to the calls inside of each function those of what it calls.
func (f *flow) throughCalls(inside []uint64) {
	for changed := true; changed; {
		changed = false
		for i := range f.insns {
			if !f.insns[i].IsFunctionReference() {
				continue
			}
			from, to := f.functionIndex(i), f.functionIndex(f.symbols[f.insns[i].Reference()])
			if n := inside[from] | inside[to]; n != inside[from] {
				inside[from], changed = n, true
			}
		}
	}
}

// spread is how an instruction spreads taint. A call's answer depends on its
// arguments; calls of the program's own functions on what they call, too.
func (f *flow) spread(t taint, i int, own uint64, inside []uint64) taint {
	ins := &f.insns[i]
	use, def := effects(ins)
	var mask uint64
	for _, r := range use.list() {
		mask |= t.registers[r]
	}
	op := ins.OpCode
	slot := func() (int, bool) { // of an access by the frame pointer
		n := -int(ins.Offset)
		return (n - 1) / 8, n > 0 && n <= maxStack
	}
	switch class := op.Class(); {
	case op.JumpOp() == asm.Call:
		mask |= own
		if ins.IsFunctionCall() {
			mask |= inside[f.functionIndex(f.symbols[ins.Reference()])]
		}
	case class == asm.LdXClass && ins.Src == asm.RFP:
		if s, ok := slot(); ok {
			mask = t.slots[s]
		}
	case (class == asm.StXClass || class == asm.StClass) && ins.Dst == asm.RFP:
		if s, ok := slot(); ok {
			t.slots[s] = mask
		}
	}
	for _, r := range def.list() {
		t.registers[r] = 0
		if op.JumpOp() != asm.Call || r == asm.R0 {
			t.registers[r] = mask
		}
	}
	return t
}
