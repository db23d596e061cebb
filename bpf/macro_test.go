package bpf

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"github.com/org/ebpf-bench-gate/bench"
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

// statsOff is that the kernel counts nothing: the switch reads 0, and running a
// program leaves its count where it was.
func statsOff(t *testing.T, when string) {
	t.Helper()
	if on, err := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled"); err != nil || strings.TrimSpace(string(on)) != "0" {
		t.Errorf("%s: bpf_stats_enabled is %q, %v", when, on, err)
	}
	p, err := ebpf.NewProgram(emptyLike(&ebpf.ProgramSpec{Type: ebpf.XDP}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
		t.Fatal(err)
	}
	if u, err := newMeter(p).read(); err != nil || u.runs != 0 {
		t.Errorf("%s: a program that ran once has %d runs (%v): the kernel still counts", when, u.runs, err)
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
				statsOff(t, "between rounds")
			}
			if r := median(ratios); r < 1.5 {
				t.Errorf("head takes %.2f times as long as base, in %.2f: the loop of 381 turns was not seen", r, ratios)
			}
		})
	}
	statsOff(t, "afterwards")
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
		stats, err := enableStats()
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
		stats, err := enableStats()
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
	statsOff(t, "after an error")
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
	statsOff(t, "after an error")
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
		stats, err := enableStats()
		if err != nil {
			return err
		}
		defer stats.Close()
		// A benchmark that watches the callee sees packets and no runs.
		entry.meter = newMeter(callee)
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

func TestMeterAgrees(t *testing.T) {
	s := macroSession(t, 11)
	_ = s
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	stats, err := enableStats()
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Close()
	const runs = 7
	for range runs {
		if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
			t.Fatal(err)
		}
	}
	u, err := newMeter(p).agreed()
	if err != nil {
		t.Fatal(err)
	}
	if u.runs != runs || u.ns == 0 || u.misses != 0 {
		t.Errorf("%+v after %d runs", u, runs)
	}
}

// BenchmarkMacro shows how steady ten rounds are, and beside it what the usual
// harness does: attach, one request, read fdinfo. The figure is the standard
// error of an A/A comparison in percent, and the time of a round.
func BenchmarkMacro(b *testing.B) {
	v := "v4_lookup"
	o := macroObject(b, v)
	for _, count := range []int{2000, 5000, 10000, 20000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			s := macroSession(b, uint64(count))
			m, err := s.Macro(veth("native", count), Side{"base", o}, Side{"head", o})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			var diffs, single, base, floor []float64
			for r := 0; b.Loop(); r++ {
				got, err := m.Round(r)
				if err != nil {
					b.Fatal(err)
				}
				diffs = append(diffs, got[1].Latency.Value/got[0].Latency.Value-1)
				base, floor = append(base, got[0].Latency.Value), append(floor, got[0].Latency.Floor)
			}
			for range 30 {
				pair := make([]float64, 2)
				for i := range pair {
					if pair[i], err = oneRequest(m); err != nil {
						b.Fatal(err)
					}
				}
				single = append(single, pair[1]/pair[0]-1)
			}
			b.ReportMetric(100*deviation(diffs)/math.Sqrt(10), "%se-of-10-rounds")
			b.ReportMetric(100*deviation(single), "%se-of-one-request")
			b.ReportMetric(median(base), "ns/run")
			b.ReportMetric(median(floor), "ns/floor")
		})
	}
}

// oneRequest loads and attaches a program, sends one packet, and reads fdinfo.
func oneRequest(m *Macro) (ns float64, err error) {
	err = m.s.do(func() error {
		subs := make([]*subject, 3)
		for i := range subs {
			if subs[i], err = m.load(i); err != nil {
				return err
			}
			defer subs[i].close()
		}
		if err := m.place(subs); err != nil {
			return err
		}
		stats, err := enableStats()
		if err != nil {
			return err
		}
		defer stats.Close()
		if err := m.read(subs[0], 1, 1); err != nil {
			return err
		}
		ns = subs[0].total.perRun()
		return nil
	})
	return ns, err
}

// deviation is the standard deviation of xs without the tails: from the median
// absolute deviation, as for a normal distribution.
func deviation(xs []float64) float64 {
	mid := median(xs)
	d := slices.Clone(xs)
	for i := range d {
		d[i] = math.Abs(d[i] - mid)
	}
	return 1.4826 * median(d)
}
