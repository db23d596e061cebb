//go:build linux

package bpf

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
)

// functions tells what each function of a program executed.
func (p counted) functions(counts []uint64, runs float64) []bench.FunctionCount {
	var out []bench.FunctionCount
	at := 0
	for b, bl := range p.flow.blocks {
		if at < len(p.flow.functions) && p.flow.functions[at].start == bl.start {
			out = append(out, bench.FunctionCount{Name: p.flow.functions[at].name, Calls: float64(counts[b]) / runs})
			at++
		}
		out[len(out)-1].Insns += float64(counts[b]*uint64(bl.end-bl.start)) / runs
	}
	return out
}

// A lineKey is a line within a function: the code of an inlined function belongs
// to the one that holds it.
type lineKey struct {
	file     string
	line     uint32
	function string
}

// lines tells what each line of source executed, by line within file within
// function. An instruction belongs to the line that was last named before it.
func (p counted) lines(counts []uint64, runs float64) []bench.LineCount {
	type total struct {
		text    string
		insns   uint64
		decides uint64
		columns map[uint32]uint64 // executions
	}
	totals := map[lineKey]*total{}
	var order []lineKey
	targets := map[int]bool{}
	for _, to := range p.flow.targets {
		targets[to] = true
	}
	var line *btf.Line
	for b, bl := range p.flow.blocks {
		function := p.flow.functionOf(bl.start)
		// A part of a line is reached once a block, however the compiler mixed
		// it with others, and not again in a block that only goes on with it.
		seen := map[*total][]uint32{}
		switch {
		case function.start == bl.start:
			line = nil
		case line != nil && !targets[bl.start]:
			if t := totals[lineKey{line.FileName(), line.LineNumber(), function.name}]; t != nil {
				seen[t] = []uint32{line.LineColumn()}
			}
		}
		// What a block executes is decided by the branch that ends it: of a
		// loop's body, the line that says how long it goes on. Other blocks
		// stand for themselves.
		branches := conditional(p.flow.insns[bl.end-1].OpCode)
		for i := bl.start; i < bl.end; i++ {
			// Line 0 is the compiler's word for code of no line in particular.
			if l, ok := p.flow.insns[i].Source().(*btf.Line); ok && l.LineNumber() > 0 {
				line = l
			}
			if line == nil {
				continue
			}
			k := lineKey{line.FileName(), line.LineNumber(), function.name}
			t := totals[k]
			if t == nil {
				t = &total{text: strings.TrimSpace(line.Line()), columns: map[uint32]uint64{}}
				totals[k] = t
				order = append(order, k)
			}
			t.insns += counts[b]
			switch {
			case !branches:
				t.decides += counts[b]
			case i == bl.end-1:
				t.decides += counts[b] * uint64(bl.end-bl.start)
			}
			if c := line.LineColumn(); !slices.Contains(seen[t], c) {
				seen[t] = append(seen[t], c)
				t.columns[c] += counts[b]
			}
		}
	}
	var out []bench.LineCount
	for _, k := range order {
		t := totals[k]
		var most uint64
		for _, n := range t.columns {
			most = max(most, n)
		}
		out = append(out, bench.LineCount{
			File: k.file, Line: int(k.line), Text: t.text, Function: k.function,
			Executions: float64(most) / runs, Insns: float64(t.insns) / runs,
			Decides: float64(t.decides) / runs,
		})
	}
	return out
}

// conditional tells whether an instruction is a branch.
func conditional(op asm.OpCode) bool {
	switch op.JumpOp() {
	case asm.InvalidJumpOp, asm.Ja, asm.Call, asm.Exit:
		return false
	}
	return true
}
