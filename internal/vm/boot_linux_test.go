package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// TestMain makes the test binary the init of its own guests.
func TestMain(m *testing.M) {
	if Inside() {
		guestMain(os.Args[1:])
		select {}
	}
	code := m.Run()
	if dir := filepath.Dir(builtAt); dir != "." {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// guestMain is what a guest of these tests does: it ends as its argument says.
func guestMain(args []string) {
	p, err := Enter()
	if err != nil {
		fmt.Println("enter:", err)
		os.Exit(1)
	}
	_ = p.Progress("be\x1b[31mgin")
	switch args[0] {
	case "count":
		// The same work takes the same number of instructions, every time.
		var ts [8]int64
		for i := range ts {
			start := time.Now()
			_ = unix.Getppid()
			ts[i] = int64(time.Since(start))
		}
		var up unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &up)
		_, _ = p.Write([]byte("a\r\nb\n"))
		_ = p.Result(fmt.Appendf(nil, "%v at %d, %v", ts, up.Nano(), Clock()))
	case "big":
		_ = p.Result(make([]byte, 100_000))
	case "fail":
		_ = p.Fail(errors.New("no such\x1b[2J thing"))
	case "noise":
		_, _ = p.f.WriteString("garbage, and no frame")
		time.Sleep(time.Hour)
	case "panic":
		_ = os.WriteFile("/dev/kmsg", []byte("<1>last words"), 0)
		_ = os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	case "exit":
		os.Exit(3)
	case "hang":
		for spins := 0; ; spins++ {
		}
	}
}

var builtAt string

// static is a static executable of these tests.
var static = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil || Static(self) == nil {
		return self, err
	}
	dir, err := os.MkdirTemp("", "gate-vm-test-")
	if err != nil {
		return "", err
	}
	builtAt = filepath.Join(dir, "init")
	cmd := exec.Command("go", "test", "-c", "-o", builtAt, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return builtAt, nil
})

func machine(t *testing.T, args ...string) *Machine {
	t.Helper()
	testkernel.Require(t, testkernel.QEMU)
	k, err := FindKernel(t.Context(), "6.12", func(s string) { t.Log(s) })
	if err != nil && os.Getenv(testkernel.EnvRequire) != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	init, err := static()
	if err != nil {
		t.Fatal(err)
	}
	return &Machine{Kernel: k, Init: init, Args: args}
}

// TestBootIsExact boots twice: all of it, the boot as well, takes the same number of
// instructions, and a cancelled context ends the machine.
func TestBootIsExact(t *testing.T) {
	var seen []string
	for range 2 {
		m := machine(t, "count")
		var told, out []string
		m.Progress = func(s string) { told = append(told, s) }
		m.Output = func(b []byte) { out = append(out, string(b)) }
		b, err := m.Boot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, string(b))
		if strings.Join(told, "|") != "be[31mgin" {
			t.Errorf("progress %q", told)
		}
		if strings.Join(out, "") != "a\r\nb\n" {
			t.Errorf("output %q", out)
		}
	}
	if seen[0] != seen[1] || !strings.HasSuffix(seen[0], "<nil>") {
		t.Errorf("two boots differ, or the clock is none that counts:\n%s\n%s", seen[0], seen[1])
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	m, why := machine(t, "hang"), errors.New("enough")
	m.Progress = func(string) { cancel(why) }
	if _, err := m.Boot(ctx); !errors.Is(err, why) {
		t.Errorf("a cancelled boot: %v", err)
	}
}

// TestBootFails has guests that end in every way that is none of success.
func TestBootFails(t *testing.T) {
	for _, tt := range []struct {
		how, want, console string
		stall              time.Duration
		most               int
	}{
		{how: "fail", want: "kernel 6.12: no such[2J thing"},
		{how: "noise", want: "kernel 6.12: the guest says what is no message"},
		{how: "big", most: 1000, want: "kernel 6.12: the guest sends 100000 bytes at once, at most 1000 are read"},
		{how: "panic", want: "kernel 6.12: the guest's kernel panicked: not syncing: sysrq triggered crash", console: "last words"},
		{how: "exit", want: "kernel 6.12: the guest's kernel panicked: not syncing: Attempted to kill init!", console: "Kernel panic"},
		{how: "hang", stall: 10 * time.Second, want: "kernel 6.12: the guest hung: no sign of it in 10s of CPU time since it began to be[31mgin"},
	} {
		t.Run(tt.how, func(t *testing.T) {
			m := machine(t, tt.how)
			m.Stall, m.MaxResult = tt.stall, tt.most
			b, err := m.Boot(t.Context())
			var c *Crash
			if !errors.As(err, &c) || !strings.HasPrefix(err.Error(), tt.want) {
				t.Fatalf("%q, %v; want %s", b, err, tt.want)
			}
			if got := strings.Join(c.Console, "\n"); !strings.Contains(got, tt.console) || strings.Contains(got, "\x1b") {
				t.Errorf("console %q", got)
			}
		})
	}
}

// TestStatic tells what may be an init.
func TestStatic(t *testing.T) {
	if err := Static("/bin/sh"); !errors.Is(err, errDynamic) {
		t.Errorf("/bin/sh: %v", err)
	}
	if err := Static(filepath.Join("testdata", "none")); err == nil {
		t.Error("a file that is not there")
	}
}
