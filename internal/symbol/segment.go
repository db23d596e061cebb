package symbol

import (
	"debug/elf"
	"encoding/hex"
)

// A Segment is code of a file, where the file's own headers put it: the same for all processes,
// wherever they have it.
type Segment struct {
	File         string // as the process saw it
	BuildID      string // in hex; may be empty
	Start, Limit uint64 // addresses, of whole pages
	Offset       uint64 // of Start in the file
}

// A program has one or two segments of code.
const (
	page        = 4096
	maxSegments = 16
)

// newSegments are those of a file's segments that hold code.
func newSegments(path string, f *elf.File) []*Segment {
	id := hex.EncodeToString(buildID(f))
	var all []*Segment
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || p.Filesz == 0 || p.Vaddr > 1<<47 || p.Filesz > 1<<40 || len(all) == maxSegments {
			continue
		}
		within := p.Vaddr % page
		all = append(all, &Segment{
			File: path, BuildID: id,
			Start: p.Vaddr - within, Limit: (p.Vaddr + p.Filesz + page - 1) / page * page, Offset: p.Off - min(within, p.Off),
		})
	}
	return all
}

// Where tells which code an address of a process is, and the address in that file's own terms. It is
// nil for what no file holds, and for files that nobody may read.
func (u *Users) Where(pid int, addr uint64) (*Segment, uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.processes[pid]
	if p == nil {
		return nil, 0
	}
	m := find(p.maps, addr)
	if m == nil {
		m = find(p.before, addr)
	}
	if m == nil || m.object == nil || m.object.kind != KindUser {
		return nil, 0
	}
	m.object.load()
	at, ok := m.object.address(addr - m.start + m.offset)
	if !ok {
		return nil, 0
	}
	for _, s := range m.object.segments {
		if s.Start <= at && at < s.Limit {
			return s, at
		}
	}
	return nil, 0
}
