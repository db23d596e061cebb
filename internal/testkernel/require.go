package testkernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Feature is something that a kernel test needs from its host.
type Feature string

// The features. Each is probed by doing it, never by a version number.
const (
	BPF     Feature = "bpf"      // load programs: root or CAP_BPF and friends
	TestRun Feature = "test-run" // BPF_PROG_TEST_RUN of XDP
	Stats   Feature = "stats"    // BPF_ENABLE_STATS, Linux 5.8
	BTF     Feature = "btf"      // the kernel's own type information
	Net     Feature = "netns"    // make a network namespace and a veth pair in it
	Kprobe  Feature = "kprobe"   // attach to the entry of a kernel function
	Fentry  Feature = "fentry"   // attach a trampoline to a kernel function
	PMU     Feature = "pmu"      // count CPU cycles in hardware

	Clang    Feature = "clang" // compile for BPF, with libbpf's and the kernel's headers
	Git      Feature = "git"
	Docker   Feature = "docker" // an engine that answers
	BPFTool  Feature = "bpftool"
	XDPTools Feature = "xdp-tools"    // the objects that the distribution installs
	QEMU     Feature = "qemu"         // emulate an x86-64, on one
	BPFTools Feature = "libbpf-tools" // agents that carry their objects inside them
	Veristat Feature = "veristat"     // in Debian from 13 on
	Browser  Feature = "browser"      // Chromium, without a window
)

// Names of the environment variables that police skips.
const (
	EnvRequire = "GATE_REQUIRE_KERNEL"
	EnvAllow   = "GATE_ALLOW_SKIP"
)

// Require skips the test, with the reason, unless the host has every feature.
// With GATE_REQUIRE_KERNEL=1 it fails the test instead, save for features that
// GATE_ALLOW_SKIP names.
func Require(t testing.TB, features ...Feature) {
	t.Helper()
	allowed, err := allowList(os.Getenv(EnvAllow))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range features {
		err := Probe(f)
		if err == nil {
			continue
		}
		if os.Getenv(EnvRequire) == "1" && !slices.Contains(allowed, f) {
			t.Fatalf("%s=1 and this host has no %s: %v", EnvRequire, f, err)
		}
		t.Skipf("needs %s: %v", f, err)
	}
}

// Probe tells why the host lacks a feature; nil is that it has it. The host is
// asked once a process.
func Probe(f Feature) error {
	probe, ok := probes[f]
	if !ok {
		return fmt.Errorf("testkernel: no feature %q", f)
	}
	return probe()
}

// Features lists every feature, by name.
func Features() []Feature {
	all := make([]Feature, 0, len(probes))
	for f := range probes {
		all = append(all, f)
	}
	slices.Sort(all)
	return all
}

// allowList reads GATE_ALLOW_SKIP. A name that is no feature is an error: a
// typing mistake must not quietly forbid or allow anything.
func allowList(s string) ([]Feature, error) {
	var allowed []Feature
	for name := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		if _, ok := probes[Feature(name)]; !ok {
			return nil, fmt.Errorf("%s: %q is none of %v", EnvAllow, name, Features())
		}
		allowed = append(allowed, Feature(name))
	}
	return allowed, nil
}

// probes holds every feature's probe, each of which asks the host only once.
var probes = map[Feature]func() error{
	BPF:      sync.OnceValue(probeBPF),
	TestRun:  sync.OnceValue(probeTestRun),
	Stats:    sync.OnceValue(probeStats),
	BTF:      sync.OnceValue(probeBTF),
	Net:      sync.OnceValue(probeNet),
	Kprobe:   sync.OnceValue(probeKprobe),
	Fentry:   sync.OnceValue(probeFentry),
	PMU:      sync.OnceValue(probePMU),
	Clang:    sync.OnceValue(probeClang),
	Git:      sync.OnceValue(func() error { return command("git", "--version") }),
	Docker:   sync.OnceValue(func() error { return command("docker", "version", "--format", "{{.Server.Version}}") }),
	BPFTool:  sync.OnceValue(func() error { return command("bpftool", "version") }),
	XDPTools: sync.OnceValue(func() error { return files("/usr/lib/*/bpf/xdp*.o", "/usr/lib/bpf/xdp*.o", "/usr/lib64/bpf/xdp*.o") }),
	QEMU:     sync.OnceValue(probeQEMU),
	BPFTools: sync.OnceValue(probeBPFTools),
	Browser:  sync.OnceValue(probeBrowser),
	Veristat: sync.OnceValue(func() error { return command("veristat", "--version") }),
}
