//go:build linux

package bpf

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/org/ebpf-bench-gate/bench"
)

// An event is something that each execution of a block adds 1 to: the calls of a
// helper, the lookups in a map.
type event struct {
	block   int
	measure string
}

// unknownMap stands for a map that the code does not name where it is used: one
// that came out of memory, or another one on each way to the call. No map is named
// so.
const unknownMap = "unknown map"

// events are the calls of a program, by block.
func (f *flow) events(maps map[string]*ebpf.MapSpec) []event {
	before := f.references(maps)
	var out []event
	for b, bl := range f.blocks {
		refs := before[b]
		for i := bl.start; i < bl.end; i++ {
			ins := &f.insns[i]
			if name := callName(ins); name != "" {
				out = append(out, event{b, bench.Member(bench.Calls, name)})
			}
			if op, ok := mapOp(ins); ok {
				out = append(out, event{b, bench.Member(op.family, refs[op.at].mapName())})
			}
			refs = refer(refs, ins, maps)
		}
	}
	return out
}

func (r reference) mapName() string {
	switch r.kind {
	case refMap:
		return clip(r.name)
	case refInner:
		return "inner of " + clip(r.name)
	}
	return unknownMap
}

// An operation is what a helper does to a map, and the register that holds the map.
type operation struct {
	family string
	at     asm.Register
}

// mapOp tells what a call does to a map. Helpers that only take a map to go
// somewhere (a tail call, a redirect) are calls and nothing else.
func mapOp(ins *asm.Instruction) (operation, bool) {
	if !ins.IsBuiltinCall() {
		return operation{}, false
	}
	switch asm.BuiltinFunc(ins.Constant) {
	case asm.FnMapLookupElem, asm.FnMapLookupPercpuElem, asm.FnMapPeekElem, asm.FnGetLocalStorage,
		asm.FnSkStorageGet, asm.FnInodeStorageGet, asm.FnTaskStorageGet, asm.FnCgrpStorageGet:
		return operation{bench.MapLookup, asm.R1}, true
	case asm.FnMapUpdateElem, asm.FnMapPushElem:
		return operation{bench.MapUpdate, asm.R1}, true
	case asm.FnSockMapUpdate, asm.FnSockHashUpdate:
		return operation{bench.MapUpdate, asm.R2}, true
	case asm.FnMapDeleteElem, asm.FnMapPopElem,
		asm.FnSkStorageDelete, asm.FnInodeStorageDelete, asm.FnTaskStorageDelete, asm.FnCgrpStorageDelete:
		return operation{bench.MapDelete, asm.R1}, true
	case asm.FnRingbufOutput, asm.FnRingbufReserve, asm.FnRingbufReserveDynptr:
		return operation{bench.MapOutput, asm.R1}, true
	case asm.FnPerfEventOutput, asm.FnSkbOutput, asm.FnXdpOutput:
		return operation{bench.MapOutput, asm.R2}, true
	}
	return operation{}, false
}

// callName is the name of the helper or kfunc that an instruction calls, as C
// writes it, or "".
func callName(ins *asm.Instruction) string {
	switch {
	case ins.IsKfuncCall():
		return clip(ins.Reference())
	case !ins.IsBuiltinCall():
		return ""
	}
	// FnMapLookupElem is bpf_map_lookup_elem, FnGetPrandomU32 bpf_get_prandom_u32.
	name := strings.TrimPrefix(asm.BuiltinFunc(ins.Constant).String(), "Fn")
	var b strings.Builder
	b.WriteString("bpf")
	for i, r := range name {
		if r >= 'A' && r <= 'Z' || i == 0 {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// background tells, of each block, whether it belongs to a function that the
// program hands over to run later, by itself (a timer's or a work queue's
// callback), and never runs on its own account. What such code executes is part of
// no run: when it does so is up to the kernel.
func (f *flow) background(maps map[string]*ebpf.MapSpec) []bool {
	later := map[string]bool{}
	before := f.references(maps)
	for b, bl := range f.blocks {
		refs := before[b]
		for i := bl.start; i < bl.end; i++ {
			ins := &f.insns[i]
			if at, ok := handsOver(ins); ok && refs[at].kind == refFunction {
				later[refs[at].name] = true
			}
			refs = refer(refs, ins, maps)
		}
	}
	// What is left once these references are taken for none.
	run := map[int]bool{0: true}
	for work := []int{0}; len(work) > 0; {
		fn := f.functionOf(work[len(work)-1])
		work = work[:len(work)-1]
		for i := fn.start; i < fn.end; i++ {
			ins := &f.insns[i]
			if !ins.IsFunctionReference() || ins.IsLoadOfFunctionPointer() && later[ins.Reference()] {
				continue
			}
			if to := f.symbols[ins.Reference()]; !run[to] {
				run[to] = true
				work = append(work, to)
			}
		}
	}
	out := make([]bool, len(f.blocks))
	for b, bl := range f.blocks {
		out[b] = !run[f.functionOf(bl.start).start]
	}
	return out
}

// handsOver is the register of a call that holds a function for later.
func handsOver(ins *asm.Instruction) (asm.Register, bool) {
	switch {
	case ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnTimerSetCallback:
		return asm.R2, true
	case ins.IsKfuncCall():
		switch name := ins.Reference(); {
		case strings.HasPrefix(name, "bpf_wq_set_callback"): // Linux 6.10
			return asm.R2, true
		case strings.HasPrefix(name, "bpf_task_work_schedule_"): // Linux 6.18
			return asm.R4, true
		}
	}
	return 0, false
}

// A SideCount is one measure of one run, on average over the packets.
type SideCount struct {
	Measure string // "calls[bpf_redirect]"
	Mean    float64
}

// counts adds up what executed blocks did besides executing instructions, in the
// order of [bench.MeasureOrder].
func (in *instrumented) counts(blocks []uint64, runs float64) []SideCount {
	totals := map[string]uint64{}
	for _, p := range in.programs {
		for _, e := range p.events {
			if n := blocks[p.first+e.block]; n > 0 {
				totals[e.measure] += n
			}
		}
	}
	out := make([]SideCount, 0, len(totals))
	for name, n := range totals {
		out = append(out, SideCount{name, float64(n) / runs})
	}
	slices.SortFunc(out, func(a, b SideCount) int { return bench.MeasureOrder(a.Measure, b.Measure) })
	return out
}
