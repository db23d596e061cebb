package symbol

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// refreshEvery is how often the lists of what the kernel has loaded are read again for
// addresses that nothing names.
const refreshEvery = time.Second

// A Kernel names addresses of the kernel, its modules, and its eBPF programs. It may be used by
// several goroutines.
type Kernel struct {
	mu       sync.Mutex
	symbols  *kallsyms
	programs map[ebpf.ProgramID]bool // seen
	bodies   []*body                 // by address
	cache    map[uint64][]Frame
	read     time.Time // kallsyms
	listed   time.Time // programs
	doubts   doubts
}

// A body is the machine code of one function of an eBPF program.
type body struct {
	start, end uint64
	name       string // as in kallsyms
	function   string // as in the source
	code       *code
}

// A code is an eBPF program as the kernel compiled it.
type code struct {
	info   *ebpf.ProgramInfo
	parsed bool
	lines  []jitLine // by address
}

// A jitLine says that the instructions from addr on came from a line.
type jitLine struct {
	addr uint64
	file string
	line int
}

// ReadKernel reads what the running kernel is made of. Without CAP_SYSLOG there are no addresses
// to read, which is an error; without CAP_SYS_ADMIN eBPF programs have names and no lines, which
// is a doubt. Lines need Linux 5.0 and programs with BTF.
func ReadKernel() (*Kernel, error) {
	k := &Kernel{programs: map[ebpf.ProgramID]bool{}, cache: map[uint64][]Frame{}}
	if err := k.readSymbols(); err != nil {
		return nil, err
	}
	k.listPrograms()
	return k, nil
}

func (k *Kernel) readSymbols() error {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return fmt.Errorf("read the kernel's symbols: %w", err)
	}
	defer f.Close()
	symbols, err := parseKallsyms(f)
	if err != nil {
		return err
	}
	k.symbols, k.read = symbols, time.Now()
	return nil
}

// Refresh looks for eBPF programs that were loaded since. Frames does so by itself, about once a
// second and when an address has no name; a program that may be gone by then needs this call
// while it is loaded.
func (k *Kernel) Refresh() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listPrograms()
}

// listPrograms adds the programs that were not seen yet. Those that are gone stay, until another
// lies on their address.
func (k *Kernel) listPrograms() {
	k.listed = time.Now()
	changed := false
	now := map[ebpf.ProgramID]bool{}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				k.doubts.add("eBPF programs have no lines: list them: %v", err)
			}
			break
		}
		id = next
		now[id] = true
		if k.programs[id] {
			continue
		}
		switch err := k.add(id); {
		case err == nil:
			changed = true
		case !errors.Is(err, os.ErrNotExist):
			k.doubts.add("eBPF program %d has no lines: %v", id, err)
		}
	}
	k.programs = now
	if !changed {
		return
	}
	slices.SortFunc(k.bodies, func(a, b *body) int { return cmp.Compare(a.start, b.start) })
	clear(k.cache)
}

func (k *Kernel) add(id ebpf.ProgramID) error {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return err
	}
	starts, ok := info.JitedKsymAddrs()
	sizes, sized := info.JitedFuncLens()
	if !ok || !sized || len(starts) != len(sizes) {
		return errors.New("the kernel shows no JITed code (is the JIT on, and kptr_restrict 0 or 1?)")
	}
	c := &code{info: info}
	var names []string
	if functions, err := info.FuncInfos(); err == nil {
		for _, f := range functions {
			names = append(names, f.Func.Name)
		}
	}
	for i, start := range starts {
		b := &body{start: uint64(start), end: uint64(start) + uint64(sizes[i]), code: c}
		if len(names) == len(starts) {
			b.function = clean(names[i])
		}
		if f, ok := k.symbols.frame(b.start); ok && f.Offset == 0 {
			b.name = f.Function
		} else {
			b.name = fmt.Sprintf("bpf_prog_%s_%s", info.Tag, clean(orElse(b.function, info.Name)))
		}
		if b.function == "" {
			b.function = functionOf(b.name)
		}
		// What was there before is gone.
		k.bodies = slices.DeleteFunc(k.bodies, func(old *body) bool { return old.start < b.end && b.start < old.end })
		k.bodies = append(k.bodies, b)
	}
	return nil
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

// functionOf takes the function out of a name of the kernel, bpf_prog_TAG_FUNCTION. Programs
// without a name have none behind their tag.
func functionOf(name string) string {
	rest, ok := strings.CutPrefix(name, "bpf_prog_")
	if !ok {
		return name
	}
	if _, function, ok := strings.Cut(rest, "_"); ok && function != "" {
		return function
	}
	return name
}

// Frames names an address of the kernel: one frame, since the kernel has no list of what was
// inlined. Of a return address, give the address before, or the next line is named. What is
// returned is shared and must not be changed.
func (k *Kernel) Frames(addr uint64) []Frame {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Where a program was, another one may be.
	if time.Since(k.listed) > refreshEvery && (k.body(addr) != nil || !k.known(addr)) {
		k.listPrograms()
	}
	if frames, ok := k.cache[addr]; ok {
		return frames
	}
	f, ok := k.frame(addr)
	if !ok && time.Since(k.read) > refreshEvery && addr>>63 == 1 {
		if err := k.readSymbols(); err == nil { // a module that was loaded since
			f, ok = k.frame(addr)
		}
		k.read = time.Now()
	}
	if !ok {
		f = Frame{Module: "[kernel]", Offset: addr}
	}
	if len(k.cache) >= maxCached {
		clear(k.cache)
	}
	frames := []Frame{f}
	k.cache[addr] = frames
	return frames
}

// known says whether an address is of the kernel's own code or a module's.
func (k *Kernel) known(addr uint64) bool {
	f, ok := k.symbols.frame(addr)
	return ok && !strings.HasPrefix(f.Function, "bpf_prog_")
}

func (k *Kernel) frame(addr uint64) (Frame, bool) {
	if b := k.body(addr); b != nil {
		f := Frame{Function: b.function, Module: b.name, Offset: addr - b.start, Kind: KindBPF}
		f.File, f.Line = b.code.line(addr, b)
		return f, true
	}
	f, ok := k.symbols.frame(addr)
	if ok && strings.HasPrefix(f.Function, "bpf_prog_") {
		// A program that came with the list of symbols, and that nobody may look into.
		f.Function, f.Module, f.Kind = functionOf(f.Function), f.Function, KindBPF
	}
	return f, ok
}

func (k *Kernel) body(addr uint64) *body {
	i := sort.Search(len(k.bodies), func(i int) bool { return k.bodies[i].start > addr }) - 1
	if i < 0 || addr >= k.bodies[i].end {
		return nil
	}
	return k.bodies[i]
}

// line is where the instruction at addr of a function came from. The prologue, which the JIT makes,
// belongs to the function's first line.
func (c *code) line(addr uint64, b *body) (string, int) {
	if !c.parsed {
		c.parsed = true
		c.lines = jitLines(c.info)
		c.info = nil
	}
	i := sort.Search(len(c.lines), func(i int) bool { return c.lines[i].addr > addr }) - 1
	if i < 0 || c.lines[i].addr < b.start {
		i++
	}
	if i == len(c.lines) || c.lines[i].addr >= b.end {
		return "", 0
	}
	return c.lines[i].file, c.lines[i].line
}

// jitLines pairs the kernel's addresses of lines with the lines.
func jitLines(info *ebpf.ProgramInfo) []jitLine {
	addrs, ok := info.JitedLineInfos()
	if !ok {
		return nil
	}
	var offsets btf.LineOffsets
	offsets, err := info.LineInfos()
	if err != nil || len(offsets) != len(addrs) {
		return nil
	}
	lines := make([]jitLine, len(addrs))
	for i, o := range offsets {
		lines[i] = jitLine{addr: addrs[i], file: clean(o.Line.FileName()), line: int(o.Line.LineNumber())}
	}
	slices.SortStableFunc(lines, func(a, b jitLine) int { return cmp.Compare(a.addr, b.addr) })
	return lines
}

// Doubts says what could not be looked into, and why.
func (k *Kernel) Doubts() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.doubts.list()
}
