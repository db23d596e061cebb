//go:build linux

package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// tracefs opens a file of the kernel's tracing file system, which is mounted for it
// where nobody sees (fsmount, Linux 5.2): containers have it nowhere.
func tracefs(name string) (*os.File, error) {
	fail := func(err error) (*os.File, error) {
		return nil, fmt.Errorf("read %s of tracefs: %w (needs root, and a kernel with CONFIG_TRACING)", name, err)
	}
	fsfd, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(fsfd)
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return fail(err)
	}
	mount, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(mount)
	fd, err := unix.Openat(mount, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func attachTracepoint(a attaching) (io.Closer, error) {
	group, event, ok := strings.Cut(a.target, "/")
	if !ok || strings.Contains(event, "/") || strings.Contains(a.target, "..") {
		return nil, fmt.Errorf("a tracepoint has a group and a name, as in %s", a.kind.example)
	}
	f, err := tracefs("events/" + group + "/" + event + "/id")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this kernel has no tracepoint %s", a.target)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the id of the tracepoint: %w", err)
	}
	// One event on any CPU is enough: a program of a tracepoint runs on all.
	return hangPerf(a.prog, unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id}, 0)
}

func attachRawTracepoint(a attaching) (io.Closer, error) {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: a.target, Program: a.prog})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this kernel has no raw tracepoint %s", a.target)
	}
	return closer(l, err)
}

// closer keeps a nil link from becoming a closer that is not nil.
func closer(l link.Link, err error) (io.Closer, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func attachTracing(a attaching) (io.Closer, error) {
	return closer(link.AttachTracing(link.TracingOptions{Program: a.prog, AttachType: a.spec.AttachType}))
}

func attachLSM(a attaching) (io.Closer, error) {
	l, err := link.AttachLSM(link.LSMOptions{Program: a.prog})
	if err == nil && !lsmRuns() {
		l.Close()
		return nil, errors.New("this kernel runs no eBPF security programs: its command line needs bpf in lsm=")
	}
	return closer(l, err)
}

// lsmRuns tells whether bpf is among the kernel's security modules, without which
// such programs can be attached and never run. Where nobody tells, it may be.
func lsmRuns() bool {
	text, err := os.ReadFile("/sys/kernel/security/lsm")
	return err != nil || slices.Contains(strings.Split(strings.TrimSpace(string(text)), ","), "bpf")
}

func attachKprobe(a attaching) (io.Closer, error) {
	symbol, offset, err := cutOffset(a.target)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe"); errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("this kernel has no kprobes (CONFIG_KPROBES)")
	}
	opts := &link.KprobeOptions{Offset: offset}
	if strings.HasSuffix(a.name, "syscall") {
		symbol = syscallPrefix() + symbol
	}
	if strings.HasPrefix(a.name, "kret") {
		return closer(link.Kretprobe(symbol, a.prog, opts))
	}
	return closer(link.Kprobe(symbol, a.prog, opts))
}

// cutOffset parts "symbol+0x10".
func cutOffset(target string) (symbol string, offset uint64, err error) {
	symbol, text, ok := strings.Cut(target, "+")
	if ok {
		if offset, err = strconv.ParseUint(text, 0, 32); err != nil {
			return "", 0, fmt.Errorf("%q is no offset", text)
		}
	}
	return symbol, offset, nil
}

// syscallPrefix is what the kernel's functions of system calls begin with.
func syscallPrefix() string {
	arch := map[string]string{"amd64": "__x64_", "arm64": "__arm64_", "s390x": "__s390x_", "riscv64": "__riscv_"}
	return arch[runtime.GOARCH] + "sys_"
}

func attachKprobeMulti(a attaching) (io.Closer, error) {
	symbols := []string{a.target}
	if strings.ContainsAny(a.target, "*?[") {
		var err error
		if symbols, err = kernelFunctions(a.target); err != nil {
			return nil, err
		}
	}
	opts := link.KprobeMultiOptions{Symbols: symbols, Session: a.name == "kprobe.session"}
	if strings.HasPrefix(a.name, "kret") {
		return closer(link.KretprobeMulti(a.prog, opts))
	}
	return closer(link.KprobeMulti(a.prog, opts))
}

// kernelFunctions are those that can be traced and that a pattern matches.
func kernelFunctions(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is not a pattern", pattern)
	}
	f, err := tracefs("available_filter_functions")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for s := bufio.NewScanner(f); s.Scan(); {
		name, _, module := strings.Cut(s.Text(), " ") // "name [module]"
		if ok, _ := path.Match(pattern, name); ok && !module {
			names = append(names, name)
		}
	}
	// Static functions of one name are several, and are traced together.
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return nil, fmt.Errorf("this kernel has no function %s that can be traced", pattern)
	}
	return names, nil
}

// executable opens the file of "path:symbol". A path without a slash is looked for
// where the shell and the dynamic linker look.
func (a attaching) executable() (ex *link.Executable, file, symbol string, err error) {
	file, symbol, ok := strings.Cut(a.target, ":")
	if !ok || file == "" || symbol == "" {
		return nil, "", "", fmt.Errorf("a probe of a program needs its file and a function, as in %s", a.kind.example)
	}
	if file, err = findBinary(file, a.place.Dir); err != nil {
		return nil, "", "", err
	}
	ex, err = link.OpenExecutable(file)
	return ex, file, symbol, err
}

func findBinary(name, dir string) (string, error) {
	switch {
	case filepath.IsAbs(name):
		return name, nil
	case strings.Contains(name, "/"):
		return filepath.Join(dir, name), nil
	}
	if found, err := exec.LookPath(name); err == nil {
		return filepath.Abs(found)
	}
	for _, pattern := range []string{"/lib/*-linux-gnu/", "/usr/lib/*-linux-gnu/", "/lib64/", "/usr/lib64/", "/lib/", "/usr/lib/", "/usr/local/lib/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("there is no program or library %s: write its path", name)
}

func attachUprobe(a attaching) (io.Closer, error) {
	ex, file, symbol, err := a.executable()
	if err != nil {
		return nil, err
	}
	symbol, offset, err := cutOffset(symbol)
	if err != nil {
		return nil, err
	}
	opts := &link.UprobeOptions{Offset: offset}
	attach := ex.Uprobe
	if strings.HasPrefix(a.name, "uret") {
		attach = ex.Uretprobe
	}
	l, err := attach(symbol, a.prog, opts)
	if errors.Is(err, link.ErrNoSymbol) {
		return nil, fmt.Errorf("%s has no function %s (is it stripped?)", file, symbol)
	}
	return closer(l, err)
}

func attachUprobeMulti(a attaching) (io.Closer, error) {
	ex, file, symbol, err := a.executable()
	if err != nil {
		return nil, err
	}
	symbols := []string{symbol}
	if strings.ContainsAny(symbol, "*?[") {
		if symbols, err = functionsOf(file, symbol); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(a.name, "uret") {
		return closer(ex.UretprobeMulti(symbols, a.prog, nil))
	}
	return closer(ex.UprobeMulti(symbols, a.prog, nil))
}

// perfNames are the events of perf_event programs that every machine may have.
var perfNames = map[string]unix.PerfEventAttr{
	"cpu-clock":        {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK},
	"task-clock":       {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK},
	"page-faults":      {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_PAGE_FAULTS},
	"context-switches": {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
	"cpu-migrations":   {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_MIGRATIONS},
	"cycles":           {Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES},
	"instructions":     {Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS},
	"cache-misses":     {Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CACHE_MISSES},
	"branch-misses":    {Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_BRANCH_MISSES},
}

// attachPerf opens "event:frequency" or "event@period" on every CPU. Without either,
// clocks tick 997 times a second, so that they beat with nothing, and each other
// event counts.
func attachPerf(a attaching) (io.Closer, error) {
	name, frequency, often := strings.Cut(a.target, ":")
	name, period, every := strings.Cut(name, "@")
	attr, ok := perfNames[name]
	if !ok {
		names := make([]string, 0, len(perfNames))
		for n := range perfNames {
			names = append(names, n)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("unknown event %q: expected one of %s", name, strings.Join(names, ", "))
	}
	number := period
	switch {
	case often && every:
		return nil, errors.New("an event has a frequency or a period, not both")
	case often:
		number = frequency
	case !every && strings.HasSuffix(name, "-clock"):
		often, number = true, "997"
	case !every:
		number = "1"
	}
	n, err := strconv.ParseUint(number, 10, 40)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q is no number of times", number)
	}
	attr.Sample = n
	if often {
		attr.Bits |= unix.PerfBitFreq
	}
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	var all closers
	for _, cpu := range cpus {
		c, err := hangPerf(a.prog, attr, cpu)
		if err != nil {
			_ = all.Close()
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// hangPerf opens a perf event of all processes on a CPU, and has it run a program,
// which goes with it.
func hangPerf(p *ebpf.Program, attr unix.PerfEventAttr, cpu int) (io.Closer, error) {
	attr.Size = unix.PERF_ATTR_SIZE_VER1
	attr.Wakeup = 1
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
		return nil, fmt.Errorf("this machine has no such event: %w", err)
	case err != nil:
		return nil, fmt.Errorf("open a perf event: %w (needs root or CAP_PERFMON)", err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, p.FD()); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("set the program of a perf event: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("enable a perf event: %w", err)
	}
	return closerFunc(func() error { return unix.Close(fd) }), nil
}

// onlineCPUs reads a list such as "0-3,5".
func onlineCPUs() ([]int, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil, fmt.Errorf("read the CPUs that are online: %w", err)
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return nil, fmt.Errorf("read the CPUs that are online: %w", err)
		}
		for c := from; c <= to; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// attachIter makes an iterator, whose program runs when it is read. It is an
// [io.Reader], which [Attached] reads.
func attachIter(a attaching) (io.Closer, error) {
	name, onMap, _ := strings.Cut(a.target, "/")
	var m *ebpf.Map
	if onMap != "" {
		if m = a.maps[onMap]; m == nil {
			return nil, fmt.Errorf("no map %q among those of the program", onMap)
		}
	} else if strings.HasPrefix(name, "bpf_map_elem") || strings.HasPrefix(name, "bpf_sk_storage_map") || name == "sockmap" {
		return nil, fmt.Errorf("%s iterates over a map: write attach: iter/%s/MAP", name, name)
	}
	l, err := link.AttachIter(link.IterOptions{Program: a.prog, Map: m})
	if err != nil {
		return nil, err
	}
	return iterator{l}, nil
}

// An iterator is read from the beginning each time.
type iterator struct{ *link.Iter }

// readAll runs the program over all that there is, and returns what it wrote.
func (i iterator) readAll() (int64, error) {
	r, err := i.Open()
	if err != nil {
		return 0, fmt.Errorf("open the iterator: %w", err)
	}
	defer r.Close()
	return io.Copy(io.Discard, r)
}

var _ io.Closer = iterator{}
