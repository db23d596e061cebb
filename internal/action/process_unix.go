//go:build unix

package action

import (
	"os/exec"
	"syscall"
)

// isolate keeps a signal to this process' group from a command: the container is
// ended by us, in order.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
