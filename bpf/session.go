//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/netns"
)

// A Session is where measuring happens: one thread, locked, in a network
// namespace of its own, pinned to one CPU and favoured by the scheduler. The
// namespace has no name; it is gone with the thread, however that ends.
//
// Methods may be called from any goroutine, one at a time.
type Session struct {
	seed  uint64
	cpu   int
	cache *btf.Cache
	work  chan func()
	done  chan struct{}
	stat  *os.File // /proc/stat
	gauge *gauges
	calm  *unix.SchedAttr // how the thread is scheduled between rounds
	// drivers of this session, and why there is none for a kind.
	drivers map[driverKind][]*driver
	refused map[driverKind]error
	// Unpadded loads programs as they are, wherever the JIT puts them. It is for
	// studies of what that does; set it before the first benchmark.
	Unpadded bool
	// Stop, if not nil, is asked between loads and readings of a round, on the
	// session's thread. Its error ends the round, which returns it: a round may take
	// many seconds. Set it before the first benchmark; [context.Context.Err] is one.
	Stop func() error
}

func (s *Session) stopped() error {
	if s.Stop == nil {
		return nil
	}
	return s.Stop()
}

// NewSession starts a session. Every random order in it follows from the seed.
// It needs root, or CAP_SYS_ADMIN (for the namespace), CAP_BPF, CAP_NET_ADMIN
// and CAP_PERFMON.
func NewSession(seed uint64) (*Session, error) {
	// Kernels before 5.11 charge maps to RLIMIT_MEMLOCK.
	if err := rlimit.RemoveMemlock(); err != nil && !errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("raise the locked-memory limit: %w", err)
	}
	s := &Session{seed: seed, cache: btf.NewCache(), work: make(chan func()), done: make(chan struct{}), drivers: map[driverKind][]*driver{}, refused: map[driverKind]error{}}
	ready := make(chan error)
	netns.Go(func() { s.thread(ready) })
	if err := <-ready; err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Session) thread(ready chan<- error) {
	defer close(s.done)
	if err := s.setUp(); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for f := range s.work {
		f()
	}
	for _, ds := range s.drivers {
		for _, d := range ds {
			d.close()
		}
	}
	s.gauge.close()
	s.stat.Close()
}

func (s *Session) setUp() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w (needs root or CAP_SYS_ADMIN)", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo in the new namespace: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring up lo: %w (needs CAP_NET_ADMIN)", err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("read CPU affinity: %w", err)
	}
	// The last allowed CPU: interrupts and init tend to live on the first.
	for c := range 1024 {
		if set.IsSet(c) {
			s.cpu = c
		}
	}
	set.Zero()
	set.Set(s.cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", s.cpu, err)
	}
	// Best effort: without it, a busy host interrupts more readings, which
	// each sample's context switches then show.
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20)
	if s.calm, err = unix.SchedGetAttr(0, 0); err != nil {
		return fmt.Errorf("read the scheduling policy: %w", err)
	}
	if s.stat, err = os.Open("/proc/stat"); err != nil {
		return err
	}
	s.gauge = newGauges(openPerf)
	return nil
}

// hurry puts the thread before all ordinary ones until the returned function is
// called. Best effort: RT_GROUP_SCHED kernels refuse it in most containers.
//
// A nice value counts within a control group or autogroup only: with three busy
// loops a core in other sessions, a round at nice -20 took 12.5 ms, and 5.9 ms so.
// It is for a few ms at a time, and for work that no other thread has a part in:
// packets that ksoftirqd delivers would never come.
func (s *Session) hurry() (calm func()) {
	fifo := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	if unix.SchedSetAttr(0, &fifo, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetAttr(0, s.calm, 0) }
}

// do runs f on the session's thread. A panic in it goes on in the caller, whose
// deferred clean-up would otherwise never run.
func (s *Session) do(f func() error) error {
	errc := make(chan error, 1)
	panicc := make(chan any, 1)
	s.work <- func() {
		defer func() {
			if p := recover(); p != nil {
				panicc <- fmt.Sprintf("%v\n\n%s", p, debug.Stack())
			}
		}()
		errc <- f()
	}
	select {
	case err := <-errc:
		return err
	case p := <-panicc:
		panic(p)
	}
}

// Load loads one program with the verifier's statistics, in the session's
// namespace.
func (s *Session) Load(o *Object, program string) (l *Loaded, err error) {
	err = s.do(func() error {
		l, err = o.Load(program, LoadOptions{Stats: true, Cache: s.cache})
		return err
	})
	return l, err
}

// Close ends the thread. The kernel takes down the namespace with it.
func (s *Session) Close() {
	close(s.work)
	<-s.done
}

// driver is a driver of the kind with room for n more packets.
func (s *Session) driver(k driverKind, n int) (*driver, error) {
	if err := s.refused[k]; err != nil {
		return nil, err
	}
	for _, d := range s.drivers[k] {
		if d.fits(n) {
			return d, nil
		}
	}
	d, err := newDriver(k, n)
	if err != nil {
		s.refused[k] = err
		return nil, err
	}
	s.drivers[k] = append(s.drivers[k], d)
	return d, nil
}

// rng is the source of one benchmark's orders: the same for a seed and a name,
// whichever other benchmarks run.
func (s *Session) rng(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// switches is the number of context switches of the thread so far.
func switches() int64 {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &ru) != nil {
		return 0
	}
	return ru.Nvcsw + ru.Nivcsw
}

// steal is the time that the hypervisor took from the session's CPU so far, in
// hundredths of a second.
func (s *Session) steal() int64 { return s.ticks("cpu"+strconv.Itoa(s.cpu), 8) }

// softirq is the time that all CPUs were in soft interrupts so far, in µs.
func (s *Session) softirq() float64 { return float64(s.ticks("cpu", 7)) * 1e6 / userHz }

// userHz is USER_HZ, the unit of /proc/stat: a part of the interface with user space.
const userHz = 100

// ticks is a column of a line of /proc/stat, 0 where it cannot be read.
func (s *Session) ticks(line string, column int) int64 {
	buf := make([]byte, 8192)
	n, _ := s.stat.ReadAt(buf, 0)
	for l := range strings.Lines(string(buf[:n])) {
		if f := strings.Fields(l); len(f) > column && f[0] == line {
			v, _ := strconv.ParseInt(f[column], 10, 64)
			return v
		}
	}
	return 0
}
