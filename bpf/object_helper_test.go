//go:build linux

package bpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// distributionObjects lists the object files that xdp-tools installs.
func distributionObjects(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"/usr/lib/*/bpf/*.o", "/usr/lib/bpf/*.o", "/usr/lib64/bpf/*.o"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

const prelude = `#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
char LICENSE[] SEC("license") = "Dual BSD/GPL";
`

// compileForTest compiles eBPF C, which follows the usual includes and a licence.
func compileForTest(t testing.TB, source string) *Object {
	t.Helper()
	o, err := OpenObject(compileFile(t, source))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func compileFile(t testing.TB, source string) string {
	t.Helper()
	testkernel.Require(t, testkernel.Clang)
	dir := t.TempDir()
	src, obj := filepath.Join(dir, "t.bpf.c"), filepath.Join(dir, "t.bpf.o")
	if err := os.WriteFile(src, []byte(prelude+source), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("clang", "-O2", "-g", "-target", "bpf", "-I", testkernel.IncludeDir(), "-c", src, "-o", obj).CombinedOutput()
	if err != nil {
		t.Fatalf("clang: %v\n%s", err, out)
	}
	return obj
}
