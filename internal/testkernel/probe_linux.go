package testkernel

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// target is a kernel function that is exported, so that no compiler inlines it
// away, and that is called often.
const target = "vfs_read"

// load loads a program that returns a number and does nothing else.
func load(spec ebpf.ProgramSpec, answer int32) (*ebpf.Program, error) {
	// Kernels before 5.11 charge programs to RLIMIT_MEMLOCK. Where that cannot be
	// raised, loading fails as well, and with the better reason.
	_ = rlimit.RemoveMemlock()
	spec.License = "Dual BSD/GPL"
	spec.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, answer), asm.Return()}
	p, err := ebpf.NewProgram(&spec)
	if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: run as root", unix.EPERM)
	}
	return p, err
}

func probeBPF() error {
	p, err := load(ebpf.ProgramSpec{Type: ebpf.XDP}, 2)
	if err != nil {
		return fmt.Errorf("load a program: %w", err)
	}
	return p.Close()
}

func probeTestRun() error {
	p, err := load(ebpf.ProgramSpec{Type: ebpf.XDP}, 2)
	if err != nil {
		return fmt.Errorf("load a program: %w", err)
	}
	defer func() { _ = p.Close() }()
	answer, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	if err == nil && answer != 2 {
		err = fmt.Errorf("the program answered %d, not 2", answer)
	}
	return err
}

func probeStats() error {
	c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return err
	}
	return c.Close()
}

func probeBTF() error {
	_, err := btf.LoadKernelSpec()
	return err
}

func probeNet() error {
	// Not in NetNS, which wants a test to fail.
	return inNewNetNS(func() error {
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"})
		if err != nil {
			return fmt.Errorf("make a veth pair: %w", err)
		}
		return nil
	})
}

// inNewNetNS runs f on a thread of its own, which ends with it: so the namespace
// is gone whatever f did.
func inNewNetNS(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: Go ends the thread
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("make a network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

func probeKprobe() error {
	p, err := load(ebpf.ProgramSpec{Type: ebpf.Kprobe}, 0)
	if err != nil {
		return fmt.Errorf("load a kprobe program: %w", err)
	}
	defer func() { _ = p.Close() }()
	l, err := link.Kprobe(target, p, nil)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", target, err)
	}
	return l.Close()
}

func probeFentry() error {
	p, err := load(ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: target}, 0)
	if err != nil {
		return fmt.Errorf("load an fentry program: %w", err)
	}
	defer func() { _ = p.Close() }()
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return fmt.Errorf("attach to %s: %w", target, err)
	}
	return l.Close()
}

func probePMU() error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("no hardware counter for CPU cycles: %w", err)
	} else if err != nil {
		return fmt.Errorf("count CPU cycles: %w", err)
	}
	return os.NewSyscallError("close", unix.Close(fd))
}
