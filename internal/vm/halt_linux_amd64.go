package vm

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// outb writes a byte to a port of the CPU.
func outb(port uint16, value uint8)

// halt stops the machine, at this very instruction, until the host lets it go on.
//
// It is what a kernel that panics does to QEMU's pvpanic device, which has QEMU stop
// the machine. The port is open to this thread for that one instruction.
func halt() error {
	const pvpanic, panicked = 0x505, 1
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := ioperm(pvpanic, 1); err != nil {
		return err
	}
	outb(pvpanic, panicked)
	return ioperm(pvpanic, 0)
}

func ioperm(port, on uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOPERM, port, 1, on); errno != 0 {
		return os.NewSyscallError("ioperm", errno)
	}
	return nil
}
