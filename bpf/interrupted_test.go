//go:build linux

package bpf

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// A test run that a signal cuts short is taken again as a whole: its packet may lie
// elsewhere in memory, and its maps hold what the first runs left.
func TestInterrupted(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	m, err := s.Micro(bench.Benchmark{Name: "x/y", Program: "xdp_encap", Packets: ipv4(3), Repeat: 30_000}, Side{"base", o}, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	first, err := m.Round(0)
	if err != nil {
		t.Fatal(err)
	}
	// Longer than a reading takes, wherever this runs, or none would ever end.
	every := max(5*time.Millisecond, time.Duration(2*first[0].Value*float64(m.b.Repeat)))
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
			case <-time.After(every):
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
			r, err := m.read(x, 0)
			if err != nil {
				return err
			}
			interrupted += r.restarts
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

// A driver that believes the packet to lie elsewhere, as after a call that was made
// again without aiming anew, loses every packet and says so.
func TestStaleOrigin(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	m, err := s.Micro(bench.Benchmark{Name: "x/y", Program: "xdp_encap", Packets: ipv4(1), Repeat: 100}, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
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
		m.driver.aim(x.slot, m.first, m.first+1)
		binary.NativeEndian.PutUint64(m.driver.buf[stateOrigin:], 4096)
		if _, _, err := x.shots[0].run.call(100); err != nil {
			return err
		}
		return m.driver.check()
	})
	if err == nil || !strings.Contains(err.Error(), "100 packets could not be restored") {
		t.Errorf("error %v, want one of 100 packets", err)
	}
}
