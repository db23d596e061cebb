//go:build linux

package bpf

import (
	"math"
	"math/rand/v2"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// pad adds a random amount of code that is never executed to the end of every
// function of a program.
//
// Why: the kernel starts a program at a random offset within its last 64 bytes,
// and its length mod 64 decides from which set (bpf_prog_pack_alloc, 57631054fae6,
// and bpf_jit_binary_pack_alloc). Two programs of different length are therefore
// measured on different sets of layouts, and differ, steadily, by what the
// layouts differ. More rounds do not help: code that is never executed is a real
// difference in time, and nobody's regression. With 0 to 63 instructions of 5
// bytes (on x86; 4 elsewhere) behind it, every length mod 64 is as likely on both
// sides, and the estimate is an average over layouts, as Stabilizer's is for user
// space (Curtsinger and Berger, ASPLOS 2013).
//
// What is executed for it is one comparison at the entry of each function, of
// the frame pointer with 1, which is never equal, and which the verifier does
// not try to decide. It is the same on both sides.
func pad(spec *ebpf.ProgramSpec, rng *rand.Rand) {
	var out asm.Instructions
	insns := spec.Instructions
	for start := 0; start < len(insns); {
		end := start + 1
		for end < len(insns) && btf.FuncMetadata(&insns[end]) == nil {
			end++
		}
		out = append(out, padFunction(insns[start:end], rng.IntN(padMost))...)
		start = end
	}
	spec.Instructions = out
}

// padMost is the number of different amounts of padding: that many times 5
// bytes reach every residue mod 64 equally often.
const padMost = 64

func padFunction(insns asm.Instructions, n int) asm.Instructions {
	var length int
	for i := range insns {
		length += int(insns[i].Size()) / asm.InstructionSize
	}
	if length >= math.MaxInt16 {
		return insns // too far to jump over
	}
	first := insns[0]
	entry := asm.Instruction{OpCode: asm.JEq.Op(asm.ImmSource), Dst: asm.RFP, Constant: 1, Offset: int16(length)}
	entry = entry.WithSymbol(first.Symbol()).WithSource(first.Source())
	if f := btf.FuncMetadata(&first); f != nil {
		entry = btf.WithFuncMetadata(entry, f)
		first = btf.WithFuncMetadata(first, nil)
	}
	// Jumps within the function are relative and all on one side of what is
	// inserted, so that none has to change.
	out := append(make(asm.Instructions, 0, len(insns)+n+3), entry, first.WithSymbol(""))
	out = append(out, insns[1:]...)
	out = append(out, asm.Mov.Imm(asm.R0, 0))
	for range n {
		out = append(out, asm.Mov.Imm32(asm.R0, math.MaxInt32))
	}
	return append(out, asm.Mov.Imm(asm.R0, 0), asm.Return())
}
