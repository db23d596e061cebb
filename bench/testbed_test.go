package bench

import (
	"slices"
	"testing"
)

func TestTestbedSlug(t *testing.T) {
	azure := Testbed{Kernel: "6.11.0-1018-azure", Arch: "amd64", CPU: "AMD EPYC 7763 64-Core Processor", CPUs: 4, JIT: true, Virtualization: "kvm"}
	for _, tt := range []struct {
		name string
		edit func(*Testbed)
		want string
	}{
		{"hosted runner", func(*Testbed) {}, "linux6.11-amd64-amd-epyc-7763-4cpu-kvm"},
		{"patch release", func(b *Testbed) { b.Kernel = "6.11.9-arch1" }, "linux6.11-amd64-amd-epyc-7763-4cpu-kvm"},
		{"clang", func(b *Testbed) { b.Clang = "18.1.3" }, "linux6.11-amd64-amd-epyc-7763-4cpu-kvm"},
		{"user's name, as it is", func(b *Testbed) { b.Name = "Lab #3" }, "Lab #3"},
		{"interpreted", func(b *Testbed) { b.JIT = false }, "linux6.11-amd64-amd-epyc-7763-4cpu-kvm-nojit"},
		{"hardened", func(b *Testbed) { b.Hardened = true }, "linux6.11-amd64-amd-epyc-7763-4cpu-kvm-hardened"},
		{"noise in the model name", func(b *Testbed) { b.CPU = "Intel(R) Xeon(R) CPU E5-2673 v4 @ 2.30GHz" }, "linux6.11-amd64-intel-xeon-e5-2673-v4-4cpu-kvm"},
		{"path in the model name", func(b *Testbed) { b.CPU = "../../etc" }, "linux6.11-amd64-etc-4cpu-kvm"},
		{"nothing known", func(b *Testbed) { *b = Testbed{} }, "linuxunknown-unknown-unknown-nojit"},
		{"odd release", func(b *Testbed) { b.Kernel = "next" }, "linuxnext-amd64-amd-epyc-7763-4cpu-kvm"},
	} {
		b := azure
		tt.edit(&b)
		if got := b.Slug(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTestbedDifferences(t *testing.T) {
	a := Testbed{Name: "lab", Kernel: "6.11.0-1018-azure", Arch: "amd64", CPU: "EPYC", CPUs: 4, JIT: true, Clang: "14"}
	b := a
	b.Kernel, b.Clang = "6.11.3", "18"
	if d := a.Differences(b); d != nil || !a.Equal(b) {
		t.Errorf("patch release and clang: %q, want none", d)
	}
	b = Testbed{Kernel: "6.8", Arch: "arm64", CPU: "Neoverse", CPUs: 2, Hardened: true, Virtualization: "kvm"}
	want := []string{
		"testbed lab and none",
		"kernel 6.11 and 6.8",
		"arch amd64 and arm64",
		"cpu EPYC and Neoverse",
		"number of cpus 4 and 2",
		"jit on and off",
		"spectre hardening off and on",
		"virtualization none and kvm",
	}
	if d := a.Differences(b); !slices.Equal(d, want) || a.Equal(b) {
		t.Errorf("got  %q\nwant %q", d, want)
	}
}

func TestHasKernel(t *testing.T) {
	b := Testbed{Kernel: "6.11.0-1018-azure"}
	for pattern, want := range map[string]bool{
		"6.11": true, "6.*": true, "6.1": false, "6.11.0-*-azure": true, "*-azure": true, "": false, "[": false, "6.11.0": false,
	} {
		if got := b.HasKernel(pattern); got != want {
			t.Errorf("%q: %v, want %v", pattern, got, want)
		}
	}
}
