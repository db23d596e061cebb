//go:build linux

package bpf

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
)

// A program that throws dice over its answer is measured, all the same: times, and
// the means of what it executes.
func TestChance(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/insns.bpf.c")
	for _, program := range []string{"xdp_whim", "xdp_sampled", "xdp_rarely"} {
		m, err := s.Micro(bench.Benchmark{Name: "x/" + program, Program: program, Packets: ipv4(3)}, Side{"base", o}, Side{"head", o})
		if err != nil {
			t.Fatal(err)
		}
		in, err := m.Insns()
		if err != nil {
			t.Errorf("%s: %v", program, err)
			m.Close()
			continue
		}
		var sampled []float64
		for round := range 5 {
			samples, err := m.Round(round)
			if err != nil || samples[0].Value <= 0 {
				t.Fatalf("%s: %v, %v", program, samples, err)
			}
			means, err := m.InsnsRound(round, 2)
			if err != nil {
				t.Fatalf("%s: %v", program, err)
			}
			sampled = append(sampled, means[0][bench.Insns], means[1][bench.Insns])
		}
		if program == "xdp_whim" && (in.Noise != "" || slices.Min(sampled) != 2 || slices.Max(sampled) != 2) {
			t.Errorf("%s always executes 2 instructions: %v, %q", program, sampled, in.Noise)
		}
		// Of a thousand runs some 250 are the longer ones, or one.
		if program == "xdp_sampled" && slices.Min(sampled) == slices.Max(sampled) {
			t.Errorf("%s: samples are all %v", program, sampled[0])
		}
		const warning = "does not always give the same answer to the same packets; it uses bpf_"
		if program == "xdp_whim" && !slices.ContainsFunc(m.Warnings, func(w string) bool { return strings.Contains(w, warning) }) {
			t.Errorf("%s: warnings %q", program, m.Warnings)
		}
		m.Close()
	}
}

// A side that differs from itself says so, and nothing of how it differs from others.
func TestChanceOfTwins(t *testing.T) {
	s := newTestSession(t)
	o, other := compile(t, "testdata/insns.bpf.c"), compile(t, "testdata/insns.bpf.c")
	m, err := s.Micro(bench.Benchmark{Name: "x/y", Program: "xdp_whim", Packets: ipv4(40)}, Side{"base", o}, Side{"head", other}, Side{"again", o})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(m.Warnings) != 1 || !strings.HasPrefix(m.Warnings[0], "base does not always give the same answer") {
		t.Errorf("warnings %q", m.Warnings)
	}
	if _, err := m.Round(0); err != nil {
		t.Error(err)
	}
	if len(m.Warnings) != 1 {
		t.Errorf("warnings %q", m.Warnings)
	}
}

// What a program remembers is no chance, even where it asks for the time.
func TestChanceIsNotMemory(t *testing.T) {
	s := newTestSession(t)
	m, err := s.Micro(bench.Benchmark{Name: "x/y", Program: "xdp_hundred", Packets: ipv4(3)}, Side{"head", compile(t, "testdata/insns.bpf.c")})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, err = m.Round(0)
	var d *bench.Diagnostic
	if !errors.As(err, &d) || !strings.Contains(d.Message, "answered XDP_PASS for packet 2 at first and XDP_DROP after") || !strings.Contains(d.Hint, "bpf_ktime_get_ns") {
		t.Errorf("%v", err)
	}
	if len(m.Warnings) != 0 {
		t.Errorf("warnings %q", m.Warnings)
	}
}
