//go:build linux

package profiler

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// within tells whether an address is in a function of this binary, which loads are, too.
func within(addr uint64, f any) bool {
	fn := runtime.FuncForPC(uintptr(addr))
	return fn != nil && fn.Entry() == runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Entry()
}

// mostSampling is how long a test samples at most: only what does not work takes so long.
const mostSampling = 2 * time.Minute

// profile samples until enough says so; that it never does fails the test.
func profile(t testing.TB, o Options, enough func([]Sample) bool, pids ...int) ([]Sample, Stats) {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, pid := range pids {
		if err := p.Track(pid); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), mostSampling)
	defer cancel()
	var all []Sample
	stats, err := p.Run(ctx, Handler{Sample: func(s *Sample) {
		c := *s
		c.Kernel, c.User = slices.Clone(s.Kernel), slices.Clone(s.User)
		if all = append(all, c); enough(all) {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		t.Fatalf("not enough in %v: %d samples", mostSampling, len(all))
	}
	return all, stats
}

// sampling skips where no clock of time interrupts: the virtual machines of other
// kernels count instructions instead, and their clock stands for them.
func sampling(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("samples are taken by time, and this clock counts instructions")
	}
}

func atLeast(n int) func([]Sample) bool {
	return func(all []Sample) bool { return len(all) >= n }
}

func countOf(all []Sample, is func(Sample) bool) (n int) {
	for _, s := range all {
		if is(s) {
			n++
		}
	}
	return n
}

// What is busiest is what is sampled most, with its name, its numbers and its stack; and
// nothing else is sampled if nothing else was asked for.
func TestBusiest(t *testing.T) {
	sampling(t)
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	pid := startLoad(t, "spin")
	before := Now()
	all, stats := profile(t, Options{Frequency: 999, Event: EventClock, Tracked: true}, atLeast(200), pid)
	after := Now()
	spins := 0
	for _, s := range all {
		if s.PID != uint32(pid) || s.Comm != "exe" || s.Time < before || s.Time > after || int(s.CPU) >= runtime.NumCPU() || s.Off != 0 {
			t.Fatalf("%+v", s)
		}
		if len(s.User) > 0 && within(s.User[0], spin) {
			spins++
			if !slices.ContainsFunc(s.User, func(a uint64) bool { return within(a, TestMain) || runtime.FuncForPC(uintptr(a)).Name() == "main.main" }) {
				t.Errorf("a stack without its callers: %x", s.User)
			}
		}
	}
	if spins < len(all)/2 { // the others are the kernel's: of a host with more to do than CPUs
		t.Errorf("%d of %d samples of a process that spins are in its loop", spins, len(all))
	}
	if stats.Lost != 0 || stats.Ticks < uint64(len(all)) || stats.Expected == 0 {
		t.Errorf("%+v of %d samples", stats, len(all))
	}
}

// Without a filter, everybody is sampled, and the idle task is not. With one by name, only
// threads of that name.
func TestAll(t *testing.T) {
	sampling(t)
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	pid := startLoad(t, "spin")
	all, _ := profile(t, Options{Frequency: 999, Event: EventClock}, func(all []Sample) bool {
		return countOf(all, func(s Sample) bool { return s.PID == uint32(pid) }) >= 50
	})
	if countOf(all, func(s Sample) bool { return s.TID == 0 }) != 0 {
		t.Error("the idle task was sampled")
	}
	all, _ = profile(t, Options{Frequency: 999, Event: EventClock, Comm: "exe"}, atLeast(50))
	if countOf(all, func(s Sample) bool { return s.Comm != "exe" }) != 0 {
		t.Error("threads of other names were sampled")
	}
}

// Children of what is tracked are sampled: those that were there before, and those that
// come.
func TestChildren(t *testing.T) {
	sampling(t)
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	parent := startLoad(t, "parent") // ready when its child spins
	isChild := func(s Sample) bool {
		return s.PID != uint32(parent) && len(s.User) > 0 && within(s.User[0], spin)
	}
	profile(t, Options{Frequency: 999, Event: EventClock, Tracked: true}, func(all []Sample) bool { return countOf(all, isChild) >= 20 }, parent)

	// This process starts a load while it is tracked itself.
	p, err := New(Options{Frequency: 999, Event: EventClock, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := errors.Join(p.Track(os.Getpid()), p.Start()); err != nil {
		t.Fatal(err)
	}
	child := startLoad(t, "spin")
	ctx, cancel := context.WithTimeout(context.Background(), mostSampling)
	defer cancel()
	seen, execs, exits := 0, 0, 0
	_, err = p.Run(ctx, Handler{
		Sample: func(s *Sample) {
			if s.PID == uint32(child) && len(s.User) > 0 && within(s.User[0], spin) {
				if seen++; seen == 20 {
					_ = unix.Kill(child, unix.SIGKILL)
				}
			}
		},
		Exec: func(pid uint32) {
			if pid == uint32(child) {
				execs++
			}
		},
		Exit: func(pid uint32) {
			if pid == uint32(child) {
				exits++
				cancel()
			}
		},
	})
	if err != nil || seen < 20 || execs != 1 || exits != 1 {
		t.Errorf("%d samples of a child, %d exec, %d exit, %v", seen, execs, exits, err)
	}
}

// Processes that come and go are told whole, however often the clock interrupts what tells.
func TestExecs(t *testing.T) {
	sampling(t)
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	p, err := New(Options{Frequency: 10_000, Event: EventClock, Tracked: true, Buffer: 64 << 20}) // none may be lost while this process waits for a CPU
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := errors.Join(p.Track(os.Getpid()), p.Start()); err != nil {
		t.Fatal(err)
	}
	sh := exec.Command("/bin/sh", "-c", "while :; do /bin/true; done")
	sh.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sh.Process.Kill()
		_ = sh.Wait()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), mostSampling)
	defer cancel()
	const enough = 200
	execs, exits := map[uint32]bool{}, 0
	tasks := map[uint32][]TaskEventKind{}
	stats, err := p.Run(ctx, Handler{
		Sample: func(*Sample) {},
		Task: func(e *TaskEvent) {
			if e.Kind != TaskMapped || strings.HasSuffix(e.Path, "/true") && e.Start < e.End && e.Inode != 0 {
				tasks[e.PID] = append(tasks[e.PID], e.Kind)
			}
		},
		Exec: func(pid uint32) { execs[pid] = true },
		Exit: func(pid uint32) {
			if !execs[pid] {
				return // Go's runtime tries things out in one
			}
			// What it maps is known before it ends, and in order.
			if got := tasks[pid]; !slices.Equal(got, []TaskEventKind{TaskForked, TaskExeced, TaskMapped}) {
				t.Errorf("process %d: %v", pid, got)
			}
			if exits++; exits == enough {
				cancel()
			}
		},
	})
	if err != nil || exits < enough || stats.Lost != 0 {
		t.Errorf("%d ended, %+v, %v", exits, stats, err)
	}
}

// One stack alone is what was asked for, and not what has no such stack.
func TestStacks(t *testing.T) {
	sampling(t)
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	pid := startLoad(t, "spin")
	all, _ := profile(t, Options{Frequency: 999, Event: EventClock, Tracked: true, UserOnly: true}, atLeast(50), pid)
	if countOf(all, func(s Sample) bool { return len(s.Kernel) > 0 || len(s.User) == 0 }) != 0 {
		t.Error("--user-only has stacks of the kernel, or samples without a user stack")
	}
	all, _ = profile(t, Options{Frequency: 999, Event: EventClock, KernelOnly: true}, atLeast(5))
	if countOf(all, func(s Sample) bool { return len(s.User) > 0 || len(s.Kernel) == 0 || s.Kernel[0] < 1<<63 }) != 0 {
		t.Error("--kernel-only has user stacks, or samples without a kernel stack")
	}
}

// Waits are taken with where they began and how long they took.
func TestOffCPU(t *testing.T) {
	sampling(t)
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	pid := startLoad(t, "nap")
	naps := func(s Sample) bool {
		return slices.ContainsFunc(s.User, func(a uint64) bool { return within(a, nap) })
	}
	all, stats := profile(t, Options{OffCPU: true, Tracked: true, MinOff: time.Millisecond}, func(all []Sample) bool {
		return countOf(all, naps) >= 50
	}, pid)
	for _, s := range all {
		if s.PID != uint32(pid) || s.Off < time.Millisecond || len(s.Kernel) == 0 {
			t.Fatalf("%+v", s)
		}
	}
	// The timer runs from a little before the thread is off the CPU.
	if n, long := countOf(all, naps), countOf(all, func(s Sample) bool { return naps(s) && s.Off > 2*time.Millisecond }); long < n/2 {
		t.Errorf("%d of %d naps of 3 ms are longer than 2 ms", long, n)
	}
	if stats.Took <= 0 || stats.Lost+stats.Unkept+stats.Astray != 0 {
		t.Errorf("%+v", stats)
	}
}

// Thousands of threads wait; those that there is no room for are counted.
func TestThreads(t *testing.T) {
	sampling(t)
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	pid := startLoad(t, "threads")
	distinct := func(n int) func([]Sample) bool {
		threads := map[uint32]bool{}
		return func(all []Sample) bool {
			threads[all[len(all)-1].TID] = true
			return len(threads) >= n
		}
	}
	_, stats := profile(t, Options{OffCPU: true, Tracked: true}, distinct(manyThreads), pid)
	if stats.Unkept != 0 {
		t.Errorf("%+v", stats)
	}
	if _, stats = profile(t, Options{OffCPU: true, Tracked: true, Threads: 16}, atLeast(100), pid); stats.Unkept == 0 {
		t.Errorf("room for 16 threads of %d: %+v", manyThreads, stats)
	}
}

// What the ring has no room for is counted.
func TestLost(t *testing.T) {
	sampling(t)
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	pid := startLoad(t, "spin")
	p, err := New(Options{Frequency: 5000, Event: EventClock, Tracked: true, Buffer: os.Getpagesize()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := errors.Join(p.Track(pid), p.Start()); err != nil {
		t.Fatal(err)
	}
	// Nobody reads, until more has come than the ring can take.
	for ticks := uint64(0); ticks < 1000; {
		time.Sleep(10 * time.Millisecond)
		s, err := p.stats(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ticks = s.Ticks
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n := uint64(0)
	stats, err := p.Run(ctx, Handler{Sample: func(*Sample) { n++ }})
	if err != nil || n == 0 || stats.Lost == 0 || n+stats.Lost > stats.Ticks {
		t.Errorf("%d samples, %+v, %v", n, stats, err)
	}
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{}, "0 samples a second"},
		{Options{Frequency: 1 << 30}, "kernel.perf_event_max_sample_rate"},
		{Options{Frequency: 1, Event: "page-faults"}, "unknown event"},
		{Options{Frequency: 1, KernelOnly: true, UserOnly: true}, "nothing in it"},
		{Options{Frequency: 1, Buffer: 5000}, "a power of two"},
		{Options{OffCPU: true, Threads: -1}, "positive"},
	} {
		if p, err := New(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, %v; want %q", tt.o, p, err, tt.want)
		}
	}
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	p, err := New(Options{OffCPU: true, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Track(1<<22 - 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that is not: %v", err)
	}
}

func TestDecodeTasks(t *testing.T) {
	order := binary.NativeEndian
	record := func(kind uint32, misc uint16, body []byte) []byte {
		b := order.AppendUint32(nil, kind)
		b = order.AppendUint16(b, misc)
		b = order.AppendUint16(b, uint16(16+len(body)))
		return order.AppendUint64(append(b, body...), 99)
	}
	words := func(w ...uint32) (b []byte) {
		for _, x := range w {
			b = order.AppendUint32(b, x)
		}
		return b
	}
	mapped := words(7, 7)
	for _, x := range []uint64{0x1000, 0x200, 0x3000, 0, 42, 0, 0} {
		mapped = order.AppendUint64(mapped, x)
	}
	mapped = append(mapped, "/bin/x\x00\x00"...)
	var data []byte
	for _, r := range [][]byte{
		record(unix.PERF_RECORD_FORK, 0, words(7, 6, 7, 6, 0, 0)),
		record(unix.PERF_RECORD_FORK, 0, words(7, 7, 8, 7, 0, 0)), // a thread
		record(unix.PERF_RECORD_COMM, 0, words(7, 7, 0, 0)),       // a name
		record(unix.PERF_RECORD_COMM, miscCommExec, words(7, 7, 0, 0)),
		record(unix.PERF_RECORD_EXIT, 0, words(7, 7)),
		record(unix.PERF_RECORD_MMAP2, 0, mapped),
	} {
		data = append(data, r...)
	}
	got, err := decodeTasks(nil, data)
	want := []TaskEvent{
		{Kind: TaskForked, PID: 7, Parent: 6, time: 99}, {Kind: TaskExeced, PID: 7, time: 99},
		{Kind: TaskMapped, PID: 7, Start: 0x1000, End: 0x1200, Offset: 0x3000, Inode: 42, Path: "/bin/x", time: 99},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	last := record(unix.PERF_RECORD_MMAP2, 0, mapped)
	for n := 1; n < len(last); n++ {
		if _, err := decodeTasks(nil, last[:n]); err == nil {
			t.Errorf("cut to %d bytes, it is read", n)
		}
	}
	if _, err := decodeTasks(nil, record(unix.PERF_RECORD_MMAP2, 0, words(7, 7))); err == nil {
		t.Error("too short for what it is, it is read")
	}
}

func TestDecodeSample(t *testing.T) {
	raw := make([]byte, recordHeader+24)
	order := binary.NativeEndian
	order.PutUint64(raw[recordTime:], 100)
	order.PutUint64(raw[recordOff:], 5)
	order.PutUint64(raw[recordPID:], 7<<32|8)
	order.PutUint32(raw[recordKind:], kindSample)
	copy(raw[recordComm:], "comm\x00rest")
	order.PutUint32(raw[recordKernel:], 8)
	order.PutUint32(raw[recordUser:], 16)
	for i := range 3 {
		order.PutUint64(raw[recordHeader+8*i:], uint64(i+1))
	}
	var s Sample
	kind, err := s.decode(raw)
	if err != nil || kind != kindSample || s.Time != 105 || s.PID != 7 || s.TID != 8 || s.Comm != "comm" || s.Off != 5 {
		t.Errorf("kind %d, %+v, %v", kind, s, err)
	}
	if !slices.Equal(s.Kernel, []uint64{1}) || !slices.Equal(s.User, []uint64{2, 3}) {
		t.Errorf("%+v", s)
	}
	for n := range raw {
		if _, err := s.decode(raw[:n]); err == nil {
			t.Errorf("cut to %d bytes, it is read", n)
		}
	}
	order.PutUint32(raw[recordUser:], 1<<31)
	if _, err := s.decode(raw); err == nil {
		t.Error("a stack of 2 GB is read")
	}
}
