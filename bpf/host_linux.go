package bpf

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// Testbed describes this host and what this process may do on it. Name and Clang
// are left to the caller. It needs no privilege, and is more certain with some:
// whether programs are compiled is found out by loading one where that is
// allowed, and else read from sysctls, which a container may not see.
func Testbed() (bench.Testbed, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return bench.Testbed{}, fmt.Errorf("read the kernel's version: %w", err)
	}
	h := thisHost()
	return bench.Testbed{
		Kernel: unix.ByteSliceToString(u.Release[:]), Arch: runtime.GOARCH, CPU: h.cpuModel(), CPUs: h.cpus(),
		JIT: h.jit(), Hardened: len(h.hardening(capabilities())) > 0, Virtualization: h.virtualization(),
	}, nil
}

// jit tells whether programs are compiled.
func (h host) jit() bool {
	if p, err := loadPass(ebpf.XDP); err == nil {
		defer p.Close()
		if info, err := p.Info(); err == nil {
			n, err := info.JitedSize()
			return err == nil && n > 0
		}
	}
	if s := h.text("proc/sys/net/core/bpf_jit_enable"); s != "" {
		return s != "0"
	}
	// Not visible: another network namespace. Without CONFIG_BPF_JIT_ALWAYS_ON
	// the compiler may have been switched off; by default it is on.
	config := h.kconfig()
	return config["CONFIG_BPF_JIT"] == "y" || len(config) == 0
}

// hardening says why programs of this process get slower code than those of
// root: nil where they do not.
func (h host) hardening(caps capSet) (why []string) {
	// bpf_jit_blinding_enabled (include/linux/filter.h): 1 spares CAP_BPF.
	switch harden := h.text("proc/sys/net/core/bpf_jit_harden"); {
	case harden == "2":
		why = append(why, "net.core.bpf_jit_harden is 2: constants are blinded")
	case harden == "1" && !caps.any(unix.CAP_BPF, unix.CAP_SYS_ADMIN):
		why = append(why, "net.core.bpf_jit_harden is 1, and this process lacks CAP_BPF: constants are blinded")
	}
	// bpf_bypass_spec_v1 (include/linux/bpf.h): mitigations=off spares everybody.
	if !caps.any(unix.CAP_PERFMON, unix.CAP_SYS_ADMIN) && !strings.Contains(" "+h.text("proc/cmdline")+" ", " mitigations=off ") {
		why = append(why, "this process lacks CAP_PERFMON: Spectre mitigations are put into its programs")
	}
	return why
}

// hidesCode says why this process is not shown where its programs' machine code is.
func (h host) hidesCode(caps capSet) string {
	// kallsyms_show_value (kernel/ksyms_common.c) of who loaded the program: 2 hides from all, 0 shows
	// it to those as well who may profile the kernel.
	restrict := h.text("proc/sys/kernel/kptr_restrict")
	switch {
	case restrict == "2":
		return "kernel.kptr_restrict is 2; root is shown it with 1 or 0"
	case !caps.any(unix.CAP_SYSLOG):
		return "this process lacks CAP_SYSLOG; in a container: --cap-add SYSLOG, or --privileged"
	case h.text("proc/sys/net/core/bpf_jit_enable") == "0":
		return "there is none, as net.core.bpf_jit_enable is 0"
	}
	return "it may be interpreted (net.core.bpf_jit_enable), or hidden (kernel.kptr_restrict)"
}

// A capSet is the effective capabilities of this process.
type capSet uint64

func capabilities() capSet {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return 0
	}
	return capSet(data[0].Effective) | capSet(data[1].Effective)<<32
}

// any tells whether one of the capabilities is there.
func (c capSet) any(caps ...int) bool {
	for _, n := range caps {
		if c>>n&1 == 1 {
			return true
		}
	}
	return false
}

// Limits above which a host is told to be noisy.
const (
	stealLimit  = 0.05 // of CPU time, now
	stealWindow = 200 * time.Millisecond
)

// Warnings are short doubts about this host, for reports: what may make its
// numbers noisy or few. None does not mean a quiet host. It takes 0.2 s, in which
// it watches the CPU time that the hypervisor takes away.
func Warnings() []string {
	h := thisHost()
	before := h.cpuTimes()
	time.Sleep(stealWindow)
	return h.warnings(before, h.cpuTimes())
}

func (h host) warnings(before, after cpuTimes) []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if v := h.kernel(); v != (version{}) && v.less(targetKernel) {
		warn("Linux %s is older than %s: some measures are missing", v, targetKernel)
	}
	cpus := h.cpus()
	if cpus == 1 {
		warn("only 1 CPU: everything else on this host interrupts the measuring")
	}
	if load, ok := h.load(); ok && load > float64(cpus) {
		warn("load %.1f on %d CPUs: other work shares the CPUs", load, cpus)
	}
	if share := after.stolen(before); share > stealLimit {
		warn("the hypervisor takes away %.0f%% of the CPU time now", 100*share)
	}
	if g := h.governors(); len(g) > 0 && g[0] != "performance" {
		warn("CPU frequency governor %s: the clock follows the load", strings.Join(g, ", "))
	}
	if h.text("proc/sys/kernel/bpf_stats_enabled") == "1" {
		warn("kernel.bpf_stats_enabled is 1: it adds about 70 ns to every run; sysctl kernel.bpf_stats_enabled=0")
	}
	if h.virtualization() != "" && h.unsteadyClock() {
		warn("the virtual CPU has no constant_tsc: its clock may change its pace")
	}
	return all
}

// unsteadyClock tells that an x86 CPU does not promise a counter of constant pace.
func (h host) unsteadyClock() bool {
	info := h.text("proc/cpuinfo")
	return strings.Contains(info, "\nflags\t") && !strings.Contains(info, " constant_tsc")
}

// A version is a kernel's major and minor version.
type version struct{ major, minor int }

// What the project asks of kernels.
var (
	leastKernel  = version{5, 8}
	targetKernel = version{5, 15}
)

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v version) less(o version) bool {
	return v.major < o.major || v.major == o.major && v.minor < o.minor
}

// kernel is the running kernel's version; zero where it cannot be told.
func (h host) kernel() version {
	var v version
	if _, err := fmt.Sscanf(h.text("proc/sys/kernel/osrelease"), "%d.%d", &v.major, &v.minor); err != nil {
		return version{}
	}
	return v
}

// load is the load average of the last minute.
func (h host) load() (float64, bool) {
	first, _, _ := strings.Cut(h.text("proc/loadavg"), " ")
	load, err := strconv.ParseFloat(first, 64)
	return load, err == nil
}

// governors are the frequency governors in use; any but "performance" come first.
func (h host) governors() []string {
	all := h.texts(cpuDir + "cpu[0-9]*/cpufreq/scaling_governor")
	var fixed, others []string
	for _, g := range all {
		if g == "performance" {
			fixed = append(fixed, g)
		} else {
			others = append(others, g)
		}
	}
	return append(others, fixed...)
}

// cpuTimes are the first line of /proc/stat, in ticks of 1/100 s over all CPUs.
type cpuTimes struct{ total, steal uint64 }

func (h host) cpuTimes() cpuTimes {
	line, _, _ := strings.Cut(h.text("proc/stat"), "\n")
	var t cpuTimes
	// user nice system idle iowait irq softirq steal; guest times are in user.
	for i, s := range strings.Fields(strings.TrimPrefix(line, "cpu ")) {
		n, _ := strconv.ParseUint(s, 10, 64)
		if i < 8 {
			t.total += n
		}
		if i == 7 {
			t.steal = n
		}
	}
	return t
}

// stolen is the share of the time since before that the hypervisor took away, 0
// to 1.
func (t cpuTimes) stolen(before cpuTimes) float64 {
	if t.total <= before.total || t.steal < before.steal {
		return 0
	}
	return float64(t.steal-before.steal) / float64(t.total-before.total)
}

// maxKconfig bounds what is read of a kernel's configuration.
const maxKconfig = 8 << 20

// kconfig is the running kernel's configuration; empty where it cannot be read.
func (h host) kconfig() map[string]string {
	names := []string{"proc/config.gz"}
	if release := h.text("proc/sys/kernel/osrelease"); release != "" {
		names = append(names, "boot/config-"+release, "lib/modules/"+release+"/config", "usr/lib/modules/"+release+"/config")
	}
	for _, name := range names {
		f, err := h.Open(name)
		if err != nil {
			continue
		}
		config := readKconfig(io.LimitReader(f, maxKconfig))
		f.Close()
		if len(config) > 0 {
			return config
		}
	}
	return nil
}

// loadPass loads a program that does nothing.
func loadPass(typ ebpf.ProgramType) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(emptyLike(&ebpf.ProgramSpec{Type: typ}))
	if err != nil {
		return nil, explainLoad(typ, err)
	}
	return p, nil
}
