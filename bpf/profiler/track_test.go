//go:build linux

package profiler

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// A profile of processes ends with the last of them, and not with the one that was named.
func TestDeserted(t *testing.T) {
	sampling(t)
	testkernel.Require(t, testkernel.BPF, testkernel.BTF)
	testkernel.NoLeaks(t)
	p, err := New(Options{OffCPU: true, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	parent := startLoad(t, "outlived")
	if err := errors.Join(p.Track(parent), p.Start()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), mostSampling)
	defer cancel()
	var ended []uint32
	if err := unix.Kill(parent, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err = p.Run(ctx, Handler{Sample: func(*Sample) {}, Exit: func(pid uint32) {
		if ended = append(ended, pid); pid == uint32(parent) {
			_ = unix.Kill(-parent, unix.SIGKILL) // its child
		}
	}}); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Error("it went on when nobody was left")
	}
	if len(ended) != 2 || ended[0] != uint32(parent) {
		t.Errorf("%v ended, want %d and its child", ended, parent)
	}
}
