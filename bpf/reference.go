//go:build linux

package bpf

import (
	"encoding/binary"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// ReferenceProgram is the name of the program in [Reference].
const ReferenceProgram = "gate_reference"

// Reference is an object that needs no compiler: an XDP program that mixes the
// first 48 bytes of the packet into a hash, some 100 instructions without a
// loop, and passes. It is what a host's noise is measured on when nobody names a
// program.
func Reference() *Object {
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	fn := &btf.Func{
		Name: ReferenceProgram, Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{Return: u32, Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Void{}}}}},
	}
	const bytes = 48
	insns := asm.Instructions{
		btf.WithFuncMetadata(asm.LoadMem(asm.R2, asm.R1, xdpData, asm.Word).WithSymbol(ReferenceProgram), fn),
		asm.LoadMem(asm.R3, asm.R1, xdpDataEnd, asm.Word),
		asm.Mov.Imm(asm.R0, 2),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, bytes),
		asm.JGT.Reg(asm.R4, asm.R3, "out"),
		asm.Mov.Imm(asm.R5, 0),
	}
	for at := int16(0); at < bytes; at += 2 {
		insns = append(insns,
			asm.LoadMem(asm.R4, asm.R2, at, asm.Half),
			asm.Xor.Reg(asm.R5, asm.R4),
			asm.Mul.Imm(asm.R5, 0x01000193), // FNV-1a's prime
		)
	}
	insns = append(insns,
		asm.And.Imm(asm.R5, 0), // the hash is used, and the answer always the same
		asm.Add.Reg(asm.R0, asm.R5),
		asm.Return().WithSymbol("out"),
	)
	return &Object{Path: "built in", spec: &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{},
		Programs: map[string]*ebpf.ProgramSpec{ReferenceProgram: {
			Name: ReferenceProgram, Type: ebpf.XDP, AttachType: ebpf.AttachXDP, SectionName: "xdp",
			License: "Dual BSD/GPL", Instructions: insns,
		}},
		ByteOrder: nativeOrder(),
	}}
}

// nativeOrder is this machine's byte order as cilium/ebpf compares it.
func nativeOrder() binary.ByteOrder {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}
