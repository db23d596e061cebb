//go:build linux

package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bpf/perfevent"
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

// tracepointName is a group and an event.
var tracepointName = regexp.MustCompile(`^\w+/\w+$`)

func checkTracepoint(h Hook, _ *ebpf.ProgramSpec) error {
	if !tracepointName.MatchString(h.target) {
		return errors.New("a tracepoint has a group and a name")
	}
	return nil
}

// tracepoints are the names of the kernel's, "group/event"; of raw ones the events
// alone. What cannot be read is left out: they are for hints.
func tracepoints(raw bool) (names []string) {
	f, err := tracefs("available_events")
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		group, event, _ := strings.Cut(s.Text(), ":")
		if raw {
			names = append(names, event)
		} else {
			names = append(names, group+"/"+event)
		}
	}
	return names
}

func attachTracepoint(a attaching) (io.Closer, error) {
	f, err := tracefs("events/" + a.target + "/id")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, a.missing(tracepoints(false), "this kernel has no tracepoint %s", a.target)
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
	return perfevent.Attach(a.prog, unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id}, 0)
}

func attachRawTracepoint(a attaching) (io.Closer, error) {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: a.target, Program: a.prog})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, a.missing(tracepoints(true), "this kernel has no raw tracepoint %s", a.target)
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

func checkFunction(h Hook, _ *ebpf.ProgramSpec) error {
	_, _, err := cutOffset(h.target)
	return err
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
	attach := link.Kprobe
	if strings.HasPrefix(a.name, "kret") {
		attach = link.Kretprobe
	}
	l, err := attach(symbol, a.prog, opts)
	if errors.Is(err, fs.ErrNotExist) {
		known, _ := kernelFunctions("*")
		return nil, a.missing(known, "this kernel has no function %s, or none that can be probed", symbol)
	}
	return closer(l, err)
}

// cutOffset parts "symbol+0x10".
func cutOffset(target string) (symbol string, offset uint64, err error) {
	symbol, text, ok := strings.Cut(target, "+")
	if ok {
		if offset, err = strconv.ParseUint(text, 0, 32); err != nil {
			return "", 0, fmt.Errorf("%q is no offset", text)
		}
	}
	if symbol == "" {
		return "", 0, errors.New("a probe needs a function")
	}
	return symbol, offset, nil
}

// syscallPrefix is what the kernel's functions of system calls begin with.
func syscallPrefix() string {
	arch := map[string]string{"amd64": "__x64_", "arm64": "__arm64_", "s390x": "__s390x_", "riscv64": "__riscv_"}
	return arch[runtime.GOARCH] + "sys_"
}

// isPattern tells a pattern of names from a name.
func isPattern(s string) bool { return strings.ContainsAny(s, "*?[") }

func checkPattern(h Hook, _ *ebpf.ProgramSpec) error {
	if _, err := path.Match(h.target, ""); err != nil {
		return errors.New("that is not a pattern: *, ? and [a-z] stand for characters")
	}
	return nil
}

func attachKprobeMulti(a attaching) (io.Closer, error) {
	symbols := []string{a.target}
	if isPattern(a.target) {
		var err error
		if symbols, err = kernelFunctions(a.target); err != nil {
			return nil, err
		}
		if len(symbols) == 0 {
			return nil, a.missing(nil, "this kernel has no function %s that can be traced", a.target)
		}
	}
	opts := link.KprobeMultiOptions{Symbols: symbols, Session: a.name == "kprobe.session"}
	attach := link.KprobeMulti
	if strings.HasPrefix(a.name, "kret") {
		attach = link.KretprobeMulti
	}
	l, err := attach(a.prog, opts)
	if errors.Is(err, fs.ErrNotExist) && !isPattern(a.target) {
		known, _ := kernelFunctions("*")
		return nil, a.missing(known, "this kernel has no function %s that can be traced", a.target)
	}
	if errors.Is(err, ebpf.ErrNotSupported) {
		err = fmt.Errorf("this kernel is built without CONFIG_FPROBE, or too old: %w", err)
	}
	return closer(l, err)
}

// kernelFunctions are those that can be traced and that a pattern matches.
func kernelFunctions(pattern string) ([]string, error) {
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
	return slices.Compact(names), nil
}

// perfAt reads "event:frequency" or "event@period". Without either, clocks tick 997
// times a second, so that they beat with nothing, and each other event counts.
func perfAt(target string) (attr unix.PerfEventAttr, err error) {
	name, frequency, often := strings.Cut(target, ":")
	name, period, every := strings.Cut(name, "@")
	attr, ok := perfevent.Named[name]
	if !ok {
		return attr, fmt.Errorf("unknown event %q: expected one of %s", name, strings.Join(slices.Sorted(maps.Keys(perfevent.Named)), ", "))
	}
	number := period
	switch {
	case often && every:
		return attr, errors.New("an event has a frequency or a period, not both")
	case often:
		number = frequency
	case !every && strings.HasSuffix(name, "-clock"):
		often, number = true, "997"
	case !every:
		number = "1"
	}
	if attr.Sample, err = strconv.ParseUint(number, 10, 40); err != nil || attr.Sample == 0 {
		return attr, fmt.Errorf("%q is no number of times", number)
	}
	if often {
		attr.Bits |= unix.PerfBitFreq
	}
	return attr, nil
}

func checkPerf(h Hook, _ *ebpf.ProgramSpec) error {
	_, err := perfAt(h.target)
	return err
}

// attachPerf opens the event on every CPU.
func attachPerf(a attaching) (io.Closer, error) {
	attr, err := perfAt(a.target)
	if err != nil {
		return nil, err
	}
	cpus, err := perfevent.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	var all closers
	for _, cpu := range cpus {
		c, err := perfevent.Attach(a.prog, attr, cpu)
		if err != nil {
			_ = all.Close()
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func checkIter(h Hook, _ *ebpf.ProgramSpec) error {
	name, onMap, _ := strings.Cut(h.target, "/")
	if onMap == "" && (strings.HasPrefix(name, "bpf_map_elem") || strings.HasPrefix(name, "bpf_sk_storage_map") || name == "sockmap") {
		return fmt.Errorf("%s iterates over a map: iter/%s/MAP", name, name)
	}
	return nil
}

// attachIter makes an iterator, whose program runs when it is read. It is an
// [io.Reader], which [Attached] reads.
func attachIter(a attaching) (io.Closer, error) {
	_, onMap, _ := strings.Cut(a.target, "/")
	var m *ebpf.Map
	if onMap != "" {
		if m = a.maps[onMap]; m == nil {
			return nil, a.missing(nil, "no map %q among those of the program: there are %s", onMap, strings.Join(slices.Sorted(maps.Keys(a.maps)), ", "))
		}
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
