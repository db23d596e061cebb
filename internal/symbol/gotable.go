package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// A goTable is the table with which Go's runtime names its own frames: functions, lines, and
// what was inlined. It is there in stripped programs too, and is read where it lies.
//
// Its format has no description but runtime/symtab.go, runtime/symtabinl.go and
// internal/abi/symtab.go; it is Go 1.16's, with what 1.18, 1.20 and 1.26 changed. Functions that
// were inlined are known from Go 1.18 on: before, they are part of their caller.
//
// Note: debug/gosym makes an object of every function first, which for 100 MB of program takes
// longer than naming 100,000 samples, and does not know what was inlined.
type goTable struct {
	header   []byte
	order    binary.ByteOrder
	version  int // 116, 118, 120: the release that began the layout
	ptr      int // bytes of a pointer
	quantum  uint32
	text     uint64
	count    int
	names    []byte
	units    []byte // cutab: file numbers of compilation units
	files    []byte
	values   []byte // pctab
	funcs    []byte // pclntable: functab first
	trees    []byte // from go:func.*; empty where it was not found
	function map[uint32]string
	file     map[uint32]string
}

var goMagic = map[uint32]int{0xfffffffa: 116, 0xfffffff0: 118, 0xfffffff1: 120}

// loadGo finds the table. That there is none is no error.
func (o *object) loadGo() error {
	s := o.elf.Section(".gopclntab")
	if s == nil {
		s = o.elf.Section(".data.rel.ro.gopclntab")
	}
	if s == nil {
		return nil
	}
	data, err := o.section(o.elf, s)
	if err != nil {
		return err
	}
	t, err := parseGoTable(data, o.elf.ByteOrder)
	if err != nil {
		return err
	}
	module := o.findModule(s.Addr, t)
	if t.version >= 118 {
		// The header's own word for it is not relocated, and is gone in Go 1.26.
		text, ok := module(22)
		if !ok {
			if at, found := o.valueOf("runtime.text"); found {
				text = at
			} else if section := o.elf.Section(".text"); section != nil {
				text = section.Addr
			}
		}
		t.text = text
		word := 40
		if t.version == 118 {
			word = 38 // before the counters of coverage
		}
		trees, ok := o.valueOf("go:func.*")
		if !ok {
			trees, ok = o.valueOf("go.func.*")
		}
		if !ok {
			trees, ok = module(word)
		}
		if ok {
			t.trees = o.behind(trees, s, data)
		}
	}
	if t.trees == nil {
		o.doubts.add("%s: Go's inlined functions were not found: they count as their callers", o.path)
	}
	o.go_ = t
	return nil
}

// valueOf is the address of a symbol of the file, which need not be a function.
func (o *object) valueOf(name string) (uint64, bool) {
	for _, s := range o.elf.Sections {
		if s.Type != elf.SHT_SYMTAB || int(s.Link) >= len(o.elf.Sections) {
			continue
		}
		weight := o.weight
		defer func() { o.weight = weight }()
		raw, err := o.section(o.elf, s)
		if err != nil {
			return 0, false
		}
		names, err := o.section(o.elf, o.elf.Sections[s.Link])
		if err != nil {
			return 0, false
		}
		want := append([]byte(name), 0)
		size := 24
		if o.elf.Class == elf.ELFCLASS32 {
			size = 16
		}
		for ; len(raw) >= size; raw = raw[size:] {
			e := decodeSymbol(o.elf, raw)
			if uint64(e.Name) < uint64(len(names)) && bytes.HasPrefix(names[e.Name:], want) {
				return e.Value, true
			}
		}
	}
	return 0, false
}

// findModule finds runtime.firstmoduledata, whose first word is the table's address, and gives a
// reader of its words. Programs that move (PIE) have the words among their relocations.
func (o *object) findModule(table uint64, t *goTable) func(word int) (uint64, bool) {
	none := func(int) (uint64, bool) { return 0, false }
	if t.ptr != 8 || o.elf.Class != elf.ELFCLASS64 {
		return none
	}
	moved := o.relative()
	word := func(at uint64) (uint64, bool) {
		if v, ok := moved[at]; ok {
			return v, true
		}
		var b [8]byte
		if err := o.read(at, b[:]); err != nil {
			return 0, false
		}
		return o.elf.ByteOrder.Uint64(b[:]), true
	}
	// The second word is the table of names, which lies in the table.
	is := func(at uint64) bool {
		first, _ := word(at)
		second, ok := word(at + 8)
		return ok && first == table && second == table+t.offset(nameWord(t.version))
	}
	for _, name := range []string{".go.module", ".noptrdata", ".data", ".data.rel.ro"} {
		s := o.elf.Section(name)
		if s == nil || s.Type == elf.SHT_NOBITS || s.Size > 64<<20 {
			continue
		}
		data, err := s.Data()
		if err != nil {
			continue
		}
		for i := 0; i+16 <= len(data); i += 8 {
			at := s.Addr + uint64(i)
			if o.elf.ByteOrder.Uint64(data[i:]) != table && moved[at] != table {
				continue
			}
			if is(at) {
				return func(n int) (uint64, bool) { return word(at + uint64(n)*8) }
			}
		}
	}
	return none
}

// relative gives the words that the loader moves, by address.
func (o *object) relative() map[uint64]uint64 {
	if o.elf.Type != elf.ET_DYN || o.elf.Class != elf.ELFCLASS64 {
		return nil
	}
	var kind uint32
	switch o.elf.Machine {
	case elf.EM_X86_64:
		kind = uint32(elf.R_X86_64_RELATIVE)
	case elf.EM_AARCH64:
		kind = uint32(elf.R_AARCH64_RELATIVE)
	default:
		return nil
	}
	s := o.elf.Section(".rela.dyn")
	if s == nil || s.Size > 64<<20 {
		return nil
	}
	data, err := s.Data()
	if err != nil {
		return nil
	}
	moved := make(map[uint64]uint64, len(data)/24)
	for ; len(data) >= 24; data = data[24:] {
		if uint32(o.elf.ByteOrder.Uint64(data[8:])) == kind {
			moved[o.elf.ByteOrder.Uint64(data)] = o.elf.ByteOrder.Uint64(data[16:])
		}
	}
	return moved
}

// behind is what lies from an address on to the end of its section, of which one is read already.
func (o *object) behind(addr uint64, table *elf.Section, data []byte) []byte {
	if addr >= table.Addr && addr-table.Addr < uint64(len(data)) {
		return data[addr-table.Addr:] // since Go 1.26
	}
	for _, s := range o.elf.Sections {
		if s.Type != elf.SHT_PROGBITS || addr < s.Addr || addr-s.Addr >= s.Size {
			continue
		}
		content, err := o.section(o.elf, s)
		if err != nil {
			return nil
		}
		return content[addr-s.Addr:]
	}
	return nil
}

func nameWord(version int) int {
	if version == 116 {
		return 2
	}
	return 3
}

var errGoTable = errors.New("the table is cut off")

func parseGoTable(data []byte, order binary.ByteOrder) (*goTable, error) {
	if len(data) < 8+8*8 {
		return nil, errGoTable
	}
	version, ok := goMagic[order.Uint32(data)]
	if !ok {
		return nil, fmt.Errorf("its layout %#x is not known (Go before 1.16, or newer than this program)", order.Uint32(data))
	}
	t := &goTable{order: order, version: version, quantum: uint32(data[6]), ptr: int(data[7]), header: data,
		function: map[uint32]string{}, file: map[uint32]string{}}
	if t.ptr != 4 && t.ptr != 8 || t.quantum == 0 || t.quantum > 4 {
		return nil, errors.New("its header makes no sense")
	}
	parts := make([][]byte, 5)
	first := nameWord(version)
	for i := range parts {
		at := t.offset(first + i)
		if at > uint64(len(data)) {
			return nil, errGoTable
		}
		parts[i] = data[at:]
	}
	count := t.offset(0)
	t.names, t.units, t.files, t.values, t.funcs = parts[0], parts[1], parts[2], parts[3], parts[4]
	if count > uint64(len(t.funcs))/uint64(2*t.field()) {
		return nil, errGoTable
	}
	t.count = int(count)
	if len(t.funcs) < (2*t.count+1)*t.field() {
		return nil, errGoTable
	}
	return t, nil
}

// offset is a word of the header.
func (t *goTable) offset(word int) uint64 { return t.word(t.header[8+word*t.ptr:], t.ptr) }

func (t *goTable) word(b []byte, size int) uint64 {
	if size == 4 {
		return uint64(t.order.Uint32(b))
	}
	return t.order.Uint64(b)
}

// field is the size of one number of the functab.
func (t *goTable) field() int {
	if t.version >= 118 {
		return 4
	}
	return t.ptr
}

func (t *goTable) entry(i int) uint64 {
	at := t.word(t.funcs[2*i*t.field():], t.field())
	if t.version >= 118 {
		at += t.text
	}
	return at
}

// A goFunc is a record of the table: runtime._func.
type goFunc struct {
	start   uint64
	name    uint32
	pcfile  uint32
	pcln    uint32
	unit    uint32
	inltree uint32 // of the values that number inlined calls; 0 for none
	tree    []byte
}

func (t *goTable) find(addr uint64) (f goFunc, ok bool) {
	if t.count == 0 || addr < t.entry(0) || addr >= t.entry(t.count) {
		return f, false
	}
	i := sort.Search(t.count, func(i int) bool { return t.entry(i) > addr }) - 1
	at := t.word(t.funcs[(2*i+1)*t.field():], t.field())
	if at > uint64(len(t.funcs)) {
		return f, false
	}
	b := t.funcs[at:]
	skip := 4
	if t.version == 116 {
		skip = t.ptr
	}
	b = b[skip:]
	word := func(n int) uint32 { return t.order.Uint32(b[4*n:]) }
	// nameOff, args, deferreturn, pcsp, pcfile, pcln, npcdata, cuOffset, (startLine,) then four bytes.
	f = goFunc{start: t.entry(i), name: word(0), pcfile: word(4), pcln: word(5), unit: word(7)}
	const pcdataInlTree, funcdataInlTree = 2, 3
	npcdata, tail := int(word(6)), 8
	if t.version >= 120 {
		tail = 9
	}
	nfuncdata := int(b[4*tail+3])
	if t.version >= 118 && len(t.trees) > 0 && npcdata > pcdataInlTree && npcdata < 1<<10 && nfuncdata > funcdataInlTree {
		f.inltree = word(tail + 1 + pcdataInlTree)
		if tree := word(tail + 1 + npcdata + funcdataInlTree); uint64(tree) < uint64(len(t.trees)) {
			f.tree = t.trees[tree:]
		}
	}
	return f, true
}

// frames names an address, innermost first, or gives nothing.
func (t *goTable) frames(addr uint64) []Frame {
	f, ok := t.find(addr)
	if !ok {
		return nil
	}
	var frames []Frame
	at := addr
	for range maxDepth { // a table that runs in circles ends here
		call, ok := t.call(f, at)
		if !ok {
			break
		}
		frames = append(frames, t.at(f, at, call.name, addr))
		at = f.start + call.parent
	}
	return append(frames, t.at(f, at, f.name, addr))
}

func (t *goTable) at(f goFunc, addr uint64, name uint32, sampled uint64) Frame {
	frame := Frame{Function: t.name(name), Offset: sampled - f.start}
	if file, ok := t.value(f.pcfile, f.start, addr); ok && file >= 0 {
		frame.File = t.fileName(f.unit, uint32(file))
	}
	if line, ok := t.value(f.pcln, f.start, addr); ok && line > 0 {
		frame.Line = int(line)
	}
	return frame
}

type goCall struct {
	name   uint32
	parent uint64 // distance from the function's start of where it was called
}

// call is the innermost call that was inlined at addr.
func (t *goTable) call(f goFunc, addr uint64) (c goCall, ok bool) {
	if f.inltree == 0 || f.tree == nil {
		return c, false
	}
	i, ok := t.value(f.inltree, f.start, addr)
	if !ok || i < 0 {
		return c, false
	}
	// funcID and padding, name, parentPc, startLine; before 1.20 parent, funcID, file, line, name,
	// parentPc.
	size, name := 16, 4
	if t.version == 118 {
		size, name = 20, 12
	}
	if int(i) >= len(f.tree)/size {
		return c, false
	}
	record := f.tree[int(i)*size:]
	c = goCall{name: t.order.Uint32(record[name:]), parent: uint64(t.order.Uint32(record[name+4:]))}
	return c, uint64(c.name) < uint64(len(t.names))
}

// value reads a table of values by address: pairs of differences, in varints, from the start of
// the function on.
func (t *goTable) value(table uint32, start, addr uint64) (int32, bool) {
	if table == 0 || uint64(table) >= uint64(len(t.values)) {
		return 0, false
	}
	b := t.values[table:]
	pc, value := start, int32(-1)
	for first := true; ; first = false {
		delta, rest, ok := varint(b)
		if !ok || delta == 0 && !first {
			return 0, false
		}
		value += int32(delta>>1) ^ -int32(delta&1)
		step, rest, ok := varint(rest)
		if !ok {
			return 0, false
		}
		if pc += uint64(step) * uint64(t.quantum); addr < pc {
			return value, true
		}
		b = rest
	}
}

func varint(b []byte) (v uint32, rest []byte, ok bool) {
	for i := 0; i < len(b) && i < 5; i++ {
		v |= uint32(b[i]&0x7f) << (7 * i)
		if b[i]&0x80 == 0 {
			return v, b[i+1:], true
		}
	}
	return 0, nil, false
}

// name is a function's as the runtime prints it: the shapes of type parameters are its own business.
func (t *goTable) name(at uint32) string {
	if name, ok := t.function[at]; ok {
		return name
	}
	name := interned(t.function, t.names, at)
	if i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']'); i >= 0 && j > i {
		name = name[:i] + "[...]" + name[j+1:]
		t.function[at] = name
	}
	return name
}

func (t *goTable) fileName(unit, number uint32) string {
	i := (uint64(unit) + uint64(number)) * 4
	if i+4 > uint64(len(t.units)) {
		return ""
	}
	at := t.order.Uint32(t.units[i:])
	if at == ^uint32(0) {
		return ""
	}
	return interned(t.file, t.files, at)
}

// interned is the string at an offset of a table, made once.
func interned(known map[uint32]string, table []byte, at uint32) string {
	if s, ok := known[at]; ok {
		return s
	}
	if uint64(at) >= uint64(len(table)) {
		return ""
	}
	b := table[at:]
	if len(b) > 16*maxName {
		b = b[:16*maxName]
	}
	if end := slices.Index(b, 0); end >= 0 {
		b = b[:end]
	}
	s := clean(string(b))
	known[at] = s
	return s
}
