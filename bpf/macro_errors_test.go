//go:build linux

package bpf

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestMacroZeroRuns(t *testing.T) {
	s := macroSession(t, 6)
	m, err := s.Macro(veth("native", 1000), Side{"base", macroObject(t, "v2_fizzbuzz")})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = s.do(func() error {
		for _, p := range m.pairs {
			if err := netlink.LinkSetDown(p.dev); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Round(0)
	if err == nil {
		t.Fatalf("nothing ran, and the round gave %+v", got)
	}
	for _, want := range []string{"fun_xdp/veth", "did not run once", "no packet arrived"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not say %q", err, want)
		}
	}
	testkernel.StatsOff(t, "after an error")
}

// Some packets are lost: there is no sample, and the numbers say why.
func TestMacroTooFewRuns(t *testing.T) {
	s := macroSession(t, 7)
	b := veth("native", 1000)
	b.Packets = append(b.Packets, make([]byte, 1514))
	m, err := s.Macro(b, Side{"base", macroObject(t, "v2_fizzbuzz")})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	// The receiving ends take no frame as long as every second packet.
	err = s.do(func() error {
		for _, p := range m.pairs {
			if err := netlink.LinkSetMTU(p.dev, 1000); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Round(0)
	if err == nil {
		t.Fatal("half of the packets were lost, and the round gave a sample")
	}
	for _, want := range []string{"only 128 of 256 packets reached", "min_runs is 900 of 1000", "dropped"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not say %q", err, want)
		}
	}
	testkernel.StatsOff(t, "after an error")
	// The benchmark may say that it is meant to be so.
	m.least = 400
	got, err := m.Round(1)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Runs.Value != 500 {
		t.Errorf("%g runs, want 500", got[0].Runs.Value)
	}
}

// What the kernel does not count: the callee of a tail call has no runs however
// often it ran, and the entry has them.
func TestTailCallsAreNotCounted(t *testing.T) {
	s := macroSession(t, 8)
	o := macroObject(t, `#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
int callee(struct xdp_md *ctx);
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 1); __uint(key_size, 4); __array(values, int(struct xdp_md *)); } calls SEC(".maps") = { .values = { [0] = (void *)&callee } };
SEC("xdp") int callee(struct xdp_md *ctx) { return XDP_DROP; }
SEC("xdp") int entry(struct xdp_md *ctx) { bpf_tail_call(ctx, &calls, 0); return XDP_PASS; }
char LICENSE[] SEC("license") = "GPL";
`)
	b := veth("native", 300)
	b.Program, b.Drain = "entry", nil
	m, err := s.Macro(b, Side{"base", o})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := m.Round(0)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Runs.Value != 300 {
		t.Errorf("the entry program has %g runs of 300", got[0].Runs.Value)
	}
	err = s.do(func() error {
		entry, err := m.load(0)
		if err != nil {
			return err
		}
		defer entry.close()
		var callee *ebpf.Program
		for _, x := range entry.load.extra {
			if p, ok := x.(*ebpf.Program); ok {
				callee = p
			}
		}
		if callee == nil {
			t.Fatal("the callee was not loaded")
		}
		floor, err := m.load(1)
		if err != nil {
			return err
		}
		defer floor.close()
		if err := m.place([]*subject{entry, floor}); err != nil {
			return err
		}
		stats, err := programs.EnableStats()
		if err != nil {
			return err
		}
		defer stats.Close()
		// A benchmark that watches the callee sees packets and no runs.
		entry.meter = programs.NewMeter(callee)
		return m.read(entry, 128, 128)
	})
	if err == nil {
		t.Fatal("the callee's runs were counted: the kernel has changed, and so must the error")
	}
	for _, want := range []string{"did not run once", "packets arrived", "tail-called", "entered first"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not say %q", err, want)
		}
	}
}

func TestMacroRefuses(t *testing.T) {
	s := macroSession(t, 9)
	v2, tc := macroObject(t, "v2_fizzbuzz"), macroObject(t, tcSource)
	for _, tt := range []struct {
		name string
		b    func(*bench.Benchmark)
		o    *Object
		want string
	}{
		{"no veth", func(b *bench.Benchmark) { b.Veth = nil }, v2, "says no work"},
		{"xdp at egress", func(b *bench.Benchmark) { b.Veth.Mode = "egress" }, v2, `xdp programs cannot be attached in mode "egress"`},
		{"tc native", func(b *bench.Benchmark) { b.Program = "count" }, tc, `sched_cls programs cannot be attached in mode "native"`},
		{"no packets", func(b *bench.Benchmark) { b.Packets = nil }, v2, "no packets"},
		{"short packet", func(b *bench.Benchmark) { b.Packets = [][]byte{worst(), worst()[:13]} }, v2, "packet 1 has 13 bytes"},
		{"huge packet", func(b *bench.Benchmark) { b.Packets = [][]byte{make([]byte, 70000)} }, v2, "packet 0 has 70000 bytes"},
		{"too large for native XDP", func(b *bench.Benchmark) { b.Packets = [][]byte{make([]byte, 9000)} }, v2, "attach XDP in native mode"},
		{"no program", func(b *bench.Benchmark) { b.Program = "nobody" }, v2, `no program "nobody"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := veth("native", 300)
			tt.b(&b)
			m, err := s.Macro(b, Side{"base", tt.o})
			if err == nil {
				m.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want one with %q", err, tt.want)
			}
		})
	}
	b := veth("native", 300)
	b.Drain = []string{"NOT_THERE"}
	m, err := s.Macro(b, Side{"base", v2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Round(0); err == nil || !strings.Contains(err.Error(), "NOT_THERE") {
		t.Errorf("drain of a map that is not there: %v", err)
	}
	b.Expect = "XDP_PASS"
	w, err := s.Macro(b, Side{"base", v2})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if len(w.Warnings) != 1 || !strings.Contains(w.Warnings[0], "expect is not checked") {
		t.Errorf("warnings %q", w.Warnings)
	}
}
