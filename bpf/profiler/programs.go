//go:build linux

package profiler

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// The eBPF programs of a [Profiler], and the maps that they share:
//
//	ring      records for user space
//	scratch   a place a CPU, where a sample is put together (see record…), and counts
//	tracked   the processes that are sampled; none: all
//	waiting   by thread, the record that it left when it went to sleep
//
// In every program R6 is the context, R7 the thread (tgid << 32 | pid) and R8 the record.
// On the stack, fp-4 is the key of a process and fp-8 that of a thread.
//
// Note: they are assembled here, as the other programs of this package are, rather than
// compiled from C. gate is built by Go alone, and what would be compiled would have to be
// committed. The two offsets for which C has CO-RE are asked of the kernel's BTF.
type recorder struct {
	opts                            Options
	ring, scratch, tracked, waiting *ebpf.Map
	task                            taskLayout
}

// After the record, the scratch place has counts of the CPU.
const (
	countTicks   = recordMax      // times that the event fired, on idle CPUs, too
	countLost    = recordMax + 8  // records that the ring had no room for
	countUnkept  = recordMax + 16 // waits of threads that there was no room to remember
	countAstray  = recordMax + 24 // children that there was no room to track
	scratchBytes = recordMax + 32
)

// Flags and numbers of the kernel's interface (linux/bpf.h, linux/sched.h).
const (
	userStack = 1 << 8 // BPF_F_USER_STACK
	noWakeup  = 1      // BPF_RB_NO_WAKEUP
	wakeup    = 2      // BPF_RB_FORCE_WAKEUP
	available = 0      // BPF_RB_AVAIL_DATA
	taskDead  = 0x80   // TASK_DEAD
)

const (
	keyProcess = -4
	keyThread  = -8
)

// close lets the maps go, those that are there.
func (r *recorder) close() {
	for _, m := range []*ebpf.Map{r.ring, r.scratch, r.tracked, r.waiting} {
		if m != nil {
			m.Close()
		}
	}
}

// makeMaps makes the maps that the options need.
func (r *recorder) makeMaps() (err error) {
	create := func(m **ebpf.Map, spec ebpf.MapSpec) {
		if err == nil {
			*m, err = ebpf.NewMap(&spec)
		}
	}
	create(&r.ring, ebpf.MapSpec{Name: "gate_ring", Type: ebpf.RingBuf, MaxEntries: uint32(r.opts.Buffer)})
	create(&r.scratch, ebpf.MapSpec{Name: "gate_scratch", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: scratchBytes, MaxEntries: 1})
	if r.opts.Tracked {
		create(&r.tracked, ebpf.MapSpec{Name: "gate_tracked", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: maxTracked})
	}
	if r.opts.OffCPU {
		create(&r.waiting, ebpf.MapSpec{Name: "gate_waiting", Type: ebpf.Hash, KeySize: 4, ValueSize: recordMax, MaxEntries: uint32(r.opts.Threads)})
	}
	return err
}

// onCPU is the program of the perf event: what runs now.
func (r *recorder) onCPU() *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Name: "gate_profile", Type: ebpf.PerfEvent, License: "GPL", Instructions: slices.Concat(
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)},
		r.place(),
		increment(countTicks),
		asm.Instructions{
			asm.FnGetCurrentPidTgid.Call(),
			asm.JEq.Imm(asm.R0, 0, "out"), // the idle task
			asm.Mov.Reg(asm.R7, asm.R0),
		},
		r.isTracked(),
		r.header(kindSample),
		r.stacks(),
		r.emit(),
		end(),
	)}
}

// offCPU is the program of sched_switch: what goes to sleep leaves a record, and what
// comes back sends it. Threads that are only preempted do not wait for anything.
func (r *recorder) offCPU() *ebpf.ProgramSpec {
	ctxPreempt, ctxPrev, ctxNext := int16(0), int16(8), int16(16)
	insns := slices.Concat(
		asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadMem(asm.R1, asm.R6, ctxNext, asm.DWord),
			asm.LoadMem(asm.R1, asm.R1, r.task.pid, asm.Word),
			asm.StoreMem(asm.RFP, keyThread, asm.R1, asm.Word),
			asm.LoadMapPtr(asm.R1, r.waiting.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, keyThread),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "leaves"),
			asm.Mov.Reg(asm.R8, asm.R0),
			asm.FnKtimeGetNs.Call(),
			asm.LoadMem(asm.R1, asm.R8, recordTime, asm.DWord),
			asm.Sub.Reg(asm.R0, asm.R1),
			asm.LoadImm(asm.R1, int64(r.opts.MinOff), asm.DWord),
			asm.JLT.Reg(asm.R0, asm.R1, "forget"),
			asm.StoreMem(asm.R8, recordOff, asm.R0, asm.DWord),
			asm.FnGetSmpProcessorId.Call(),
			asm.StoreMem(asm.R8, recordCPU, asm.R0, asm.Word),
			asm.LoadMem(asm.R9, asm.R8, recordSize, asm.Word),
			asm.JGT.Imm(asm.R9, recordMax, "forget"), // the verifier knows no better
			asm.Mov.Imm(asm.R7, 0),
		},
		r.output(asm.R7, asm.R9),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "forget"),
			asm.Mov.Imm(asm.R7, countLost),
			asm.Ja.Label("miscount"),
			asm.Mov.Imm(asm.R7, 0).WithSymbol("forget"),
			asm.LoadMapPtr(asm.R1, r.waiting.FD()).WithSymbol("miscount"),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, keyThread),
			asm.FnMapDeleteElem.Call(),
			asm.JEq.Imm(asm.R7, 0, "leaves"),
		},
		r.place(),
		increment(countLost),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, ctxPreempt, asm.DWord).WithSymbol("leaves"),
			asm.JSet.Imm(asm.R1, 1, "out"),
			asm.LoadMem(asm.R1, asm.R6, ctxPrev, asm.DWord),
			asm.LoadMem(asm.R2, asm.R1, r.task.pid, asm.Word),
			asm.JEq.Imm(asm.R2, 0, "out"), // the idle task
			asm.StoreMem(asm.RFP, keyThread, asm.R2, asm.Word),
			asm.LoadMem(asm.R2, asm.R1, r.task.state, r.task.stateSize),
			asm.JEq.Imm(asm.R2, 0, "out"), // it would go on
			asm.JSet.Imm(asm.R2, taskDead, "out"),
			asm.FnGetCurrentPidTgid.Call(),
			asm.Mov.Reg(asm.R7, asm.R0),
		},
		r.isTracked(),
		r.place(),
		r.header(kindSample),
		r.stacks(),
		asm.Instructions{
			asm.LoadMapPtr(asm.R1, r.waiting.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, keyThread),
			asm.Mov.Reg(asm.R3, asm.R8),
			asm.Mov.Imm(asm.R4, unix.BPF_ANY),
			asm.FnMapUpdateElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "out"),
		},
		increment(countUnkept),
		end(),
	)
	return rawTracing("gate_off_cpu", "sched_switch", insns)
}

// forked is the program of sched_process_fork: children of what is tracked are, too.
func (r *recorder) forked() *ebpf.ProgramSpec {
	ctxParent, ctxChild := int16(0), int16(8)
	key := func(task int16) asm.Instructions {
		return asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, task, asm.DWord),
			asm.LoadMem(asm.R1, asm.R1, r.task.tgid, asm.Word),
			asm.StoreMem(asm.RFP, keyProcess, asm.R1, asm.Word),
			asm.LoadMapPtr(asm.R1, r.tracked.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, keyProcess),
		}
	}
	return rawTracing("gate_forked", "sched_process_fork", slices.Concat(
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)},
		key(ctxParent),
		asm.Instructions{asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "out")},
		key(ctxChild),
		asm.Instructions{
			asm.Mov.Reg(asm.R3, asm.R2), // any four bytes
			asm.Mov.Imm(asm.R4, unix.BPF_ANY),
			asm.FnMapUpdateElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "out"),
		},
		r.place(),
		increment(countAstray),
		end(),
	))
}

// execed is the program of sched_process_exec: the process maps another program now, and
// may be gone soon.
func (r *recorder) execed() *ebpf.ProgramSpec {
	return rawTracing("gate_execed", "sched_process_exec", slices.Concat(
		r.current(),
		r.isTracked(),
		onStack(),
		r.header(kindExec),
		r.bare(),
		end(),
	))
}

// exited is the program of sched_process_exit, which it heeds where the last thread of a
// process ends.
func (r *recorder) exited() *ebpf.ProgramSpec {
	const ctxTask = 0
	insns := slices.Concat(
		r.current(),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, ctxTask, asm.DWord),
			asm.LoadMem(asm.R1, asm.R1, r.task.signal, asm.DWord),
			asm.LoadMem(asm.R1, asm.R1, r.task.live, asm.Word),
			asm.JNE.Imm(asm.R1, 0, "out"),
		},
		r.isTracked(),
	)
	if r.tracked != nil {
		insns = append(insns,
			asm.LoadMapPtr(asm.R1, r.tracked.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, keyProcess),
			asm.FnMapDeleteElem.Call(),
		)
	}
	return rawTracing("gate_exited", "sched_process_exit", slices.Concat(insns, onStack(), r.header(kindExit), r.bare(), end()))
}

// rawTracing is a program of a tracepoint that reads the kernel's structures by their
// types.
func rawTracing(name, tracepoint string, insns asm.Instructions) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: name, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: tracepoint, License: "GPL", Instructions: insns,
	}
}

func (r *recorder) current() asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
	}
}

// place lets R8 point to the scratch place of this CPU.
func (r *recorder) place() asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, keyProcess, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, r.scratch.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyProcess),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R8, asm.R0),
	}
}

// onStack lets R8 point to an empty header on the stack. A program that is no sampling one may
// be interrupted by one, which needs the scratch place.
func onStack() asm.Instructions {
	const at = -(recordHeader + 8) // below the keys
	insns := asm.Instructions{asm.Mov.Imm(asm.R1, 0)}
	for i := int16(0); i < recordHeader; i += 8 {
		insns = append(insns, asm.StoreMem(asm.RFP, at+i, asm.R1, asm.DWord))
	}
	return append(insns, asm.Mov.Reg(asm.R8, asm.RFP), asm.Add.Imm(asm.R8, at))
}

// increment adds one to a count of this CPU, which no other writes.
func increment(which int16) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R8, which, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R8, which, asm.R1, asm.DWord),
	}
}

// isTracked leaves the program if the process of R7 is none that was asked for.
func (r *recorder) isTracked() asm.Instructions {
	if r.tracked == nil {
		return nil
	}
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.RSh.Imm(asm.R1, 32),
		asm.StoreMem(asm.RFP, keyProcess, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, r.tracked.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyProcess),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
	}
}

// header fills the record's header, and leaves the program if the thread has another
// name than was asked for.
func (r *recorder) header(kind int64) asm.Instructions {
	insns := asm.Instructions{
		asm.StoreMem(asm.R8, recordPID, asm.R7, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R8, recordTime, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R8, recordOff, asm.R1, asm.DWord),
		asm.StoreMem(asm.R8, recordKernel, asm.R1, asm.DWord), // and the user's
		asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(asm.R8, recordCPU, asm.R0, asm.Word),
		asm.StoreImm(asm.R8, recordKind, kind, asm.Word),
		asm.StoreImm(asm.R8, recordSize, recordHeader, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.Add.Imm(asm.R1, recordComm),
		asm.Mov.Imm(asm.R2, commLen),
		asm.FnGetCurrentComm.Call(),
	}
	if r.opts.Comm == "" || kind != kindSample {
		return insns
	}
	var comm [commLen]byte
	copy(comm[:commLen-1], r.opts.Comm) // the kernel keeps 15 bytes, and fills up with zeros
	for i := 0; i < commLen; i += 8 {
		insns = append(insns,
			asm.LoadMem(asm.R1, asm.R8, int16(recordComm+i), asm.DWord),
			asm.LoadImm(asm.R2, int64(binary.NativeEndian.Uint64(comm[i:])), asm.DWord),
			asm.JNE.Reg(asm.R1, asm.R2, "out"),
		)
	}
	return insns
}

// stacks adds the stacks to the record, one behind the other, and leaves R9 as its size.
// It leaves the program if there is nothing to add.
func (r *recorder) stacks() asm.Instructions {
	insns := asm.Instructions{asm.Mov.Imm(asm.R9, 0)}
	walk := func(flags int32, field int16, here, then string) {
		insns = append(insns,
			asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(here),
			asm.Mov.Reg(asm.R2, asm.R8),
			asm.Add.Imm(asm.R2, recordHeader),
			asm.Add.Reg(asm.R2, asm.R9),
			asm.Mov.Imm(asm.R3, stackBytes),
			asm.Mov.Imm(asm.R4, flags),
			asm.FnGetStack.Call(),
			asm.JSLE.Imm(asm.R0, 0, then), // none, or it could not be walked
			asm.StoreMem(asm.R8, field, asm.R0, asm.Word),
			asm.Add.Reg(asm.R9, asm.R0),
		)
	}
	const kernel, user, walked = "kernel", "user", "walked"
	switch {
	case r.opts.KernelOnly:
		walk(0, recordKernel, kernel, walked)
	case r.opts.UserOnly:
		walk(userStack, recordUser, user, walked)
	default:
		walk(0, recordKernel, kernel, user)
		walk(userStack, recordUser, user, walked)
	}
	return append(insns,
		asm.JEq.Imm(asm.R9, 0, "out").WithSymbol(walked),
		asm.Add.Imm(asm.R9, recordHeader),
		asm.StoreMem(asm.R8, recordSize, asm.R9, asm.Word),
	)
}

// emit sends the record of R9 bytes, or counts it as lost.
func (r *recorder) emit() asm.Instructions {
	return slices.Concat(
		asm.Instructions{asm.Mov.Imm(asm.R7, 0)},
		r.output(asm.R7, asm.R9),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "out")},
		increment(countLost),
	)
}

// bare sends a record without stacks at once.
func (r *recorder) bare() asm.Instructions {
	return slices.Concat(
		asm.Instructions{asm.Mov.Imm(asm.R7, wakeup), asm.Mov.Imm(asm.R9, recordHeader)},
		r.output(asm.R7, asm.R9),
	)
}

// output sends the record at R8. Where flags is 0, the reader, who looks by himself a few
// times a second, is woken only if the ring is half full: to wake him costs more than the
// sample.
func (r *recorder) output(flags, size asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.JNE.Imm(flags, 0, "urgent"),
		asm.LoadMapPtr(asm.R1, r.ring.FD()),
		asm.Mov.Imm(asm.R2, available),
		asm.FnRingbufQuery.Call(),
		asm.Mov.Imm(flags, noWakeup),
		asm.JLT.Imm(asm.R0, int32(r.opts.Buffer/2), "urgent"),
		asm.Mov.Imm(flags, wakeup),
		asm.LoadMapPtr(asm.R1, r.ring.FD()).WithSymbol("urgent"),
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.Mov.Reg(asm.R3, size),
		asm.Mov.Reg(asm.R4, flags),
		asm.FnRingbufOutput.Call(),
	}
}

func end() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return()}
}

// A taskLayout is where this kernel has what the programs read of task_struct and
// signal_struct.
type taskLayout struct {
	pid, tgid, signal, live int16
	state                   int16
	stateSize               asm.Size
}

// readTaskLayout asks the kernel's BTF.
func readTaskLayout() (l taskLayout, err error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return l, fmt.Errorf("following processes needs the kernel's BTF (CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	var task, signal *btf.Struct
	if err := errors.Join(spec.TypeByName("task_struct", &task), spec.TypeByName("signal_struct", &signal)); err != nil {
		return l, fmt.Errorf("the kernel's BTF: %w", err)
	}
	var missing error
	at := func(s *btf.Struct, names ...string) (int16, int) {
		for _, name := range names {
			if off, size, ok := memberOf(s.Members, name); ok && off <= 1<<15-1 {
				return int16(off), size
			}
		}
		missing = errors.Join(missing, fmt.Errorf("the kernel's BTF: %s has no %s", s.Name, names[0]))
		return 0, 0
	}
	l.pid, _ = at(task, "pid")
	l.tgid, _ = at(task, "tgid")
	l.signal, _ = at(task, "signal")
	l.live, _ = at(signal, "live")
	var size int
	l.state, size = at(task, "__state", "state") // renamed in Linux 5.14
	l.stateSize = asm.Word
	if size == 8 {
		l.stateSize = asm.DWord
	}
	return l, missing
}

// memberOf finds a member, in anonymous structures, too, which randomised layouts have.
func memberOf(members []btf.Member, name string) (offset uint32, size int, ok bool) {
	for _, m := range members {
		if m.Name == name {
			n, err := btf.Sizeof(m.Type)
			return m.Offset.Bytes(), n, err == nil
		}
		if m.Name != "" {
			continue
		}
		var inner []btf.Member
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}
		if off, n, found := memberOf(inner, name); found {
			return m.Offset.Bytes() + off, n, true
		}
	}
	return 0, 0, false
}
