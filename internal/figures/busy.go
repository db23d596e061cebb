//go:build linux

package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// spinArg makes the command a busy loop.
const spinArg = "spin"

func spin() {
	runtime.GOMAXPROCS(1)
	for i := uint64(1); i != 0; i++ { // 64 bits do not come round
	}
}

// A crowd is a busy loop a CPU, each a process in a session of its own, as
// another user's would be. It is stopped until it is let go.
type crowd struct {
	members []*exec.Cmd
	end     chan struct{}
	ended   chan struct{}
}

func newCrowd() (*crowd, error) {
	c := &crowd{end: make(chan struct{}), ended: make(chan struct{})}
	ready := make(chan error)
	go c.live(ready)
	return c, <-ready
}

// live keeps the thread that started the members: the kernel kills them when it
// ends, however that happens.
func (c *crowd) live(ready chan<- error) {
	defer close(c.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var err error
	for range runtime.NumCPU() {
		m := exec.Command("/proc/self/exe", spinArg)
		m.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err = m.Start(); err != nil {
			break
		}
		c.members = append(c.members, m)
	}
	c.rest()
	ready <- err
	if err == nil {
		<-c.end
	}
	for _, m := range c.members {
		_ = m.Process.Kill()
		_ = m.Wait()
	}
}

func (c *crowd) signal(s syscall.Signal) {
	for _, m := range c.members {
		_ = m.Process.Signal(s)
	}
}

func (c *crowd) work() { c.signal(syscall.SIGCONT) }
func (c *crowd) rest() { c.signal(syscall.SIGSTOP) }

func (c *crowd) close() {
	close(c.end)
	<-c.ended
}
