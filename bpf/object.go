//go:build linux

package bpf

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// MaxObjectSize is the size in bytes of the largest object file that is read.
const MaxObjectSize = 256 << 20

// An Object is an ELF file with eBPF programs, read but not loaded.
type Object struct {
	Path string
	spec *ebpf.CollectionSpec
	// setups of the config by program; those of other programs matter too,
	// since a program array may hold them.
	programs map[string]bench.Program
	set      []bench.Constant // over those of programs; see Set
	loaders  map[string]Loader
	shift    int // see Shifted
	// quiet asks for no log of a rejection: one of a million instructions takes
	// half a minute to write.
	quiet bool
	// digests of its parts, made when the first is asked for; see Digest.
	digests *digests
}

// OpenObject reads an object file. The error says whether the file is empty,
// truncated, or no eBPF object at all.
func OpenObject(path string) (*Object, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readObject(path, f)
}

// openFile opens what may be an object, or hold one.
func openFile(path string) (*os.File, error) {
	st, err := os.Stat(path) // before it is opened: that of a pipe may never end
	switch {
	case err != nil:
		return nil, err
	case st.IsDir():
		return nil, fmt.Errorf("%s is a directory, not an eBPF object", path)
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case st.Size() == 0:
		return nil, fmt.Errorf("%s is empty, not an eBPF object", path)
	case st.Size() > MaxObjectSize:
		return nil, fmt.Errorf("%s has %d bytes, more than the %d of any eBPF object", path, st.Size(), MaxObjectSize)
	}
	return os.Open(path)
}

// checkSections refuses objects whose sections are larger, taken together, than any
// object: compressed or overlapping ones, and those that are all zeros, take memory
// that has no relation to the size of the file.
func checkSections(r io.ReaderAt) error {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil // told better by who reads it
	}
	sum := uint64(0)
	for _, s := range f.Sections {
		if s.Size > MaxObjectSize {
			return fmt.Errorf("section %.40q has %d bytes", s.Name, s.Size)
		}
		if sum += s.Size; sum > MaxObjectSize {
			return fmt.Errorf("its sections have more than %d bytes", MaxObjectSize)
		}
	}
	return nil
}

func readObject(path string, r io.ReaderAt) (o *Object, err error) {
	// An ELF parser fed with a damaged file must not take the gate down.
	defer func() {
		if p := recover(); p != nil {
			o, err = nil, fmt.Errorf("%s: not a readable eBPF object: %v", path, p)
		}
	}()
	if err := checkSections(r); err != nil {
		return nil, fmt.Errorf("%s: not a readable eBPF object: %w", path, err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(r)
	if err != nil && strings.Contains(err.Error(), elf.STB_WEAK.String()) {
		if strong := strengthen(r); strong != nil {
			spec, err = ebpf.LoadCollectionSpecFromReader(strong)
		}
	}
	if err != nil {
		var magic [4]byte
		if n, _ := r.ReadAt(magic[:], 0); n < 4 || string(magic[:]) != "\x7fELF" {
			return nil, fmt.Errorf("%s is not an ELF file: give an object (.o) or a C source (.bpf.c)", path)
		}
		if f, elfErr := elf.NewFile(r); elfErr == nil && f.Section(jumpTables) != nil {
			return nil, fmt.Errorf("%s has jump tables (Linux 6.19, clang 22), which this version of gate cannot load; compile with -mcpu=v3 or -fno-jump-tables: %w", path, err)
		}
		return nil, fmt.Errorf("%s: not a readable eBPF object (truncated?): %w", path, err)
	}
	if len(spec.Programs) == 0 {
		return nil, fmt.Errorf("%s has no eBPF programs", path)
	}
	// Pinning by name would share state with, and leave it on, the host.
	for _, m := range spec.Maps {
		m.Pinning = ebpf.PinNone
		m.Extra = nil // iproute2's: pins, and numbers of maps inside
		if m.InnerMap != nil {
			m.InnerMap.Pinning = ebpf.PinNone
		}
	}
	plainKconfig(spec)
	localFunctions(spec, r)
	return &Object{Path: path, spec: spec}, nil
}

// jumpTables is the section with the targets of indirect jumps.
const jumpTables = ".jumptables"

// strengthen is the object with its weak data symbols made global: cilium/ebpf
// reads no weak maps, which libbpf's usdt.bpf.h defines. In a linked object, weak
// tells nothing more. It returns nil where there is nothing to change.
func strengthen(r io.ReaderAt) io.ReaderAt {
	data, err := io.ReadAll(io.NewSectionReader(r, 0, MaxObjectSize))
	if err != nil {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil || f.Class != elf.ELFCLASS64 {
		return nil
	}
	changed := false
	for _, s := range f.Sections {
		if s.Type != elf.SHT_SYMTAB || s.Offset > uint64(len(data)) || s.FileSize > uint64(len(data))-s.Offset {
			continue
		}
		table := data[s.Offset : s.Offset+s.FileSize]
		const info = 4 // st_info in Elf64_Sym: binding << 4 | type
		for ; len(table) >= elf.Sym64Size; table = table[elf.Sym64Size:] {
			if elf.ST_BIND(table[info]) == elf.STB_WEAK && elf.ST_TYPE(table[info]) == elf.STT_OBJECT {
				table[info] = elf.ST_INFO(elf.STB_GLOBAL, elf.STT_OBJECT)
				changed = true
			}
		}
	}
	if !changed {
		return nil
	}
	return bytes.NewReader(data)
}

// localFunctions makes functions of hidden visibility static, as libbpf does: the
// verifier then follows them from where they are called, and need not believe of
// their arguments only what their types say. cilium/ebpf leaves them global.
func localFunctions(spec *ebpf.CollectionSpec, r io.ReaderAt) {
	f, err := elf.NewFile(r)
	if err != nil {
		return
	}
	symbols, err := f.Symbols()
	if err != nil {
		return
	}
	hidden := map[string]bool{}
	for _, s := range symbols {
		v := elf.ST_VISIBILITY(s.Other)
		hidden[s.Name] = elf.ST_TYPE(s.Info) == elf.STT_FUNC && (v == elf.STV_HIDDEN || v == elf.STV_INTERNAL)
	}
	for _, p := range spec.Programs {
		for i := range p.Instructions {
			if fn := btf.FuncMetadata(&p.Instructions[i]); fn != nil && hidden[fn.Name] && fn.Linkage == btf.GlobalFunc {
				fn.Linkage = btf.StaticFunc
			}
		}
	}
}

// plainKconfig strips typedefs from the types of kconfig externs: libbpf takes
// LINUX_KERNEL_VERSION as __u32, cilium/ebpf as a plain integer only. The map that
// it makes of them is reached by nobody but its loader, which looks at the
// types of the object when the program is loaded.
func plainKconfig(spec *ebpf.CollectionSpec) {
	if spec.Types == nil {
		return
	}
	var ds *btf.Datasec
	if spec.Types.TypeByName(".kconfig", &ds) != nil {
		return // no externs
	}
	for _, v := range ds.Vars {
		v, ok := v.Type.(*btf.Var)
		if !ok {
			continue
		}
		v.Type = btf.UnderlyingType(v.Type)
		// By this one libbpf's usdt.bpf.h asks whether a probe has a cookie (Linux
		// 5.15; before, the verifier refuses what reads it). cilium/ebpf takes it for
		// an option of the kernel's: it gets one that is always set.
		if v.Name == "LINUX_HAS_BPF_COOKIE" {
			v.Name = "CONFIG_BPF_SYSCALL"
		}
	}
}

// Configure gives the object what the config says of its programs, once. It
// reports names that the object does not have.
func (o *Object) Configure(programs []bench.Program) error {
	var errs []error
	o.programs, o.digests = make(map[string]bench.Program, len(programs)), nil
	for _, p := range programs {
		spec, ok := o.spec.Programs[p.Name]
		if !ok {
			errs = append(errs, &bench.Diagnostic{
				Pos:     p.Pos,
				Message: fmt.Sprintf("%s has no program %q", p.Object, p.Name),
				Hint:    "it has " + strings.Join(o.Programs(), ", "),
			})
			continue
		}
		if err := retype(spec, p); err != nil {
			errs = append(errs, err)
			continue
		}
		o.programs[p.Name] = p
	}
	return errors.Join(errs...)
}

// Configured is what [Object.Configure] was given and fits, by name.
func (o *Object) Configured() []bench.Program {
	var all []bench.Program
	for _, name := range slices.Sorted(maps.Keys(o.programs)) {
		all = append(all, o.programs[name])
	}
	return all
}

// Programs returns the BTF names of all programs, sorted.
func (o *Object) Programs() []string {
	names := make([]string, 0, len(o.spec.Programs))
	for n := range o.spec.Programs {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Has tells whether the object has the program.
func (o *Object) Has(program string) bool { return o.spec.Programs[program] != nil }

// Type returns the program's type as the kernel names it: "xdp", "sched_cls", …
func (o *Object) Type(program string) string {
	if p := o.spec.Programs[program]; p != nil {
		return programs.TypeName(p.Type)
	}
	return ""
}

// Section returns the ELF section of the program.
func (o *Object) Section(program string) string {
	if p := o.spec.Programs[program]; p != nil {
		return p.SectionName
	}
	return ""
}

// prune copies what loading one program needs: the program, its maps, and the
// programs that those maps hold, so that one failure never hides another.
func (o *Object) prune(program string) (*ebpf.CollectionSpec, error) {
	out := &ebpf.CollectionSpec{
		Maps:      map[string]*ebpf.MapSpec{},
		Programs:  map[string]*ebpf.ProgramSpec{},
		Types:     o.spec.Types,
		ByteOrder: o.spec.ByteOrder,
	}
	var addProgram, addMap func(name string) error
	addMap = func(name string) error {
		m := o.spec.Maps[name]
		if m == nil || out.Maps[name] != nil {
			return nil // the loader reports the missing map
		}
		m = m.Copy()
		out.Maps[name] = m
		for _, kv := range m.Contents {
			held, ok := kv.Value.(string)
			if !ok {
				continue
			}
			add := addMap
			if m.Type == ebpf.ProgramArray {
				add = addProgram
			}
			if err := add(held); err != nil {
				return err
			}
		}
		for _, setup := range o.setups() {
			if setup.Name != name || m.Type != ebpf.ProgramArray {
				continue
			}
			for _, e := range setup.Entries {
				callee, ok := programRef(e.Value)
				if !ok {
					return &bench.Diagnostic{Pos: e.Value.Pos, Message: "a program array holds programs", Hint: "write {program: NAME}"}
				}
				if !o.Has(callee) {
					return &bench.Diagnostic{
						Pos: e.Value.Pos, Message: fmt.Sprintf("no program %q in %s", callee, o.Path),
						Hint: "it has " + strings.Join(o.Programs(), ", "),
					}
				}
				if err := addProgram(callee); err != nil {
					return err
				}
			}
		}
		return nil
	}
	addProgram = func(name string) error {
		p := o.spec.Programs[name]
		if p == nil {
			return fmt.Errorf("no program %q in %s", name, o.Path)
		}
		if out.Programs[name] != nil {
			return nil
		}
		out.Programs[name] = p.Copy()
		for _, ins := range p.Instructions {
			if ref := ins.Reference(); ins.IsLoadFromMap() && ref != "" {
				if err := addMap(ref); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := addProgram(program); err != nil {
		return nil, err
	}
	return out, o.globals(out)
}

// setups are the map setups of all configured programs: a map belongs to the
// object, whichever program's entry sets it up.
func (o *Object) setups() []bench.MapSetup {
	var all []bench.MapSetup
	for _, name := range o.Programs() {
		all = append(all, o.programs[name].Maps...)
	}
	return all
}

// Set gives global variables a value before the object's programs are loaded, over
// what the config says. It returns the names of those that the object has; whether
// their values fit is told by loading.
func (o *Object) Set(constants []bench.Constant) (has []string) {
	o.set, o.digests = nil, nil
	for _, c := range constants {
		if o.spec.Variables[c.Name] != nil {
			o.set, has = append(o.set, c), append(has, c.Name)
		}
	}
	return has
}

// globals writes the global variables, with the config's constants applied,
// into the contents of the pruned data sections.
func (o *Object) globals(out *ebpf.CollectionSpec) error {
	values := make(map[string][]byte)
	var constants []bench.Constant
	for _, name := range o.Programs() {
		constants = append(constants, o.programs[name].Constants...)
	}
	for _, c := range append(constants, o.set...) {
		v := o.spec.Variables[c.Name]
		if v == nil {
			return &bench.Diagnostic{
				Pos: c.Pos, Message: fmt.Sprintf("%s has no global variable %q", o.Path, c.Name),
				Hint: "it has " + strings.Join(o.variables(), ", "),
			}
		}
		var t btf.Type
		if v.Type != nil {
			t = v.Type.Type
		}
		b, err := encode(c.Value, t, int(v.Size()), o.spec.ByteOrder, scope{})
		if err != nil {
			return err
		}
		values[c.Name] = b
	}
	for name, v := range o.spec.Variables {
		m := out.Maps[v.SectionName]
		if m == nil || len(m.Contents) == 0 {
			continue
		}
		section, ok := m.Contents[0].Value.([]byte)
		if !ok {
			continue
		}
		b := v.Value
		if c := values[name]; c != nil {
			b = c
		}
		if int(v.Offset)+len(b) > len(section) {
			return fmt.Errorf("variable %s stands outside of section %s", name, v.SectionName)
		}
		section = slices.Clone(section)
		copy(section[v.Offset:], b)
		m.Contents[0].Value = section
	}
	return nil
}

func (o *Object) variables() []string {
	var names []string
	for n := range o.spec.Variables {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// programRef is the program that a value of a program array names.
func programRef(v bench.Value) (string, bool) {
	switch e := v.Expr.(type) {
	case bench.Text:
		return string(e), true
	case bench.Call:
		if e.Func == "program" && len(e.Args) == 1 {
			if t, ok := e.Args[0].Expr.(bench.Text); ok {
				return string(t), true
			}
		}
	case bench.Struct:
		if len(e) == 1 && e[0].Name == "program" {
			if t, ok := e[0].Value.Expr.(bench.Text); ok {
				return string(t), true
			}
		}
	}
	return "", false
}
