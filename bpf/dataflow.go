//go:build linux

package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// forward finds what is known before each block: step tells how an instruction
// changes it, join what is left of two ways that meet, which must never know more
// than either. Functions begin with the zero value. What stands behind no way from
// a function's entry keeps the zero value, too.
func forward[S comparable](f *flow, join func(a, b S) S, step func(s S, i int) S) []S {
	before := make([]S, len(f.blocks))
	reached := make([]bool, len(f.blocks))
	var work []int
	for _, fn := range f.functions {
		b := f.of[fn.start]
		reached[b], work = true, append(work, b)
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		s := before[b]
		for i := f.blocks[b].start; i < f.blocks[b].end; i++ {
			s = step(s, i)
		}
		for _, to := range f.successors(b) {
			t := f.of[to]
			if t == len(f.blocks) {
				continue
			}
			next := s
			if reached[t] {
				next = join(before[t], s)
			}
			if !reached[t] || next != before[t] {
				before[t], reached[t] = next, true
				work = append(work, t)
			}
		}
	}
	return before
}

// A reference is what a register is known to point to: a map, a map inside of it,
// or a function.
type reference struct {
	kind refKind
	name string
}

type refKind uint8

const (
	refUnknown refKind = iota
	refMap
	refInner // a map inside of the map
	refFunction
)

// references are those of R0 to R9.
type references [10]reference

// references finds, before each block, which registers hold maps and functions.
// They are known from the relocations that flow into them; a register that holds
// one map on one way and another on the other is unknown, as is what comes out of
// memory, but for a map that is looked up in a map of maps.
func (f *flow) references(maps map[string]*ebpf.MapSpec) []references {
	join := func(a, b references) references {
		for r := range a {
			if a[r] != b[r] {
				a[r] = reference{}
			}
		}
		return a
	}
	return forward(f, join, func(s references, i int) references { return refer(s, &f.insns[i], maps) })
}

// refer is how an instruction changes what registers refer to.
func refer(s references, ins *asm.Instruction, maps map[string]*ebpf.MapSpec) references {
	var result reference
	if ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnMapLookupElem && s[asm.R1].kind == refMap {
		if m := maps[s[asm.R1].name]; m != nil && (m.Type == ebpf.ArrayOfMaps || m.Type == ebpf.HashOfMaps) {
			result = reference{refInner, s[asm.R1].name}
		}
	}
	_, def := effects(ins)
	for _, r := range def.list() {
		switch {
		case ins.IsLoadFromMap() && ins.Src == asm.PseudoMapFD:
			s[r] = reference{refMap, ins.Reference()}
		case ins.IsLoadOfFunctionPointer():
			s[r] = reference{refFunction, ins.Reference()}
		case ins.OpCode == asm.Mov.Op(asm.RegSource) && ins.Offset == 0 && ins.Src <= asm.R9:
			s[r] = s[ins.Src]
		default:
			s[r] = reference{}
		}
	}
	if result.kind != refUnknown {
		s[asm.R0] = result
	}
	return s
}
