//go:build linux

package bpf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// Digest identifies the program and what its result can depend on: instructions
// after relocation against the running kernel, type, flags, attach target, the shape
// and initial contents of every map, and the same of every program that it can
// reach: by tail call, or by a map that another program of the object may write. It
// is empty where that cannot be told, as of what its own loader loads. Source
// positions and symbol names do not count. It is not for concurrent use.
func (o *Object) Digest(program string) string {
	if !o.Has(program) || o.loaders[program] != nil {
		return ""
	}
	if o.digests == nil {
		o.digests = o.digestParts()
	}
	d := o.digests
	if d.unfit {
		return ""
	}
	// What is reached, and from where on.
	programs, held := map[string]bool{program: true}, map[string]bool{}
	for work := []string{program}; len(work) > 0; {
		p := work[len(work)-1]
		work = work[:len(work)-1]
		for m := range d.closure(d.uses[p]) {
			if held[m] {
				continue
			}
			held[m] = true
			for _, other := range d.runs[m] {
				if !programs[other] {
					programs[other], work = true, append(work, other)
				}
			}
		}
	}
	h := sha256.New()
	delete(programs, program)
	// The entry program first: which of two programs is entered matters.
	for _, name := range append([]string{program}, slices.Sorted(maps.Keys(programs))...) {
		fmt.Fprintf(h, "program %s %s\n", name, d.programs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		fmt.Fprintf(h, "map %s %s\n", name, d.maps[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// digests are those of the parts of an object.
type digests struct {
	unfit          bool                // what is configured does not fit the object
	programs, maps map[string]string   // by name
	uses           map[string][]string // maps by program
	inner          map[string][]string // maps that a map holds from the start
	runs           map[string][]string // programs that a map holds, or that may write it
}

// closure is the maps with those inside of them.
func (d *digests) closure(names []string) map[string]bool {
	out := map[string]bool{}
	for work := slices.Clone(names); len(work) > 0; {
		m := work[len(work)-1]
		work = work[:len(work)-1]
		if !out[m] {
			out[m] = true
			work = append(work, d.inner[m]...)
		}
	}
	return out
}

// digestParts are those of the whole object.
func (o *Object) digestParts() *digests {
	all := &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{}, Programs: o.spec.Programs, Types: o.spec.Types, ByteOrder: o.spec.ByteOrder}
	for name, m := range o.spec.Maps {
		all.Maps[name] = m.Copy()
	}
	d := &digests{unfit: o.globals(all) != nil || o.size(all) != nil, programs: map[string]string{}, maps: map[string]string{}, uses: map[string][]string{}, inner: map[string][]string{}, runs: map[string][]string{}}
	for name, p := range all.Programs {
		h := sha256.New()
		writeProgram(h, p)
		d.programs[name] = hex.EncodeToString(h.Sum(nil))
		for i := range p.Instructions {
			ins := &p.Instructions[i]
			m := all.Maps[ins.Reference()]
			if m == nil || !ins.IsLoadFromMap() || slices.Contains(d.uses[name], ins.Reference()) {
				continue
			}
			d.uses[name] = append(d.uses[name], ins.Reference())
			// No program changes what another reads here.
			if m.Flags&unix.BPF_F_RDONLY_PROG == 0 {
				d.runs[ins.Reference()] = append(d.runs[ins.Reference()], name)
			}
		}
	}
	for name, m := range all.Maps {
		h := sha256.New()
		writeMap(h, m)
		for _, kv := range m.Contents {
			held, ok := kv.Value.(string)
			switch {
			case !ok:
			case all.Programs[held] != nil:
				d.runs[name] = append(d.runs[name], held)
			case all.Maps[held] != nil:
				d.inner[name] = append(d.inner[name], held)
			}
		}
		for _, setup := range o.setups() {
			if setup.Name != name {
				continue
			}
			for _, e := range setup.Entries {
				fmt.Fprint(h, " ")
				writeValue(h, e.Key)
				fmt.Fprint(h, "=")
				writeValue(h, e.Value)
				if held, ok := programRef(e.Value); ok && all.Programs[held] != nil {
					d.runs[name] = append(d.runs[name], held)
				}
			}
		}
		d.maps[name] = hex.EncodeToString(h.Sum(nil))
	}
	return d
}

// kernelTypes are the running kernel's, for relocations.
var kernelTypes = btf.NewCache()

func writeProgram(w io.Writer, p *ebpf.ProgramSpec) {
	fmt.Fprintf(w, "%d %d %q %d %q\n", p.Type, p.AttachType, p.AttachTo, p.Flags, p.License)
	insns, relocated := relocate(p)
	for i := range insns {
		ins := &insns[i]
		if fn := btf.FuncMetadata(ins); fn != nil {
			fmt.Fprintf(w, "function %d %q\n", fn.Linkage, fn.Tags) // an exception callback is named by a tag
		}
		// The constant of a call or map load is a placeholder; the name that it
		// refers to is what will be there.
		fmt.Fprintf(w, "%d %d %d %d %d %q", ins.OpCode, ins.Dst, ins.Src, ins.Offset, ins.Constant, ins.Reference())
		if r := relocation(ins); r != "" && !relocated {
			fmt.Fprintf(w, " %s", r)
		}
		fmt.Fprintln(w)
	}
}

// relocate is the program's code as the running kernel's types make it; false where
// they are not known or do not fit: then the relocations themselves tell.
func relocate(p *ebpf.ProgramSpec) (asm.Instructions, bool) {
	insns := slices.Clone(p.Instructions)
	var relos []*btf.CORERelocation
	var at []int
	for i := range insns {
		if r := btf.CORERelocationMetadata(&insns[i]); r != nil {
			relos, at = append(relos, r), append(at, i)
		}
	}
	if len(relos) == 0 {
		return insns, true
	}
	kernel, err := kernelTypes.Kernel()
	if err != nil {
		return p.Instructions, false
	}
	order := p.ByteOrder
	if order == nil {
		order = nativeOrder()
	}
	// Types of the object's own have numbers that say nothing.
	local := func(btf.Type) (btf.TypeID, error) { return 1, nil }
	fixups, err := btf.CORERelocate(relos, []*btf.Spec{kernel}, order, local)
	if err != nil {
		return p.Instructions, false
	}
	for i := range fixups {
		if fixups[i].Apply(&insns[at[i]]) != nil {
			return p.Instructions, false
		}
	}
	return insns, true
}

func writeMap(w io.Writer, m *ebpf.MapSpec) {
	fmt.Fprintf(w, "%s %#x %#x %d %d %d %d ", m.Type, m.Flags, m.MapExtra, m.NumaNode, m.KeySize, m.ValueSize, m.MaxEntries)
	// What the kernel does with a value (a lock, a timer, a tree) is in its type.
	writeType(w, m.Key, 0)
	fmt.Fprint(w, " ")
	writeType(w, m.Value, 0)
	for _, kv := range m.Contents {
		fmt.Fprintf(w, " %v=%v", kv.Key, kv.Value)
	}
	if m.InnerMap != nil {
		fmt.Fprint(w, " [")
		writeMap(w, m.InnerMap)
		fmt.Fprint(w, "]")
	}
}

// writeType writes a type as far as its value reaches; pointers are told by the name
// of their target.
func writeType(w io.Writer, t btf.Type, depth int) {
	const deepest = 32 // as btf_parse's own limit
	if depth > deepest {
		return
	}
	members := func(kind, name string, size uint32, members []btf.Member) {
		fmt.Fprintf(w, "%s %q %d {", kind, name, size)
		for _, m := range members {
			fmt.Fprintf(w, "%q %d %d %q ", m.Name, m.Offset, m.BitfieldSize, m.Tags)
			writeType(w, m.Type, depth+1)
			fmt.Fprint(w, ";")
		}
		fmt.Fprint(w, "}")
	}
	switch t := t.(type) {
	case nil:
		fmt.Fprint(w, "-")
	case *btf.Struct:
		members("struct", t.Name, t.Size, t.Members)
	case *btf.Union:
		members("union", t.Name, t.Size, t.Members)
	case *btf.Array:
		fmt.Fprintf(w, "[%d]", t.Nelems)
		writeType(w, t.Type, depth+1)
	case *btf.Typedef:
		fmt.Fprintf(w, "%q ", t.Tags)
		writeType(w, t.Type, depth+1)
	case *btf.Const:
		writeType(w, t.Type, depth+1)
	case *btf.Volatile:
		writeType(w, t.Type, depth+1)
	case *btf.Restrict:
		writeType(w, t.Type, depth+1)
	case *btf.TypeTag:
		fmt.Fprintf(w, "tag %q ", t.Value)
		writeType(w, t.Type, depth+1)
	case *btf.Pointer:
		fmt.Fprint(w, "*")
		target := t.Target
		for {
			tag, ok := target.(*btf.TypeTag)
			if !ok {
				break
			}
			fmt.Fprintf(w, "tag %q ", tag.Value)
			target = tag.Type
		}
		if target != nil {
			fmt.Fprintf(w, "%q", target.TypeName())
		}
	case *btf.Int:
		fmt.Fprintf(w, "int %d %d", t.Size, t.Encoding)
	case *btf.Datasec:
		fmt.Fprintf(w, "section %d", t.Size) // its variables are its contents
	default:
		size, _ := btf.Sizeof(t)
		fmt.Fprintf(w, "%T %q %d", t, t.TypeName(), size)
	}
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
