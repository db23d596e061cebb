//go:build linux

package work

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func hold(t *testing.T, cmd *exec.Cmd) *Held {
	t.Helper()
	h, err := Hold(cmd)
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("nothing can be traced here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHold(t *testing.T) {
	testkernel.NoLeaks(t)
	out := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command("/bin/sh", "-c", `echo begun >"$1"; exit 3`, "sh", out)
	h := hold(t, cmd)
	time.Sleep(20 * time.Millisecond)
	if _, err := os.Stat(out); h.PID() <= 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is held, and process %d has begun: %v", h.PID(), err)
	}
	select {
	case <-h.Done():
		t.Error("it is held, and has ended")
	default:
	}
	h.Release()
	<-h.Done()
	var exit *exec.ExitError
	if said, err := os.ReadFile(out); !errors.As(h.Err(), &exit) || exit.ExitCode() != 3 || string(said) != "begun\n" {
		t.Errorf("%v, %q, %v", h.Err(), said, err)
	}
	h.End(time.Minute) // of what has ended is nothing
}

func TestHoldEnd(t *testing.T) {
	testkernel.NoLeaks(t)
	for _, tt := range []struct {
		name, script string
		release      bool
	}{
		{"held", "echo begun", false},
		{"at work", "echo begun; exec sleep 60", true},
		{"stubborn", "trap '' TERM; echo begun; while :; do sleep 0.05; done", true},
	} {
		cmd := exec.Command("/bin/sh", "-c", tt.script)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		h := hold(t, cmd)
		if tt.release {
			h.Release()
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		h.End(100 * time.Millisecond)
		if err := syscall.Kill(h.PID(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: ended, and still there: %v", tt.name, err)
		}
	}
	if _, err := Hold(exec.Command("/no/such/command")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no such command: %v", err)
	}
}
