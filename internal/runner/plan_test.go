//go:build linux

package runner

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// sideOf is one side, of a source without its includes.
func sideOf(t *testing.T, source string) Side {
	t.Helper()
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun, testkernel.Net, testkernel.Clang)
	dir := t.TempDir()
	src, obj := filepath.Join(dir, "t.bpf.c"), filepath.Join(dir, "t.bpf.o")
	source = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\nchar LICENSE[] SEC(\"license\") = \"GPL\";\n" + source
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("clang", "-O2", "-g", "-target", "bpf", "-I", testkernel.IncludeDir(), "-c", src, "-o", obj).CombinedOutput(); err != nil {
		t.Fatalf("clang: %v\n%s", err, out)
	}
	o, err := bpf.OpenObject(obj)
	if err != nil {
		t.Fatal(err)
	}
	return Side{Name: "head", Objects: []Object{{Name: "t.bpf.o", Object: o}}}
}

// What nobody configured is not measured on a full queue: the kernel's answer to a push
// into one is another, and the first reading would have filled it.
func TestBuiltInDrains(t *testing.T) {
	head := sideOf(t, `
struct { __uint(type, BPF_MAP_TYPE_QUEUE); __type(value, __u32); __uint(max_entries, 1500); } queue SEC(".maps");
SEC("xdp") int push(struct xdp_md *c) { __u32 n = 1; return bpf_map_push_elem(&queue, &n, 0) ? XDP_DROP : XDP_PASS; }
SEC("xdp") int nothing(struct xdp_md *c) { return XDP_PASS; }
`)
	packets := [][]byte{make([]byte, 60)}
	benchmarks, skips := BuiltIn(&head, packets)
	if len(benchmarks) != 2 || len(skips) != 0 || benchmarks[0].Drain != nil || !slices.Equal(benchmarks[1].Drain, []string{"queue"}) {
		t.Fatalf("%+v, %+v", benchmarks, skips)
	}
	res, err := Run(context.Background(), Plan{Sides: []Side{head}, Benchmarks: benchmarks, Policy: gate.DefaultPolicy(), Seed: 1, Time: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Head.Skipped; len(s) > 1 || len(s) == 1 && s[0].Name != "hardware counters" {
		t.Errorf("%+v", res.Head.Skipped)
	}
}

// Whoever asks to stop does not wait for what can be left out.
func TestStopsBeforeTheFirstRound(t *testing.T) {
	head := sideOf(t, `SEC("xdp") int nothing(struct xdp_md *c) { return XDP_PASS; }`)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if res, err := Run(ctx, Plan{Sides: []Side{head}, Policy: gate.DefaultPolicy(), Seed: 1, Time: time.Now()}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", res, err)
	}
}
