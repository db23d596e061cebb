//go:build linux

package bpf

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// A test run that a signal cuts short is taken again as a whole: its packet lies
// elsewhere in memory, and its maps hold what the first runs left.
func TestInterrupted(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	m, err := s.Micro(bench.Benchmark{Name: "x/y", Program: "xdp_encap", Packets: ipv4(3), Repeat: 30_000}, Side{"base", o}, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var tid int
	if err := s.do(func() error { tid = unix.Gettid(); return nil }); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				// The signal that Go's scheduler sends itself, and ignores.
				_ = unix.Tgkill(unix.Getpid(), tid, unix.SIGURG)
			}
		}
	}()
	interrupted := 0
	err = s.do(func() error {
		x, err := m.load(0)
		if err != nil {
			return err
		}
		targets := []*target{x}
		defer m.remove(targets)
		if err := m.seat(targets); err != nil {
			return err
		}
		m.arm(x, 0)
		for deadline := time.Now().Add(20 * time.Second); interrupted < 20 && time.Now().Before(deadline); {
			_, restarts, err := m.read(x, 0)
			if err != nil {
				return err
			}
			interrupted += restarts
		}
		return nil
	})
	close(stop)
	<-stopped
	if err != nil {
		t.Fatalf("after %d interruptions: %v", interrupted, err)
	}
	if interrupted == 0 {
		t.Error("no reading was interrupted, so nothing was tested")
	}
}
