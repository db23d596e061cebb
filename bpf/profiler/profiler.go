//go:build linux

// Package profiler samples what the CPUs run, or where threads wait, by eBPF programs of its
// own. What it hands out are addresses; packages symbol and profile make names and sums of
// them.
package profiler

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bpf/perfevent"
)

// Options say what is sampled.
type Options struct {
	// Frequency is how often a second each CPU is sampled, up to
	// kernel.perf_event_max_sample_rate. It means nothing with OffCPU.
	Frequency int
	// Event is EventCycles or EventClock; empty: the first that the machine has.
	Event string
	// OffCPU has the time taken that threads wait, each time that they do, instead of
	// what runs.
	OffCPU bool
	// MinOff leaves shorter waits out.
	MinOff time.Duration
	// Tracked has only the processes sampled that [Profiler.Track] names, and their
	// children.
	Tracked bool
	// Comm has only threads of this name sampled; empty: all.
	Comm string
	// KernelOnly and UserOnly leave the other stack out, and samples that have no other.
	KernelOnly, UserOnly bool
	// Buffer is the size of the ring in bytes, a power of two and at least a page; 0 is
	// DefaultBuffer.
	Buffer int
	// Threads is how many waiting threads there is room to remember, 2 KB each; 0 is
	// twice those that there are now, and at least 4096.
	Threads int
}

// The events that clock samples.
const (
	EventCycles = "cycles"    // of the CPU's own counter: also where interrupts are off
	EventClock  = "cpu-clock" // of a timer, which every machine has
)

// DefaultBuffer takes two seconds of 10,000 samples a second with deep stacks.
const DefaultBuffer = 8 << 20

const (
	maxTracked = 1 << 15
	minThreads = 4096
	// readEvery is how long a sample may lie in the ring.
	readEvery = 100 * time.Millisecond
)

// A Profiler samples what the CPUs run, or where threads wait, with its stacks.
//
// It needs Linux 5.8, and CAP_BPF and CAP_PERFMON, or root; the kernel's BTF too, where
// processes are tracked or waits sampled. User stacks are followed by their frame
// pointers: code that has none shows the innermost function and little else.
//
// The flow: [New] loads, [Profiler.Track] says whom to sample, [Profiler.Start]
// begins, [Profiler.Run] hands out samples until its context is done. All of it goes with
// the process, however that ends.
type Profiler struct {
	recorder
	event    string
	programs []*ebpf.Program // the sampling one first
	reader   *ringbuf.Reader
	attached []io.Closer
	tasks    *taskWatch
	began    time.Time
	record   ringbuf.Record // used again and again
	sample   Sample
}

// A Handler gets what a [Profiler] hands out, one after the other.
type Handler struct {
	Sample func(*Sample)
	// Exec tells that a process has begun another program, and Exit that its last thread
	// ends: at once, and in order with the samples. Without the kernel's BTF they are never
	// called. Nil: of no interest.
	Exec, Exit func(pid uint32)
	// Task gets what the kernel tells of processes, before the samples that may need it.
	Task func(*TaskEvent)
}

// Stats are what a [Profiler] counts beside the samples.
type Stats struct {
	// Took is how long was sampled.
	Took time.Duration
	// Lost are samples that the ring had no room for.
	Lost uint64
	// Unkept are waits that there was no room to remember, Astray children that there was
	// none to track.
	Unkept, Astray uint64
	// Ticks are the times that the event fired, on all CPUs together, and Expected the times
	// that it should have, by the clock; 0 where that cannot be told, since a cycle counter
	// stands still on idle CPUs.
	Ticks, Expected uint64
}

// New loads the programs. An event that the machine does not have, and a frequency
// that the kernel does not allow, are errors that say so.
func New(o Options) (_ *Profiler, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Buffer == 0 {
		o.Buffer = DefaultBuffer
	}
	if o.Threads == 0 {
		o.Threads = max(minThreads, 2*threadsNow())
	}
	p := &Profiler{recorder: recorder{opts: o}}
	defer func() {
		if err != nil {
			p.Close()
			err = explain(err)
		}
	}()
	if err := rlimit.RemoveMemlock(); err != nil && !errors.Is(err, unix.EPERM) {
		return nil, err
	}
	// What follows processes is worth having, and the rest works without.
	if p.task, err = readTaskLayout(); err != nil && (o.OffCPU || o.Tracked) {
		return nil, err
	}
	follows := err == nil
	if err := p.makeMaps(); err != nil {
		return nil, fmt.Errorf("make the maps of a profile: %w", err)
	}
	specs := []*ebpf.ProgramSpec{p.onCPU()}
	if o.OffCPU {
		specs[0] = p.offCPU()
	} else if p.event, err = p.findEvent(); err != nil {
		return nil, err
	}
	if follows {
		specs = append(specs, p.execed(), p.exited())
	}
	if o.Tracked {
		specs = append(specs, p.forked())
	}
	for _, s := range specs {
		prog, err := ebpf.NewProgram(s)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", s.Name, err)
		}
		p.programs = append(p.programs, prog)
	}
	if p.reader, err = ringbuf.NewReader(p.ring); err != nil {
		return nil, fmt.Errorf("read the ring: %w", err)
	}
	if p.tasks, err = newTaskWatch(); err != nil {
		return nil, err
	}
	// Whoever is tracked is so from before the first sample.
	for _, prog := range p.programs[1:] {
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		if err != nil {
			return nil, fmt.Errorf("attach %s: %w", prog, err)
		}
		p.attached = append(p.attached, l)
	}
	return p, nil
}

func (o Options) check() error {
	most := MaxSampleRate()
	switch {
	case o.KernelOnly && o.UserOnly:
		return errors.New("a profile of the kernel alone and of user code alone has nothing in it")
	case !o.OffCPU && (o.Frequency < 1 || o.Frequency > most):
		return fmt.Errorf("%d samples a second: this kernel takes 1 to %d (kernel.perf_event_max_sample_rate)", o.Frequency, most)
	case o.Event != "" && o.Event != EventCycles && o.Event != EventClock:
		return fmt.Errorf("unknown event %q: expected %s or %s", o.Event, EventCycles, EventClock)
	case o.Buffer != 0 && (o.Buffer < os.Getpagesize() || o.Buffer > 1<<30 || o.Buffer&(o.Buffer-1) != 0):
		return fmt.Errorf("a ring of %d bytes: expected a power of two of at least %d", o.Buffer, os.Getpagesize())
	case o.MinOff < 0 || o.Threads < 0 || o.Threads > 1<<22:
		return errors.New("a profile of threads: expected positive numbers")
	}
	return nil
}

// MaxSampleRate is the most samples a second that the kernel takes of a CPU. It lowers the
// number by itself where sampling takes too much time.
func MaxSampleRate() int {
	text, err := os.ReadFile("/proc/sys/kernel/perf_event_max_sample_rate")
	if n, e := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && e == nil {
		return n
	}
	return 100_000 // the kernel's default
}

// threadsNow is how many threads there are on the host: the second number of "1/345" in
// /proc/loadavg.
func threadsNow() int {
	text, _ := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); len(f) > 3 {
		_, all, _ := strings.Cut(f[3], "/")
		n, _ := strconv.Atoi(all)
		return n
	}
	return 0
}

// findEvent chooses the event by opening it.
func (p *Profiler) findEvent() (string, error) {
	cpus, err := perfevent.OnlineCPUs()
	if err != nil {
		return "", err
	}
	try := []string{p.opts.Event}
	if p.opts.Event == "" {
		try = []string{EventCycles, EventClock}
	}
	for _, event := range try {
		attr := p.attr(event)
		var fd int
		if fd, err = unix.PerfEventOpen(&attr, -1, cpus[0], -1, unix.PERF_FLAG_FD_CLOEXEC); err == nil {
			return event, unix.Close(fd)
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENODEV) {
			break
		}
		err = fmt.Errorf("this machine has no counter of %s: %w", event, err)
	}
	return "", fmt.Errorf("open a perf event: %w", err)
}

func (p *Profiler) attr(event string) unix.PerfEventAttr {
	attr := perfevent.Named[event]
	attr.Size, attr.Sample = unix.PERF_ATTR_SIZE_VER1, uint64(p.opts.Frequency)
	attr.Bits |= unix.PerfBitFreq
	return attr
}

// Event is what is sampled: EventCycles, EventClock, or "" where waits are.
func (p *Profiler) Event() string { return p.event }

// Start begins to sample, on every CPU that is online.
func (p *Profiler) Start() error {
	if !p.began.IsZero() {
		return errors.New("a profile begins once")
	}
	p.began = time.Now()
	if p.opts.OffCPU {
		l, err := link.AttachTracing(link.TracingOptions{Program: p.programs[0]})
		if err != nil {
			return explain(fmt.Errorf("attach to sched_switch: %w", err))
		}
		p.attached = append(p.attached, l)
		return nil
	}
	cpus, err := perfevent.OnlineCPUs()
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		c, err := perfevent.Attach(p.programs[0], p.attr(p.event), cpu)
		if err != nil {
			return fmt.Errorf("sample CPU %d: %w", cpu, err)
		}
		p.attached = append(p.attached, c)
	}
	return nil
}

// Run hands out samples until ctx is done or every process that was tracked has ended, then
// stops sampling, hands out what is left, and returns what was counted. Where waits are
// sampled, threads that still wait are told at the end with the time so far.
func (p *Profiler) Run(ctx context.Context, h Handler) (Stats, error) {
	var over atomic.Bool
	defer context.AfterFunc(ctx, func() {
		over.Store(true)
		_ = p.reader.Flush()
	})()
	for !over.Load() && !p.deserted() {
		if err := p.read(h, time.Now().Add(readEvery), over.Load); err != nil {
			return Stats{}, err
		}
	}
	took := time.Since(p.began)
	if err := p.stop(); err != nil {
		return Stats{}, err
	}
	// What was put in before the end.
	if err := p.read(h, time.Now(), func() bool { return false }); err != nil {
		return Stats{}, err
	}
	if err := p.stillWaiting(h); err != nil {
		return Stats{}, err
	}
	return p.stats(took)
}

// read hands out what is in the ring and what comes until a time, or until it is over.
func (p *Profiler) read(h Handler, until time.Time, over func() bool) error {
	if err := p.readTasks(h); err != nil { // its ring is small
		return err
	}
	p.reader.SetDeadline(until)
	for !over() {
		err := p.reader.ReadInto(&p.record)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ringbuf.ErrFlushed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the ring: %w", err)
		}
		if err := p.hand(h, p.record.RawSample); err != nil {
			return err
		}
	}
	return nil
}

func (p *Profiler) hand(h Handler, raw []byte) error {
	s := &p.sample
	kind, err := s.decode(raw)
	if err == nil {
		err = p.readTasks(h)
	}
	switch {
	case err != nil:
		return err
	case kind == kindSample:
		h.Sample(s)
	case kind == kindExec && h.Exec != nil:
		h.Exec(s.PID)
	case kind == kindExit && h.Exit != nil:
		h.Exit(s.PID)
	}
	return nil
}

func (p *Profiler) readTasks(h Handler) error {
	return p.tasks.read(func(e *TaskEvent) {
		if h.Task != nil {
			h.Task(e)
		}
	})
}

// stop takes the programs away.
func (p *Profiler) stop() error {
	errs := make([]error, 0, len(p.attached))
	for _, c := range slices.Backward(p.attached) {
		errs = append(errs, c.Close())
	}
	p.attached = nil
	return errors.Join(errs...)
}

// stillWaiting hands out the waits that are not over.
func (p *Profiler) stillWaiting(h Handler) error {
	if p.waiting == nil {
		return nil
	}
	now := Now()
	var tid uint32
	raw := make([]byte, recordMax)
	all := p.waiting.Iterate()
	for all.Next(&tid, &raw) {
		began := binary.NativeEndian.Uint64(raw[recordTime:])
		if now < began || now-began < uint64(p.opts.MinOff) {
			continue
		}
		binary.NativeEndian.PutUint64(raw[recordOff:], now-began)
		if err := p.hand(h, raw); err != nil {
			return err
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("read who is waiting: %w", err)
	}
	return nil
}

// Now is the clock of [Sample.Time].
func Now() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}

func (p *Profiler) stats(took time.Duration) (s Stats, err error) {
	var cpus [][]byte
	if err := p.scratch.Lookup(uint32(0), &cpus); err != nil {
		return s, fmt.Errorf("read what was counted: %w", err)
	}
	s.Took = took
	for _, c := range cpus {
		at := func(offset int) uint64 { return binary.NativeEndian.Uint64(c[offset:]) }
		s.Ticks += at(countTicks)
		s.Lost += at(countLost)
		s.Unkept += at(countUnkept)
		s.Astray += at(countAstray)
	}
	if p.event == EventClock {
		online, err := perfevent.OnlineCPUs()
		if err != nil {
			return s, err
		}
		s.Expected = uint64(took.Seconds() * float64(p.opts.Frequency) * float64(len(online)))
	}
	return s, nil
}

// Close ends the profile and lets everything go.
func (p *Profiler) Close() error {
	errs := []error{p.stop()}
	if p.reader != nil {
		errs = append(errs, p.reader.Close())
	}
	if p.tasks != nil {
		p.tasks.close()
	}
	for _, prog := range p.programs {
		errs = append(errs, prog.Close())
	}
	p.programs, p.reader, p.tasks = nil, nil, nil
	p.recorder.close()
	p.recorder = recorder{}
	return errors.Join(errs...)
}

var _ io.Closer = (*Profiler)(nil)

// explain says what sampling needs.
func explain(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w (sampling needs root, or CAP_BPF and CAP_PERFMON)", err)
	}
	return err
}
