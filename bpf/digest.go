//go:build linux

package bpf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
)

// Digest identifies the program and what its result can depend on: relocated
// instructions, type, flags, attach target, the shape and initial contents of
// every map, and the same of every program reachable by tail call. It is empty
// where that cannot be told. Source positions and symbol names do not count.
func (o *Object) Digest(program string) string {
	spec, err := o.prune(program)
	if err != nil || o.size(spec) != nil {
		return ""
	}
	h := sha256.New()
	names := make([]string, 0, len(spec.Programs))
	for n := range spec.Programs {
		names = append(names, n)
	}
	// The entry program first: which of two programs is entered matters.
	sort.Slice(names, func(i, j int) bool {
		if (names[i] == program) != (names[j] == program) {
			return names[i] == program
		}
		return names[i] < names[j]
	})
	for _, n := range names {
		p := spec.Programs[n]
		fmt.Fprintf(h, "program %s %d %d %q %d %q\n", n, p.Type, p.AttachType, p.AttachTo, p.Flags, p.License)
		for _, ins := range p.Instructions {
			// The constant of a call or map load is a placeholder; the name
			// that it refers to is what will be there. CO-RE relocations add
			// the accessor they resolve.
			fmt.Fprintf(h, "%d %d %d %d %d %q", ins.OpCode, ins.Dst, ins.Src, ins.Offset, ins.Constant, ins.Reference())
			if r := btf.CORERelocationMetadata(&ins); r != nil {
				fmt.Fprintf(h, " %s", r)
			}
			fmt.Fprintln(h)
		}
	}
	maps := make([]string, 0, len(spec.Maps))
	for n := range spec.Maps {
		maps = append(maps, n)
	}
	slices.Sort(maps)
	for _, n := range maps {
		m := spec.Maps[n]
		fmt.Fprintf(h, "map %s %s %d %d", n, m.Type, m.Flags, m.MapExtra)
		fmt.Fprintf(h, " %d %d %d %v", m.KeySize, m.ValueSize, m.MaxEntries, m.InnerMap)
		for _, kv := range m.Contents {
			fmt.Fprintf(h, " %v=%v", kv.Key, kv.Value)
		}
		for _, setup := range o.setups() {
			if setup.Name != n {
				continue
			}
			for _, e := range setup.Entries {
				fmt.Fprint(h, " ")
				writeValue(h, e.Key)
				fmt.Fprint(h, "=")
				writeValue(h, e.Value)
			}
		}
		fmt.Fprintln(h)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// writeValue writes what a value says, and not where it stands.
func writeValue(w io.Writer, v bench.Value) {
	switch x := v.Expr.(type) {
	case bench.Call:
		fmt.Fprintf(w, "%s(", x.Func)
		for _, a := range x.Args {
			writeValue(w, a)
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, ")")
	case bench.Struct:
		fmt.Fprint(w, "{")
		for _, f := range x {
			fmt.Fprintf(w, "%q:", f.Name)
			writeValue(w, f.Value)
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, "}")
	case bench.List:
		fmt.Fprint(w, "[")
		for _, el := range x {
			writeValue(w, el)
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, "]")
	default:
		fmt.Fprintf(w, "%T%q", x, fmt.Sprint(x))
	}
}
