//go:build linux

package bpf

import (
	"fmt"
	"slices"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func TestDrainable(t *testing.T) {
	o := compileForTest(t, fmt.Sprintf(events, 4))
	for program, want := range map[string][]string{
		"queue_prog": {"queue"}, "stack_prog": {"stack"}, "ring_prog": {"ring"}, "perf_prog": {"perf"},
		"hash_prog": nil, "lru_prog": nil, "array_prog": nil, "nobody": nil,
	} {
		if got := o.Drainable(program); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
}

// Base may be older than a map that head's queue is drained of, or the other way
// round. A map that no side has is a mistake.
func TestDrainOfOneSide(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun, testkernel.Net) // probes leave a thread
	testkernel.NoLeaks(t)
	s := newTestSession(t)
	without := compileForTest(t, `SEC("xdp") int prog(struct xdp_md *c) { return XDP_PASS; }`)
	with := compileForTest(t, `
struct { __uint(type, BPF_MAP_TYPE_QUEUE); __type(value, __u32); __uint(max_entries, 2000); } queue SEC(".maps");
SEC("xdp") int prog(struct xdp_md *c) { __u32 n = 1; return bpf_map_push_elem(&queue, &n, 0) ? XDP_DROP : XDP_PASS; }`)
	b := bench.Benchmark{Name: "prog/x", Program: "prog", Packets: ipv4(1), Drain: []string{"queue"}}
	for _, sides := range [][]Side{{{"base", without}, {"head", with}}, {{"base", with}, {"head", without}}} {
		m, err := s.Micro(b, sides...)
		if err != nil {
			t.Fatal(err)
		}
		for r := range 3 {
			if _, err := m.Round(r); err != nil {
				t.Error(err)
			}
		}
		m.Close()
	}
	if m, err := s.Micro(b, Side{"base", without}, Side{"head", without}); err == nil {
		m.Close()
		t.Error("a map that nobody has was drained")
	}
}

// Events with times in them differ from run to run, and base from base: no reason to
// say that head gives other results.
func TestEventsOfChance(t *testing.T) {
	s := newTestSession(t)
	source := `
struct { __uint(type, BPF_MAP_TYPE_QUEUE); __type(value, __u64); __uint(max_entries, 2000); } queue SEC(".maps");
SEC("xdp") int prog(struct xdp_md *c) { __u64 n = %s; bpf_map_push_elem(&queue, &n, 0); return XDP_PASS; }`
	clock, other := compileForTest(t, fmt.Sprintf(source, "bpf_ktime_get_ns()")), compileForTest(t, fmt.Sprintf(source, "bpf_ktime_get_ns() + 1"))
	one, two := compileForTest(t, fmt.Sprintf(source, "1")), compileForTest(t, fmt.Sprintf(source, "2"))
	b := bench.Benchmark{Name: "prog/x", Program: "prog", Packets: ipv4(2), Drain: []string{"queue"}}
	for _, c := range []struct {
		base, head *Object
		warnings   int
	}{{clock, other, 0}, {one, two, 1}, {one, one, 0}} {
		m, err := s.Micro(b, Side{"base", c.base}, Side{"head", c.head}, Side{"base, moved,", c.base.Shifted(5)})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Warnings) != c.warnings {
			t.Errorf("warnings %q, want %d", m.Warnings, c.warnings)
		}
		m.Close()
	}
}
