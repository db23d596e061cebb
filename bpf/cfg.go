//go:build linux

package bpf

import (
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// A flow is a program's instructions, subprograms included, cut into basic
// blocks: once the first instruction of a block runs, all of them do, each once.
type flow struct {
	insns  asm.Instructions
	blocks []block
	// target of each jump, by index of the instruction; -1 for all others.
	targets   []int
	functions []function
	of        []int // block of an instruction; behind the last, one more
	symbols   map[string]int
	// Before each instruction: the registers that may be read later, those that
	// hold something on at least one way there, and those that do on every way.
	live, may, must []registers
}

// A block is the instructions start to end (exclusive).
type block struct{ start, end int }

// A function is a program's entry, or a subprogram, callbacks included.
type function struct {
	block
	name string
	// depth is the part of the stack that it uses, in bytes.
	depth int
}

// newFlow finds the blocks of a program. The error is that of instructions that
// no compiler for BPF writes, and of indirect jumps.
func newFlow(insns asm.Instructions) (*flow, error) {
	symbols, err := insns.SymbolOffsets()
	if err != nil {
		return nil, err
	}
	f := &flow{insns: insns, targets: make([]int, len(insns)), symbols: symbols}
	starts := map[int]bool{0: true} // of functions
	byOffset := make(map[int64]int, len(insns))
	for it := insns.Iterate(); it.Next(); {
		byOffset[int64(it.Offset)] = it.Index
	}
	leader := make([]bool, len(insns)+1)
	throws := mayThrow(insns)
	for it := insns.Iterate(); it.Next(); {
		i, ins := it.Index, it.Ins
		f.targets[i] = -1
		if btf.FuncMetadata(ins) != nil {
			starts[i] = true
		}
		switch {
		case ins.IsFunctionReference():
			callee, ok := symbols[ins.Reference()]
			if !ok {
				return nil, fmt.Errorf("instruction %d refers to a function %q that is not there", i, ins.Reference())
			}
			starts[callee] = true
		case isJump(ins):
			if ins.OpCode == asm.Ja.Op(asm.RegSource) {
				return nil, fmt.Errorf("instruction %d is an indirect jump (a jump table)", i)
			}
			to, ok := jumpTarget(ins, int64(it.Offset), symbols, byOffset)
			if !ok {
				return nil, fmt.Errorf("instruction %d jumps to where there is none", i)
			}
			f.targets[i] = to
			leader[to] = true
		}
		leader[i+1] = leader[i+1] || endsBlock(ins, throws)
	}
	for i := range starts {
		leader[i] = true
	}
	for i := range insns {
		if leader[i] {
			f.blocks = append(f.blocks, block{start: i})
		}
		f.blocks[len(f.blocks)-1].end = i + 1
		if starts[i] {
			f.functions = append(f.functions, function{block: block{start: i}, name: insns[i].Symbol()})
		}
		fn := &f.functions[len(f.functions)-1]
		fn.end = i + 1
		fn.depth = max(fn.depth, stackDepth(&insns[i]))
	}
	f.of = make([]int, len(insns)+1)
	for b, bl := range f.blocks {
		for i := bl.start; i < bl.end; i++ {
			f.of[i] = b
		}
	}
	f.of[len(insns)] = len(f.blocks)
	f.liveness()
	f.initialised()
	return f, nil
}

// isJump tells whether an instruction may go elsewhere than to the next one,
// within its function.
func isJump(ins *asm.Instruction) bool {
	if !ins.OpCode.Class().IsJump() {
		return false
	}
	op := ins.OpCode.JumpOp()
	return op != asm.Call && op != asm.Exit && op != asm.InvalidJumpOp
}

// isLongJump tells gotol (Linux 6.6, 4cd58e9af8b9), whose distance has 32 bits.
func isLongJump(ins *asm.Instruction) bool {
	return ins.OpCode.Class() == asm.Jump32Class && ins.OpCode.JumpOp() == asm.Ja
}

// jumpTarget is the index of the instruction that a jump goes to. Compilers
// write distances, assembly in Go writes symbols.
func jumpTarget(ins *asm.Instruction, at int64, symbols map[string]int, byOffset map[int64]int) (int, bool) {
	distance := int64(ins.Offset)
	if isLongJump(ins) {
		distance = ins.Constant
	}
	if ins.Reference() != "" && distance == -1 {
		to, ok := symbols[ins.Reference()]
		return to, ok
	}
	to, ok := byOffset[at+1+distance]
	return to, ok
}

// endsBlock tells whether the next instruction may not run although this one
// did. Calls do not end a block: what they call returns, so that the counts of
// plain helpers, kfuncs and subprograms follow from the block they stand in. A
// tail call does not return when it succeeds, nor does a load from the packet
// when it fails.
//
// Note: ending blocks at plain helpers would also break the fastcall patterns
// (spill, call, fill) that the verifier looks for (Linux 6.12, 5b5f51bff1b6).
func endsBlock(ins *asm.Instruction, throws bool) bool {
	switch {
	case isJump(ins), ins.OpCode.JumpOp() == asm.Exit:
		return true
	case ins.OpCode.Class() == asm.LdClass:
		return ins.OpCode.Mode() == asm.AbsMode || ins.OpCode.Mode() == asm.IndMode
	case ins.IsBuiltinCall():
		fn := asm.BuiltinFunc(ins.Constant)
		return fn == asm.FnTailCall || throws && takesCallback(fn)
	}
	return throws && ins.OpCode.JumpOp() == asm.Call
}

// mayThrow tells whether the program throws an exception anywhere (bpf_throw,
// Linux 6.7, f18b03fabaa9); then any call of a function may be the last.
func mayThrow(insns asm.Instructions) bool {
	for i := range insns {
		if insns[i].IsKfuncCall() && insns[i].Reference() == "bpf_throw" {
			return true
		}
	}
	return false
}

// takesCallback are the helpers that call the program back while they run.
func takesCallback(fn asm.BuiltinFunc) bool {
	switch fn {
	case asm.FnLoop, asm.FnForEachMapElem, asm.FnFindVma, asm.FnUserRingbufDrain:
		return true
	}
	return false
}

// maxStack is MAX_BPF_STACK, the bytes of one function and of a chain of calls.
const maxStack = 512

// stackDepth is how far below the frame pointer an instruction shows the stack
// to be in use, in bytes: it reads or writes there, or subtracts so much from
// what may be a copy of the frame pointer.
func stackDepth(ins *asm.Instruction) int {
	depth := int64(0)
	switch class := ins.OpCode.Class(); {
	case class == asm.LdXClass && ins.Src == asm.RFP, (class == asm.StXClass || class == asm.StClass) && ins.Dst == asm.RFP:
		depth = -int64(ins.Offset)
	case ins.OpCode == asm.Add.Op(asm.ImmSource):
		depth = -ins.Constant
	case ins.OpCode == asm.Sub.Op(asm.ImmSource):
		depth = ins.Constant
	}
	if depth < 0 || depth > maxStack {
		return 0
	}
	return int(depth)
}

// registers is a set of R0 to R9, one bit each.
type registers uint16

const allRegisters registers = 1<<10 - 1

func set(rs ...asm.Register) (s registers) {
	for _, r := range rs {
		s |= 1 << r
	}
	return s & allRegisters // R10 cannot be written
}

func (s registers) has(r asm.Register) bool { return s>>r&1 == 1 }
func (s registers) len() int                { return bits.OnesCount16(uint16(s)) }

// Registers of the calling convention.
const (
	arguments registers = 0x3e // R1 to R5
	clobbered registers = 0x3f // R0 to R5
)

// liveness finds the registers that hold something that may still be read. The
// others may be overwritten: nothing, the verifier included, looks at them
// before they are written. R6 to R9 are each function's own, so functions can
// be looked at one by one. Calls are taken to read all arguments, exits R0: more
// than needed may be live, never less.
func (f *flow) liveness() {
	in := make([]registers, len(f.blocks)+1) // at the start of each block
	f.live = make([]registers, len(f.insns))
	for changed := true; changed; {
		changed = false
		for b := len(f.blocks) - 1; b >= 0; b-- {
			var live registers
			for _, to := range f.successors(b) {
				live |= in[f.of[to]]
			}
			for i := f.blocks[b].end - 1; i >= f.blocks[b].start; i-- {
				use, def := effects(&f.insns[i])
				live = live&^def | use
				f.live[i] = live
			}
			if in[b] != live {
				in[b], changed = live, true
			}
		}
	}
}

// initialised finds the registers that hold anything at all. What holds nothing
// may be overwritten, even where a call is taken to read it: had the program read
// it, the verifier would have rejected it. What holds something on every way can
// be stored.
func (f *flow) initialised() {
	n := len(f.blocks)
	may, must := make([]registers, n+1), make([]registers, n+1)
	for b := range must {
		must[b] = allRegisters
	}
	for i, fn := range f.functions {
		b := f.of[fn.start]
		if may[b], must[b] = arguments, 0; i == 0 {
			may[b], must[b] = set(asm.R1), set(asm.R1)
		}
	}
	f.may, f.must = make([]registers, len(f.insns)), make([]registers, len(f.insns))
	for changed := true; changed; {
		changed = false
		for b, bl := range f.blocks {
			has, sure := may[b], must[b]
			for i := bl.start; i < bl.end; i++ {
				f.may[i], f.must[i] = has, sure
				_, def := effects(&f.insns[i])
				has, sure = has|def, sure|def
				if def == clobbered { // only R0 is left of these
					has, sure = has&^arguments, sure&^arguments
				}
			}
			for _, to := range f.successors(b) {
				t := f.of[to]
				if m, s := may[t]|has, must[t]&sure; m != may[t] || s != must[t] {
					may[t], must[t], changed = m, s, true
				}
			}
		}
	}
}

// successors are the instructions that may follow the last one of a block.
func (f *flow) successors(b int) []int {
	last := f.blocks[b].end - 1
	var out []int
	if to := f.targets[last]; to >= 0 {
		out = append(out, to)
	}
	if ins := &f.insns[last]; ins.OpCode.JumpOp() != asm.Exit && !unconditional(ins) {
		out = append(out, last+1)
	}
	return out
}

// free are the registers that may be overwritten before an instruction.
func (f *flow) free(i int) registers { return allRegisters &^ (f.live[i] & f.may[i]) }

// Atomic loads and stores (Linux 6.15, 880442305a39), which cilium/ebpf does not
// export.
const (
	loadAcquire  asm.AtomicOp = 0x1_0000
	storeRelease asm.AtomicOp = 0x1_1000
)

// effects are the registers that an instruction reads and those that it writes.
func effects(ins *asm.Instruction) (use, def registers) {
	op := ins.OpCode
	switch class := op.Class(); class {
	case asm.LdClass:
		switch op.Mode() {
		case asm.AbsMode:
			return set(asm.R6), clobbered
		case asm.IndMode:
			return set(asm.R6, ins.Src), clobbered
		}
		return 0, set(ins.Dst)
	case asm.LdXClass:
		return set(ins.Src), set(ins.Dst)
	case asm.StClass:
		return set(ins.Dst), 0
	case asm.StXClass:
		switch atomic := op.AtomicOp(); atomic {
		case asm.CmpXchg:
			return set(ins.Dst, ins.Src, asm.R0), set(asm.R0)
		case asm.Xchg, asm.FetchAdd, asm.FetchAnd, asm.FetchOr, asm.FetchXor:
			return set(ins.Dst, ins.Src), set(ins.Src)
		case loadAcquire:
			return set(ins.Src), set(ins.Dst)
		}
		return set(ins.Dst, ins.Src), 0
	case asm.ALUClass, asm.ALU64Class:
		switch op.ALUOp() {
		case asm.Mov, asm.MovSX8, asm.MovSX16, asm.MovSX32:
			if op.Source() == asm.RegSource {
				use = set(ins.Src)
			}
			return use, set(ins.Dst)
		}
		use = set(ins.Dst)
		if op.Source() == asm.RegSource {
			use |= set(ins.Src)
		}
		return use, set(ins.Dst)
	}
	switch op.JumpOp() {
	case asm.Call:
		return arguments, clobbered
	case asm.Exit:
		return set(asm.R0), 0
	case asm.Ja, asm.JCOND:
		return 0, 0
	}
	use = set(ins.Dst)
	if op.Source() == asm.RegSource {
		use |= set(ins.Src)
	}
	return use, 0
}
