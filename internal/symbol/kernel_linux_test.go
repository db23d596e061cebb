package symbol

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// TestKernelAsItself compares every function that the kernel lists with its name there, at its first
// byte and behind it.
func TestKernelAsItself(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kernel, err := ReadKernel()
	if err != nil {
		t.Fatal(err)
	}
	names := map[uint64][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if addr, _ := strconv.ParseUint(fields[0], 16, 64); addr>>63 == 1 && strings.Contains("tTwW", fields[1]) && !strings.Contains(lines.Text(), "bpf") {
			names[addr] = append(names[addr], fields[2])
		}
	}
	bad := 0
	for addr, list := range names {
		frame := kernel.Frames(addr)[0]
		found := false
		for _, name := range list {
			found = found || frame.Function == name
		}
		if !found || frame.Offset != 0 || frame.Kind != KindKernel {
			if bad++; bad < 5 {
				t.Errorf("%#x: %+v, want one of %v", addr, frame, list)
			}
		}
	}
	if bad > 0 || len(names) < 10000 {
		t.Errorf("%d of %d functions have other names", bad, len(names))
	}
	if f := kernel.Frames(0xffffffffffffffff)[0]; f.Kind != KindUnknown || f.Function != "" {
		t.Errorf("%+v", f)
	}
}

// TestProgramLines loads a program of two functions and finds its lines behind the addresses of
// its machine code, though it was loaded after the kernel was read.
func TestProgramLines(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.BTF, testkernel.Clang)
	kernel, err := ReadKernel()
	if err != nil {
		t.Fatal(err)
	}
	object := build(t, "clang", "-target", "bpf", "-O2", "-g", "-c", "testdata/lines.bpf.c", "-o", "OUT")
	spec, err := ebpf.LoadCollectionSpec(object)
	if err != nil {
		t.Fatal(err)
	}
	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer collection.Close()
	info, err := collection.Programs["outer"].Info()
	if err != nil {
		t.Fatal(err)
	}
	starts, ok := info.JitedKsymAddrs()
	sizes, _ := info.JitedFuncLens()
	if !ok || len(starts) != 2 {
		t.Skip("the kernel shows no JITed code")
	}
	kernel.listed = time.Now().Add(-time.Hour) // as if a second had gone
	for i, want := range []struct {
		function string
		lines    []int
	}{{"outer", []int{11, 13, 14}}, {"inner", []int{6}}} {
		seen := map[int]bool{}
		for addr := uint64(starts[i]); addr < uint64(starts[i])+uint64(sizes[i]); addr++ {
			f := kernel.Frames(addr)[0]
			if f.Function != want.function || f.Kind != KindBPF || f.Offset != addr-uint64(starts[i]) || !strings.HasPrefix(f.Module, "bpf_prog_") {
				t.Fatalf("%+v, want %s", f, want.function)
			}
			if f.Line > 0 && !strings.HasSuffix(f.File, "lines.bpf.c") {
				t.Errorf("%+v", f)
			}
			seen[f.Line] = true
		}
		for _, n := range want.lines {
			if !seen[n] {
				t.Errorf("%s has no line %d, but %v", want.function, n, seen)
			}
		}
	}
	collection.Close()
	if f := kernel.Frames(uint64(starts[0]) + 4)[0]; f.Function != "outer" || f.Line == 0 {
		t.Errorf("after the program's end: %+v", f)
	}
}
