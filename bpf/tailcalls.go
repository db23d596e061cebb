//go:build linux

package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// maxTailCalls is MAX_TAIL_CALL_CNT: the kernel makes so many tail calls in a row,
// and the next one fails.
const maxTailCalls = 33

// tailCalls is the length of the longest chain of tail calls that the known
// contents of the program's arrays allow: those that the object defines and those
// that the config puts there. Programs that call each other in a circle have
// [maxTailCalls]. It is unknown (false) where an array of a program that tail-calls
// is filled by its loader.
func (o *Object) tailCalls(program string) (int, bool) {
	length := map[string]int{}
	busy := map[string]bool{}
	circle, known := false, true
	var walk func(name string) int
	walk = func(name string) int {
		if n, ok := length[name]; ok {
			return n
		}
		if busy[name] {
			circle = true
			return maxTailCalls
		}
		busy[name] = true
		callees, ok := o.callees(name)
		known = known && ok
		n := 0
		for _, c := range callees {
			n = max(n, 1+walk(c))
		}
		busy[name] = false
		length[name] = n
		return n
	}
	n := walk(program)
	if circle {
		return maxTailCalls, known
	}
	return n, known
}

// callees are the programs that a program may tail-call. Any array of programs
// that it uses may be the one that it calls into.
func (o *Object) callees(program string) (names []string, known bool) {
	p := o.spec.Programs[program]
	if p == nil {
		return nil, false
	}
	var arrays []string
	calls := false
	for i := range p.Instructions {
		ins := &p.Instructions[i]
		calls = calls || ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnTailCall
		if !ins.IsLoadFromMap() {
			continue
		}
		if m := o.spec.Maps[ins.Reference()]; m != nil && m.Type == ebpf.ProgramArray {
			arrays = append(arrays, ins.Reference())
		}
	}
	if !calls {
		return nil, true
	}
	known = true
	for _, array := range arrays {
		before := len(names)
		for _, kv := range o.spec.Maps[array].Contents {
			if callee, ok := kv.Value.(string); ok {
				names = append(names, callee)
			}
		}
		for _, setup := range o.setups() {
			if setup.Name != array {
				continue
			}
			for _, e := range setup.Entries {
				if callee, ok := programRef(e.Value); ok {
					names = append(names, callee)
				}
			}
		}
		known = known && len(names) > before
	}
	return names, known && len(arrays) > 0
}
