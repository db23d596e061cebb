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
		guestMain()
		select {}
	}
	code := m.Run()
	if dir := filepath.Dir(builtAt); dir != "." {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// refuses is a variable that has a guest of these tests refuse to be kept.
const refuses = "TEST_REFUSES"

// guestMain is what a guest of these tests does: it ends as one of its files says.
func guestMain() {
	if os.Getenv(refuses) != "" && os.Getenv(windowed) != "" && os.Getenv(entered) != "" {
		p, err := openPort()
		if err == nil {
			err = p.Fail(errors.New("not here"))
		}
		fmt.Println("refuse:", err)
	}
	p, err := Enter()
	if err != nil {
		fmt.Println("enter:", err)
		os.Exit(1)
	}
	how, err := os.ReadFile("/tests/how")
	if err != nil {
		_ = p.Fail(err)
	}
	_ = p.Progress("be\x1b[31mgin")
	switch string(how) {
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
		_ = p.Result(fmt.Appendf(nil, "%v %v at %d", ts, Clock(), up.Nano()))
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
	case "ask":
		_ = p.await(minWindow)
	case "halt":
		_ = halt()
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

// machine is one that ends as it is told, and boots for it.
func machine(t *testing.T, how string) *Machine {
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
	return &Machine{Kernel: k, Init: init, Files: Files{"tests/how": {Data: []byte(how)}}}
}

// TestBootIsExact boots twice: all of it takes the same number of instructions. Then it
// goes on from snapshots: one that was just taken, one of the cache, and one in the place
// of one that was damaged. What is measured takes as many as without a snapshot, and of
// one snapshot all that follows does. (Two snapshots were seen to differ by up to 42 µs of
// the guest's clock; docs/kernels.md.)
func TestBootIsExact(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "snapshots")
	stored := func() string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(cache, "*"))
		if err != nil || len(names) != 1 {
			t.Fatalf("in the cache: %v, %v", names, err)
		}
		return names[0]
	}
	run := func(cache string) (measured, at string) {
		t.Helper()
		m := machine(t, "count")
		m.Snapshots = cache
		var told, out []string
		m.Progress = func(s string) { told = append(told, s) }
		m.Output = func(b []byte) { out = append(out, string(b)) }
		b, err := m.Boot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := told[len(told)-1]; got != "be[31mgin" {
			t.Errorf("progress %q", told)
		}
		if strings.Join(out, "") != "a\r\nb\n" {
			t.Errorf("output %q", out)
		}
		t.Logf("%s; %q", b, told)
		measured, at, _ = strings.Cut(string(b), " at ")
		return measured, at
	}
	want, booted := run("")
	if !strings.HasSuffix(want, "<nil>") {
		t.Errorf("the clock is none that counts: %s", want)
	}
	if b, at := run(""); b != want || at != booted {
		t.Errorf("two boots differ: %s at %s, %s at %s", want, booted, b, at)
	}
	first, at := run(cache)
	name := stored()
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	again, atAgain := run(cache)
	if after, err := os.Stat(name); err != nil || !os.SameFile(before, after) {
		t.Errorf("the second run took a snapshot of its own: %v", err)
	}
	damage(t, name, before.Size()/2)
	anew, _ := run(cache)
	if after, err := os.Stat(stored()); err != nil || os.SameFile(before, after) {
		t.Errorf("the third run kept a damaged snapshot: %v", err)
	}
	if first != want || again != want || anew != want {
		t.Errorf("booted:   %s\nat first: %s\nrestored: %s\nanew:     %s", want, first, again, anew)
	}
	if at != atAgain {
		t.Errorf("at %s, restored %s", at, atAgain)
	}
}

// damage changes one byte of a file.
func damage(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// TestBootFails has guests that end in every way that is none of success, and one
// that is ended.
func TestBootFails(t *testing.T) {
	cache := t.TempDir()
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
		{how: "ask", want: "kernel 6.12: the guest says what is no message"},
		{how: "halt", want: "kernel 6.12: the guest ended without a result"},
	} {
		t.Run(tt.how, func(t *testing.T) {
			m := machine(t, tt.how)
			m.Snapshots, m.MaxResult, m.Stall = cache, tt.most, tt.stall
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
	ctx, cancel := context.WithCancelCause(t.Context())
	m, why := machine(t, "hang"), errors.New("enough")
	m.Snapshots = cache
	m.Progress = func(text string) {
		if strings.HasPrefix(text, "be") {
			cancel(why)
		}
	}
	if _, err := m.Boot(ctx); !errors.Is(err, why) {
		t.Errorf("a cancelled boot: %v", err)
	}
}

// TestBootWithoutSnapshot has a guest that cannot be kept as it is: it boots all the
// same, and says why.
func TestBootWithoutSnapshot(t *testing.T) {
	m := machine(t, "count")
	m.Snapshots = t.TempDir()
	m.Env = []string{refuses + "=1"}
	var told []string
	m.Progress = func(text string) { told = append(told, text) }
	if _, err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(told, "|"); !strings.Contains(got, "no snapshot: not here") {
		t.Errorf("progress %q", told)
	}
	if left, err := os.ReadDir(m.Snapshots); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
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
