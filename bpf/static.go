//go:build linux

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/org/ebpf-bench-gate/bench"
)

// Static returns the static measures of a program, one sample of round 0 each,
// in the order of [bench.Measures]. They are of this one program: a program that
// it tail-calls has measures of its own.
//
// The program must have been loaded with LoadOptions.Stats. A measure that this
// kernel does not tell is left out, never 0:
//
//   - verified_insns: the verifier's log, else program info (Linux 5.16,
//     aba64c7da983).
//   - peak_states, total_states, max_states_per_insn, max_mark_read_len: the
//     verifier's log (Linux 5.2, 06ee7115b0d1).
//   - stack_depth (bytes): the verifier's log. It lists the depth of the program
//     and of each subprogram; this is their sum, as veristat reports it, and so
//     may exceed the 512 bytes that one chain of calls may take.
//   - max_stack_depth (bytes): what the deepest chain takes, rounded as the kernel
//     does: the verifier's log (Linux 7.3), else from the depth of each function
//     and the calls in the object. A program that is interpreted is rounded up more.
//   - tail_call_stack (bytes): likewise; only where a subprogram makes tail calls.
//   - tail_call_depth: from the object and the config; absent where only the loader
//     knows which programs an array holds.
//   - used_maps: program info; the maps of global variables are among them.
//   - verification_time (microseconds): the verifier's log.
//   - prog_size: instructions as they are loaded; an ld_imm64 counts as two.
//   - xlated_insns: program info; an ld_imm64 counts as two, as in the kernel's
//     own limit.
//   - jited_bytes: program info; absent where programs are interpreted.
//   - memlock (bytes): /proc/self/fdinfo; the pages of the program itself, not of
//     its maps.
func Static(l *Loaded) ([]bench.Result, error) {
	values, _, err := inspect(l)
	if err != nil {
		return nil, err
	}
	var out []bench.Result
	for _, m := range bench.Measures() {
		v, ok := values[m.Name]
		if !m.Static || !ok {
			continue
		}
		out = append(out, bench.Result{
			Benchmark: l.Name, Program: l.Name, Measure: m.Name, Kind: bench.Static,
			Samples: []bench.Sample{{Value: v, Offset: -1}},
		})
	}
	return out, nil
}

// Functions returns what is known of the program and of each of its subprograms; nil
// for a program that has none. The program must have been loaded with
// LoadOptions.Stats.
func Functions(l *Loaded) ([]bench.Function, error) {
	if len(newCallGraph(l.spec.Programs[l.Name].Instructions)) < 2 {
		return nil, nil
	}
	_, functions, err := inspect(l)
	return functions, err
}

// inspect reads the static measures of a loaded program, and its functions if they
// are several.
func inspect(l *Loaded) (map[string]float64, []bench.Function, error) {
	log, err := parseLog(l.Log)
	if err != nil {
		return nil, nil, fmt.Errorf("statistics of %s: %w", l.Name, err)
	}
	info, err := l.Program.Info()
	if err != nil {
		return nil, nil, fmt.Errorf("program info of %s: %w", l.Name, err)
	}
	values := log.values
	if n, ok := info.VerifiedInstructions(); ok && n > 0 {
		if _, logged := values[bench.VerifiedInsns]; !logged {
			values[bench.VerifiedInsns] = float64(n)
		}
	}
	if ids, ok := info.MapIDs(); ok {
		values[bench.UsedMaps] = float64(len(ids))
	}
	if n, err := info.TranslatedSize(); err == nil {
		values[bench.XlatedInsns] = float64(n / asm.InstructionSize)
	}
	jited := false
	if n, err := info.JitedSize(); err == nil && n > 0 {
		values[bench.JitedBytes] = float64(n)
		jited = true
	}
	if n, ok := info.Memlock(); ok {
		values[bench.Memlock] = float64(n)
	}
	spec := l.spec.Programs[l.Name]
	l.object.fromSource(l.Name, values)

	g := newCallGraph(spec.Instructions)
	functions := log.functions
	if len(g) > 1 {
		if functions, g, err = nameFunctions(functions, g, info); err != nil {
			return nil, nil, fmt.Errorf("functions of %s: %w", l.Name, err)
		}
	}
	if stacks, ok := stacksOf(functions); ok && len(stacks) == len(g) {
		deepest, beforeTailCall := stackOf(g, stacks, spec.Type, jited)
		if _, logged := values[bench.MaxStackDepth]; !logged {
			values[bench.MaxStackDepth] = float64(deepest)
		}
		if beforeTailCall >= 0 {
			values[bench.TailCallStack] = float64(beforeTailCall)
		}
	}
	if len(functions) < 2 {
		functions = nil
	}
	return values, functions, nil
}

// stacksOf are the stacks of the functions; false where one is not known.
func stacksOf(functions []bench.Function) (stacks []int, ok bool) {
	for _, f := range functions {
		if f.Stack == nil {
			return nil, false
		}
		stacks = append(stacks, *f.Stack)
	}
	return stacks, len(stacks) > 0
}

// fromSource adds the measures that need no kernel.
func (o *Object) fromSource(program string, values map[string]float64) {
	p := o.spec.Programs[program]
	if p == nil {
		return
	}
	values[bench.ProgSize] = float64(p.Instructions.Size() / asm.InstructionSize)
	if n, known := o.tailCalls(program); known {
		values[bench.TailCallDepth] = float64(n)
	}
}

// nameFunctions gives the functions of a log their names and sizes. The verifier
// drops subprograms that it finds dead, and so do the functions and the call graph
// that it returns; where it cannot be told which are left, there are no functions.
func nameFunctions(functions []bench.Function, g callGraph, info *ebpf.ProgramInfo) ([]bench.Function, callGraph, error) {
	offsets, err := info.FuncInfos()
	if err != nil && !errors.Is(err, ebpf.ErrNotSupported) && !errors.Is(err, ebpf.ErrRestrictedKernel) {
		return nil, nil, err
	}
	var names []string
	for _, o := range offsets {
		names = append(names, o.Func.Name)
	}
	if names == nil {
		for _, f := range g {
			names = append(names, f.name)
		}
	}
	if len(functions) == 0 { // no log, or one that tells none
		functions = make([]bench.Function, len(names))
	}
	// Kernels list exception callbacks of their own making behind the others.
	if len(functions) < len(names) {
		return nil, g, nil
	}
	functions = functions[:len(names)]
	lens, _ := info.JitedFuncLens()
	size, sizeErr := info.TranslatedSize()
	for i := range functions {
		functions[i].Name = names[i]
		if len(lens) >= len(functions) {
			n := int(lens[i])
			functions[i].Jited = &n
		}
		if len(offsets) == len(functions) && sizeErr == nil {
			end := size / asm.InstructionSize
			if i+1 < len(offsets) {
				end = int(offsets[i+1].Offset)
			}
			n := end - int(offsets[i].Offset)
			functions[i].Xlated = &n
		}
	}
	return functions, g.only(names), nil
}

// only is the graph of the functions that are left, in their order.
func (g callGraph) only(names []string) callGraph {
	if len(names) == len(g) {
		return g
	}
	index := map[string]int{}
	for i, n := range names {
		index[n] = i
	}
	kept := make(callGraph, len(names))
	for _, f := range g {
		at, ok := index[f.name]
		if !ok {
			continue
		}
		old := f.callees
		f.callees = nil
		for _, c := range old {
			if to, ok := index[g[c].name]; ok {
				f.callees = append(f.callees, to)
			}
		}
		kept[at] = f
	}
	return kept
}
