//go:build linux

package bpf

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// A round ends where it is told to, not with its last packet.
func TestStop(t *testing.T) {
	s := macroSession(t, 1)
	o := macroObject(t, "v2_fizzbuzz")
	asked, after := 0, 0
	s.Stop = func() error {
		if asked++; after > 0 && asked > after {
			return context.Canceled
		}
		return nil
	}
	macro, err := s.Macro(veth("native", 2_000_000), Side{"base", o}, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	defer macro.Close()
	micro, err := s.Micro(bench.Benchmark{Name: "fun_xdp/micro", Program: "fun_xdp", Packets: ipv4(1), Drain: []string{"SOURCE_ADDR_QUEUE"}}, Side{"base", o}, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	defer micro.Close()
	for name, round := range map[string]func() error{
		"macro": func() error { _, err := macro.Round(0); return err },
		"micro": func() error { _, err := micro.Round(0); return err },
	} {
		// While it loads, and while it reads.
		for _, after = range []int{1, 12} {
			asked = 0
			if err := round(); !errors.Is(err, context.Canceled) || asked != after+1 {
				t.Errorf("%s: asked %d times, of %d: %v", name, asked, after+1, err)
			}
		}
	}
}

func TestRefusedFentryIsToldOnce(t *testing.T) {
	for _, typ := range []ebpf.ProgramType{ebpf.Tracing, ebpf.XDP} {
		err := explainLoad(typ, unix.EPERM)
		if n := strings.Count(err.Error(), "operation not permitted"); n != 1 || !errors.Is(err, unix.EPERM) {
			t.Errorf("%v: %d times: %v", typ, n, err)
		}
	}
}
