//go:build linux

package bpf

import (
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
)

// Executions are how often each basic block of some programs of an object ran. They
// can be added up over benchmarks; the zero value is none.
type Executions struct {
	runs     uint64
	programs map[string]*blockCounts
	order    []string
}

type blockCounts struct {
	counted
	counts []uint64
}

// executions are those of tallies of one side.
func (in *instrumented) executions(tallies ...tally) *Executions {
	e := &Executions{programs: map[string]*blockCounts{}}
	for _, p := range in.programs {
		c := &blockCounts{p, make([]uint64, len(p.flow.blocks))}
		for _, t := range tallies {
			for b := range c.counts {
				c.counts[b] += t.blocks[p.first+b]
			}
		}
		e.programs[p.name] = c
		e.order = append(e.order, p.name)
	}
	for _, t := range tallies {
		e.runs += uint64(len(t.insns))
	}
	return e
}

// Add adds the executions of another benchmark of the same object.
func (e *Executions) Add(o *Executions) {
	if e.programs == nil {
		e.programs = map[string]*blockCounts{}
	}
	e.runs += o.runs
	for _, name := range o.order {
		c := e.programs[name]
		if c == nil {
			e.programs[name] = &blockCounts{o.programs[name].counted, slices.Clone(o.programs[name].counts)}
			e.order = append(e.order, name)
			continue
		}
		for b, n := range o.programs[name].counts {
			c.counts[b] += n
		}
	}
}

// Executions counts what the inputs of a benchmark execute: each packet runs once,
// after the passes that the benchmark calls for to warm up. Unlike [Session.Insns]
// it makes one load and takes what it sees: programs that do not always do the same
// are covered, too.
//
// It needs Linux 5.5.
func (s *Session) Executions(b bench.Benchmark, side Side) (e *Executions, err error) {
	m, err := s.Micro(b, side)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	err = s.do(func() error {
		in, err := side.Object.instrument(b.Program)
		if err != nil {
			return err
		}
		c := *m
		c.rng, c.pads = s.rng(b.Name+" executions"), nil
		c.sides = []Side{{side.Name, in.Object}}
		_, tallies, err := c.passes(0, in, 1)
		if err != nil {
			return in.rejection(err)
		}
		e = in.executions(tallies...)
		return nil
	})
	return e, err
}

// Coverage tells it by function, line and branch.
func (e *Executions) Coverage() (runs uint64, programs []bench.ProgramCoverage) {
	for _, name := range e.order {
		programs = append(programs, bench.ProgramCoverage{Program: name, Functions: e.programs[name].coverage()})
	}
	return e.runs, programs
}

func (c *blockCounts) coverage() []bench.FunctionCoverage {
	out := make([]bench.FunctionCoverage, len(c.flow.functions))
	at := map[string]int{}
	for i, fn := range c.flow.functions {
		b := c.flow.of[fn.start]
		f := bench.FunctionCoverage{Name: fn.name, Calls: c.counts[b], Background: c.background[b]}
		for i := fn.start; i < fn.end; i++ {
			if l := lineOf(&c.flow.insns[i]); l != nil {
				f.File, f.Line = l.FileName(), int(l.LineNumber())
				break
			}
		}
		out[i], at[fn.name] = f, i
	}
	for b, bl := range c.flow.blocks {
		f, n := &out[c.flow.functionIndex(bl.start)], bl.end-bl.start
		f.Size, f.Blocks = f.Size+n, f.Blocks+1
		if c.counts[b] > 0 {
			f.Reached, f.BlocksReached = f.Reached+n, f.BlocksReached+1
		}
		f.Insns += c.counts[b] * uint64(n)
	}
	for _, t := range c.lineTotals(c.counts) {
		f := &out[at[t.function]]
		f.Lines = append(f.Lines, bench.LineCoverage{
			File: t.file, Line: int(t.line), Text: t.text, Executions: t.executions(), Insns: t.insns, Size: t.size, Reached: t.reached,
		})
	}
	c.branches(out)
	return out
}

// branches adds to each function which way its conditional jumps went.
func (c *blockCounts) branches(out []bench.FunctionCoverage) {
	edges := c.flow.edges(c.counts)
	var line *bench.BranchCoverage
	for b, bl := range c.flow.blocks {
		fn := c.flow.functionIndex(bl.start)
		if c.flow.functions[fn].start == bl.start {
			line = nil
		}
		for i := bl.start; i < bl.end; i++ {
			if l := lineOf(&c.flow.insns[i]); l != nil {
				line = &bench.BranchCoverage{File: l.FileName(), Line: int(l.LineNumber())}
			}
		}
		last := bl.end - 1
		to := c.flow.targets[last]
		if !conditional(c.flow.insns[last].OpCode) || to == last+1 {
			continue
		}
		br := bench.BranchCoverage{Insn: last}
		if line != nil {
			br.File, br.Line = line.File, line.Line
		}
		taken, ok1 := edges[edge{b, c.flow.of[to]}]
		not, ok2 := edges[edge{b, c.flow.of[last+1]}]
		if br.Known = ok1 && ok2; br.Known {
			br.Taken, br.Not = taken, not
		}
		out[fn].Branches = append(out[fn].Branches, br)
	}
}

// An edge is a way from one block to another.
type edge struct{ from, to int }

// edges finds how often each way was taken, from how often each block ran: as often
// as a block ran, something went into it, and something out of it. What these sums
// leave open is not there; most ways are the only unknown one of some sum.
func (f *flow) edges(counts []uint64) map[edge]uint64 {
	type sum struct {
		left uint64 // of what goes through the open edges, at most
		open []edge
		all  bool // left is what goes through them: nothing comes or goes another way
	}
	in, out := make([]sum, len(f.blocks)), make([]sum, len(f.blocks))
	throws := mayThrow(f.insns)
	entry := map[int]bool{}
	for _, fn := range f.functions {
		entry[f.of[fn.start]] = true
	}
	for b, bl := range f.blocks {
		in[b].left, in[b].all = counts[b], !entry[b] // functions are called, too
		last := &f.insns[bl.end-1]
		// What does not come back from a call, or from a load, takes no way.
		out[b].left, out[b].all = counts[b], isJump(last) || !endsBlock(last, throws)
		for _, to := range f.successors(b) {
			t := f.of[to]
			if t == len(f.blocks) {
				continue
			}
			e := edge{b, t}
			if slices.Contains(out[b].open, e) {
				continue // both ways lead there
			}
			out[b].open, in[t].open = append(out[b].open, e), append(in[t].open, e)
		}
	}
	known := map[edge]uint64{}
	var work []int // blocks, those of in as they are and those of out from len(blocks) on
	for b := range f.blocks {
		work = append(work, b, len(f.blocks)+b)
	}
	settle := func(e edge, n uint64) {
		if _, ok := known[e]; ok {
			return
		}
		n = min(n, out[e.from].left, in[e.to].left)
		known[e] = n
		for _, s := range []*sum{&out[e.from], &in[e.to]} {
			s.left -= n
			s.open = slices.DeleteFunc(s.open, func(o edge) bool { return o == e })
		}
		work = append(work, e.to, len(f.blocks)+e.from)
	}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		s := &in[i%len(f.blocks)]
		if i >= len(f.blocks) {
			s = &out[i-len(f.blocks)]
		}
		switch {
		case s.left == 0:
			for _, e := range slices.Clone(s.open) {
				settle(e, 0)
			}
		case s.all && len(s.open) == 1:
			settle(s.open[0], s.left)
		}
	}
	return known
}
