//go:build linux

package agent

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Verb {
		os.Exit(Supervise())
	}
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		os.Args = os.Args[1:]
		os.Exit(testkernel.Agent())
	}
	os.Exit(m.Run())
}

func run(t *testing.T, command string) *process {
	t.Helper()
	p, err := launch(startOrder{Command: command, Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// within waits for something that a busy host may take its time for.
func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s in 30 s", what)
		}
	}
}

// sleepers are processes anywhere that sleep for this long.
func sleepers(seconds string) (found []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, n := range names {
		text, _ := os.ReadFile(n)
		if string(text) == "sleep\x00"+seconds+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(n)))
			found = append(found, pid)
		}
	}
	return found
}

// marker is a time to sleep that no other process sleeps.
func marker(n int) string { return fmt.Sprintf("1000.%d%d", os.Getpid(), n) }

func TestProcessEnds(t *testing.T) {
	testkernel.Require(t, testkernel.Net) // root
	testkernel.NoLeaks(t)
	for _, tt := range []struct {
		command, want, said string
	}{
		{"echo hello; exit 0", "exit status 0", "\n  hello"},
		{"echo one; echo two >&2; exit 3", "exit status 3", "\n  one\n  two"},
		{"kill -SEGV $$", "killed by SIGSEGV", ""},
		{"sh -c 'kill -SEGV $$'; exit $?", "exit status 139 (SIGSEGV)", ""},
		{"no_such_command_of_anybody", "exit status 127 (not found?)", "not found"},
		{`printf 'a\033[31mb\r\nc\342\200\256d'`, "exit status 0", "\n  a[31mb\n  cd"},
	} {
		t.Run(tt.command, func(t *testing.T) {
			p := run(t, tt.command)
			within(t, "ended", func() bool {
				exited, alone, err := p.state()
				if err != nil {
					t.Fatal(err)
				}
				return exited != nil && alone
			})
			if exited, _, _ := p.state(); exited.String() != tt.want {
				t.Errorf("%s, want %s", exited, tt.want)
			}
			within(t, "said", func() bool { return strings.Contains(p.out.lines(10), tt.said) })
			if r, err := p.stop(unix.SIGTERM, time.Minute); err != nil || r != (stopReport{}) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// Whatever a command leaves behind is ended: asked if it listens, else killed.
func TestProcessStop(t *testing.T) {
	testkernel.Require(t, testkernel.Net)
	testkernel.NoLeaks(t)
	for i, tt := range []struct {
		name, command string
		killed        bool
	}{
		{"obeys", "exec sleep %s", false},
		{"in a shell", "sleep %s; true", false},
		{"daemon", "setsid sleep %s & exit 0", false},
		{"daemon of a daemon", "(setsid sh -c 'sleep %s & sleep 0.1' &) ; exit 0", false},
		{"deaf", "trap '' TERM; while :; do sleep %s; done", true},
		{"deaf daemon", "trap '' TERM; setsid sh -c 'while :; do sleep %s; done' & exit 0", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mark := marker(i)
			p := run(t, fmt.Sprintf(tt.command, mark))
			within(t, "started", func() bool { return len(sleepers(mark)) == 1 })
			if got := pids(p.members()); !slices.Contains(got, sleepers(mark)[0]) {
				t.Errorf("%v lack the sleeper", got)
			}
			patience := 30 * time.Second
			if tt.killed {
				patience = 200 * time.Millisecond
			}
			r, err := p.stop(unix.SIGTERM, patience)
			if err != nil || r.Left != 0 || (r.Killed > 0) != tt.killed {
				t.Errorf("%+v, %v", r, err)
			}
			if left := sleepers(mark); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// The mounts are the command's own, and gone with it.
func TestProcessMounts(t *testing.T) {
	testkernel.Require(t, testkernel.Net)
	testkernel.NoLeaks(t)
	p := run(t, "mkdir /sys/fs/bpf/mine && ls -d /sys/kernel/tracing/events; echo done; sleep 1000")
	p.out.expect(regexp.MustCompile("^done$"))
	within(t, "said", p.out.has)
	if said := p.out.lines(5); said != "\n  /sys/kernel/tracing/events\n  done" {
		t.Errorf("said %s", said)
	}
	if _, err := os.Stat(p.root() + "/sys/fs/bpf/mine"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("/sys/fs/bpf/mine"); err == nil {
		t.Error("the command's bpffs is everybody's")
	}
	// A check sees what the command sees.
	for command, want := range map[string]string{"test -d /sys/fs/bpf/mine": "exit status 0", "exit 7": "exit status 7"} {
		if w, err := p.check(command, 30*time.Second); err != nil || w.String() != want {
			t.Errorf("%s: %s, %v", command, w, err)
		}
	}
	if _, err := p.check("sleep 1000", 50*time.Millisecond); !errors.Is(err, errLate) {
		t.Errorf("a slow check: %v", err)
	}
	if _, err := p.stop(unix.SIGKILL, 0); err != nil {
		t.Error(err)
	}
}

// Nothing of the environment gets in, and no descriptor.
func TestProcessHoldsNothing(t *testing.T) {
	testkernel.Require(t, testkernel.Net)
	t.Setenv("GITHUB_TOKEN", "secret")
	// A descriptor that whoever started gate has left open.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	if _, err := unix.FcntlInt(read.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	p := run(t, "env; ls -l /proc/self/fd; echo done")
	p.out.expect(regexp.MustCompile("^done$"))
	within(t, "said", p.out.has)
	said := p.out.lines(100)
	if strings.Contains(said, "secret") || strings.Contains(said, "TOKEN") {
		t.Errorf("a secret got in:%s", said)
	}
	// Standard streams, and what ls itself has opened.
	if n := strings.Count(said, "->"); n != 4 {
		t.Errorf("%d descriptors:%s", n, said)
	}
}

// Whoever is killed, gate or the supervisor, nothing remains.
func TestProcessKilled(t *testing.T) {
	const child = "GATE_TEST_AGENT_CHILD"
	if mark := os.Getenv(child); mark != "" {
		p := run(t, fmt.Sprintf("trap '' TERM INT HUP; setsid sh -c 'while :; do sleep %s; done' & while :; do sleep %s; done", mark, mark))
		within(t, "started", func() bool { return len(sleepers(mark)) == 2 })
		fmt.Printf("supervisor %d\n", p.supervisor.Process.Pid)
		select {}
	}
	testkernel.Require(t, testkernel.Net)
	testkernel.NoLeaks(t)
	mark := marker(9)
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcessKilled$")
	cmd.Env = append(os.Environ(), child+"="+mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	supervisor := 0
	for lines := bufio.NewScanner(out); supervisor == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "supervisor %d", &supervisor)
	}
	if n := len(sleepers(mark)); supervisor == 0 || n != 2 {
		t.Errorf("supervisor %d, %d processes", supervisor, n)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	within(t, "ended", func() bool {
		_, there := stat(supervisor)
		return len(sleepers(mark)) == 0 && !there
	})
}

func TestSupervisorKilled(t *testing.T) {
	testkernel.Require(t, testkernel.Net)
	testkernel.NoLeaks(t)
	mark := marker(8)
	p := run(t, fmt.Sprintf("setsid sleep %s & exec sleep %s", mark, mark))
	within(t, "started", func() bool { return len(sleepers(mark)) == 2 && len(p.members()) == 2 })
	_ = p.supervisor.Process.Kill()
	if _, err := p.stop(unix.SIGTERM, time.Minute); err == nil || !strings.Contains(err.Error(), "supervisor") {
		t.Errorf("error %v", err)
	}
	within(t, "ended", func() bool { return len(sleepers(mark)) == 0 })
}

func TestOutput(t *testing.T) {
	o := newOutput()
	o.expect(regexp.MustCompile(`^ready on \d+`))
	for _, s := range []string{"is it ready on 5?\nrea", "dy", " on", " 4"} {
		if o.has() {
			t.Fatalf("found before %q", s)
		}
		_, _ = o.Write([]byte(s))
	}
	if !o.has() {
		t.Error("a line in pieces was not found")
	}
	o.expect(regexp.MustCompile("it ready"))
	if !o.has() {
		t.Error("what was said before was not found")
	}
	_, _ = o.Write([]byte(strings.Repeat("x", 3*outputBytes) + "\nlast"))
	if got := o.lines(2); !strings.HasPrefix(got, "\n  …\n  xxx") || !strings.HasSuffix(got, "\n  last") || len(got) > 1000 {
		t.Errorf("%d bytes: %.60q", len(got), got)
	}
	if len(o.buf) > outputBytes {
		t.Errorf("%d bytes are kept", len(o.buf))
	}
}
