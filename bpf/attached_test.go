//go:build linux

package bpf

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/netns"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestMirrored(t *testing.T) {
	const floor = 2
	side := func(k int) bool { return k != floor }
	for _, tt := range []struct{ in, want []int }{
		{[]int{0, 1, floor}, []int{1, 0, floor}},
		{[]int{floor, 1, 0}, []int{floor, 0, 1}},
		{[]int{0, floor, 1}, []int{1, floor, 0}},
		{[]int{0}, []int{0}},
	} {
		if got := mirrored(tt.in, side); !slices.Equal(got, tt.want) || !slices.Equal(mirrored(got, side), tt.in) {
			t.Errorf("%v: %v, want %v", tt.in, got, tt.want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		runs []uint64
		want string
	}{
		{[]uint64{0, 0}, ""},
		{[]uint64{0, 7}, ", on CPU 1"},
		{[]uint64{1, 0, 3}, ", on 2 CPUs, 75% on CPU 2"},
	} {
		if got := spread(tt.runs); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.runs, got, tt.want)
		}
	}
}

// A sender is work of a known number of runs: so many packets, and a figure.
type sender struct {
	t       *testing.T
	traffic *Traffic
	turns   int // begun
	open    int
}

func (s *sender) Ready(int) (Turn, error) {
	s.turns++
	s.open++
	return s, nil
}

func (s *sender) Do() ([]float64, error) {
	return []float64{float64(s.turns)}, s.traffic.Send(s.t.Context())
}

func (s *sender) Close() error {
	s.open--
	return nil
}

const attachedSource = `#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, __u64); } seen SEC(".maps");
SEC("socket") int watch(struct __sk_buff *skb) { return 0; }
SEC("tc") int first(struct __sk_buff *skb) { return 0; }
SEC("socket") int counting(struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&seen, &zero);
	return n ? __sync_fetch_and_add(n, 1) & 0 : 0;
}
SEC("tracepoint") int unsaid(void *ctx) { return 0; }
char LICENSE[] SEC("license") = "GPL";
`

// Where a hook is shared, one turn of work measures all, twice a round; where it is
// not, each side and the empty program have a turn. Both count exactly what ran.
func TestAttached(t *testing.T) {
	testkernel.Require(t, testkernel.Clang, testkernel.Stats)
	o, end, _ := trafficPair(t) // looks for leaks
	s, err := NewSession(1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	object := macroObject(t, attachedSource)
	o.Count = 300
	traffic, err := NewTraffic(o)
	if err != nil {
		t.Fatal(err)
	}
	defer traffic.Close()
	place := Place{Netns: o.Netns, Interface: end, Dir: t.TempDir()}
	sides := []Side{{"base", object}, {"head", object}}
	for _, tt := range []struct {
		name  string
		b     bench.Benchmark
		turns int // a round
	}{
		{"shared", bench.Benchmark{Program: "watch"}, 2},
		{"alternating", bench.Benchmark{Program: "watch", Alternate: true}, 3},
		{"with figures", bench.Benchmark{Program: "watch", Work: &bench.Work{Figures: []bench.Figure{{Name: "turn"}}}}, 3},
		{"beside another", bench.Benchmark{Program: "watch", With: []string{"counting"}}, 2},
		{"beside one that is alone at its hook", bench.Benchmark{Program: "watch", With: []string{"first"}}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &sender{t: t, traffic: traffic}
			tt.b.Name = tt.b.Program + "/x"
			if tt.b.Work == nil {
				tt.b.Work = &bench.Work{}
			}
			a, err := s.Attached(tt.b, place, w, sides...)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if err := a.Census(); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(a.Path, "socket, on ") || w.turns != 1 {
				t.Errorf("path %q after %d turns", a.Path, w.turns)
			}
			got, err := a.Round(2)
			if err != nil {
				t.Fatal(err)
			}
			if w.turns != 1+tt.turns || w.open != 0 {
				t.Errorf("%d turns in a round, want %d; %d are open", w.turns-1, tt.turns, w.open)
			}
			for i, x := range got {
				// What leaves the interface is seen by its packet sockets.
				if x.Runs.Value != 300 || x.Latency.Value <= 0 || x.Latency.Floor <= 0 || x.Latency.Round != 2 || (x.Softirq == nil) == (tt.turns == 3) {
					t.Errorf("side %d: %+v", i, x)
				}
				if len(x.Figures) != 1 || tt.turns == 3 && (x.Figures[0].Value < 2 || x.Figures[0].Value > 4) {
					t.Errorf("side %d: figures %+v", i, x.Figures)
				}
			}
			if tt.turns == 3 && got[0].Figures[0].Value == got[1].Figures[0].Value {
				t.Error("both sides have the figure of one turn")
			}
			testkernel.StatsOff(t, "after a round")
			// Later, the empty program has no turn of its own in most rounds.
			before := w.turns
			floor := got[0].Latency.Floor
			if got, err = a.Round(9); err != nil {
				t.Fatal(err)
			}
			if want := min(tt.turns, 2); w.turns-before != want || tt.turns == 3 && got[1].Latency.Floor != floor {
				t.Errorf("%d turns in a later round, want %d; floor %g and %g", w.turns-before, want, floor, got[1].Latency.Floor)
			}
		})
	}
	for _, tt := range []struct {
		name string
		b    bench.Benchmark
		want string
	}{
		{"too few", bench.Benchmark{Program: "watch", MinRuns: 301}, "ran 300 times while the work was done, and min_runs is 301"},
	} {
		tt.b.Name, tt.b.Work = tt.b.Program+"/x", &bench.Work{}
		a, err := s.Attached(tt.b, place, &sender{t: t, traffic: traffic}, sides...)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if _, err := a.Round(0); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
		a.Close()
	}
	for program, want := range map[string]string{"unsaid": "does not say where unsaid hangs", "nobody": `no program "nobody"`} {
		if _, err := s.Attached(bench.Benchmark{Name: "x/y", Program: program, Work: &bench.Work{}}, place, nil, sides...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", program, err)
		}
	}
	if _, err := s.Attached(bench.Benchmark{Name: "x/y", Program: "watch", Work: &bench.Work{}, With: []string{"unsaid"}}, place, nil, sides...); err == nil || !strings.Contains(err.Error(), "does not say where unsaid hangs") {
		t.Errorf("a companion that hangs nowhere: %v", err)
	}
}

// A program that no work runs is an error that says what the kernel does not count.
func TestAttachedZeroRuns(t *testing.T) {
	testkernel.Require(t, testkernel.Clang, testkernel.Stats, testkernel.Net)
	testkernel.NoLeaks(t)
	s, err := NewSession(1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	o := macroObject(t, attachedSource)
	a, err := s.Attached(bench.Benchmark{Name: "watch/x", Program: "watch", Work: &bench.Work{}}, Place{Netns: ns, Interface: 1}, idle{}, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, err = a.Round(0)
	for _, want := range []string{"watch", "at socket, did not run once", "the work did nothing that runs it", "tail-called"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	testkernel.StatsOff(t, "after an error")
}

// Idle is no work at all.
type idle struct{}

func (idle) Ready(int) (Turn, error) { return idle{}, nil }
func (idle) Do() ([]float64, error)  { return nil, nil }
func (idle) Close() error            { return nil }

// Before tcx, a classifier stays on its interface until it is taken away.
func TestFilterHookCloses(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	testkernel.NoLeaks(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	p, err := ebpf.NewProgram(emptyLike(&ebpf.ProgramSpec{Type: ebpf.SchedCLS}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	err = netns.Do(ns, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		h, err := newFilterHook(lo.Attrs().Index, ingress)
		if err != nil {
			return err
		}
		for _, step := range []struct {
			do   func() error
			want int
		}{
			{func() error { return h.put(p) }, 1},
			{func() error { return h.put(p) }, 1},
			{h.close, 0},
			{func() error { return h.put(p) }, 1},
		} {
			if err := step.do(); err != nil {
				return err
			}
			found, err := netlink.FilterList(lo, netlink.HANDLE_MIN_INGRESS)
			if err != nil {
				return err
			}
			if len(found) != step.want {
				t.Errorf("%d filters, want %d", len(found), step.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
