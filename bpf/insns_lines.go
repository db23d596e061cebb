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

// A lineTotal is what a line of a function executed.
type lineTotal struct {
	lineKey
	text          string
	insns         uint64
	decides       uint64
	columns       map[uint32]uint64 // executions
	size, reached int               // instructions
}

// executions is how often the line was reached: that of its part that was reached
// most.
func (t *lineTotal) executions() (most uint64) {
	for _, n := range t.columns {
		most = max(most, n)
	}
	return most
}

// lines tells what each line of source executed in one run.
func (p counted) lines(counts []uint64, runs float64) []bench.LineCount {
	var out []bench.LineCount
	for _, t := range p.lineTotals(counts) {
		out = append(out, bench.LineCount{
			File: clip(t.file), Line: int(t.line), Text: clip(strings.TrimSpace(t.text)), Function: clip(t.function),
			Executions: float64(t.executions()) / runs, Insns: float64(t.insns) / runs,
			Decides: float64(t.decides) / runs,
		})
	}
	return out
}

// lineTotals tells what each line of source executed, by line within file within
// function. An instruction belongs to the line that was last named before it. Code
// that the compiler says is of no line in particular costs what the line costs
// before it, and is no execution of it.
func (p counted) lineTotals(counts []uint64) []*lineTotal {
	totals := map[lineKey]*lineTotal{}
	var order []*lineTotal
	targets := map[int]bool{}
	for _, to := range p.flow.targets {
		targets[to] = true
	}
	loops := p.flow.looping()
	var line *btf.Line
	nameless := false
	for b, bl := range p.flow.blocks {
		function := p.flow.functionOf(bl.start)
		// A part of a line is reached once a block, however the compiler mixed
		// it with others, and not again in a block that only goes on with it.
		seen := map[*lineTotal][]uint32{}
		switch {
		case function.start == bl.start:
			line, nameless = nil, false
		case line != nil && !targets[bl.start]:
			if t := totals[lineKey{line.FileName(), line.LineNumber(), function.name}]; t != nil {
				seen[t] = []uint32{line.LineColumn()}
			}
		}
		// What a block of a loop executes is decided by the branch that ends it: of
		// its body, the line that says how long it goes on. Straight code, and what
		// is executed once because of a condition, stands for itself.
		branches := loops[b] && conditional(p.flow.insns[bl.end-1].OpCode)
		for i := bl.start; i < bl.end; i++ {
			if l, ok := p.flow.insns[i].Source().(*btf.Line); ok {
				if nameless = l.LineNumber() == 0; !nameless {
					line = l
				}
			}
			if line == nil {
				continue
			}
			k := lineKey{line.FileName(), line.LineNumber(), function.name}
			t := totals[k]
			if t == nil {
				t = &lineTotal{lineKey: k, text: line.Line(), columns: map[uint32]uint64{}}
				totals[k] = t
				order = append(order, t)
			}
			t.size++
			if counts[b] > 0 {
				t.reached++
			}
			t.insns += counts[b]
			switch {
			case !branches:
				t.decides += counts[b]
			case i == bl.end-1:
				t.decides += counts[b] * uint64(bl.end-bl.start)
			}
			if c := line.LineColumn(); !nameless && !slices.Contains(seen[t], c) {
				seen[t] = append(seen[t], c)
				t.columns[c] += counts[b]
			}
		}
	}
	return order
}

// looping tells the blocks that lie between a jump back and where it leads.
func (f *flow) looping() []bool {
	deep := make([]int, len(f.blocks)+1) // begins less ends of such places
	for i, to := range f.targets {
		if to >= 0 && to <= i {
			deep[f.of[to]]++
			deep[f.of[i]+1]--
		}
	}
	out := make([]bool, len(f.blocks))
	for b, depth := 0, 0; b < len(out); b++ {
		depth += deep[b]
		out[b] = depth > 0
	}
	return out
}

// clip bounds a text of an object that goes into a run, in bytes: lines that a
// program wrote may have thousands.
func clip(s string) string {
	const most = 512
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// lineOf is the line that an instruction names; line 0 is none.
func lineOf(ins *asm.Instruction) *btf.Line {
	if l, ok := ins.Source().(*btf.Line); ok && l.LineNumber() > 0 {
		return l
	}
	return nil
}

// conditional tells whether an instruction is a branch.
func conditional(op asm.OpCode) bool {
	switch op.JumpOp() {
	case asm.InvalidJumpOp, asm.Ja, asm.Call, asm.Exit:
		return false
	}
	return true
}
