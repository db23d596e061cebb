//go:build linux

package bpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// macroSession is a session for a test of real traffic.
func macroSession(t testing.TB, seed uint64) *Session {
	t.Helper()
	testkernel.Require(t, testkernel.BPF, testkernel.Stats, testkernel.Net, testkernel.Clang)
	testkernel.NoLeaks(t)
	s, err := NewSession(seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// macroObject compiles one version of the running example, or a given source.
func macroObject(t testing.TB, source string) *Object {
	t.Helper()
	file := filepath.Join("..", "examples", "fun-xdp", source+".bpf.c")
	if strings.Contains(source, "\n") {
		file = filepath.Join(t.TempDir(), "source.bpf.c")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "object.o")
	cmd := exec.Command("clang", "-O2", "-g", "-target", "bpf", "-I", testkernel.IncludeDir(), "-c", file, "-o", out)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	o, err := OpenObject(out)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// worst is a UDP frame from 1.255.255.255, for which v3 runs its loop 381 times.
func worst() []byte {
	p := make([]byte, 60)
	copy(p, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0})
	copy(p[26:], []byte{1, 255, 255, 255, 10, 0, 0, 1, 0x30, 0x39, 0, 53, 0, 26})
	return p
}

func veth(mode string, count int) bench.Benchmark {
	return bench.Benchmark{
		Name: "fun_xdp/veth", Program: "fun_xdp", Packets: [][]byte{worst()},
		Veth: &bench.Veth{Mode: mode, Count: count}, Drain: []string{"SOURCE_ADDR_QUEUE"},
	}
}

func TestMacroXDP(t *testing.T) {
	s := macroSession(t, 1)
	v2, v3 := macroObject(t, "v2_fizzbuzz"), macroObject(t, "v3_fibonacci")
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			const count, rounds = 1500, 5
			m, err := s.Macro(veth(mode, count), Side{"base", v2}, Side{"head", v3})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if want := "veth " + mode; m.Path != want {
				t.Errorf("path %q, want %q", m.Path, want)
			}
			var ratios []float64
			for r := range rounds {
				got, err := m.Round(r)
				if err != nil {
					t.Fatal(err)
				}
				base, head := got[0], got[1]
				ratios = append(ratios, head.Latency.Value/base.Latency.Value)
				for i, g := range got {
					if g.Runs.Value != count {
						t.Errorf("round %d, side %d: %g runs of %d packets", r, i, g.Runs.Value, count)
					}
					if g.RecursionMisses.Value != 0 {
						t.Errorf("round %d, side %d: %g recursion misses", r, i, g.RecursionMisses.Value)
					}
					if g.Latency.Round != r || g.Runs.Round != r {
						t.Errorf("round %d is called %d and %d", r, g.Latency.Round, g.Runs.Round)
					}
					if f := g.Latency.Floor; f <= 0 || f != got[0].Latency.Floor {
						t.Errorf("round %d, side %d: floor %g ns", r, i, f)
					}
					if o := g.Latency.Offset; o < 0 || o > 63 {
						t.Errorf("round %d, side %d: offset %d", r, i, o)
					}
				}
				testkernel.StatsOff(t, "between rounds")
			}
			if r := median(ratios); r < 1.5 {
				t.Errorf("head takes %.2f times as long as base, in %.2f: the loop of 381 turns was not seen", r, ratios)
			}
		})
	}
	testkernel.StatsOff(t, "afterwards")
}

// The kernel must hold the native program in the driver, and not fall back.
func TestMacroMode(t *testing.T) {
	s := macroSession(t, 1)
	v2 := macroObject(t, "v2_fizzbuzz")
	for _, mode := range []string{"native", "generic"} {
		m, err := s.Macro(veth(mode, 300), Side{"base", v2})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Round(0); err != nil {
			t.Error(err)
		}
		err = s.do(func() error {
			for _, p := range m.pairs {
				if got, err := xdpMode(p.dev.Index); got != mode {
					t.Errorf("after a round, %s runs XDP in mode %q, not %s (%v)", p.dev.Name, got, mode, err)
				}
			}
			return nil
		})
		m.Close()
		if err != nil {
			t.Error(err)
		}
	}
}

const tcSource = `#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 256); __type(key, __u32); __type(value, __u64); } seen SEC(".maps");
SEC("tc") int count(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 *n;
	__u8 b = 0;

	bpf_skb_load_bytes(skb, 29, &b, 1); /* the last byte of the source address */
	key = b;
	n = bpf_map_lookup_elem(&seen, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
	return TC_ACT_OK;
}
char LICENSE[] SEC("license") = "GPL";
`

func TestMacroTC(t *testing.T) {
	s := macroSession(t, 2)
	o := macroObject(t, tcSource)
	const count = 700
	for _, mode := range []string{"ingress", "egress"} {
		t.Run(mode, func(t *testing.T) {
			b := bench.Benchmark{Name: "count/" + mode, Program: "count", Packets: [][]byte{worst()}, Veth: &bench.Veth{Mode: mode, Count: count}}
			m, err := s.Macro(b, Side{"base", o}, Side{"head", o})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if !strings.HasPrefix(m.Path, "veth ") || !strings.HasSuffix(m.Path, " "+mode) {
				t.Errorf("path %q", m.Path)
			}
			for r := range 2 {
				got, err := m.Round(r)
				if err != nil {
					t.Fatal(err)
				}
				for i, g := range got {
					if g.Runs.Value != count {
						t.Errorf("round %d, side %d: %g runs of %d packets", r, i, g.Runs.Value, count)
					}
				}
			}
		})
	}
}

// Kernels before 6.6 have no tcx; the filter that stands in for it must count
// the same.
func TestFilterHook(t *testing.T) {
	s := macroSession(t, 3)
	o := macroObject(t, tcSource)
	const count = 300
	for _, mode := range []string{"ingress", "egress"} {
		b := bench.Benchmark{Name: "count/" + mode, Program: "count", Packets: [][]byte{worst()}, Veth: &bench.Veth{Mode: mode, Count: count}}
		m, err := s.Macro(b, Side{"base", o})
		if err != nil {
			t.Fatal(err)
		}
		err = s.do(func() error {
			for i, p := range m.pairs {
				if err := m.hooks[i].close(); err != nil {
					return err
				}
				if m.hooks[i], err = newFilterHook(p.dev.Index, mode); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			m.Close()
			t.Fatal(err)
		}
		for r := range 2 { // the second replaces the first's program
			got, err := m.Round(r)
			if err != nil {
				t.Errorf("%s: %v", mode, err)
			} else if got[0].Runs.Value != count {
				t.Errorf("%s: %g runs of %d packets", mode, got[0].Runs.Value, count)
			}
		}
		m.Close()
	}
}

// A queue that fills up makes another program of it: with drain, all packets of
// a round find room.
func TestMacroDrain(t *testing.T) {
	s := macroSession(t, 4)
	m, err := s.Macro(veth("native", 3000), Side{"base", macroObject(t, "v1_basic")})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = s.do(func() error {
		sub, err := m.load(0)
		if err != nil {
			return err
		}
		defer sub.close()
		floor, err := m.load(1)
		if err != nil {
			return err
		}
		defer floor.close()
		if err := m.place([]*subject{sub, floor}); err != nil {
			return err
		}
		stats, err := programs.EnableStats()
		if err != nil {
			return err
		}
		defer stats.Close()
		queue := sub.load.coll.Maps["SOURCE_ADDR_QUEUE"]
		if got, want := sub.smallest(m.b.Drain), int(queue.MaxEntries()); got != want {
			t.Errorf("smallest drained map has %d entries, want %d", got, want)
		}
		const n, burst = 3000, 250
		if err := m.read(sub, n, burst); err != nil {
			return err
		}
		left := 0
		for v := uint32(0); queue.LookupAndDelete(nil, &v) == nil; left++ {
			if v != 0x01ffffff {
				return fmt.Errorf("the queue holds %#x", v)
			}
		}
		if left != burst {
			t.Errorf("after %d packets the queue holds %d, want the last burst's %d", n, left, burst)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Packets go round and round in their order, from the first on in every round.
func TestMacroPackets(t *testing.T) {
	s := macroSession(t, 5)
	b := veth("native", 1000)
	b.Packets = nil
	for i := range 3 {
		p := worst()
		p[29] = byte(i)
		b.Packets = append(b.Packets, p)
	}
	m, err := s.Macro(b, Side{"base", macroObject(t, "v1_basic")})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = s.do(func() error {
		subs := make([]*subject, 2)
		for i := range subs {
			if subs[i], err = m.load(i); err != nil {
				return err
			}
			defer subs[i].close()
		}
		if err := m.place(subs); err != nil {
			return err
		}
		stats, err := programs.EnableStats()
		if err != nil {
			return err
		}
		defer stats.Close()
		queue := subs[0].load.coll.Maps["SOURCE_ADDR_QUEUE"]
		if err := m.read(subs[0], 100, 100); err != nil {
			return err
		}
		if err := m.read(subs[0], 200, 200); err != nil {
			return err
		}
		for i, v := 100, uint32(0); queue.LookupAndDelete(nil, &v) == nil; i++ {
			if want := uint32(0x01ffff00 + i%3); v != want {
				return fmt.Errorf("packet %d came from %#x, want %#x", i, v, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Two benchmarks of one session stand side by side, each with its own pairs.
func TestMacroTwice(t *testing.T) {
	s := macroSession(t, 10)
	v2 := macroObject(t, "v2_fizzbuzz")
	a, err := s.Macro(veth("native", 300), Side{"base", v2})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := s.Macro(veth("generic", 300), Side{"base", v2})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, m := range []*Macro{a, b, a} {
		if got, err := m.Round(0); err != nil || got[0].Runs.Value != 300 {
			t.Errorf("%s: %+v, %v", m.Path, got, err)
		}
	}
}
