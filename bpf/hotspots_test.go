package bpf

import (
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// TestHotspots finds the loop of version 3 with most of the time, and that it explains what
// version 3 takes longer than version 2.
func TestHotspots(t *testing.T) {
	if testing.Short() {
		t.Skip("samples are taken by time, and this clock counts instructions")
	}
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun, testkernel.Net) // whose probe may keep a thread
	testkernel.NoLeaks(t)
	s := newTestSession(t)
	v2, v3 := compile(t, "../examples/fun-xdp/v2_fizzbuzz.bpf.c"), compile(t, "../examples/fun-xdp/v3_fibonacci.bpf.c")
	worst := bench.Benchmark{Name: "fun_xdp/worst", Program: "fun_xdp", Packets: [][]byte{frame(0x0800, 255)}, Drain: []string{"SOURCE_ADDR_QUEUE"}}
	m, err := s.Micro(worst, Side{"base", v2}, Side{"head", v3})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	hot, err := m.Hotspots(t.Context(), 2, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	base, head := hot[0], hot[1]
	for _, h := range hot {
		t.Logf("%s: %d runs in %v, %d samples, %d in the program", h.Name, h.Runs, h.Took, h.Samples, h.Inside)
		if h.Inside < 20 || h.Inside > h.Samples || h.Runs < 1000 {
			t.Errorf("%s: %d runs, %d samples, %d in the program", h.Name, h.Runs, h.Samples, h.Inside)
		}
		var share float64
		for _, l := range h.Lines() {
			share += l.Share
		}
		if share < 0.9 || share > 1.0001 {
			t.Errorf("%s: %.3f of the time is of lines", h.Name, share)
		}
	}
	lines := ExplainTime(base, head)
	if len(lines) == 0 || !strings.Contains(lines[0].Text, "while (b < n)") || !lines[0].New || lines[0].Share < 0.5 || lines[0].BaseTime != 0 {
		t.Fatalf("%+v", lines)
	}
	for _, l := range lines {
		if strings.Contains(l.Text, "bpf_map_push_elem") && l.New {
			t.Errorf("a line that both have is new: %+v", l)
		}
	}
	// What head calls counts for the line that calls it.
	called := 0
	for _, f := range head.Functions {
		for _, hit := range f.Hits {
			l, ok := f.At(hit.Offset)
			for _, n := range hit.Calls {
				if ok && l.Line > 0 {
					called += n
				}
			}
		}
		if len(f.Code) == 0 {
			t.Errorf("%s has no machine code", f.Name)
		}
	}
	if called == 0 {
		t.Error("no sample is in a helper that version 3 calls")
	}
	if _, err := m.Hotspots(t.Context(), 3, time.Second); err == nil {
		t.Error("three of two sides were sampled")
	}
}
