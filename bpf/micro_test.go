package bpf

import (
	"encoding/binary"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// compile builds a C source and opens the object.
func compile(t testing.TB, src string) *Object {
	t.Helper()
	testkernel.Require(t, testkernel.Clang)
	obj := filepath.Join(t.TempDir(), "test.o")
	cmd := exec.Command("clang", "-O2", "-g", "-target", "bpf", "-I", testkernel.IncludeDir(), "-c", src, "-o", obj)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("clang %s: %v\n%s", src, err, out)
	}
	o, err := OpenObject(obj)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// needsLinux skips on older kernels, where what is tested is not there. (Anything that
// can be found out by doing it is asked of package testkernel.)
func needsLinux(t testing.TB, major, minor int) {
	t.Helper()
	if v := thisHost().kernel(); v.less(version{major, minor}) {
		t.Skipf("Linux %v, needs %d.%d", v, major, minor)
	}
}

func newTestSession(t testing.TB) *Session {
	t.Helper()
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun, testkernel.Net)
	s, err := NewSession(7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// frame is an Ethernet frame of 60 bytes from 1.0.0.last (or the IPv6 header
// that an EtherType of 0x86dd begins).
func frame(etherType uint16, last byte) []byte {
	p := make([]byte, 60)
	binary.BigEndian.PutUint16(p[12:], etherType)
	p[14], p[17], p[22], p[23] = 0x45, 46, 64, 17
	copy(p[26:], []byte{1, 0, 0, last, 10, 0, 0, 1})
	if etherType == 0x86dd {
		p[14] = 0x60
	}
	return p
}

func ipv4(n int) [][]byte {
	var out [][]byte
	for i := range n {
		out = append(out, frame(0x0800, byte(i)))
	}
	return out
}

func TestMicroTypes(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	mixed := [][]byte{frame(0x0800, 1), frame(0x86dd, 2), frame(0x0800, 3)}
	for _, tc := range []struct {
		program string
		packets [][]byte
		path    string
		answer  string
	}{
		{"xdp_encap", ipv4(3), "driver", "XDP_TX"},
		{"xdp_shrink", ipv4(3), "driver", "XDP_PASS"},
		{"xdp_frags", ipv4(3), "driver", "XDP_PASS"},
		{"xdp_parity", ipv4(9), "driver", "XDP_PASS ×5, XDP_DROP ×4"},
		{"tc_encap", ipv4(3), "driver", "TC_ACT_OK"},
		{"tc_protocol", mixed, "driver", "TC_ACT_OK ×2, TC_ACT_RECLASSIFY ×1"},
		{"socket_len", ipv4(1), "driver", "46"},
		{"cgroup_pass", ipv4(2), "driver", "1"},
		{"lwt_pass", ipv4(2), "driver", "BPF_OK"},
		{"dissect", ipv4(2), "driver", "BPF_OK"},
		{"lookup", nil, "driver", "SK_PASS"},
		{"filter", ipv4(2), "driver", "NF_ACCEPT"},
		{"raw_switch", nil, "single", "0"},
		{"sys", nil, "single", "3"},
	} {
		t.Run(tc.program, func(t *testing.T) {
			if tc.program == "filter" {
				needsLinux(t, 6, 4)
			}
			b := bench.Benchmark{Name: tc.program + "/case", Program: tc.program, Packets: tc.packets, Repeat: 300}
			m, err := s.Micro(b, Side{"base", o}, Side{"head", o})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if m.Path != tc.path || m.Answer != tc.answer {
				t.Errorf("driven by %q, answers %q; want %q, %q (%v)", m.Path, m.Answer, tc.path, tc.answer, m.Warnings)
			}
			for r := range 2 {
				samples, err := m.Round(r)
				if err != nil {
					t.Fatal(err)
				}
				if len(samples) != 2 {
					t.Fatalf("%d samples, want one a side", len(samples))
				}
				for _, x := range samples {
					if x.Round != r || x.Value <= 0 || x.Floor <= 0 || x.Offset < 0 || x.Offset > 63 {
						t.Errorf("round %d: sample %+v", r, x)
					}
				}
			}
		})
	}
}

// An encapsulating program gets a fresh packet in every repeat: a plain repeat
// would run out of headroom after a few.
func TestFreshPackets(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	for program, answer := range map[string]uint32{"xdp_encap": 3, "xdp_shrink": 2, "tc_encap": 0} {
		t.Run(program, func(t *testing.T) {
			const repeat = 5000
			var got, other uint64
			err := s.do(func() error {
				m, err := s.newMicro(bench.Benchmark{Name: "x/y", Program: program, Packets: ipv4(3), Repeat: repeat}, []Side{{"head", o}})
				if err != nil {
					return err
				}
				defer m.close()
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
				if _, _, err := m.fire(x, x.shots[0], 0, repeat); err != nil {
					return err
				}
				for key := range uint32(8) {
					var n uint64
					if err := x.load.coll.Maps["answers"].Lookup(key, &n); err != nil {
						return err
					}
					if key == answer {
						got = n
					} else {
						other += n
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got != repeat || other != 0 {
				t.Errorf("%d of %d runs answered %d, %d something else", got, repeat, answer, other)
			}
		})
	}
}

func TestMicroRefusals(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	for _, tc := range []struct {
		name string
		b    bench.Benchmark
		want string
	}{
		{"no test run", bench.Benchmark{Program: "probe"}, "kprobe programs have no test run"},
		{"other answer", bench.Benchmark{Program: "xdp_parity", Packets: ipv4(2), Expect: "XDP_PASS"}, "answers XDP_DROP for packet 1, expected XDP_PASS"},
		{"unknown drain", bench.Benchmark{Program: "xdp_fills", Packets: ipv4(1), Drain: []string{"many"}}, "uses no map \"many\": it uses few"},
		{"unknown program", bench.Benchmark{Program: "nobody"}, "no program \"nobody\""},
		{"huge packet", bench.Benchmark{Program: "xdp_parity", Packets: [][]byte{make([]byte, 5000)}}, "takes at most"},
		{"own output", bench.Benchmark{Program: "lwt_push", Packets: ipv4(1)}, "cannot give every run a fresh one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.b.Name = tc.b.Program + "/case"
			m, err := s.Micro(tc.b, Side{"head", o})
			if err == nil {
				m.Close()
				t.Fatalf("no error, want %q", tc.want)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q, want %q", err, tc.want)
			}
		})
	}
}

// Every packet counts the same in a reading, however many there are and however
// they have to be grouped.
func TestLegs(t *testing.T) {
	ones := make([]span, 20)
	for i := range ones {
		ones[i] = span{i, i + 1}
	}
	for _, tc := range []struct {
		name    string
		groups  []span
		reading int
		want    []leg
	}{
		{"no packets", []span{{}}, 3, []leg{{0, 1000}}},
		{"one packet", []span{{0, 1}}, 3, []leg{{0, 1000}}},
		{"a pass divides unevenly", []span{{0, 256}}, 3, []leg{{0, 768}}},
		{"more packets than runs", []span{{0, 5000}}, 3, []leg{{0, 5000}}},
		{"a large and a small group", []span{{0, 255}, {255, 256}}, 0, []leg{{0, 765}, {1, 3}}},
		{"some of many groups", ones, 1, []leg{
			{16, 62}, {17, 62}, {18, 62}, {19, 62}, {0, 62}, {1, 62}, {2, 62}, {3, 62},
			{4, 62}, {5, 62}, {6, 62}, {7, 62}, {8, 62}, {9, 62}, {10, 62}, {11, 62},
		}},
	} {
		if got := legs(tc.groups, tc.reading, 1000); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A map that fills up while it is measured changes what is measured.
func TestChangedAnswer(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	b := bench.Benchmark{Name: "xdp_fills/case", Program: "xdp_fills", Packets: ipv4(1), Repeat: 100}
	m, err := s.Micro(b, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, err = m.Round(0)
	var d *bench.Diagnostic
	if !errors.As(err, &d) || !strings.Contains(d.Message, "answered XDP_PASS for packet 0 at first and XDP_DROP after 100 runs") || d.Hint == "" {
		t.Fatalf("error %v, want one that tells of two answers, with a hint", err)
	}
	b.Repeat, b.Drain = 64, []string{"few"}
	drained, err := s.Micro(b, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	defer drained.Close()
	if _, err := drained.Round(0); err != nil {
		t.Errorf("with the queue drained: %v", err)
	}
}

// Programs that may not be tail-called fall back to being attached, or to a
// plain repeat, each with a guard against measuring their own output.
func TestFallbacks(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	for _, tc := range []struct{ program, path string }{{"xdp_parity", "attached"}, {"tc_protocol", "repeat"}} {
		b := bench.Benchmark{Name: tc.program + "/case", Program: tc.program, Packets: ipv4(2), Repeat: 200, KeepPacket: true}
		m, err := s.Micro(b, Side{"base", o}, Side{"head", o})
		if err != nil {
			t.Fatal(err)
		}
		if m.Path != tc.path {
			t.Errorf("%s: path %q, want %q", tc.program, m.Path, tc.path)
		}
		if _, err := m.Round(0); err != nil {
			t.Errorf("%s: %v", tc.program, err)
		}
		m.Close()
	}
}

// Where two sides do different things, the warning says so and for which packet.
func TestDifferentResults(t *testing.T) {
	s := newTestSession(t)
	v3, v4 := compile(t, "../examples/fun-xdp/v3_fibonacci.bpf.c"), compile(t, "../examples/fun-xdp/v4_lookup.bpf.c")
	b := bench.Benchmark{Name: "fun_xdp/x", Program: "fun_xdp", Packets: [][]byte{frame(0x0800, 254), frame(0x0800, 255)}, Drain: []string{"SOURCE_ADDR_QUEUE"}}
	m, err := s.Micro(b, Side{"base", v3}, Side{"head", v4})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const want = "base and head give different results for 1 of 2 packets, first for packet 1"
	if len(m.Warnings) != 1 || !strings.HasPrefix(m.Warnings[0], want) {
		t.Errorf("warnings %q, want %q", m.Warnings, want)
	}
}

// The same seed draws the same orders.
func TestSeed(t *testing.T) {
	a, b := (&Session{seed: 3}).rng("x"), (&Session{seed: 3}).rng("x")
	c := (&Session{seed: 4}).rng("x")
	same := 0
	for range 64 {
		x := a.Uint64()
		if y := b.Uint64(); x != y {
			t.Fatal("one seed, two orders")
		}
		if x == c.Uint64() {
			same++
		}
	}
	if same != 0 {
		t.Errorf("%d of 64 numbers of two seeds are the same", same)
	}
}

// Every slot of the program array is emptied after a round: what a round loaded
// is unloaded with it.
func TestRoundsUnload(t *testing.T) {
	testkernel.NoLeaks(t)
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	m, err := s.Micro(bench.Benchmark{Name: "a/b", Program: "xdp_parity", Packets: ipv4(4)}, Side{"base", o}, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for r := range 3 {
		if _, err := m.Round(r); err != nil {
			t.Fatal(err)
		}
	}
	for slot := range uint32(driverSlots) {
		var id uint32
		if err := m.driver.slots.Lookup(slot, &id); !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Errorf("slot %d still holds a program: %v", slot, err)
		}
	}
}
