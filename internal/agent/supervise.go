//go:build linux

package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Verb is the argument with which gate's binary is a supervisor. Binaries that
// start agents (tests, too) call [Supervise] when they are started with it.
const Verb = "supervise"

// An order is a line of JSON that gate writes to the supervisor's standard input.
// Its end is an order too: kill everything.
type order struct {
	Start *startOrder `json:"start,omitempty"` // the first one
	Stop  *stopOrder  `json:"stop,omitempty"`
	Check string      `json:"check,omitempty"` // a shell command
}

type startOrder struct {
	Command string   `json:"command"` // for /bin/sh
	Dir     string   `json:"dir"`
	Env     []string `json:"env"`
	Net     bool     `json:"net"`   // the descriptor netFD is a network namespace
	Alone   bool     `json:"alone"` // the supervisor is in a new one
}

type stopOrder struct {
	Signal int           `json:"signal"`
	Within time.Duration `json:"within"`
}

// An event is what the supervisor answers on its standard output.
type event struct {
	Error   string      `json:"error,omitempty"` // the command was not started
	Started int         `json:"started,omitempty"`
	Exited  *wait       `json:"exited,omitempty"`  // the command's own process
	Checked *wait       `json:"checked,omitempty"` // the command of a check
	Alone   bool        `json:"alone,omitempty"`   // and all that it left, too
	Stopped *stopReport `json:"stopped,omitempty"`
}

// A wait is how a process ended: a wait status of wait(2).
type wait uint32

func (w wait) String() string {
	s := syscall.WaitStatus(w)
	switch {
	case s.Signaled():
		return "killed by " + unix.SignalName(s.Signal())
	case w.notFound():
		return "exit status 127 (not found?)"
	}
	// What a shell says of a command that was killed.
	const killed = 128
	if name := unix.SignalName(unix.Signal(s.ExitStatus() - killed)); s.ExitStatus() > killed && name != "" {
		return fmt.Sprintf("exit status %d (%s)", s.ExitStatus(), name)
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}

// notFound tells that a shell did not find what it was to run.
func (w wait) notFound() bool { return syscall.WaitStatus(w).ExitStatus() == 127 }

type stopReport struct {
	Killed int `json:"killed"` // processes that had not ended in time
	Left   int `json:"left"`   // processes that not even SIGKILL has ended
}

// Descriptors of the supervisor.
const (
	netFD    = 3 // network namespace, or /dev/null
	outputFD = 4 // of the command
)

// Supervise is the supervisor: it starts a command, takes over the processes that
// the command leaves behind, and ends with all of them when it is told to, or when
// its standard input ends. It returns an exit code.
func Supervise() int {
	s := &supervisor{events: json.NewEncoder(os.Stdout)}
	if err := s.run(); err != nil {
		s.tell(event{Error: err.Error()})
		return 1
	}
	return 0
}

// A supervisor does all on one thread, whose namespaces are those of its children.
type supervisor struct {
	events *json.Encoder
	start  *startOrder
	main   int // the command's process
	check  int // that of a check, while it runs
	// childless tells that no process is left: all that the command starts are
	// children of this one, once their own parents have ended.
	childless bool
}

func (s *supervisor) tell(e event) {
	_ = s.events.Encode(e) // that gate is gone is told by the end of standard input
}

func (s *supervisor) run() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	var first order
	if err := in.Decode(&first); err != nil || first.Start == nil {
		return fmt.Errorf("no order to start something: %w", err)
	}
	s.start = first.Start
	// Nor what gate itself was started with: a runner's pipes, a lock.
	if unix.CloseRange(netFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11
		for fd := range 1024 - netFD {
			unix.CloseOnExec(netFD + fd)
		}
	}
	if err := mounts(); err != nil {
		return err
	}
	if s.start.Net {
		if err := unix.Setns(netFD, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network namespace: %w", err)
		}
	}
	if s.start.Alone {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err != nil {
			return fmt.Errorf("bring up lo: %w (needs CAP_NET_ADMIN)", err)
		}
	}
	// Kernels before 5.11 charge maps to this limit. Best effort.
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	s.start.Env = append(s.start.Env, "GATE_TMP="+tmpDir, "HOME="+tmpDir, "TMPDIR="+tmpDir)
	var err error
	if s.main, err = s.spawn(s.start.Command); err != nil {
		return err
	}
	s.tell(event{Started: s.main})
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var o order
			if in.Decode(&o) != nil {
				return // gate is gone, or does not make sense
			}
			orders <- o
		}
	}()
	for {
		select {
		case <-children:
			s.reap()
		case o, ok := <-orders:
			switch {
			case !ok:
				s.stop(children, stopOrder{Signal: int(unix.SIGKILL)})
				return nil
			case o.Stop != nil:
				report := s.stop(children, *o.Stop)
				s.tell(event{Stopped: &report})
				return nil
			case o.Check != "":
				if s.check, err = s.spawn(o.Check); err != nil {
					return err
				}
			}
		}
	}
}

// Mount points. The temporary directory is on the bpffs, since it needs one that the
// host does not have: so it goes with the mount namespace, whoever is killed.
const (
	bpffs   = "/sys/fs/bpf"
	tmpDir  = bpffs + "/gate-tmp"
	tracing = "/sys/kernel/tracing"
)

// mounts gives this mount namespace what agents look for: a bpffs that nobody else
// has, a temporary directory of which the same is true, and the tracing directory,
// which the host need not have mounted.
func mounts() error {
	if err := unix.Mount("bpf", bpffs, "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mount a private %s: %w", bpffs, err)
	}
	if err := os.Mkdir(tmpDir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", tmpDir, "tmpfs", 0, "mode=0700,size=1g"); err != nil {
		return fmt.Errorf("mount a temporary directory: %w", err)
	}
	if _, err := os.Stat(tracing + "/events"); err != nil {
		// Best effort: agents without tracepoints and probes do without it.
		_ = unix.Mount("tracefs", tracing, "tracefs", 0, "")
	}
	return nil
}

// spawn starts a shell command in a session of its own.
func (s *supervisor) spawn(command string) (int, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", command}, &syscall.ProcAttr{
		Dir: s.start.Dir, Env: s.start.Env, Files: []uintptr{null.Fd(), outputFD, outputFD},
		// Should this process be killed, at least the command dies with it.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("run /bin/sh in %s: %w", s.start.Dir, err)
	}
	s.childless = false
	return pid, nil
}

// reap takes note of every process that has ended.
func (s *supervisor) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			if !s.childless {
				s.childless = true
				s.tell(event{Alone: true})
			}
			return
		case err != nil || pid == 0:
			return
		}
		w := wait(status)
		switch pid {
		case s.main:
			s.tell(event{Exited: &w})
		case s.check:
			s.tell(event{Checked: &w})
		}
	}
}

// stop asks all processes to end, and kills those that have not after a while.
func (s *supervisor) stop(children <-chan os.Signal, o stopOrder) (r stopReport) {
	const stuck = 10 * time.Second // what SIGKILL does not end in that time, it never will
	self := os.Getpid()
	signalAll(descendants(self), unix.Signal(o.Signal))
	late := time.Now().Add(o.Within)
	if o.Signal == int(unix.SIGKILL) {
		late = time.Now()
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.reap(); s.childless {
			r.Left = 0
			return r
		}
		if now := time.Now(); now.After(late) {
			// Again and again: one may have made another since it was looked for.
			left := descendants(self)
			r.Killed, r.Left = max(r.Killed, len(left)), len(left)
			if now.After(late.Add(stuck)) {
				return r
			}
			signalAll(left, unix.SIGKILL)
		}
		select {
		case <-children:
		case <-tick.C:
		}
	}
}

func signalAll(members []member, sig unix.Signal) {
	for _, m := range members {
		_ = unix.Kill(m.pid, sig)
	}
}
