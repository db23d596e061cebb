//go:build linux

package profiler

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// A Sample is one moment of a thread: what it ran, or where it had been waiting.
// Addresses are raw, innermost first, and valid until the callback that gets them
// returns.
type Sample struct {
	// Time is ns of CLOCK_MONOTONIC: when it was taken, or when the wait was over.
	Time uint64
	// CPU it ran on, or on which it went on after the wait.
	CPU      uint32
	PID, TID uint32 // in the kernel's words, tgid and pid, of the first process namespace
	// Comm is the name of the thread, which it may have chosen itself: any bytes.
	Comm string
	// Kernel is empty where user code ran, User for threads of the kernel.
	Kernel, User []uint64
	// Off is the time of a wait; 0 for samples of what runs.
	Off time.Duration
}

// A record is what the programs of a [Profiler] write: a header, then addresses of the
// kernel's stack and of the user's. Numbers are the host's.
const (
	recordTime   = 0  // u64
	recordPID    = 8  // u64, tgid << 32 | pid
	recordOff    = 16 // u64, ns
	recordCPU    = 24 // u32
	recordKind   = 28 // u32
	recordComm   = 32 // char[16]
	recordKernel = 48 // u32, bytes of the kernel's stack
	recordUser   = 52 // u32
	recordSize   = 56 // u32, of the whole record
	recordHeader = 64

	// The kernel walks 127 frames unless kernel.perf_event_max_stack says otherwise.
	stackFrames = 127
	stackBytes  = stackFrames * 8
	recordMax   = recordHeader + 2*stackBytes

	commLen = 16 // TASK_COMM_LEN
)

// Kinds of records.
const (
	kindSample = iota + 1
	kindExec
	kindExit
)

// decode reads a record into s, whose slices it uses again.
func (s *Sample) decode(raw []byte) (kind uint32, err error) {
	if len(raw) < recordHeader {
		return 0, fmt.Errorf("a sample of %d bytes, fewer than its header", len(raw))
	}
	order := binary.NativeEndian
	kernel, user := order.Uint32(raw[recordKernel:]), order.Uint32(raw[recordUser:])
	if kernel > stackBytes || user > stackBytes || kernel%8 != 0 || user%8 != 0 || int(recordHeader+kernel+user) > len(raw) {
		return 0, fmt.Errorf("a sample of %d bytes whose stacks have %d and %d", len(raw), kernel, user)
	}
	id := order.Uint64(raw[recordPID:])
	s.Time, s.CPU = order.Uint64(raw[recordTime:]), order.Uint32(raw[recordCPU:])
	s.PID, s.TID = uint32(id>>32), uint32(id)
	s.Off = time.Duration(order.Uint64(raw[recordOff:]))
	s.Time += uint64(s.Off)
	comm, _, _ := bytes.Cut(raw[recordComm:recordComm+commLen], []byte{0})
	if s.Comm != string(comm) { // without a new string for each sample of a busy thread
		s.Comm = string(comm)
	}
	stacks := raw[recordHeader:]
	s.Kernel = addresses(s.Kernel[:0], stacks[:kernel])
	s.User = addresses(s.User[:0], stacks[kernel:kernel+user])
	return order.Uint32(raw[recordKind:]), nil
}

func addresses(to []uint64, raw []byte) []uint64 {
	for ; len(raw) >= 8; raw = raw[8:] {
		a := binary.NativeEndian.Uint64(raw)
		if a == 0 {
			break // older kernels fill up with zeros
		}
		to = append(to, a)
	}
	return to
}
