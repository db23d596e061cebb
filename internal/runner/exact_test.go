//go:build linux

package runner

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

const source = `#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("xdp") int work(struct xdp_md *ctx) {
	volatile __u32 n = ctx->ingress_ifindex;
	__u32 sum = n;
#ifdef HEAD
	sum |= n; /* head */
#endif
	return sum ? XDP_PASS : XDP_DROP;
}
SEC("xdp") int chance(struct xdp_md *ctx) {
	int n = bpf_get_prandom_u32() & 0xfff, sum = 0;
	for (int i = 0; i < 0xfff && i < n; i++)
		asm volatile("%0 += 1" : "+r"(sum));
	return XDP_PASS;
}
char LICENSE[] SEC("license") = "GPL";
`

func side(t *testing.T, name string, flags ...string) Side {
	t.Helper()
	dir := t.TempDir()
	src, obj := filepath.Join(dir, "t.bpf.c"), filepath.Join(dir, "t.bpf.o")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O2", "-g", "-target", "bpf", "-I", testkernel.IncludeDir(), "-c", src, "-o", obj}, flags...)
	if out, err := exec.Command("clang", args...).CombinedOutput(); err != nil {
		t.Fatalf("clang: %v\n%s", err, out)
	}
	o, err := bpf.OpenObject(obj)
	if err != nil {
		t.Fatal(err)
	}
	return Side{Name: name, Objects: []Object{{Name: "t.bpf.o", Object: o}}}
}

// A few more instructions are seen, with the line, whatever time says of it.
func TestExact(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun, testkernel.Net, testkernel.Clang)
	policy := gate.DefaultPolicy()
	policy.Budget = time.Second
	packet := make([]byte, 60)
	res, err := Run(context.Background(), Plan{
		Sides:      []Side{side(t, "base"), side(t, "head", "-DHEAD")},
		Benchmarks: []bench.Benchmark{{Name: "work/x", Program: "work", Packets: [][]byte{packet}}, {Name: "chance/x", Program: "chance", Packets: [][]byte{packet}}},
		Policy:     policy, Seed: 1, Time: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]*bench.Result{}
	for i := range res.Head.Results {
		r := &res.Head.Results[i]
		results[r.Benchmark+" "+r.Measure] = r
	}
	insns := results["work/x insns"]
	if insns == nil || len(insns.Samples) != 1 || len(insns.Looks) != 0 || insns.Worst != insns.Samples[0].Value {
		t.Fatalf("insns of head: %+v", insns)
	}
	if len(insns.Lines) == 0 || !strings.Contains(insns.Lines[0].Text, "/* head */") || !insns.Lines[0].New || insns.Lines[0].Executions != 1 {
		t.Errorf("lines %+v, want the added one", insns.Lines)
	}
	delta := 0.0
	for _, l := range insns.Lines {
		delta += l.Insns - l.BaseInsns
	}
	for _, c := range res.Report.Comparisons {
		if c.Benchmark == "work/x" && c.Measure == bench.Insns && (c.Base == nil || c.Head == nil || delta == 0 || *c.Head-*c.Base != delta || !c.Exact) {
			t.Errorf("%+v, lines differ by %v", c, delta)
		}
	}
	// What differs from load to load is judged by rounds, and its cause is named.
	chance, calls := results["chance/x insns"], results["chance/x calls[bpf_get_prandom_u32]"]
	if chance == nil || len(chance.Samples) < 10 || len(chance.Looks) == 0 || !strings.Contains(chance.Noisy, "it uses bpf_get_prandom_u32 (t.bpf.c:") {
		t.Fatalf("insns of a program that throws dice: %+v", chance)
	}
	if times := results["chance/x latency"]; len(times.Samples) != len(chance.Samples) {
		t.Errorf("%d samples of time, %d of instructions", len(times.Samples), len(chance.Samples))
	}
	if w := strings.Join(chance.Warnings, "\n"); !strings.Contains(w, "not exact, and judged as noisy: ") {
		t.Errorf("warnings %q", w)
	}
	if calls == nil || len(calls.Samples) != len(chance.Samples) || calls.Samples[0].Value != 1 {
		t.Errorf("one call a run: %+v", calls)
	}
	for _, s := range chance.Samples {
		// The mean of a thousand runs of up to 0xfff iterations, some ten instructions each.
		if s.Value < 3*0xfff || s.Value > 7*0xfff {
			t.Errorf("%+v, want about 5 × 0xfff", s)
		}
	}
	for _, c := range res.Report.Comparisons {
		if c.Benchmark == "chance/x" && c.Measure == bench.Insns && (c.Exact || c.Interval == nil || c.Rounds < 10) {
			t.Errorf("%+v, want a noisy row", c)
		}
	}
}
