//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// counterMap is the map that counters live in: one array element, whose address
// the verifier knows, so that a counter costs no lookup.
const counterMap = "gate_insns"

// An instrumented object counts how often each basic block of one program, and
// of those that it can tail-call, is executed.
type instrumented struct {
	*Object
	// plain is the same without counters: what it does is what the other must do.
	plain    *Object
	programs []counted // the entry program first
	counters int
	maps     int // that it uses at most, counters included
}

// A counted program has one counter a block, from first on.
type counted struct {
	name  string
	flow  *flow
	first int
	// events of its calls, and the blocks that run by themselves.
	events     []event
	background []bool
}

// errNoStack is that a block has no register to spare and the stack no room.
var errNoStack = errors.New("no register is free and the stack is full")

// instrument rewrites a program, and every program that it can tail-call, before
// CO-RE relocation. Hash maps get a fixed seed, so that what iterates over them
// does so in the same order in every load.
func (o *Object) instrument(program string) (*instrumented, error) {
	if o.loaders[program] != nil {
		return nil, errors.New("its own loader loads it")
	}
	reachable, err := o.prune(program)
	if err != nil {
		return nil, err
	}
	spec := *o.spec
	spec.Maps = maps.Clone(o.spec.Maps)
	for name := range reachable.Maps {
		spec.Maps[name] = seedless(spec.Maps[name])
	}
	plain := spec
	spec.Maps = maps.Clone(spec.Maps)
	in := &instrumented{
		Object: &Object{Path: o.Path, spec: &spec, programs: o.programs, quiet: true},
		plain:  &Object{Path: o.Path, spec: &plain, programs: o.programs},
		maps:   len(reachable.Maps) + 1,
	}
	spec.Programs = maps.Clone(o.spec.Programs)
	names := slices.Sorted(maps.Keys(reachable.Programs))
	names = append([]string{program}, slices.DeleteFunc(names, func(n string) bool { return n == program })...)
	for _, name := range names {
		p := o.spec.Programs[name].Copy()
		f, err := newFlow(p.Instructions)
		if err == nil {
			p.Instructions, err = f.rewrite(in.counters)
		}
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
		spec.Programs[name] = p
		in.programs = append(in.programs, counted{name, f, in.counters, f.events(spec.Maps), f.background(spec.Maps)})
		in.counters += len(f.blocks)
	}
	spec.Maps[counterMap] = &ebpf.MapSpec{
		Name: counterMap, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(8 * in.counters), MaxEntries: 1,
		Flags: unix.BPF_F_MMAPABLE, // Linux 5.5, fc9702273e2e
	}
	return in, nil
}

// seedless is the map with the hash seed 0 (Linux 5.0, 96b3b6c9091d), as are
// the maps inside it.
func seedless(m *ebpf.MapSpec) *ebpf.MapSpec {
	m = m.Copy()
	switch m.Type {
	case ebpf.Hash, ebpf.PerCPUHash, ebpf.LRUHash, ebpf.LRUCPUHash, ebpf.HashOfMaps:
		m.Flags |= unix.BPF_F_ZERO_SEED
	}
	if m.InnerMap != nil {
		m.InnerMap = seedless(m.InnerMap)
	}
	return m
}

// rewrite puts a counter into every block; their numbers begin with first.
func (f *flow) rewrite(first int) (asm.Instructions, error) {
	w := &writer{flow: f, before: make([]asm.Instructions, len(f.insns)), long: make([]bool, len(f.insns))}
	for b, bl := range f.blocks {
		at, code, err := f.counter(bl, first+b)
		if err != nil {
			return nil, fmt.Errorf("instruction %d: %w", bl.start, err)
		}
		w.before[at] = code
	}
	w.layOut()
	return w.write()
}

// counter is the code that counts a block, and the instruction of it before
// which it stands: the first one where two registers hold nothing that is read
// any more. Only a block without such a place keeps registers on the stack.
func (f *flow) counter(bl block, number int) (at int, code asm.Instructions, err error) {
	count := func(a, b asm.Register) asm.Instructions {
		address := asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: a, Src: asm.PseudoMapValue, Constant: int64(8*number) << 32}
		return asm.Instructions{
			address.WithReference(counterMap),
			asm.Mov.Imm(b, 1),
			asm.AddAtomic.Mem(a, b, asm.DWord, 0),
		}
	}
	// The place with the most registers to spare, if none has two.
	most := -1
	for i := bl.start; i < bl.end; i++ {
		if i > bl.start && f.joined(i) {
			continue
		}
		free := f.free(i)
		if rs := free.list(); len(rs) >= 2 {
			return i, count(rs[0], rs[1]), nil
		}
		if n := 4*free.len() + (f.known(i) &^ free).len(); n > most {
			at, most = i, n
		}
	}
	free := f.free(at)
	known := f.known(at)
	rs := free.list()
	kept := append((known &^ free).list(), (allRegisters &^ known &^ free).list()...)[:2-len(rs)]
	rs = append(rs, kept...)
	const word = 8
	depth := (f.functionOf(at).depth + word - 1) &^ (word - 1)
	if depth+word*len(kept) > maxStack {
		return 0, nil, errNoStack
	}
	for i, r := range kept {
		code = append(code, asm.StoreMem(asm.RFP, -int16(depth+word*(i+1)), r, asm.DWord))
	}
	code = append(code, count(rs[0], rs[1])...)
	for i, r := range kept {
		code = append(code, asm.LoadMem(r, asm.RFP, -int16(depth+word*(i+1)), asm.DWord))
	}
	return at, code, nil
}

// list is the registers of a set, those first that calls overwrite anyway.
func (s registers) list() []asm.Register {
	var rs []asm.Register
	for r := asm.R0; r <= asm.R9; r++ {
		if s.has(r) {
			rs = append(rs, r)
		}
	}
	return rs
}

// known are the registers that the verifier takes for initialised, so that they
// can be stored: those that were written on every way, and those that the next
// instruction reads. What a call reads is not known so exactly.
func (f *flow) known(i int) registers {
	if f.insns[i].OpCode.JumpOp() == asm.Call {
		return f.must[i]
	}
	use, _ := effects(&f.insns[i])
	return f.must[i] | use
}

// joined tells that an instruction and the one before it may be part of a
// pattern that the verifier recognises only where nothing stands in between: a
// call, with the stores and loads around it that keep registers on the stack.
func (f *flow) joined(i int) bool {
	stack := func(ins *asm.Instruction) bool {
		switch ins.OpCode.Class() {
		case asm.LdXClass:
			return ins.Src == asm.RFP
		case asm.StXClass:
			return ins.Dst == asm.RFP
		}
		return ins.OpCode.JumpOp() == asm.Call
	}
	return stack(&f.insns[i-1]) && stack(&f.insns[i])
}

func (f *flow) functionOf(i int) *function { return &f.functions[f.functionIndex(i)] }

func (f *flow) functionIndex(i int) int {
	at, ok := slices.BinarySearchFunc(f.functions, i, func(fn function, i int) int { return fn.start - i })
	if !ok {
		at--
	}
	return at
}

// A writer writes a flow with its counters. Places count raw instructions, of
// which an ld_imm64 is two.
type writer struct {
	*flow
	before []asm.Instructions // what is inserted before each instruction
	long   []bool             // jumps whose distance 16 bits do not hold
	place  []int64            // of what is inserted, or of the instruction itself
	own    []int64            // of the instruction itself
}

// layOut finds where everything comes to stand. cilium/ebpf writes distances of
// jumps into 16 bits without looking, so that it is done here: a jump that
// becomes too far gets two more instructions, which may make others too far.
func (w *writer) layOut() {
	w.place, w.own = make([]int64, len(w.insns)), make([]int64, len(w.insns))
	for again := true; again; {
		again = false
		at := int64(0)
		for i := range w.insns {
			w.place[i] = at
			at += int64(w.before[i].Size() / asm.InstructionSize)
			w.own[i] = at
			at += int64(w.insns[i].Width())
			if w.long[i] && !unconditional(&w.insns[i]) {
				at += 2
			}
		}
		for i, to := range w.targets {
			if to < 0 || w.long[i] || isLongJump(&w.insns[i]) {
				continue
			}
			if d := w.place[to] - w.own[i] - 1; d < math.MinInt16 || d > math.MaxInt16 {
				w.long[i], again = true, true
			}
		}
	}
}

func unconditional(ins *asm.Instruction) bool { return ins.OpCode.JumpOp() == asm.Ja && isJump(ins) }

// farJump is gotol with the distance.
func farJump(distance int64) asm.Instruction {
	return asm.Instruction{OpCode: asm.LongJump("").OpCode, Constant: distance}
}

func (w *writer) write() (asm.Instructions, error) {
	var out asm.Instructions
	for i := range w.insns {
		ins, code := w.insns[i], w.before[i]
		if len(code) > 0 {
			// What names the place stands where the place now begins.
			code[0] = code[0].WithSymbol(ins.Symbol()).WithSource(ins.Source())
			if fn := btf.FuncMetadata(&ins); fn != nil {
				code[0] = btf.WithFuncMetadata(code[0], fn)
				ins = btf.WithFuncMetadata(ins, nil)
			}
			ins = ins.WithSymbol("").WithSource(nil)
			out = append(out, code...)
		}
		to := w.targets[i]
		if to < 0 {
			out = append(out, ins)
			continue
		}
		ins = ins.WithReference("")
		distance := w.place[to] - w.own[i] - 1
		switch {
		case w.long[i] && unconditional(&ins):
			far := farJump(distance)
			far.Metadata = ins.Metadata
			out = append(out, far)
		case w.long[i]:
			// To the far jump two further on, which falling through jumps over.
			ins.Offset = 1
			out = append(out, ins, asm.Instruction{OpCode: asm.Ja.Op(asm.ImmSource), Offset: 1}, farJump(distance-2))
		case isLongJump(&ins):
			ins.Constant = distance
			out = append(out, ins)
		default:
			ins.Offset = int16(distance)
			out = append(out, ins)
		}
	}
	const most = 1_000_000 // BPF_COMPLEXITY_LIMIT_INSNS
	if n := out.Size() / asm.InstructionSize; n > most {
		return nil, fmt.Errorf("too large with its counters: %d instructions, at most %d", n, most)
	}
	return out, nil
}
