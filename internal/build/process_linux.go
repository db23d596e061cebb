package build

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithUs has the kernel kill a command's process where gate is killed and can do
// nothing any more. That is bound to the thread that starts it, so nobody else may end
// that before done is called.
func dieWithUs(cmd *exec.Cmd) (done func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return runtime.UnlockOSThread
}
