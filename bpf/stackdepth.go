//go:build linux

package bpf

import (
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// maxFrames is MAX_CALL_FRAMES: so many functions may be on the stack at once.
const maxFrames = 8

// A callGraph is who calls whom in a program, callbacks included.
type callGraph []subprogram

// A subprogram is one function of a program; the first is the program itself.
type subprogram struct {
	name    string
	callees []int
	// async tells that the function runs on a stack of its own: it is the callback of
	// a timer or a work queue.
	async    bool
	tailCall bool // it makes tail calls
}

// newCallGraph finds the functions of a program in their order, which is the
// kernel's.
func newCallGraph(insns asm.Instructions) callGraph {
	if len(insns) == 0 {
		return nil
	}
	referenced := map[string]bool{}
	for i := range insns {
		if insns[i].IsFunctionReference() {
			referenced[insns[i].Reference()] = true
		}
	}
	var g callGraph
	index := map[string]int{}
	starts := make([]bool, len(insns))
	for i := range insns {
		name := insns[i].Symbol()
		if i > 0 && (name == "" || !referenced[name]) && btf.FuncMetadata(&insns[i]) == nil {
			continue
		}
		if _, twice := index[name]; !twice {
			index[name] = len(g)
		}
		starts[i] = true
		g = append(g, subprogram{name: name})
	}
	at := -1
	for i := range insns {
		if starts[i] {
			at++
		}
		f, ins := &g[at], &insns[i]
		switch {
		case ins.IsFunctionReference():
			callee, ok := index[ins.Reference()]
			if !ok {
				continue // the kernel will say so
			}
			if ins.IsLoadOfFunctionPointer() && callsLater(insns[i+1:]) {
				g[callee].async = true
			} else if !slices.Contains(f.callees, callee) {
				f.callees = append(f.callees, callee)
			}
		case ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnTailCall:
			f.tailCall = true
		}
	}
	return g
}

// callsLater tells that the next call keeps the function that was just loaded and
// runs it later: that of a timer, a work queue, or task work.
func callsLater(insns asm.Instructions) bool {
	for i := range insns {
		switch ins := &insns[i]; {
		case ins.IsBuiltinCall():
			return asm.BuiltinFunc(ins.Constant) == asm.FnTimerSetCallback
		case ins.IsKfuncCall():
			switch ins.Reference() {
			case "bpf_wq_set_callback_impl", "bpf_wq_set_callback",
				"bpf_task_work_schedule_signal_impl", "bpf_task_work_schedule_signal",
				"bpf_task_work_schedule_resume_impl", "bpf_task_work_schedule_resume":
				return true
			}
			return false
		case ins.IsFunctionCall():
			return false
		}
	}
	return false
}

// depths walks the chains of calls as check_max_stack_depth in the verifier does.
// stacks holds the bytes of each function, rounded. deepest is the most that a
// chain takes; beforeTailCall the most that the callers of a subprogram take
// that makes tail calls, -1 where none does. Functions for which private says so
// have stacks of their own, and count by themselves.
func (g callGraph) depths(stacks []int, private func(i int) bool) (deepest, beforeTailCall int) {
	beforeTailCall = -1
	for root := range g {
		if root > 0 && !g[root].async {
			continue
		}
		// above[i] is the most that is on the stack when i is called; -1: it is not.
		above := slices.Repeat([]int{-1}, len(g))
		above[root] = 0
		for range maxFrames {
			next := slices.Repeat([]int{-1}, len(g))
			called := false
			for i, depth := range above {
				if depth < 0 {
					continue
				}
				if i > 0 && g[i].tailCall {
					beforeTailCall = max(beforeTailCall, depth)
				}
				if private(i) {
					deepest = max(deepest, stacks[i])
				} else {
					depth += stacks[i]
					deepest = max(deepest, depth)
				}
				for _, callee := range g[i].callees {
					next[callee] = max(next[callee], depth)
					called = true
				}
			}
			if !called {
				break
			}
			above = next
		}
	}
	return deepest, beforeTailCall
}

// stackOf is what the chains of calls of a loaded program take, from the stack of each
// function as the verifier's log lists it; see [callGraph.depths].
//
// Kernels differ in how they round, and some give the functions of tracing programs
// stacks of their own (x86-64 from Linux 6.13). Both is found out by loading, since
// distributions backport.
func stackOf(g callGraph, stacks []int, typ ebpf.ProgramType, jited bool) (deepest, beforeTailCall int) {
	unit := 32 // of the interpreter, and of older kernels
	if jited && roundsTo16() {
		unit = 16
	}
	rounded := make([]int, len(stacks))
	for i, n := range stacks {
		if rounded[i] = (n + unit - 1) / unit * unit; unit == 32 {
			rounded[i] = max(rounded[i], unit)
		}
	}
	const minPrivate = 64 // BPF_PRIV_STACK_MIN_SIZE
	tailCalls := slices.ContainsFunc(g, func(f subprogram) bool { return f.tailCall })
	adaptive := len(g) > 1 && jited && !tailCalls && mayHavePrivateStack(typ) && hasPrivateStacks()
	return g.depths(rounded, func(i int) bool { return adaptive && rounded[i] >= minPrivate && !g.async(i) })
}

// async tells that a function may run on a callback's stack.
func (g callGraph) async(i int) bool {
	seen := make([]bool, len(g))
	var reach func(at int) bool
	reach = func(at int) bool {
		if at == i {
			return true
		}
		if seen[at] {
			return false
		}
		seen[at] = true
		return slices.ContainsFunc(g[at].callees, reach)
	}
	for root := range g {
		if g[root].async && reach(root) {
			return true
		}
	}
	return false
}

// mayHavePrivateStack are the types of bpf_enable_priv_stack and
// bpf_prog_check_recur in the kernel.
func mayHavePrivateStack(t ebpf.ProgramType) bool {
	switch t {
	case ebpf.Kprobe, ebpf.TracePoint, ebpf.PerfEvent, ebpf.RawTracepoint, ebpf.Tracing, ebpf.LSM:
		return true
	}
	return false
}

// roundsTo16 tells that a compiled program's frames are rounded up to 16 bytes: two
// of 240 and 272 then fit into 512, and do not if they are rounded up to 32.
var roundsTo16 = sync.OnceValue(func() bool { return loadsFrames(ebpf.SocketFilter, 240, 272) })

// hasPrivateStacks tells that two frames may take more than 512 bytes together.
var hasPrivateStacks = sync.OnceValue(func() bool { return loadsFrames(ebpf.Kprobe, 320, 320) })

// loadsFrames tells whether a program loads that uses so many bytes of stack, and
// calls a function that uses so many more.
func loadsFrames(t ebpf.ProgramType, caller, callee int16) bool {
	p, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
		Name: "gate_frames", Type: t, License: "GPL",
		Instructions: asm.Instructions{
			asm.StoreImm(asm.RFP, -caller, 0, asm.Word),
			asm.Call.Label("callee"),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
			asm.StoreImm(asm.RFP, -callee, 0, asm.Word).WithSymbol("callee"),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	}, ebpf.ProgramOptions{LogDisabled: true})
	if err != nil {
		return false
	}
	p.Close()
	return true
}
