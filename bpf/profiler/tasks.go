//go:build linux

package profiler

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bpf/perfevent"
)

// A TaskEvent is what the kernel tells of a process between the samples, so that addresses of
// one that is gone before anybody looks at it have names all the same.
type TaskEvent struct {
	Kind TaskEventKind
	PID  uint32
	// Parent is the process that a forked one is a copy of.
	Parent uint32
	// Start, End, Offset, Inode and Path are those of memory that was mapped to be executed, as
	// in /proc/PID/maps.
	Start, End, Offset, Inode uint64
	Path                      string
	time                      uint64
}

// A TaskEventKind says what has happened.
type TaskEventKind uint8

// What happens to processes.
const (
	TaskForked TaskEventKind = iota + 1
	TaskExeced               // what it had mapped is gone
	TaskMapped
)

// A taskWatch reads the kernel's own records of processes, of all CPUs, as perf does
// (man perf_event_open).
type taskWatch struct {
	rings  []taskRing
	events []TaskEvent // of one reading, and what was too late for the last
	data   []byte
}

type taskRing struct {
	fd   int
	mem  []byte
	data []byte
}

// taskPages is the size of a CPU's ring, without its header: some 2,000 records.
const taskPages = 64

func newTaskWatch() (_ *taskWatch, err error) {
	cpus, err := perfevent.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	w := &taskWatch{}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	for _, cpu := range cpus {
		attr := unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: unix.PERF_ATTR_SIZE_VER5,
			Sample_type: unix.PERF_SAMPLE_TIME, Clockid: unix.CLOCK_MONOTONIC,
			// Nobody waits for it: it is read before each sample.
			Wakeup: 1 << 30,
			Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
				unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark,
		}
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("watch processes: %w", err)
		}
		r := taskRing{fd: fd}
		page := unix.Getpagesize()
		if r.mem, err = unix.Mmap(fd, 0, (1+taskPages)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			_ = unix.Close(fd)
			return nil, fmt.Errorf("watch processes: %w", err)
		}
		r.data = r.mem[page:]
		w.rings = append(w.rings, r)
	}
	return w, nil
}

func (w *taskWatch) close() {
	for _, r := range w.rings {
		_ = unix.Munmap(r.mem)
		_ = unix.Close(r.fd)
	}
	w.rings = nil
}

func (r *taskRing) page() *unix.PerfEventMmapPage {
	return (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.mem[0]))
}

// read hands out what has happened since the last time, in its order. What happens while
// it reads is for the next time: of a process that changes its CPU then, the ring that was
// read first would lack what came before.
func (w *taskWatch) read(tell func(*TaskEvent)) error {
	begun := Now()
	for i := range w.rings {
		r := &w.rings[i]
		page := r.page()
		head, tail := atomic.LoadUint64(&page.Data_head), page.Data_tail
		if head == tail {
			continue
		}
		size := uint64(len(r.data))
		if head-tail > size {
			return errors.New("watch processes: the kernel's ring makes no sense")
		}
		at := tail % size
		w.data = append(w.data[:0], r.data[at:min(size, at+head-tail)]...)
		w.data = append(w.data, r.data[:int(head-tail)-len(w.data)]...)
		atomic.StoreUint64(&page.Data_tail, head)
		events, err := decodeTasks(w.events, w.data)
		if err != nil {
			return err
		}
		w.events = events
	}
	slices.SortStableFunc(w.events, func(a, b TaskEvent) int { return cmp.Compare(a.time, b.time) })
	told := 0
	for told < len(w.events) && w.events[told].time <= begun {
		tell(&w.events[told])
		told++
	}
	w.events = slices.Delete(w.events, 0, told)
	return nil
}

const miscCommExec = 1 << 13 // PERF_RECORD_MISC_COMM_EXEC

// decodeTasks adds the records that matter, each a header (u32 type, u16 misc, u16 size), a body,
// and the time.
func decodeTasks(to []TaskEvent, data []byte) ([]TaskEvent, error) {
	order := binary.NativeEndian
	for len(data) > 0 {
		const header, clock = 8, 8
		broken := fmt.Errorf("watch processes: a record of the kernel makes no sense: %x", data[:min(len(data), header)])
		if len(data) < header {
			return to, broken
		}
		kind, misc, size := order.Uint32(data), order.Uint16(data[4:]), int(order.Uint16(data[6:]))
		if size < header || size > len(data) {
			return to, broken
		}
		body := data[header:size]
		data = data[size:]
		want := map[uint32]int{unix.PERF_RECORD_FORK: 8, unix.PERF_RECORD_COMM: 8, unix.PERF_RECORD_MMAP2: 64}[kind]
		if want == 0 {
			continue
		}
		if len(body) < want+clock {
			return to, broken
		}
		e := TaskEvent{PID: order.Uint32(body), time: order.Uint64(body[len(body)-clock:])}
		switch kind {
		case unix.PERF_RECORD_FORK:
			if e.Kind, e.Parent = TaskForked, order.Uint32(body[4:]); e.Parent == e.PID {
				continue // a thread
			}
		case unix.PERF_RECORD_COMM:
			if e.Kind = TaskExeced; misc&miscCommExec == 0 {
				continue
			}
		case unix.PERF_RECORD_MMAP2:
			e.Kind = TaskMapped
			e.Start, e.Offset, e.Inode = order.Uint64(body[8:]), order.Uint64(body[24:]), order.Uint64(body[40:])
			e.End = e.Start + order.Uint64(body[16:])
			path, _, _ := bytes.Cut(body[want:len(body)-clock], []byte{0})
			if e.Path = string(path); e.End < e.Start {
				return to, broken
			}
			if e.Path == "//anon" { // /proc has no name for it
				e.Path = ""
			}
		}
		to = append(to, e)
	}
	return to, nil
}
