//go:build linux

package bpf

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// A perfEvent is something that the kernel or the CPU counts of a thread.
type perfEvent struct {
	name   string // of the measure, where it is one
	typ    uint32
	config uint64
}

// Software events of the scheduler and of memory: what spoils a sample.
var softwareEvents = []perfEvent{
	{"switches", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"migrations", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_MIGRATIONS},
	{"faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS},
}

// hardwareEvents are the CPU's, of which the first is that without which there are
// no others: what `bpftool prog profile` shows, and branches.
var hardwareEvents = []perfEvent{
	{bench.Cycles, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES},
	{bench.Instructions, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS},
	{bench.BranchMisses, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_MISSES},
	{bench.L1DMisses, unix.PERF_TYPE_HW_CACHE, cacheMisses(unix.PERF_COUNT_HW_CACHE_L1D)},
	{bench.LLCMisses, unix.PERF_TYPE_HW_CACHE, cacheMisses(unix.PERF_COUNT_HW_CACHE_LL)},
	{bench.ITLBMisses, unix.PERF_TYPE_HW_CACHE, cacheMisses(unix.PERF_COUNT_HW_CACHE_ITLB)},
	{bench.DTLBMisses, unix.PERF_TYPE_HW_CACHE, cacheMisses(unix.PERF_COUNT_HW_CACHE_DTLB)},
}

// cacheMisses is the event of reads that miss a cache (man perf_event_open).
func cacheMisses(cache uint64) uint64 {
	return cache | unix.PERF_COUNT_HW_CACHE_OP_READ<<8 | unix.PERF_COUNT_HW_CACHE_RESULT_MISS<<16
}

// A perfGroup is events that are counted at the same times, and read in one system
// call.
type perfGroup struct {
	fds    []int // the leader first
	events []perfEvent
	buf    []byte
}

// perfOpener opens an event for the calling thread, in the group of a leader or,
// for -1, as one.
type perfOpener func(e perfEvent, leader int) (fd int, err error)

// openPerf is the perfOpener of the kernel. Hardware events count the kernel alone,
// where programs run; those of the scheduler happen there, and faults anywhere.
func openPerf(e perfEvent, leader int) (int, error) {
	attr := unix.PerfEventAttr{
		Type: e.typ, Config: e.config, Size: perfEventAttrSize,
		Read_format: unix.PERF_FORMAT_GROUP | unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		Bits:        unix.PerfBitExcludeHv,
	}
	if e.typ != unix.PERF_TYPE_SOFTWARE {
		attr.Bits |= unix.PerfBitExcludeUser
	}
	return unix.PerfEventOpen(&attr, 0, -1, leader, unix.PERF_FLAG_FD_CLOEXEC)
}

// openGroups opens events in as few groups as the CPU has room for: the kernel
// refuses an event that could not be counted together with those before it (EINVAL).
// Events that there are none of are returned as missing; the error is that of the
// first event.
func openGroups(events []perfEvent, open perfOpener) (groups []*perfGroup, missing []string, err error) {
	for i, e := range events {
		var fd int
		var refused error
		if n := len(groups); n > 0 {
			g := groups[n-1]
			if fd, refused = open(e, g.fds[0]); refused == nil {
				g.fds, g.events = append(g.fds, fd), append(g.events, e)
				continue
			}
		}
		if fd, refused = open(e, -1); refused != nil {
			if i == 0 {
				return nil, nil, refused
			}
			missing = append(missing, e.name)
			continue
		}
		groups = append(groups, &perfGroup{fds: []int{fd}, events: []perfEvent{e}})
	}
	for _, g := range groups {
		g.buf = make([]byte, 8*(3+len(g.events)))
	}
	return groups, missing, nil
}

func (g *perfGroup) close() {
	for _, fd := range slices.Backward(g.fds) {
		_ = unix.Close(fd)
	}
}

// A perfReading is what a group had counted so far, in ns and events.
type perfReading struct {
	enabled, running uint64 // since it was opened, and of that on the CPU's counters
	values           []uint64
}

func (g *perfGroup) read() (perfReading, error) {
	n, err := unix.Read(g.fds[0], g.buf)
	if err != nil {
		return perfReading{}, fmt.Errorf("read performance counters: %w", err)
	}
	return decodePerf(g.buf[:n], len(g.events))
}

// decodePerf reads struct read_format of a group with both times (man
// perf_event_open): the number of events, time enabled, time running, and a value
// an event, in the order in which they joined the group.
func decodePerf(b []byte, events int) (perfReading, error) {
	const head = 3
	if len(b) < 8*head {
		return perfReading{}, fmt.Errorf("performance counters: %d bytes, fewer than a header", len(b))
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	if n := word(0); n != uint64(events) || len(b) != 8*(head+events) {
		return perfReading{}, fmt.Errorf("performance counters: %d of %d events in %d bytes", n, events, len(b))
	}
	r := perfReading{enabled: word(1), running: word(2), values: make([]uint64, events)}
	for i := range r.values {
		r.values[i] = word(head + i)
	}
	return r, nil
}

// since is what was counted between two readings. Where other events had the CPU's
// counters for a part of the time, values are scaled up to all of it, and share is
// less than 1; 0 tells that nothing was counted.
func (r perfReading) since(before perfReading) (values []float64, share float64) {
	enabled, running := r.enabled-before.enabled, r.running-before.running
	switch {
	case enabled == 0 || running == 0:
		return nil, 0
	case running >= enabled:
		share = 1
	default:
		share = float64(running) / float64(enabled)
	}
	for i, v := range r.values {
		values = append(values, float64(v-before.values[i])/share)
	}
	return values, share
}
