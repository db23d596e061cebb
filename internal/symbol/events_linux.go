package symbol

import (
	"cmp"
	"slices"
	"strconv"
)

// A Mapping is executable memory of a process, as /proc/PID/maps or the kernel's records
// (PERF_RECORD_MMAP2) tell of it.
type Mapping struct {
	Start, End uint64
	Offset     uint64 // in the file
	Inode      uint64 // 0 where no file is behind it
	Path       string // as the process sees it
}

// Mapped says that a process has mapped something. What nobody asks for is not opened: a process
// that was told of costs nothing until it is sampled, and has names when it is gone by then, if the
// file is still where the host, too, sees it.
func (u *Users) Mapped(pid int, m Mapping) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.processes[pid]
	if p == nil {
		p = u.newProcess(pid)
	}
	// Others may have the same list; see Forked.
	p.maps = slices.DeleteFunc(slices.Clone(p.maps), func(old mapping) bool { return old.start < m.End && m.Start < old.end })
	at, _ := slices.BinarySearchFunc(p.maps, m.Start, func(old mapping, start uint64) int { return cmp.Compare(old.start, start) })
	if len(p.maps) < maxMappings {
		p.maps = slices.Insert(p.maps, at, mapping{start: m.Start, end: m.End, offset: m.Offset, path: m.Path, inode: m.Inode, told: true})
	}
	u.weigh(p)
}

// Forked says that a process began as a copy of another.
func (u *Users) Forked(pid, parent int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if old := u.processes[pid]; old != nil {
		u.drop(old)
	}
	if from := u.processes[parent]; from != nil {
		p := u.newProcess(pid)
		p.maps = from.maps
		u.weigh(p)
	}
}

// Execed says that a process runs another program: what it had mapped is gone. It is still asked
// about what was sampled before.
func (u *Users) Execed(pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p := u.processes[pid]; p != nil {
		p.before, p.maps = p.maps, nil
		u.weigh(p)
	}
}

// newProcess is one that nobody has looked at.
func (u *Users) newProcess(pid int) *process {
	u.makeRoom()
	p := &process{pid: pid, inner: pid, wait: rereadFirst, used: u.tick()}
	u.processes[pid] = p
	return p
}

// opened opens the file of a mapping that was told of.
func (u *Users) opened(p *process, m *mapping) {
	if m == nil || !m.told {
		return
	}
	m.told = false
	dir := "/proc/" + strconv.Itoa(p.pid)
	switch {
	case m.file():
		m.object = u.object(dir, m)
	case m.path == "[vdso]":
		m.object = u.vdso(dir, m)
	}
}
