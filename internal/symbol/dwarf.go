package symbol

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
)

// Bounds of what one compilation unit may hold.
const (
	maxRows  = 20 << 20 // of a program that was optimised as one unit, some millions
	maxDepth = 256      // of entries in entries, and of inlining
)

// dwarfLines are a program's debug data, of which a compilation unit is read when an address
// first falls into it.
type dwarfLines struct {
	data   *dwarf.Data
	units  []*unit
	ranges []unitRange // by address
	names  map[dwarf.Offset]string
	tell   func(error)
	size   int // of what is walked, in bytes
	weight *int64
}

type unitRange struct {
	low, high uint64
	unit      *unit
}

// A unit is a compilation unit: what was compiled at once.
type unit struct {
	entry  *dwarf.Entry
	parsed bool
	files  []string
	rows   []row // by address
	bodies []subprogram
}

// A row says that the instructions from addr on came from a line.
type row struct {
	addr uint64
	file int32 // in the unit's; less than 0 behind the end of a sequence
	line uint32
}

// A subprogram is a stretch of a function's machine code.
type subprogram struct {
	low, high uint64
	entry     dwarf.Offset
	calls     *[]inlined
}

// An inlined is a stretch of machine code that came from a function called by the one around it.
type inlined struct {
	low, high  uint64
	origin     dwarf.Offset
	file, line int32 // of the call
	depth      int32
}

// readDWARF indexes the compilation units of a file.
func (o *object) readDWARF(f *elf.File) (*dwarfLines, error) {
	sections := map[string][]byte{}
	for _, name := range []string{"abbrev", "info", "line", "ranges", "str", "addr", "line_str", "str_offsets", "rnglists"} {
		s := f.Section(".debug_" + name)
		if s == nil {
			s = f.Section(".zdebug_" + name)
		}
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		data, err := o.section(f, s)
		if err != nil {
			return nil, err
		}
		sections[name] = data
	}
	data, err := dwarf.New(sections["abbrev"], nil, nil, sections["info"], sections["line"], nil, sections["ranges"], sections["str"])
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		if err := data.AddSection(".debug_"+name, sections[name]); err != nil {
			return nil, err
		}
	}
	d := &dwarfLines{data: data, names: map[dwarf.Offset]string{}, tell: func(err error) { o.doubts.add("%s: some of its lines are left out: %v", o.path, err) },
		size: len(sections["info"]), weight: &o.weight}
	split := false
	entries := 0
	for r := data.Reader(); ; r.SkipChildren() {
		// An entry has a byte at least, but debug/dwarf stands still on some broken units.
		if entries++; entries > d.size {
			return nil, errors.New("its units do not end")
		}
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil {
			break
		}
		if e.Tag == dwarf.TagSkeletonUnit {
			split = true
		}
		if e.Tag != dwarf.TagCompileUnit && e.Tag != dwarf.TagSkeletonUnit {
			continue
		}
		ranges, err := data.Ranges(e)
		if err != nil {
			continue // its addresses have the names of the symbol table
		}
		u := &unit{entry: e}
		d.units = append(d.units, u)
		for _, r := range ranges {
			if r[0] < r[1] {
				d.ranges = append(d.ranges, unitRange{r[0], r[1], u})
			}
		}
	}
	if split {
		o.doubts.add("%s has its debug data in .dwo files, which are not read: inlined functions are not expanded", o.path)
	}
	slices.SortFunc(d.ranges, func(a, b unitRange) int { return cmp.Compare(a.low, b.low) })
	return d, nil
}

// frames names an address, innermost first, or gives nothing. The outermost frame's name may be
// empty.
func (d *dwarfLines) frames(addr uint64) []Frame {
	i := sort.Search(len(d.ranges), func(i int) bool { return d.ranges[i].low > addr }) - 1
	// Ranges of linkers that fold code may overlap.
	for n := 0; i >= 0 && n < 4; i, n = i-1, n+1 {
		if addr < d.ranges[i].high {
			return d.inUnit(d.ranges[i].unit, addr)
		}
	}
	return nil
}

func (d *dwarfLines) inUnit(u *unit, addr uint64) []Frame {
	if !u.parsed {
		u.parsed = true
		if err := guard(func() error { return d.parse(u) }); err != nil {
			d.tell(err)
		}
		*d.weight += int64(len(u.rows)*16 + len(u.bodies)*40)
		for _, b := range u.bodies {
			*d.weight += int64(len(*b.calls)) * 40
		}
	}
	var file string
	var line int
	i := sort.Search(len(u.rows), func(i int) bool { return u.rows[i].addr > addr }) - 1
	if i >= 0 && u.rows[i].file >= 0 {
		file, line = u.file(u.rows[i].file), int(u.rows[i].line)
	}
	b := u.body(addr)
	if b == nil {
		if file == "" {
			return nil
		}
		return []Frame{{File: file, Line: line}}
	}
	var chain []inlined
	for _, c := range *b.calls {
		if c.low <= addr && addr < c.high {
			chain = append(chain, c)
		}
	}
	slices.SortStableFunc(chain, func(a, b inlined) int { return cmp.Compare(b.depth, a.depth) })
	var frames []Frame
	for _, c := range chain {
		frames = append(frames, Frame{Function: d.name(c.origin), File: file, Line: line})
		file, line = u.file(c.file), int(c.line)
	}
	return append(frames, Frame{Function: d.name(b.entry), File: file, Line: line, Offset: addr - b.low})
}

func (u *unit) file(i int32) string {
	if i < 0 || int(i) >= len(u.files) {
		return ""
	}
	return u.files[i]
}

func (u *unit) body(addr uint64) *subprogram {
	i := sort.Search(len(u.bodies), func(i int) bool { return u.bodies[i].low > addr }) - 1
	if i < 0 || addr >= u.bodies[i].high {
		return nil
	}
	return &u.bodies[i]
}

// parse reads a unit's lines and functions. What it has when something is wrong stays.
func (d *dwarfLines) parse(u *unit) error {
	err := errors.Join(d.parseRows(u), d.parseBodies(u))
	slices.SortFunc(u.bodies, func(a, b subprogram) int { return cmp.Compare(a.low, b.low) })
	u.bodies = slices.Clip(u.bodies)
	return err
}

func (d *dwarfLines) parseRows(u *unit) error {
	lines, err := d.data.LineReader(u.entry)
	if err != nil || lines == nil {
		return err
	}
	numbers := map[*dwarf.LineFile]int32{}
	var e dwarf.LineEntry
	for len(u.rows) < maxRows {
		if err := lines.Next(&e); err != nil {
			if !errors.Is(err, io.EOF) {
				return err
			}
			break
		}
		r := row{addr: e.Address, file: -1, line: uint32(e.Line)}
		if !e.EndSequence {
			n, ok := numbers[e.File]
			if !ok {
				n = -1
				// Entries of the same name are many: the table's own numbers are used by calls.
				for i, f := range lines.Files() {
					if f == e.File && f != nil {
						n = int32(i)
						break
					}
				}
				numbers[e.File] = n
			}
			r.file = n
		}
		u.rows = append(u.rows, r)
	}
	directory, _ := u.entry.Val(dwarf.AttrCompDir).(string)
	for _, f := range lines.Files() {
		name := ""
		if f != nil {
			name = f.Name
			if !path.IsAbs(name) && directory != "" { // debug/dwarf leaves those of DWARF 5 so
				name = path.Join(directory, name)
			}
			name = path.Clean(name)
		}
		u.files = append(u.files, name)
	}
	// Sequences come in any order; the end of one may be the start of the next, which then holds.
	slices.SortStableFunc(u.rows, func(a, b row) int {
		if c := cmp.Compare(a.addr, b.addr); c != 0 {
			return c
		}
		return cmp.Compare(min(a.file, 0), min(b.file, 0))
	})
	u.rows = slices.Clip(u.rows)
	return nil
}

// parseBodies walks a unit's entries for what has machine code.
func (d *dwarfLines) parseBodies(u *unit) error {
	r := d.data.Reader()
	r.Seek(u.entry.Offset)
	if e, err := r.Next(); err != nil || e == nil || !e.Children {
		return err
	}
	// What an entry at each depth is inside of.
	type place struct {
		calls *[]inlined
		depth int32
	}
	places := []place{{}}
	for n := 0; ; n++ {
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil || n > d.size {
			return errors.New("its entries do not end")
		}
		if e.Tag == 0 {
			if places = places[:len(places)-1]; len(places) == 0 {
				return nil
			}
			continue
		}
		here := places[len(places)-1]
		switch e.Tag {
		case dwarf.TagSubprogram:
			here = place{}
			if ranges, err := d.data.Ranges(e); err == nil && len(ranges) > 0 {
				here.calls = new([]inlined)
				for _, r := range ranges {
					u.bodies = append(u.bodies, subprogram{low: r[0], high: r[1], entry: e.Offset, calls: here.calls})
				}
			} else {
				// An abstract instance or a declaration: nothing in it has an address.
				r.SkipChildren()
				continue
			}
		case dwarf.TagInlinedSubroutine:
			if here.calls == nil {
				break
			}
			here.depth++
			origin, _ := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
			file, _ := e.Val(dwarf.AttrCallFile).(int64)
			line, _ := e.Val(dwarf.AttrCallLine).(int64)
			ranges, err := d.data.Ranges(e)
			if err != nil {
				break
			}
			for _, r := range ranges {
				if r[0] < r[1] {
					*here.calls = append(*here.calls, inlined{low: r[0], high: r[1], origin: origin, file: int32(file), line: int32(line), depth: here.depth})
				}
			}
		case dwarf.TagLexDwarfBlock, dwarf.TagNamespace, dwarf.TagModule, dwarf.TagTryDwarfBlock, dwarf.TagCatchDwarfBlock:
		default:
			if e.Children {
				r.SkipChildren() // types, variables
			}
			continue
		}
		if e.Children {
			if len(places) == maxDepth {
				return fmt.Errorf("its entries are nested more than %d deep", maxDepth)
			}
			places = append(places, here)
		}
	}
}

// name is the linkage name, demangled, or the plain one of the function at an offset, which may
// be an instance of another entry.
func (d *dwarfLines) name(at dwarf.Offset) string {
	if name, ok := d.names[at]; ok {
		return name
	}
	name, seen := "", at
	for range 8 {
		r := d.data.Reader()
		r.Seek(seen)
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		if linkage := linkageName(e); linkage != "" {
			name = readable(linkage)
			break
		}
		if plain, ok := e.Val(dwarf.AttrName).(string); ok && name == "" {
			name = plain
		}
		next, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			next, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset)
		}
		if !ok {
			break
		}
		seen = next
	}
	d.names[at] = name
	*d.weight += int64(64 + len(name))
	return name
}

// linkageName is the name that the linker saw. Compilers before DWARF 4 wrote it with MIPS's number.
func linkageName(e *dwarf.Entry) string {
	for _, attr := range []dwarf.Attr{dwarf.AttrLinkageName, 0x2007} {
		if name, ok := e.Val(attr).(string); ok {
			return name
		}
	}
	return ""
}
