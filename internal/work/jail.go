//go:build linux

package work

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/netns"
)

// A Jail is a process namespace in one of a place's network namespaces. Everything
// that is started in it ends with it, whatever it has done to hide: sessions,
// groups and daemons of its own. Close it.
type Jail struct {
	place *Place
	in    string
	do    chan func() // on the thread that is in the namespaces
	init  *exec.Cmd
	tie   io.Closer // init ends with this, and all processes with it
	last  *running  // what was run last; nil: nothing yet
	// limited tells that commands run in the place's control group.
	limited bool
}

// initScript is the first process of a jail. It lives until the other end of its
// standard input is closed, which is when gate ends, however that happens; the
// kernel then kills all others. It takes the control group away, which nobody else
// would. While it waits for cat, a shell reaps the children that were left to it; where
// somebody kills cat, only the jail ends.
const initScript = `mount -t proc proc /proc || exit
echo ready
cat >/dev/null || exit
kill -KILL -1
test -n "$1" && for _ in 1 2 3 4 5 6 7 8 9; do rmdir "$1" && break; sleep 0.05; done 2>/dev/null`

// Ready makes a jail in a namespace; "" is the first one. With inCgroup, commands
// run in the place's control group.
func (p *Place) Ready(in string, inCgroup bool) (*Jail, error) {
	ns, err := p.Namespace(in)
	if err != nil {
		return nil, err
	}
	j := &Jail{place: p, in: in, do: make(chan func()), limited: inCgroup && p.cgroup != nil}
	// Go tries once, with a child, what the kernel can do with process descriptors.
	// That child must not be the first process of a namespace, which ends with it.
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Release()
	}
	ready := make(chan error, 1)
	netns.Go(func() {
		err := j.enter(ns)
		if err == nil {
			err = j.start()
		}
		ready <- err
		if err != nil {
			return
		}
		for f := range j.do {
			f()
		}
	})
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("make a place for commands: %w", err)
	}
	return j, nil
}

// enter puts the thread into the network namespace, and into a mount namespace in
// which /proc may be another. Processes that it starts from now on are in a process
// namespace of their own.
func (j *Jail) enter(ns *os.File) error {
	if err := netns.Enter(ns); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("make a process namespace: %w (needs root or CAP_SYS_ADMIN)", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return nil
}

func (j *Jail) start() (err error) {
	cgroup := ""
	if j.limited {
		cgroup = j.place.cgroup.Name()
	}
	j.init = exec.Command("/bin/sh", "-c", initScript, "sh", cgroup)
	j.init.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	tie, err := j.init.StdinPipe()
	if err != nil {
		return err
	}
	out, err := j.init.StdoutPipe()
	if err != nil {
		return err
	}
	var said tail
	j.init.Stderr = &said
	j.init.WaitDelay = time.Second
	if err := j.init.Start(); err != nil {
		return err
	}
	j.tie = tie
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		tie.Close()
		_ = j.init.Wait()
		return fmt.Errorf("mount /proc in a process namespace:%s", said.lines(5))
	}
	return nil
}

// Close ends everything that is in the jail. When it returns, all of it is gone.
func (j *Jail) Close() error {
	// Killed before it learns that it is alone, and takes the control group away.
	_ = j.init.Process.Kill()
	_ = j.init.Wait()
	j.tie.Close()
	close(j.do)
	return nil
}

// Said is the end of what the last command has said until now, in indented lines.
func (j *Jail) Said() string {
	if j.last == nil {
		return ""
	}
	return j.last.said.lines(20)
}

// An Output is what a command said.
type Output struct {
	// Stdout is at most [MaxOutput] bytes; Truncated tells that there were more.
	Stdout    []byte
	Truncated bool
	// Took is from its start to its end.
	Took time.Duration
}

// MaxOutput is how much of a command's standard output is kept, in bytes.
const MaxOutput = 1 << 20

// An Error is a command that failed, with the end of what it said.
type Error = build.CommandError

// errLate is that a command ran into its time limit.
var errLate = errors.New("took too long")

// Run runs a shell command until its main process ends. What it has started and
// left may go on until the jail is closed; where it does not end in time, or the
// context does, so is the jail.
//
// It runs as the owner of the place's directory. Where gate is root and he is not,
// he has CAP_NET_ADMIN, CAP_NET_RAW and CAP_NET_BIND_SERVICE, which reach as far as
// the network namespace that he is in.
func (j *Jail) Run(ctx context.Context, command string, within time.Duration, env []string) (Output, error) {
	late := fmt.Errorf("%w: not done within %v", errLate, within)
	ctx, cancel := context.WithTimeoutCause(ctx, within, late)
	defer cancel()
	c, err := j.command(command, env)
	if err != nil {
		return Output{}, err
	}
	j.last = c
	fail := func(err error, advice string) (Output, error) {
		return Output{}, &Error{Command: command, Err: err, Said: c.said.lines(20), Advice: advice}
	}
	began := time.Now()
	if err := c.start(j); err != nil {
		return fail(err, "")
	}
	select {
	case err = <-c.ended:
	case <-ctx.Done():
		_ = j.init.Process.Kill() // and all others
		if err := <-c.ended; err == nil {
			break // it was done just then
		}
		cause := context.Cause(ctx)
		advice := ""
		if errors.Is(cause, errLate) {
			advice = "raise within: in the config, or let it do less"
		}
		c.drain(time.Second)
		return fail(cause, advice)
	}
	took := time.Since(began)
	c.drain(50 * time.Millisecond)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		advice := ""
		if exit.ExitCode() == 127 {
			advice = "is it installed, and in PATH? Commands run in the config's directory"
		}
		return fail(err, advice)
	}
	if err != nil {
		return fail(err, "")
	}
	out, truncated := c.stdout.bytes()
	return Output{Stdout: out, Truncated: truncated, Took: took}, nil
}

// A running command.
type running struct {
	cmd     *exec.Cmd
	stdout  head
	said    tail // both outputs
	pipes   []*os.File
	drained chan struct{}
	ended   chan error
}

func (j *Jail) command(command string, env []string) (*running, error) {
	r := &running{drained: make(chan struct{}, 2), ended: make(chan error, 1)}
	r.cmd = build.OwnerCommand(context.Background(), j.place.dir, "/bin/sh", "-c", command)
	r.cmd.Env = append(r.cmd.Env, env...)
	attr := r.cmd.SysProcAttr
	if attr.Credential != nil {
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_NET_BIND_SERVICE}
	}
	if j.limited {
		attr.UseCgroupFD, attr.CgroupFD = true, int(j.place.cgroup.Fd())
	}
	return r, nil
}

// start starts the command from the jail's thread. Its outputs are pipes of our
// own: what it leaves running may hold them open, and must not be waited for.
func (r *running) start(j *Jail) error {
	for _, to := range []struct {
		out  *io.Writer
		also io.Writer
	}{{&r.cmd.Stdout, &r.stdout}, {&r.cmd.Stderr, io.Discard}} {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		*to.out = write
		r.pipes = append(r.pipes, read)
		defer write.Close()
		go func() {
			_, _ = io.Copy(io.MultiWriter(to.also, &r.said), read)
			read.Close()
			r.drained <- struct{}{}
		}()
	}
	started := make(chan error)
	j.do <- func() { started <- r.cmd.Start() }
	if err := <-started; err != nil {
		return err
	}
	go func() { r.ended <- r.cmd.Wait() }()
	return nil
}

// drain waits until all that was said is here, or for so long.
func (r *running) drain(most time.Duration) {
	late := time.After(most)
	for range r.pipes {
		select {
		case <-r.drained:
		case <-late:
			return
		}
	}
}
