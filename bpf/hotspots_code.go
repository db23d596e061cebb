//go:build linux

package bpf

import (
	"runtime"
	"slices"
	"sort"

	"golang.org/x/arch/x86/x86asm"
)

// A HotInstruction is a machine instruction of a [HotFunction].
type HotInstruction struct {
	Offset, Size int
	Text         string // in the syntax of GNU's assembler
	// Self and Called are the samples on it, and in what it calls.
	Self, Called int
}

// A machineBlock is instructions that run one after the other, from start to end.
type machineBlock struct {
	start, end int
	last       int  // offset of its last instruction
	branches   bool // by a condition, there
	to         int  // where that jump leads, or one without a condition; -1: nowhere
	target     bool // of a jump
}

// A machineLoop is code that a jump back runs again, from start to end; decides is the offset
// of the branch that says how often.
type machineLoop struct{ start, end, decides int }

// decode calls visit for each instruction of the code. Only x86-64's are known, which the JIT
// begins with a prologue and goes on without gaps.
func (f *HotFunction) decode(visit func(offset int, in x86asm.Inst)) {
	if runtime.GOARCH != "amd64" {
		return
	}
	for at := 0; at < len(f.Code); {
		in, err := x86asm.Decode(f.Code[at:], 64)
		if err != nil || in.Len == 0 {
			in = x86asm.Inst{Len: 1} // endbr64, and what follows the last return
			if len(f.Code)-at >= 4 && string(f.Code[at:at+4]) == "\xf3\x0f\x1e\xfa" {
				in.Len = 4
			}
		}
		visit(at, in)
		at += in.Len
	}
}

// Instructions disassembles the function, with the samples. It is empty on other CPUs than x86-64.
func (f *HotFunction) Instructions() []HotInstruction {
	var out []HotInstruction
	f.decode(func(offset int, in x86asm.Inst) {
		one := HotInstruction{Offset: offset, Size: in.Len, Text: "?"}
		if in.Op != 0 {
			one.Text = x86asm.GNUSyntax(in, uint64(offset), nil)
		}
		out = append(out, one)
	})
	for _, hit := range f.Hits {
		i := sort.Search(len(out), func(i int) bool { return out[i].Offset > hit.Offset }) - 1
		if i >= 0 {
			out[i].Self += hit.Self
			out[i].Called += hit.All() - hit.Self
		}
	}
	return out
}

// findBlocks splits the code where it jumps and where jumps lead.
//
// Note: a block is not one line's. To count all of it for the line whose branch ends it, as executed
// instructions do, named the right line of 12 of 20 planted slowdowns; straight code is its own lines'.
func (f *HotFunction) findBlocks() {
	begins, targets := map[int]bool{0: true}, map[int]bool{}
	conditional, leads := map[int]bool{}, map[int]int{}
	var offsets []int
	f.decode(func(offset int, in x86asm.Inst) {
		offsets = append(offsets, offset)
		next := offset + in.Len
		to, isJump := in.Args[0].(x86asm.Rel)
		switch in.Op {
		case x86asm.CALL:
			return
		case x86asm.RET, x86asm.JMP:
		default:
			if !isJump {
				return
			}
			conditional[offset] = true
		}
		begins[next] = true
		if isJump {
			begins[next+int(to)], targets[next+int(to)] = true, true
			leads[offset] = next + int(to)
		}
	})
	for i, offset := range offsets {
		if begins[offset] {
			f.blocks = append(f.blocks, machineBlock{start: offset, target: targets[offset]})
		}
		b := &f.blocks[len(f.blocks)-1]
		b.last, b.branches, b.end, b.to = offset, conditional[offset], len(f.Code), -1
		if to, ok := leads[offset]; ok {
			b.to = to
		}
		if i+1 < len(offsets) {
			b.end = offsets[i+1]
		}
	}
}

// findLoops finds what is run again: of a jump back, all that lies between. A loop whose jump has no
// condition ends where one leads out of it.
func (f *HotFunction) findLoops() {
	for _, b := range f.blocks {
		if b.to < 0 || b.to > b.last {
			continue
		}
		l := machineLoop{b.to, b.end, b.last}
		if !b.branches {
			out := slices.IndexFunc(f.blocks, func(o machineBlock) bool {
				return o.branches && l.start <= o.start && o.end <= l.end && (o.to < l.start || o.to >= l.end)
			})
			if out < 0 {
				continue
			}
			l.decides = f.blocks[out].last
		}
		f.loops = append(f.loops, l)
	}
}

func (f *HotFunction) block(offset int) *machineBlock {
	i := sort.Search(len(f.blocks), func(i int) bool { return f.blocks[i].start > offset }) - 1
	if i < 0 {
		return nil
	}
	return &f.blocks[i]
}

// At is the line that the code at an offset belongs to. The prologue, which the JIT makes,
// belongs to the first; and where a jump leads to code without a line, as that of a loop may, it
// is of the next line there, not of the one that lies before it.
func (f *HotFunction) At(offset int) (HotLine, bool) {
	if len(f.Lines) == 0 {
		return HotLine{}, false
	}
	i := max(0, sort.Search(len(f.Lines), func(i int) bool { return f.Lines[i].Offset > offset })-1)
	if b := f.block(offset); b != nil && b.target && f.Lines[i].Offset < b.start {
		if j := i + 1; j < len(f.Lines) && f.Lines[j].Offset < b.end {
			i = j
		}
	}
	return f.Lines[i], true
}

// Loop is the line that says how often the code at an offset runs: of the innermost loop around it,
// that of the condition.
func (f *HotFunction) Loop(offset int) (HotLine, bool) {
	var in *machineLoop
	for i := range f.loops {
		l := &f.loops[i]
		if l.start <= offset && offset < l.end && (in == nil || l.end-l.start < in.end-in.start) {
			in = l
		}
	}
	if in == nil {
		return HotLine{}, false
	}
	return f.At(in.decides)
}

// sortHits puts the hits into the order of the code.
func (f *HotFunction) sortHits() {
	slices.SortFunc(f.Hits, func(a, b Hit) int { return a.Offset - b.Offset })
}
