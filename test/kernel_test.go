package test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
	"github.com/org/ebpf-bench-gate/internal/vm"
)

// haveKernel skips, or under GATE_REQUIRE_KERNEL=1 fails, where a kernel cannot be had.
func haveKernel(t *testing.T, name string) {
	t.Helper()
	testkernel.Require(t, testkernel.QEMU)
	_, err := vm.FindKernel(t.Context(), name, func(text string) { t.Log(text) })
	switch {
	case err == nil:
	case os.Getenv(testkernel.EnvRequire) == "1":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// envRepeat is how often TestKernelRepeated boots; its default is for those who wait.
const envRepeat = "GATE_REPEAT"

// TestKernelRepeated holds that every exact number is the same to the digit in every
// boot and from every snapshot, with a busy loop on every CPU of the host. Every other
// run boots, since two snapshots of one machine may differ (docs/kernels.md).
func TestKernelRepeated(t *testing.T) {
	testkernel.Require(t, testkernel.Clang)
	haveKernel(t, "6.12")
	testkernel.NoLeaks(t)
	times := 3
	if s := os.Getenv(envRepeat); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 2 {
			t.Fatalf("%s=%s is no number of times", envRepeat, s)
		}
		times = n
	}
	gate, err := staticGate()
	if err != nil {
		t.Fatal(err)
	}
	for range runtime.NumCPU() {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		}()
	}
	kernels, err := vm.Cache()
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	if err := os.MkdirAll(filepath.Join(cache, "ebpf-bench-gate"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kernels, filepath.Join(cache, "ebpf-bench-gate", "kernels")); err != nil {
		t.Fatal(err)
	}
	example := filepath.Join("..", "examples", "fun-xdp")
	var first map[string][2]float64
	for i := range times {
		if i%2 == 0 {
			if err := os.RemoveAll(filepath.Join(cache, "ebpf-bench-gate", "snapshots")); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(gate, "run", "--kernel", "6.12", "--no-store", "--format", "json", "--config", filepath.Join(example, "ebpf-bench.yml"),
			"--base", filepath.Join(example, "v2_fizzbuzz.bpf.c"), filepath.Join(example, "v3_fibonacci.bpf.c"))
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != 1 { // v3 is a regression
			t.Fatalf("exit %d, %v", code, err)
		}
		var report struct {
			Comparisons []struct {
				Benchmark, Measure string
				Base, Head         float64
				Exact              bool
			}
		}
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatal(err)
		}
		numbers := map[string][2]float64{}
		for _, c := range report.Comparisons {
			if c.Exact {
				numbers[c.Benchmark+" "+c.Measure] = [2]float64{c.Base, c.Head}
			}
		}
		if numbers["fun_xdp/worst kernel_insns"][0] == 0 {
			t.Fatalf("no kernel_insns in %v", numbers)
		}
		if first == nil {
			first = numbers
		}
		if !maps.Equal(first, numbers) {
			t.Fatalf("run %d: %v\nat first %v", i, numbers, first)
		}
	}
	t.Logf("%d times: fun_xdp/worst kernel_insns %v, fun_xdp/addresses %v", times, first["fun_xdp/worst kernel_insns"], first["fun_xdp/addresses kernel_insns"])
}
