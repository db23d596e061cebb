package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// A symtab is the functions of a symbol table by address. Their names stay where they are until
// they are asked for.
type symtab struct {
	list  []elfSymbol
	names []byte
	code  []*elf.Section
}

type elfSymbol struct {
	value, size uint64
	name        uint32
	binding     elf.SymBind
}

// readSymtab reads the symbol table of a kind, or nil where there is none.
func (o *object) readSymtab(f *elf.File, kind elf.SectionType) (*symtab, error) {
	i := slices.IndexFunc(f.Sections, func(s *elf.Section) bool { return s.Type == kind })
	if i < 0 {
		return nil, nil
	}
	s := f.Sections[i]
	if int(s.Link) >= len(f.Sections) {
		return nil, fmt.Errorf("%s: its names are in section %d of %d", clean(s.Name), s.Link, len(f.Sections))
	}
	raw, err := o.section(f, s)
	if err != nil {
		return nil, err
	}
	defer func() { o.weight -= int64(len(raw)) }()
	names, err := o.section(f, f.Sections[s.Link])
	if err != nil {
		return nil, err
	}
	t := &symtab{names: names}
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 {
			t.code = append(t.code, s)
		}
	}
	size := 24
	if f.Class == elf.ELFCLASS32 {
		size = 16
	}
	for ; len(raw) >= size; raw = raw[size:] {
		e := decodeSymbol(f, raw)
		if !isFunction(f, e) {
			continue
		}
		if f.Machine == elf.EM_ARM {
			e.Value &^= 1 // Thumb
		}
		t.list = append(t.list, elfSymbol{value: e.Value, size: e.Size, name: e.Name, binding: elf.SymBind(e.Info >> 4)})
	}
	t.sort()
	o.weight += int64(len(t.list)) * 24
	return t, nil
}

func decodeSymbol(f *elf.File, b []byte) elf.Sym64 {
	order := f.ByteOrder
	if f.Class == elf.ELFCLASS32 {
		return elf.Sym64{Name: order.Uint32(b), Value: uint64(order.Uint32(b[4:])), Size: uint64(order.Uint32(b[8:])),
			Info: b[12], Other: b[13], Shndx: order.Uint16(b[14:])}
	}
	return elf.Sym64{Name: order.Uint32(b), Info: b[4], Other: b[5], Shndx: order.Uint16(b[6:]), Value: order.Uint64(b[8:]), Size: order.Uint64(b[16:])}
}

// isFunction says whether a symbol names code. Assembly often leaves out the type, so a symbol
// without one counts where it lies among instructions.
func isFunction(f *elf.File, e elf.Sym64) bool {
	if e.Name == 0 || e.Shndx == uint16(elf.SHN_UNDEF) {
		return false
	}
	switch elf.SymType(e.Info & 15) {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC:
		return true
	case elf.STT_NOTYPE:
		return int(e.Shndx) < len(f.Sections) && f.Sections[e.Shndx].Flags&elf.SHF_EXECINSTR != 0
	}
	return false
}

// sort orders by address and keeps of several names the one that perf would show: of a symbol
// that has a size, global rather than local rather than weak, with few underscores.
func (t *symtab) sort() {
	rank := func(s elfSymbol) (r int) {
		if s.size > 0 {
			r += 8
		}
		switch s.binding {
		case elf.STB_GLOBAL:
			r += 4
		case elf.STB_LOCAL:
			r += 2
		}
		return r
	}
	slices.SortFunc(t.list, func(a, b elfSymbol) int {
		if c := cmp.Compare(a.value, b.value); c != 0 {
			return c
		}
		if c := cmp.Compare(rank(b), rank(a)); c != 0 {
			return c
		}
		x, y := t.name(a), t.name(b)
		if c := cmp.Compare(underscores(x), underscores(y)); c != 0 {
			return c
		}
		return cmp.Compare(x, y)
	})
	t.list = slices.Clip(slices.CompactFunc(t.list, func(a, b elfSymbol) bool { return a.value == b.value }))
}

func underscores(s string) int { return len(s) - len(strings.TrimLeft(s, "_")) }

func (t *symtab) name(s elfSymbol) string {
	if uint64(s.name) >= uint64(len(t.names)) {
		return ""
	}
	name := t.names[s.name:]
	if len(name) > 32*maxName {
		name = name[:32*maxName]
	}
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	if version := bytes.IndexByte(name, '@'); version > 0 {
		name = name[:version] // clock_gettime@@GLIBC_2.17
	}
	return string(name)
}

// at gives the function that holds an address.
func (t *symtab) at(addr uint64) (name string, start uint64, ok bool) {
	i := sort.Search(len(t.list), func(i int) bool { return t.list[i].value > addr }) - 1
	// A function may hold others, as hand-written assembly does: look a little further back.
	for n := 0; i >= 0 && n < 8; i, n = i-1, n+1 {
		s := t.list[i]
		inside := addr-s.value < s.size || s.size == 0 && n == 0 && addr-s.value < maxFunction
		if !inside || s.size == 0 && sectionOf(t.code, s.value) != sectionOf(t.code, addr) {
			continue
		}
		// Mapping symbols of ARM and local labels are no functions.
		if name := t.name(s); name != "" && name[0] != '$' && !strings.HasPrefix(name, ".L") {
			return name, s.value, true
		}
	}
	return "", 0, false
}

// sectionOf is the section that holds an address, or nil. A symbol without a size reaches no
// further: what follows crt's _init, its section's only one, are the stubs of libraries.
func sectionOf(sections []*elf.Section, addr uint64) *elf.Section {
	i := slices.IndexFunc(sections, func(s *elf.Section) bool { return addr >= s.Addr && addr-s.Addr < s.Size })
	if i < 0 {
		return nil
	}
	return sections[i]
}

// A plt names the stubs through which a program calls its libraries. They have no symbols, and
// hot programs stand in them now and then.
type plt struct {
	object  *object
	names   *symtab           // of the dynamic symbols, unsorted
	slots   map[uint64]uint32 // by address in the global offset table: name
	sectors []*elf.Section
}

// readPLT reads which slot of the global offset table is whose. Only x86-64's stubs are known.
func (o *object) readPLT() (*plt, error) {
	f := o.elf
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 || o.kind != KindUser {
		return nil, nil
	}
	p := &plt{object: o, slots: map[uint64]uint32{}}
	for _, s := range f.Sections {
		if s.Name == ".plt" || s.Name == ".plt.sec" || s.Name == ".plt.got" {
			p.sectors = append(p.sectors, s)
		}
	}
	dynamic := slices.IndexFunc(f.Sections, func(s *elf.Section) bool { return s.Type == elf.SHT_DYNSYM })
	if len(p.sectors) == 0 || dynamic < 0 || int(f.Sections[dynamic].Link) >= len(f.Sections) {
		return nil, nil
	}
	symbols, err := o.section(f, f.Sections[dynamic])
	if err != nil {
		return nil, err
	}
	names, err := o.section(f, f.Sections[f.Sections[dynamic].Link])
	if err != nil {
		return nil, err
	}
	p.names = &symtab{names: names}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || s.Name != ".rela.plt" && s.Name != ".rela.dyn" { //nolint:misspell // ELF's name
			continue
		}
		relocations, err := o.section(f, s)
		if err != nil {
			return nil, err
		}
		o.weight -= int64(len(relocations))
		for ; len(relocations) >= 24; relocations = relocations[24:] {
			info := f.ByteOrder.Uint64(relocations[8:])
			kind, symbol := elf.R_X86_64(info&0xffffffff), info>>32
			if kind != elf.R_X86_64_JMP_SLOT && kind != elf.R_X86_64_GLOB_DAT || symbol*24+24 > uint64(len(symbols)) {
				continue
			}
			p.slots[f.ByteOrder.Uint64(relocations)] = f.ByteOrder.Uint32(symbols[symbol*24:])
		}
	}
	return p, nil
}

// at reads the stub at addr, which jumps to where a slot says: (endbr64), (bnd) jmp *slot(%rip).
func (p *plt) at(addr uint64) (name string, start uint64, ok bool) {
	s := sectionOf(p.sectors, addr)
	if s == nil {
		return "", 0, false
	}
	step := uint64(16)
	if s.Name == ".plt.got" && s.Entsize == 8 {
		step = 8
	}
	start = s.Addr + (addr-s.Addr)/step*step
	stub := make([]byte, step)
	if p.object.read(start, stub) != nil {
		return "", 0, false
	}
	jump := bytes.Index(stub, []byte{0xff, 0x25})
	if jump < 0 || jump+6 > len(stub) {
		return "", 0, false
	}
	slot := start + uint64(jump) + 6 + uint64(int64(int32(binary.LittleEndian.Uint32(stub[jump+2:]))))
	offset, ok := p.slots[slot]
	if !ok {
		return "", 0, false
	}
	if name = p.names.name(elfSymbol{name: offset}); name == "" {
		return "", 0, false
	}
	return name + "@plt", start, true
}
