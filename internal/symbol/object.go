package symbol

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ianlancetaylor/demangle"
)

// An object is a program or a library: an ELF file, read as far as addresses ask for it.
// Addresses in it are those of its own headers.
type object struct {
	path   string // as the process saw it
	data   io.ReaderAt
	close  func() error
	open   opener // for separate debug files; may be nil
	limit  int64  // of what is read for it, in bytes
	kind   Kind
	doubts *doubts

	parsed bool
	broken error // it is no ELF file, or none that can be read
	elf    *elf.File
	loads  []elf.ProgHeader
	go_    *goTable
	tables []*symtab
	plt    *plt
	lines  *dwarfLines
	sought bool // lines were looked for
	debug  *debugFile
	weight int64 // bytes held
	// segments stay when the rest is forgotten: others tell code apart by them.
	segments []*Segment

	cache  map[uint64][]Frame
	cached int64  // of the weight
	used   uint64 // when, for throwing out what is not
}

// errTooBig is the refusal to read a section.
var errTooBig = errors.New("is bigger than what is read of one file")

// guard runs a parser on a foreign file. The standard library's are fuzzed and have panicked
// nevertheless; one file's lines are not worth a profile.
func guard(parse func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is malformed: %v", p)
		}
	}()
	return parse()
}

// load reads the headers and what is cheap.
func (o *object) load() {
	if o.parsed {
		return
	}
	o.parsed, o.cache = true, map[uint64][]Frame{}
	o.broken = guard(func() error {
		file, err := elf.NewFile(o.data)
		if err != nil {
			return err
		}
		o.elf = file
		for _, p := range file.Progs {
			if p.Type == elf.PT_LOAD {
				o.loads = append(o.loads, p.ProgHeader)
			}
		}
		if o.segments == nil {
			o.segments = newSegments(o.path, file)
		}
		return nil
	})
	if o.broken != nil {
		o.elf = nil
		o.doubts.add("%s: %v", o.path, o.broken)
		return
	}
	if err := guard(o.loadSymbols); err != nil {
		o.doubts.add("%s: its symbols are left out: %v", o.path, err)
	}
	if err := guard(o.loadGo); err != nil {
		o.doubts.add("%s: its Go line table is left out: %v", o.path, err)
	}
}

// forget drops what was read, to be read again when it is asked for.
func (o *object) forget() {
	if o.debug != nil {
		_ = o.debug.close()
	}
	o.parsed, o.sought, o.elf, o.loads, o.go_, o.tables, o.plt, o.lines, o.debug, o.cache, o.weight, o.cached = false, false, nil, nil, nil, nil, nil, nil, nil, nil, 0, 0
}

// section reads a section of f whole.
func (o *object) section(f *elf.File, s *elf.Section) ([]byte, error) {
	if s.Size > uint64(o.limit) || s.FileSize > uint64(o.limit) || o.weight+int64(s.Size) > o.limit {
		return nil, fmt.Errorf("%s, %d bytes, %w", clean(s.Name), s.Size, errTooBig)
	}
	data, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", clean(s.Name), err)
	}
	o.weight += int64(len(data))
	return data, nil
}

// address gives the address in the file's own terms of what lies at an offset in it.
func (o *object) address(offset uint64) (uint64, bool) {
	for _, p := range o.loads {
		// Mappings are of whole pages, so they begin before the segment and end behind it.
		if offset >= p.Off&^0xfff && offset < p.Off+p.Filesz {
			return offset - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// read reads what the file puts at an address.
func (o *object) read(addr uint64, into []byte) error {
	for _, p := range o.loads {
		if addr >= p.Vaddr && addr-p.Vaddr < p.Filesz && p.Filesz-(addr-p.Vaddr) >= uint64(len(into)) {
			_, err := o.data.ReadAt(into, int64(p.Off+(addr-p.Vaddr)))
			return err
		}
	}
	return fmt.Errorf("nothing lies at address %#x", addr)
}

// frames names an address in the file's own terms, innermost first, at least one frame.
func (o *object) frames(addr uint64) []Frame {
	o.load()
	if frames, ok := o.cache[addr]; ok {
		return frames
	}
	frames := o.find(addr)
	if len(o.cache) >= maxCached {
		clear(o.cache)
		o.weight, o.cached = o.weight-o.cached, 0
	}
	o.cache[addr] = frames
	// What a map's entry and a frame are; most of the names are the file's own.
	size := int64(64 + 104*len(frames))
	o.weight, o.cached = o.weight+size, o.cached+size
	return frames
}

func (o *object) find(addr uint64) (frames []Frame) {
	if o.go_ != nil {
		if err := guard(func() error { frames = o.go_.frames(addr); return nil }); err != nil {
			o.doubts.add("%s: Go's line table at %#x: %v", o.path, addr, err)
			frames = nil
		}
	}
	if len(frames) == 0 {
		frames = o.lineFrames(addr)
	}
	last := &frames[len(frames)-1]
	if last.Function == "" || o.go_ == nil {
		if name, start, ok := o.symbolAt(addr); ok {
			last.Function = readable(name)
			for i := range frames {
				frames[i].Offset = addr - start
			}
		} else if last.Function == "" {
			last.Offset = addr
		}
	}
	for i := range frames {
		frames[i].Module, frames[i].Kind, frames[i].Inlined = o.path, o.kind, i < len(frames)-1
		frames[i].Function, frames[i].File = clean(frames[i].Function), clean(frames[i].File)
	}
	return frames
}

// lineFrames asks DWARF. There is always a frame, if an empty one.
func (o *object) lineFrames(addr uint64) (frames []Frame) {
	if o.elf == nil {
		return []Frame{{}}
	}
	if !o.sought {
		o.sought = true
		if err := guard(o.loadLines); err != nil {
			o.doubts.add("%s: its lines are left out: %v", o.path, err)
		}
	}
	if o.lines != nil {
		if err := guard(func() error { frames = o.lines.frames(addr); return nil }); err != nil {
			o.doubts.add("%s: lines at %#x: %v", o.path, addr, err)
			frames = nil
		}
	}
	if len(frames) == 0 {
		return []Frame{{}}
	}
	return frames
}

// symbolAt asks the symbol tables, the best one first.
func (o *object) symbolAt(addr uint64) (name string, start uint64, ok bool) {
	for _, t := range o.tables {
		if name, start, ok := t.at(addr); ok {
			return name, start, true
		}
	}
	if o.plt != nil {
		return o.plt.at(addr)
	}
	return "", 0, false
}

// readable demangles the names of C++ and Rust, without parameters, as perf shows them. It leaves
// others alone.
func readable(name string) string {
	if len(name) > 16*maxName {
		return name
	}
	out := name
	_ = guard(func() error {
		out = demangle.Filter(name, demangle.NoParams, demangle.NoEnclosingParams, demangle.MaxLength(12))
		return nil
	})
	return out
}

// loadSymbols reads the symbol tables: the file's own, or where it was stripped that of its debug
// file or its MiniDebugInfo beside the dynamic one.
func (o *object) loadSymbols() error {
	var errs []error
	add := func(f *elf.File, kind elf.SectionType) bool {
		t, err := o.readSymtab(f, kind)
		if err != nil {
			errs = append(errs, err)
		}
		if t == nil || len(t.list) == 0 {
			return false
		}
		o.tables = append(o.tables, t)
		return true
	}
	full := add(o.elf, elf.SHT_SYMTAB)
	if !full {
		if err := o.openDebug(); err != nil {
			errs = append(errs, err)
		}
		if o.debug != nil {
			full = add(o.debug.elf, elf.SHT_SYMTAB)
		}
	}
	if !full {
		mini, err := o.miniDebugInfo()
		if err != nil {
			errs = append(errs, err)
		}
		if mini != nil {
			full = add(mini, elf.SHT_SYMTAB)
		}
	}
	if !full {
		add(o.elf, elf.SHT_DYNSYM)
		if o.kind == KindUser && o.elf.Section(".gopclntab") == nil && o.elf.Section(".data.rel.ro.gopclntab") == nil {
			o.doubts.add("%s is stripped: only what it exports has names (install its debug symbols)", o.path)
		}
	}
	plt, err := o.readPLT()
	if err != nil {
		errs = append(errs, err)
	}
	o.plt = plt
	return errors.Join(errs...)
}

// loadLines finds DWARF, in the file or in its debug file.
func (o *object) loadLines() error {
	file := o.elf
	if !hasDWARF(file) {
		if err := o.openDebug(); err != nil {
			return err
		}
		if o.debug == nil || !hasDWARF(o.debug.elf) {
			return nil
		}
		file = o.debug.elf
	}
	lines, err := o.readDWARF(file)
	o.lines = lines
	return err
}

func hasDWARF(f *elf.File) bool {
	return slices.ContainsFunc(f.Sections, func(s *elf.Section) bool {
		return (s.Name == ".debug_info" || s.Name == ".zdebug_info") && s.Type != elf.SHT_NOBITS && s.Size > 0
	})
}
