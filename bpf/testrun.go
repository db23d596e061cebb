//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// testRunAttr is the part of union bpf_attr that BPF_PROG_TEST_RUN reads
// (include/uapi/linux/bpf.h). cilium/ebpf's Program.Run allocates output
// buffers and its Benchmark gives the kernel's whole nanoseconds; a reading
// here is one system call on memory that is made once.
type testRunAttr struct {
	progFD      uint32
	retval      uint32
	dataSizeIn  uint32
	dataSizeOut uint32
	dataIn      uint64
	dataOut     uint64
	repeat      uint32
	duration    uint32
	ctxSizeIn   uint32
	ctxSizeOut  uint32
	ctxIn       uint64
	ctxOut      uint64
	flags       uint32
	cpu         uint32
	batchSize   uint32
	_           uint32
}

// A testRun is a prepared BPF_PROG_TEST_RUN.
type testRun struct {
	attr testRunAttr
	// Held so that the collector keeps what attr points to.
	in, out, ctx []byte
}

func newTestRun(fd int, in, ctx []byte, out int) *testRun {
	t := &testRun{in: in, ctx: ctx}
	t.attr.progFD = uint32(fd)
	if len(in) > 0 {
		t.attr.dataIn = uint64(uintptr(unsafe.Pointer(&in[0])))
		t.attr.dataSizeIn = uint32(len(in))
	}
	if len(ctx) > 0 {
		t.attr.ctxIn = uint64(uintptr(unsafe.Pointer(&ctx[0])))
		t.attr.ctxSizeIn = uint32(len(ctx))
	}
	if out > 0 {
		t.out = make([]byte, out)
		t.attr.dataOut = uint64(uintptr(unsafe.Pointer(&t.out[0])))
	}
	return t
}

// errInterrupted is that a signal cut a test run short, after some of its runs.
var errInterrupted = errors.New("test run: interrupted by a signal")

// call runs the program repeat times and returns its last return value and the
// wall time of the system call, which resolves what the kernel's own duration
// (whole ns a run, truncated) does not. A call that a signal cut short is
// errInterrupted: the runs until then have changed maps, and the packet's memory
// may be another, so that what was prepared for it has to be prepared again.
func (t *testRun) call(repeat int) (retval uint32, elapsed time.Duration, err error) {
	t.attr.repeat = uint32(repeat)
	t.attr.dataSizeOut = uint32(len(t.out))
	start := time.Now()
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&t.attr)), unsafe.Sizeof(t.attr))
	elapsed = time.Since(start)
	switch errno {
	case 0:
		return t.attr.retval, elapsed, nil
	case unix.EINTR:
		return 0, 0, errInterrupted
	}
	return 0, 0, explainTestRun(errno)
}

// again calls f until no signal cuts it short, and counts how often one did.
func again(f func() error) (restarts int, err error) {
	const most = 1000 // signals in a row: something is wrong
	for {
		if err = f(); !errors.Is(err, errInterrupted) || restarts == most {
			return restarts, err
		}
		restarts++
	}
}

// output is the packet as the program left it.
func (t *testRun) output() []byte { return t.out[:min(int(t.attr.dataSizeOut), len(t.out))] }

// kernelENOTSUPP is the kernel-internal ENOTSUPP that leaks from BPF_PROG_TEST_RUN.
const kernelENOTSUPP = unix.Errno(524)

// errNoTestRun is that the kernel cannot test-run programs of this type.
var errNoTestRun = errors.New("this kernel has no test run for this program type")

func explainTestRun(errno unix.Errno) error {
	switch errno {
	case kernelENOTSUPP, unix.EOPNOTSUPP:
		return errNoTestRun
	case unix.ENOSPC:
		return fmt.Errorf("test run: the packet that the program left does not fit: %w", errno)
	}
	return fmt.Errorf("test run: %w", errno)
}
