package symbol

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Options say how much a Users may hold. The zero value is what gate profile uses.
type Options struct {
	// Memory bounds what is held of files, in bytes: those that were not needed for longest are
	// dropped, and read again when they are. 0 means 512 MiB. A file whose debug data are bigger than
	// that has the names of its symbol table and no lines. Besides, a fourth of it is for what
	// processes have mapped and say of code that they made; what is in use has its place in any case.
	Memory int64
	// Processes bounds how many are remembered. 0 means 8192.
	Processes int
}

// maxObjects is how many files are held open.
const maxObjects = 4096

// How long after the mappings of a process were read they are read again for an address outside of
// those that are known. Stacks that were walked wrongly are full of such addresses, so the time
// doubles whenever reading did not help.
const (
	rereadFirst = 20 * time.Millisecond
	rereadLast  = 10 * time.Second
)

// Users names addresses of processes. It may be used by several goroutines.
type Users struct {
	options Options

	mu        sync.Mutex
	processes map[int]*process
	objects   map[objectKey]*object
	vdsos     map[[sha256.Size]byte]*object
	clock     uint64 // of uses
	held      int64  // bytes, of all processes
	doubts    doubts
}

// An objectKey is the identity of a file. The change time tells apart two that had the same number.
type objectKey struct {
	dev, inode  uint64
	size        int64
	ctime, nano int64
}

// A process is what one process had mapped when it was looked at last.
type process struct {
	pid     int
	started uint64 // clock ticks since boot: tells apart two that had the same pid
	maps    []mapping
	before  []mapping // of the program that it was until now
	read    time.Time
	wait    time.Duration // until it is read again
	inner   int           // its pid as it knows it itself
	used    uint64
	weight  int64 // bytes

	jit     perfMap
	jitFile *os.File
	jitSize int64
	jitRead time.Time
}

// NewUsers is ready for processes. Close it.
func NewUsers(options Options) *Users {
	options.Memory = cmp.Or(options.Memory, 512<<20)
	options.Processes = cmp.Or(options.Processes, 8192)
	return &Users{options: options, processes: map[int]*process{}, objects: map[objectKey]*object{}, vdsos: map[[sha256.Size]byte]*object{}}
}

// Process looks at a process now: what it maps is opened, so that its frames have names when it is
// gone. Call it when a pid is first seen, and again when the process has become another program
// (exec). What was known of it stays where it cannot be read any more: a process that ended is an
// error that wraps fs.ErrNotExist.
func (u *Users) Process(pid int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, err := u.look(pid)
	return err
}

// look reads a process's mappings.
func (u *Users) look(pid int) (*process, error) {
	known := u.processes[pid]
	if known != nil {
		known.read = time.Now()
	}
	dir := "/proc/" + strconv.Itoa(pid)
	started, err := startOf(dir)
	if err != nil {
		return known, fmt.Errorf("look at process %d: %w", pid, err)
	}
	if known != nil && known.started != 0 && known.started != started {
		u.drop(known)
		known = nil
	}
	f, err := os.Open(dir + "/maps")
	if err != nil {
		return known, fmt.Errorf("look at process %d: %w", pid, err)
	}
	maps, err := parseMaps(f)
	f.Close()
	if err != nil {
		return known, fmt.Errorf("look at process %d: %w", pid, err)
	}
	if len(maps) == 0 {
		return known, fmt.Errorf("look at process %d: %w", pid, unix.ESRCH) // it is ending
	}
	for i := range maps {
		m := &maps[i]
		if known != nil {
			// What was there before is open already.
			if old := find(known.maps, m.start); old != nil && old.object != nil && old.start == m.start && old.end == m.end &&
				old.offset == m.offset && old.inode == m.inode && old.path == m.path {
				m.object, m.bias = old.object, old.bias
				continue
			}
		}
		switch {
		case m.file():
			m.object = u.object(dir, m)
		case m.path == "[vdso]":
			m.object = u.vdso(dir, m)
		}
	}
	if known == nil {
		u.makeRoom()
		known = &process{pid: pid, started: started, inner: innerPID(dir, pid), used: u.tick()}
		u.processes[pid] = known
	}
	if known.started == 0 { // others told of it
		known.started, known.inner = started, innerPID(dir, pid)
	}
	known.maps, known.read, known.wait = maps, time.Now(), rereadFirst
	known.openPerfMap(dir)
	u.weigh(known)
	return known, nil
}

// makeRoom forgets the process that was not asked for longest when there are too many.
func (u *Users) makeRoom() {
	if len(u.processes) >= u.options.Processes {
		u.dropOldest(nil)
	}
}

// weigh counts what a process holds now, and forgets others when all hold too much.
func (u *Users) weigh(p *process) {
	const itself, ofMapping, ofFunction = 512, 128, 48 // bytes, paths and the like included
	now := itself + ofMapping*int64(len(p.maps)+len(p.before)) + ofFunction*int64(len(p.jit)) + p.jitSize
	u.held += now - p.weight
	p.weight = now
	for u.held > u.options.Memory/4 && u.dropOldest(p) {
		continue
	}
}

// dropOldest forgets the process that was not asked for longest, but for one; false: there is none.
func (u *Users) dropOldest(but *process) bool {
	var oldest *process
	for _, p := range u.processes {
		if p != but && (oldest == nil || p.used < oldest.used) {
			oldest = p
		}
	}
	if oldest == nil {
		return false
	}
	u.drop(oldest)
	return true
}

func (u *Users) drop(p *process) {
	p.forget()
	u.held -= p.weight
	delete(u.processes, p.pid)
}

func (p *process) forget() {
	if p.jitFile != nil {
		p.jitFile.Close()
		p.jitFile = nil
	}
}

// startOf is when a process started, field 22 of its stat: the second may hold anything, also
// brackets and spaces.
func startOf(dir string) (uint64, error) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := strings.Fields(string(rest))
	if len(fields) < 20 {
		return 0, errors.New("its stat makes no sense")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// innerPID is a process's number in its own PID namespace, which names its perf map.
func innerPID(dir string, pid int) int {
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return pid
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(rest)
			if len(fields) > 0 {
				if inner, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
					return inner
				}
			}
		}
	}
	return pid
}

// object opens the file behind a mapping, or finds it open already.
func (u *Users) object(dir string, m *mapping) *object {
	f := openMapped(dir, m)
	if f == nil {
		u.doubts.add("%s cannot be opened: its functions have no names", m.path)
		return nil
	}
	stat, ok := regular(f)
	if !ok {
		f.Close()
		return nil
	}
	key := objectKey{uint64(stat.Dev), stat.Ino, stat.Size, int64(stat.Ctim.Sec), int64(stat.Ctim.Nsec)} //nolint:unconvert // 32 bits on some CPUs
	if o := u.objects[key]; o != nil {
		f.Close()
		o.used = u.tick()
		return o
	}
	if len(u.objects) >= maxObjects {
		u.closeOldest()
	}
	name := strings.TrimSuffix(m.path, " (deleted)")
	o := &object{path: clean(name), data: f, close: f.Close, limit: u.options.Memory, kind: KindUser, doubts: &u.doubts, used: u.tick()}
	// Debug files may be asked for when the process is gone: its root is held too.
	root, err := os.OpenFile(dir+"/root", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		o.close = func() error { return errors.Join(f.Close(), root.Close()) }
	}
	o.open = func(name string) (io.ReaderAt, int64, func() error) { return openDebugFile(root, name) }
	u.objects[key] = o
	return o
}

func (u *Users) tick() uint64 { u.clock++; return u.clock }

func (u *Users) closeOldest() {
	var key objectKey
	var oldest *object
	for k, o := range u.objects {
		if oldest == nil || o.used < oldest.used {
			key, oldest = k, o
		}
	}
	oldest.forget()
	_ = oldest.close()
	delete(u.objects, key)
}

// maxVDSO is the size beyond which a mapping is not taken for the vDSO, in bytes.
const maxVDSO = 256 << 10

// vdso reads the code that the kernel mapped into a process. All have the same, but for those of
// another word size.
func (u *Users) vdso(dir string, m *mapping) *object {
	if m.end-m.start > maxVDSO {
		return nil
	}
	mem, err := os.Open(dir + "/mem")
	if err != nil {
		return nil
	}
	defer mem.Close()
	image := make([]byte, m.end-m.start)
	if _, err := mem.ReadAt(image, int64(m.start)); err != nil {
		return nil
	}
	m.bias = m.start
	sum := sha256.Sum256(image)
	if o := u.vdsos[sum]; o != nil {
		return o
	}
	if len(u.vdsos) >= 16 {
		clear(u.vdsos)
	}
	o := &object{path: "[vdso]", data: bytes.NewReader(image), limit: maxMini, kind: KindVDSO, doubts: &u.doubts}
	u.vdsos[sum] = o
	return o
}

// Frames names an address of a process, innermost first: functions that were inlined at it come
// before the one that the machine ran. There is always a frame, which may have no name. Of a
// return address, give the address before, or the next line is named. What is returned is shared
// and must not be changed.
func (u *Users) Frames(pid int, addr uint64) []Frame {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.processes[pid]
	if p == nil {
		p, _ = u.look(pid)
	}
	if p == nil {
		return []Frame{{Offset: addr}}
	}
	p.used = u.tick()
	m := find(p.maps, addr)
	if m == nil && time.Since(p.read) > p.wait {
		wait := min(2*p.wait, rereadLast)
		if p, _ = u.look(pid); p == nil {
			return []Frame{{Offset: addr}}
		}
		if m = find(p.maps, addr); m == nil {
			p.wait = wait
		}
	}
	if m == nil {
		m = find(p.before, addr)
	}
	if m == nil {
		return []Frame{{Offset: addr}}
	}
	u.opened(p, m)
	if m.object != nil {
		if frames, ok := u.inObject(m, addr); ok {
			return frames
		}
	}
	f, ok := p.jitted(addr)
	u.weigh(p)
	if ok {
		return []Frame{f}
	}
	return []Frame{unnamed(m, addr)}
}

// unnamed is the frame of an address in a mapping of which nothing has names.
func unnamed(m *mapping, addr uint64) Frame {
	f := Frame{Module: clean(m.path), Offset: addr - m.start + m.offset, Kind: KindUser}
	switch {
	case m.path == "[vsyscall]":
		f.Function, f.Kind, f.Offset = "vsyscall", KindVDSO, addr-m.start
	case m.path == "[vdso]":
		f.Kind = KindVDSO
	case !m.file():
		f.Module, f.Offset = "[anon]", addr
	}
	return f
}

func (u *Users) inObject(m *mapping, addr uint64) ([]Frame, bool) {
	o := m.object
	o.used = u.tick()
	before := o.weight
	defer func() {
		if o.weight != before {
			u.shed(o)
		}
	}()
	o.load()
	if m.bias != 0 {
		return o.frames(addr - m.bias), true
	}
	at, ok := o.address(addr - m.start + m.offset)
	if !ok {
		return nil, false
	}
	return o.frames(at), true
}

// shed forgets what files held that were not needed for longest, until all is within bounds. What
// is being asked stays.
func (u *Users) shed(now *object) {
	var held int64
	for {
		held = 0
		var oldest *object
		for _, o := range u.objects {
			held += o.weight
			if o != now && o.weight > 0 && (oldest == nil || o.used < oldest.used) {
				oldest = o
			}
		}
		if held <= u.options.Memory || oldest == nil {
			return
		}
		oldest.forget()
	}
}

// jitted names code that the process made itself, by its perf map.
func (p *process) jitted(addr uint64) (Frame, bool) {
	f, ok := p.jit.frame(addr)
	if !ok && time.Since(p.jitRead) > rereadFirst {
		p.openPerfMap("/proc/" + strconv.Itoa(p.pid))
		f, ok = p.jit.frame(addr)
	}
	return f, ok
}

// openPerfMap reads the perf map of a process, when it has one and it has grown. It lies where the
// process sees /tmp, under the number that the process has for itself.
func (p *process) openPerfMap(dir string) {
	p.jitRead = time.Now()
	if p.jitFile == nil {
		root, err := os.OpenFile(dir+"/root", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return
		}
		defer root.Close()
		f, err := openIn(root, fmt.Sprintf("/tmp/perf-%d.map", p.inner))
		if err != nil {
			return
		}
		// Anybody may write to /tmp: only the process's own user, or root, names its functions.
		var owner unix.Stat_t
		if stat, ok := regular(f); !ok || unix.Stat(dir, &owner) != nil || stat.Uid != owner.Uid && stat.Uid != 0 {
			f.Close()
			return
		}
		p.jitFile = f
	}
	stat, ok := regular(p.jitFile)
	if !ok || stat.Size == p.jitSize {
		return
	}
	entries, _, err := parsePerfMap(io.NewSectionReader(p.jitFile, 0, min(stat.Size, maxPerfMap)))
	if err == nil {
		p.jit, p.jitSize = entries, stat.Size
	}
}

// Doubts says what could not be looked into, and why.
func (u *Users) Doubts() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.doubts.list()
}

// Close closes the files that are held open.
func (u *Users) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var errs []error
	for _, o := range u.objects {
		if o.debug != nil {
			errs = append(errs, o.debug.close())
		}
		errs = append(errs, o.close())
	}
	for _, p := range u.processes {
		p.forget()
	}
	u.objects, u.processes, u.held = map[objectKey]*object{}, map[int]*process{}, 0
	return errors.Join(errs...)
}
