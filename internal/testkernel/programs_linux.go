package testkernel

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// ProgramID is the number that the kernel has given a program.
func ProgramID(t testing.TB, p *ebpf.Program) uint32 {
	t.Helper()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return uint32(id)
}

// StatsOff is that the kernel counts nothing: the switch reads 0, and running a
// program leaves its count where it was. Another process may be counting just
// now, so it may take a while.
func StatsOff(t testing.TB, when string) {
	t.Helper()
	if on, err := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled"); err != nil || strings.TrimSpace(string(on)) != "0" {
		t.Errorf("%s: bpf_stats_enabled is %q, %v", when, on, err)
	}
	p, err := load(ebpf.ProgramSpec{Type: ebpf.XDP}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		before, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
			t.Fatal(err)
		}
		if after, err := p.Stats(); err != nil {
			t.Fatal(err)
		} else if *after == *before {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%s: the kernel still counts runs", when)
			return
		}
	}
}
