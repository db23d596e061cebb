//go:build linux

package bpf

import (
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
)

// Changes tells of each program that both sides have, and whose instructions differ,
// whether what differs was executed. noisy says that how often means nothing.
//
// Lines differ by their text. Where only what they stand for differs (a macro, the
// compiler), or where there are none, instructions do.
func Changes(base, head *Executions, noisy bool) []bench.Change {
	var out []bench.Change
	for _, name := range slices.Sorted(maps.Keys(head.programs)) {
		b, h := base.programs[name], head.programs[name]
		if b == nil || slices.EqualFunc(b.flow.insns, h.flow.insns, sameInstruction) {
			continue
		}
		c := bench.Change{Program: name, Executed: !maps.Equal(b.executed(noisy), h.executed(noisy))}
		var any bool
		if any, c.Reached, c.Lines = edited(b, h); !any {
			c.Reached = c.Executed
			c.Lines = append(h.unexecuted(b, false), b.unexecuted(h, true)...)
		}
		if c.More = len(c.Lines) - bench.MaxLines; c.More > 0 {
			c.Lines = c.Lines[:bench.MaxLines]
		}
		c.More = max(0, c.More)
		out = append(out, c)
	}
	return out
}

// An instruction is what one does, without where it jumps to: which way was gone,
// other instructions tell.
type instruction struct {
	function string
	op       asm.OpCode
	dst, src asm.Register
	offset   int16
	constant int64
	refers   string
}

func (f *flow) instruction(i int) instruction {
	ins := &f.insns[i]
	in := instruction{
		function: f.functionOf(i).name, op: ins.OpCode, dst: ins.Dst, src: ins.Src,
		offset: ins.Offset, constant: ins.Constant, refers: ins.Reference() + relocation(ins),
	}
	if f.targets[i] >= 0 {
		in.offset = 0
		if isLongJump(ins) {
			in.constant = 0
		}
		in.refers = ""
	} else if ins.Reference() != "" && !ins.IsLoadFromMap() {
		in.constant = 0 // a placeholder
	}
	return in
}

func sameInstruction(a, b asm.Instruction) bool {
	return a.OpCode == b.OpCode && a.Dst == b.Dst && a.Src == b.Src && a.Offset == b.Offset && a.Constant == b.Constant &&
		a.Reference() == b.Reference() && relocation(&a) == relocation(&b)
}

// executed is how often each instruction ran, wherever it stands in its function; 1
// for all that ran at all where how often means nothing.
func (c *blockCounts) executed(noisy bool) map[instruction]uint64 {
	out := map[instruction]uint64{}
	for b, bl := range c.flow.blocks {
		for i := bl.start; i < bl.end; i++ {
			switch {
			case c.counts[b] == 0:
			case noisy:
				out[c.flow.instruction(i)] = 1
			default:
				out[c.flow.instruction(i)] += c.counts[b]
			}
		}
	}
	return out
}

// unexecuted are the lines of instructions that were not executed and that the
// other one does not have as often among its own.
func (c *blockCounts) unexecuted(o *blockCounts, removed bool) []bench.ChangedLine {
	have := map[instruction]int{}
	for b, bl := range o.flow.blocks {
		for i := bl.start; i < bl.end && o.counts[b] == 0; i++ {
			have[o.flow.instruction(i)]++
		}
	}
	var out []bench.ChangedLine
	seen := map[lineKey]bool{}
	for b, bl := range c.flow.blocks {
		line := c.flow.lineBefore(bl.start)
		for i := bl.start; i < bl.end; i++ {
			if l := lineOf(&c.flow.insns[i]); l != nil {
				line = l
			}
			if c.counts[b] > 0 {
				continue
			}
			in := c.flow.instruction(i)
			if have[in]--; have[in] >= 0 {
				continue
			}
			l := bench.ChangedLine{Function: clip(in.function), Removed: removed}
			if line != nil {
				l.File, l.Line, l.Text = clip(line.FileName()), int(line.LineNumber()), clip(strings.TrimSpace(line.Line()))
			}
			if k := (lineKey{l.File, uint32(l.Line), l.Function}); !seen[k] {
				seen[k] = true
				out = append(out, l)
			}
		}
	}
	return out
}

// SameInstructions tells that a program is the same in both objects, but for what its
// maps hold and for where its lines stand.
func (o *Object) SameInstructions(other *Object, program string) bool {
	a, b := o.spec.Programs[program], other.spec.Programs[program]
	return a != nil && b != nil && slices.EqualFunc(a.Instructions, b.Instructions, sameInstruction)
}

// Reaches are the programs that run when one runs: itself, and those that it can
// tail-call.
func (o *Object) Reaches(program string) []string {
	spec, err := o.prune(program)
	if err != nil {
		return []string{program}
	}
	return slices.Sorted(maps.Keys(spec.Programs))
}

// lineBefore is the line that an instruction goes on with; nil: none was named yet.
func (f *flow) lineBefore(i int) *btf.Line {
	for start := f.functionOf(i).start; i >= start; i-- {
		if l := lineOf(&f.insns[i]); l != nil {
			return l
		}
	}
	return nil
}

// relocation is what a CO-RE relocation asks for, or "". The number of the type in
// its object says nothing.
func relocation(ins *asm.Instruction) string {
	r := btf.CORERelocationMetadata(ins)
	if r == nil {
		return ""
	}
	s, _, _ := strings.Cut(r.String(), ", local_id=")
	return s
}
