//go:build linux

package bpf

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf/asm"
)

// An interpreter runs a program instruction by instruction and counts them: what
// the counters are held against. It knows arithmetic on 64 and 32 bits, jumps,
// calls of subprograms, constants, the stack, an XDP context and its packet, and
// answers every helper with 0. It shares no code with the instrumenter.
type interpreter struct {
	insns  asm.Instructions
	packet []byte
	stack  [8 * 512]byte
	count  uint64
	raw    []int // raw offset to index; -1 inside an ld_imm64
	at     []int // index to raw offset
	names  map[string]int
	ran    []uint64 // executions by instruction
	took   []uint64 // conditional jumps that were taken
}

// Addresses of the interpreter's memory. The kernel's differ, and no program
// under test looks at them.
const (
	ctxAt    = 1 << 32
	packetAt = 2 << 32
	stackAt  = 3 << 32 // end of the first frame
)

func interpret(insns asm.Instructions, packet []byte) (answer uint32, in *interpreter, err error) {
	in = &interpreter{insns: insns, packet: packet, names: map[string]int{}, ran: make([]uint64, len(insns)), took: make([]uint64, len(insns))}
	for i := range insns {
		in.at = append(in.at, len(in.raw))
		in.raw = append(in.raw, i)
		if insns[i].OpCode.IsDWordLoad() {
			in.raw = append(in.raw, -1)
		}
		if s := insns[i].Symbol(); s != "" {
			in.names[s] = i
		}
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("interpreter: %v", p)
		}
	}()
	r0 := in.call(0, [5]uint64{ctxAt}, 0)
	return uint32(r0), in, nil
}

func (in *interpreter) jump(i int, ins *asm.Instruction, distance int64) int {
	if ins.Reference() != "" && distance == -1 {
		return in.names[ins.Reference()]
	}
	return in.raw[in.at[i]+1+int(distance)]
}

func (in *interpreter) call(pc int, args [5]uint64, frame int) uint64 {
	var r [11]uint64
	copy(r[1:], args[:])
	r[10] = stackAt + uint64(len(in.stack)) - uint64(512*frame)
	for {
		if in.count++; in.count > 1<<22 {
			panic("does not end")
		}
		i, ins := pc, &in.insns[pc]
		in.ran[i]++
		pc++
		op := ins.OpCode
		switch class := op.Class(); class {
		case asm.LdClass:
			r[ins.Dst] = uint64(ins.Constant)
		case asm.LdXClass:
			r[ins.Dst] = in.load(r[ins.Src]+uint64(int64(ins.Offset)), op.Size().Sizeof())
		case asm.StClass:
			in.store(r[ins.Dst]+uint64(int64(ins.Offset)), uint64(ins.Constant), op.Size().Sizeof())
		case asm.StXClass:
			in.store(r[ins.Dst]+uint64(int64(ins.Offset)), r[ins.Src], op.Size().Sizeof())
		case asm.ALUClass, asm.ALU64Class:
			v := uint64(ins.Constant)
			if op.ALUOp() != asm.Swap && op.Source() == asm.RegSource {
				v = r[ins.Src]
			}
			r[ins.Dst] = alu(op, ins, r[ins.Dst], v)
		default:
			v := uint64(ins.Constant)
			if op.Source() == asm.RegSource {
				v = r[ins.Src]
			}
			switch op.JumpOp() {
			case asm.Exit:
				return r[0]
			case asm.Call:
				if ins.Src == asm.PseudoCall {
					r[0] = in.call(in.names[ins.Reference()], [5]uint64(r[1:6]), frame+1)
				} else {
					r[0] = 0
				}
			case asm.Ja:
				if class == asm.Jump32Class {
					pc = in.jump(i, ins, ins.Constant)
				} else {
					pc = in.jump(i, ins, int64(ins.Offset))
				}
			default:
				if taken(op, r[ins.Dst], v) {
					in.took[i]++
					pc = in.jump(i, ins, int64(ins.Offset))
				}
			}
		}
	}
}

func (in *interpreter) memory(at uint64, n int) []byte {
	switch {
	case at >= stackAt:
		return in.stack[at-stackAt:][:n]
	case at >= packetAt:
		return in.packet[at-packetAt:][:n]
	}
	var ctx [24]byte
	binary.NativeEndian.PutUint32(ctx[0:], 0)
	return ctx[at-ctxAt:][:n]
}

func (in *interpreter) load(at uint64, n int) uint64 {
	if at >= ctxAt && at < packetAt { // struct xdp_md: 32 bits stand for pointers
		switch at - ctxAt {
		case 0:
			return packetAt
		case 4:
			return packetAt + uint64(len(in.packet))
		}
		return 0
	}
	b := in.memory(at, n)
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(b))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

func (in *interpreter) store(at, v uint64, n int) {
	b := in.memory(at, n)
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
}

func alu(op asm.OpCode, ins *asm.Instruction, a, b uint64) uint64 {
	narrow := op.Class() == asm.ALUClass
	width := uint64(63)
	if op.ALUOp() == asm.Swap {
		return swap(op, ins, a)
	}
	if narrow {
		a, b, width = uint64(uint32(a)), uint64(uint32(b)), 31
	}
	var v uint64
	switch op.ALUOp() {
	case asm.Mov:
		v = b
	case asm.Add:
		v = a + b
	case asm.Sub:
		v = a - b
	case asm.Mul:
		v = a * b
	case asm.Div:
		if b != 0 {
			v = a / b
		}
	case asm.Mod:
		v = a
		if b != 0 {
			v = a % b
		}
	case asm.And:
		v = a & b
	case asm.Or:
		v = a | b
	case asm.Xor:
		v = a ^ b
	case asm.LSh:
		v = a << (b & width)
	case asm.RSh:
		v = a >> (b & width)
	case asm.ArSh:
		if narrow {
			v = uint64(uint32(int32(a) >> (b & width)))
		} else {
			v = uint64(int64(a) >> (b & width))
		}
	case asm.Neg:
		v = -a
	default:
		panic(fmt.Sprint("unknown ", ins))
	}
	if narrow {
		v = uint64(uint32(v))
	}
	return v
}

func swap(op asm.OpCode, ins *asm.Instruction, a uint64) uint64 {
	if op.Endianness() == asm.LE && op.Class() == asm.ALUClass {
		return a & (1<<ins.Constant - 1)
	}
	return bits.ReverseBytes64(a) >> (64 - ins.Constant)
}

func taken(op asm.OpCode, a, b uint64) bool {
	sa, sb := int64(a), int64(b)
	if op.Class() == asm.Jump32Class {
		a, b = uint64(uint32(a)), uint64(uint32(b))
		sa, sb = int64(int32(a)), int64(int32(b))
	}
	switch op.JumpOp() {
	case asm.JEq:
		return a == b
	case asm.JNE:
		return a != b
	case asm.JGT:
		return a > b
	case asm.JGE:
		return a >= b
	case asm.JLT:
		return a < b
	case asm.JLE:
		return a <= b
	case asm.JSet:
		return a&b != 0
	case asm.JSGT:
		return sa > sb
	case asm.JSGE:
		return sa >= sb
	case asm.JSLT:
		return sa < sb
	case asm.JSLE:
		return sa <= sb
	}
	panic(fmt.Sprint("unknown jump ", op))
}
