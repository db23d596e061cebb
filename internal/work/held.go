//go:build linux

package work

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A Held is a command that was started and stands before its first instruction, so that
// whoever watches it misses nothing. It ends with this process, however that ends.
type Held struct {
	cmd     *exec.Cmd
	release chan struct{}
	let     bool
	done    chan struct{}
	err     error
}

// Hold starts a command and has it stand. It belongs to the terminal as any command does.
// Commands that may not be traced (a security module, a container without CAP_SYS_PTRACE) are an
// error.
func Hold(cmd *exec.Cmd) (*Held, error) {
	h := &Held{cmd: cmd, release: make(chan struct{}), done: make(chan struct{})}
	started := make(chan error)
	go h.live(started)
	return h, <-started
}

// live is the thread that traces the command, whose end is the command's.
func (h *Held) live(started chan<- error) {
	defer close(h.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := &syscall.SysProcAttr{}
	if h.cmd.SysProcAttr != nil {
		*attr = *h.cmd.SysProcAttr
	}
	attr.Ptrace, attr.Pdeathsig = true, syscall.SIGKILL
	h.cmd.SysProcAttr = attr
	if err := h.cmd.Start(); err != nil {
		started <- err
		return
	}
	pid := h.cmd.Process.Pid
	// A traced process stops when it has become the command.
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, syscall.WALL, nil)
	if err == nil && !status.Stopped() {
		err = errors.New("it ended before it began")
	}
	if err != nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
		started <- fmt.Errorf("hold %s: %w", h.cmd.Path, err)
		return
	}
	started <- nil
	<-h.release
	if err := syscall.PtraceDetach(pid); err != nil {
		_ = h.cmd.Process.Kill()
	}
	h.err = h.cmd.Wait()
}

// PID is the command's process.
func (h *Held) PID() int { return h.cmd.Process.Pid }

// Release has the command begin.
func (h *Held) Release() {
	if !h.let {
		h.let = true
		close(h.release)
	}
}

// Done is closed when the command has ended.
func (h *Held) Done() <-chan struct{} { return h.done }

// Err is how the command ended, as [exec.Cmd.Wait] says it, after Done.
func (h *Held) Err() error { return h.err }

// End ends the command, if it has not: with SIGTERM, and with SIGKILL when that was not enough
// for a while.
func (h *Held) End(patience time.Duration) {
	if h.let {
		_ = h.cmd.Process.Signal(syscall.SIGTERM)
	} else {
		_ = h.cmd.Process.Kill()
		h.Release()
	}
	select {
	case <-h.done:
		return
	case <-time.After(patience):
	}
	_ = h.cmd.Process.Kill()
	<-h.done
}
