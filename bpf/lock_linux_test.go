package bpf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the other run: a process to be killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("GATE_TEST_HOLD_LOCK"); path != "" {
		if _, err := lockFile(context.Background(), path, nil); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	ctx := context.Background()
	release, err := lockFile(ctx, path, func(o string) { t.Errorf("waits for %q, though nobody has the lock", o) })
	if err != nil {
		t.Fatal(err)
	}

	// The second one waits, says for whom, once, and gets the lock on release.
	owners := make(chan string, 10)
	got := make(chan func())
	go func() {
		release, err := lockFile(ctx, path, func(o string) { owners <- o })
		if err != nil {
			t.Error(err)
		}
		got <- release
	}()
	want := fmt.Sprintf("pid %d: ", os.Getpid())
	if o := <-owners; !strings.HasPrefix(o, want) {
		t.Errorf("waits for %q, want %q…", o, want)
	}
	select {
	case <-got:
		t.Fatal("both have the lock")
	case <-time.After(3 * lockPoll):
	}
	release()
	release() // does nothing: the lock is the other's by now
	second := <-got
	if len(owners) != 0 {
		t.Errorf("told again: %q", <-owners)
	}

	// Waiting ends with the context, and tells why.
	short, cancel := context.WithTimeoutCause(ctx, 2*lockPoll, errors.New("lunch"))
	defer cancel()
	if _, err := lockFile(short, path, nil); err == nil || !strings.Contains(err.Error(), "lunch") || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want that of the context", err)
	}
	second()
	if b, err := os.ReadFile(path); err != nil || len(b) != 0 {
		t.Errorf("the free lock names an owner: %q, %v", b, err)
	}
}

func TestLockOfKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "GATE_TEST_HOLD_LOCK="+path)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Wait() }()
	defer func() { _ = other.Process.Kill() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	owner := ""
	release, err := lockFile(ctx, path, func(o string) {
		owner = o
		if err := other.Process.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	release()
	if want := fmt.Sprintf("pid %d: ", other.Process.Pid); !strings.HasPrefix(owner, want) {
		t.Errorf("waited for %q, want %q…", owner, want)
	}
}

// TestLockTrustsNobody puts in the lock's place what somebody else could.
func TestLockTrustsNobody(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		plant      func(path, victim string) error
	}{
		{"symbolic link", "symbolic link", func(path, victim string) error { return os.Symlink(victim, path) }},
		{"dangling link", "symbolic link", func(path, victim string) error { return os.Symlink(victim+"-not-there", path) }},
		{"hard link", "another name", func(path, victim string) error { return os.Link(victim, path) }},
		{"directory", "is a directory", func(path, _ string) error { return os.Mkdir(path, 0o700) }},
		{"fifo", "not a regular file", func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }},
		{"open to all", "mode 666", func(path, _ string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Chmod(path, 0o666) // whatever the umask
		}},
		{"another user's", "owned by user 65534", func(path, _ string) error {
			if os.Geteuid() != 0 {
				return errors.ErrUnsupported
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Chown(path, 65534, 65534)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path, victim := filepath.Join(dir, "lock"), filepath.Join(dir, "victim")
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tt.plant(path, victim); errors.Is(err, errors.ErrUnsupported) {
				t.Skip("needs root")
			} else if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			release, err := lockFile(ctx, path, nil)
			if err == nil {
				release()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if b, _ := os.ReadFile(victim); string(b) != "precious" {
				t.Errorf("the victim holds %q", b)
			}
			if _, err := os.Stat(victim + "-not-there"); err == nil {
				t.Error("the link's target was made")
			}
		})
	}
}

// TestLockOwner is that what a file says cannot draw on the terminal.
func TestLockOwner(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"pid 7: gate run", "pid 7: gate run"},
		{"\x1b[2Jpid\n 7\x00\x9b\xff", "[2Jpid 7"},
		{"", "another run"},
		{" \n", "another run"},
		{strings.Repeat("a", 1000), strings.Repeat("a", maxOwner)},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "owner"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(tt.text); err != nil {
			t.Fatal(err)
		}
		if got := lockOwner(f); got != tt.want {
			t.Errorf("%.20q: %q, want %q", tt.text, got, tt.want)
		}
		f.Close()
	}
}

// TestLockHost takes the lock of this host, for which it may have to wait: tests of other
// packages measure meanwhile.
func TestLockHost(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	release, err := LockHost(ctx, func(o string) { t.Logf("waiting for %s", o) })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	st, err := os.Stat(lockPath())
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want mode 600", st, err)
	}
}
