//go:build linux

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A process is a command under a supervisor.
type process struct {
	supervisor *exec.Cmd
	orders     *json.Encoder
	tie        io.Closer // the supervisor's standard input
	out        *output

	mu      sync.Mutex
	exited  *wait    // how the command itself ended
	alone   bool     // and nothing of it is left
	seen    []member // when it was last looked
	checked chan wait
	stopped chan stopReport
	gone    chan struct{} // the supervisor's end
	failed  string        // what it said of itself
}

// launch starts a command in the network namespace net; nil is gate's own.
func launch(o startOrder, net *os.File) (_ *process, err error) {
	p := &process{out: newOutput(), checked: make(chan wait, 1), stopped: make(chan stopReport, 1), gone: make(chan struct{})}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	if o.Net = net != nil; !o.Net {
		if net, err = os.Open(os.DevNull); err != nil {
			read.Close()
			return nil, err
		}
		defer net.Close()
	}
	// Under its own name: a test's binary is several programs.
	c := &exec.Cmd{Path: "/proc/self/exe", Args: []string{os.Args[0], Verb}}
	c.Env = []string{"GOMAXPROCS=1"} // it waits, beside what is measured
	c.ExtraFiles = []*os.File{net, write}
	// Go makes the mounts of a new mount namespace private.
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Unshareflags: unix.CLONE_NEWNS}
	if o.Alone {
		c.SysProcAttr.Unshareflags |= unix.CLONE_NEWNET
	}
	c.WaitDelay = time.Second
	in, err := c.StdinPipe()
	if err != nil {
		read.Close()
		return nil, err
	}
	events, err := c.StdoutPipe()
	if err != nil {
		read.Close()
		return nil, err
	}
	c.Stderr = p.out // a panic of its own
	p.supervisor, p.tie, p.orders = c, in, json.NewEncoder(in)
	begun := make(chan error)
	// The caller's thread may be pinned to a CPU and in namespaces, which its
	// children would inherit.
	go func() { begun <- c.Start() }()
	if err := <-begun; err != nil {
		read.Close()
		return nil, fmt.Errorf("start a supervisor: %w (needs root or CAP_SYS_ADMIN)", err)
	}
	go func() {
		_, _ = io.Copy(p.out, read)
		read.Close()
		p.out.end()
	}()
	started := make(chan error, 2)
	go p.listen(events, started)
	if err := p.orders.Encode(order{Start: &o}); err != nil {
		p.kill()
		return nil, fmt.Errorf("start a supervisor: %w", err)
	}
	const patience = 30 * time.Second
	select {
	case err = <-started:
	case <-time.After(patience):
		err = fmt.Errorf("the supervisor has not started it in %v", patience)
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// listen takes note of what the supervisor says, until it ends.
func (p *process) listen(events io.Reader, started chan<- error) {
	in := json.NewDecoder(events)
	for {
		var e event
		err := in.Decode(&e)
		if err != nil {
			break
		}
		p.mu.Lock()
		switch {
		case e.Error != "":
			p.failed = e.Error
		case e.Started != 0:
			started <- nil
		case e.Exited != nil:
			p.exited = e.Exited
		case e.Alone:
			p.alone = true
		case e.Checked != nil:
			select {
			case p.checked <- *e.Checked:
			default: // nobody waits any more
			}
		case e.Stopped != nil:
			p.stopped <- *e.Stopped
		}
		p.mu.Unlock()
	}
	_ = p.supervisor.Wait()
	p.mu.Lock()
	if p.failed == "" {
		p.failed = "the supervisor ended: " + p.supervisor.ProcessState.String()
	}
	started <- errors.New(p.failed) // too late, if it had started
	p.mu.Unlock()
	close(p.gone)
}

// state tells how the command itself has ended (nil: it has not), and whether
// nothing is left of what it had started.
func (p *process) state() (exited *wait, alone bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gone:
		return p.exited, p.alone, errors.New(p.failed)
	default:
		return p.exited, p.alone, nil
	}
}

// members are the processes of the command, and those that they have left behind.
func (p *process) members() []member {
	all := descendants(p.supervisor.Process.Pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(all) > 0 {
		p.seen = all
	}
	return all
}

// namespace is the network namespace of the supervisor's own.
func (p *process) namespace() string {
	return fmt.Sprintf("/proc/%d/ns/net", p.supervisor.Process.Pid)
}

// root is the directory under which the command sees its mounts.
func (p *process) root() string { return fmt.Sprintf("/proc/%d/root", p.supervisor.Process.Pid) }

// order writes to the supervisor. That it is gone is told as how it ended.
func (p *process) order(o order) error {
	err := p.orders.Encode(o)
	if err == nil {
		return nil
	}
	select {
	case <-p.gone:
		_, _, err = p.state()
	case <-time.After(time.Second):
	}
	return err
}

// errLate is that something took longer than it may.
var errLate = errors.New("not done in time")

// check runs a command beside the other, and tells how it ended.
func (p *process) check(command string, within time.Duration) (wait, error) {
	select {
	case <-p.checked: // of one that came too late
	default:
	}
	if err := p.order(order{Check: command}); err != nil {
		return 0, err
	}
	select {
	case w := <-p.checked:
		return w, nil
	case <-p.gone:
		_, _, err := p.state()
		return 0, err
	case <-time.After(within):
		return 0, errLate
	}
}

// stop ends all processes: asked by the signal, and killed when that did not help
// in time. When it returns, the kernel has none of them.
func (p *process) stop(sig unix.Signal, within time.Duration) (stopReport, error) {
	defer p.kill()
	if err := p.order(order{Stop: &stopOrder{Signal: int(sig), Within: within}}); err != nil {
		return stopReport{}, err
	}
	select {
	case r := <-p.stopped:
		return r, nil
	case <-p.gone:
		select {
		case r := <-p.stopped:
			return r, nil
		default:
		}
		_, _, err := p.state()
		return stopReport{}, err
	}
}

// kill ends the supervisor, and it all others.
func (p *process) kill() {
	p.tie.Close()
	select {
	case <-p.gone:
	case <-time.After(20 * time.Second):
		_ = p.supervisor.Process.Kill()
		<-p.gone
	}
	if p.supervisor.ProcessState.Exited() {
		return
	}
	// Somebody has killed it: its children are init's now. The command itself dies
	// with it; of the others those that were seen can be found.
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.seen {
		if now, ok := stat(m.pid); ok && now.begun == m.begun {
			_ = unix.Kill(m.pid, unix.SIGKILL)
		}
	}
}
