package bpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Groups of checks, in the order of the doctor's report.
const (
	groupMeasures = "measures"
	groupCounters = "counters"
	groupPrograms = "programs"
	groupTools    = "tools"
	groupKernel   = "kernel"
	groupNoise    = "noise"
)

// Doctor tells what this host can measure, and what it depends on. What can be
// measured is found out by measuring: programs are loaded, driven and attached in
// a network namespace of their own, and are gone when Doctor returns, or is
// killed. Without privileges it says what they would be needed for.
//
// While another run measures on this host, Doctor leaves out what would disturb
// it, and says so. It takes about a second; when ctx ends, it returns with what
// it has found so far.
func Doctor(ctx context.Context) []Check {
	h := thisHost()
	d := &doctor{ctx: ctx, host: h, config: h.kconfig(), caps: capabilities()}
	before := h.cpuTimes()
	start := time.Now()

	busy, release := d.lock()
	defer release()
	d.measures(busy)
	d.programs()
	if ctx.Err() == nil {
		d.clang()
	}
	d.kernel()
	d.noise(before, start, busy)
	return d.checks
}

// WatchNoise begins to watch what makes this host's numbers noisy; the function that
// it returns tells, for the time since, what [Doctor] tells in its group "noise".
func WatchNoise(ctx context.Context) (since func() []Check) {
	d := &doctor{ctx: ctx, host: thisHost()}
	before, start := d.cpuTimes(), time.Now()
	return func() []Check {
		d.noise(before, start, "")
		return d.checks
	}
}

type doctor struct {
	host
	ctx    context.Context
	config map[string]string
	caps   capSet
	checks []Check
}

// lock takes the host's lock if it is free, and else tells who has it.
func (d *doctor) lock() (busy string, release func()) {
	now, cancel := context.WithCancel(d.ctx)
	cancel() // try once
	release, err := LockHost(now, func(owner string) { busy = owner })
	if err != nil {
		return busy, func() {}
	}
	return "", release
}

// add files a check. Once ctx has ended nothing is: what a probe that was cut
// short found is no finding.
func (d *doctor) add(group, name string, state State, detail, hint string) {
	if d.ctx.Err() != nil {
		return
	}
	if state == CheckOK {
		hint = ""
	}
	d.checks = append(d.checks, Check{Group: group, Name: name, State: state, Detail: detail, Hint: hint})
}

func (d *doctor) ok(group, name, format string, args ...any) {
	d.add(group, name, CheckOK, fmt.Sprintf(format, args...), "")
}

// probe files what f found: its words, or its error with the hint.
func (d *doctor) probe(group, name string, hint string, f func() (string, error)) bool {
	if d.ctx.Err() != nil {
		return false
	}
	detail, err := f()
	if err == nil {
		d.ok(group, name, "%s", detail)
		return true
	}
	d.add(group, name, CheckMissing, oneLine(err), d.privileged(err, hint))
	return false
}

// privileged puts what to do about a refusal before what to do otherwise.
func (d *doctor) privileged(err error, hint string) string {
	if lack := d.lacking(); (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) && len(lack) > 0 {
		return "run as root, or give gate " + strings.Join(lack, ", ")
	}
	return hint
}

// oneLine is an error as a detail: neither the verifier's log nor a library's
// whole way to the reason is for a table.
func oneLine(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	const most, long = 200, 120
	if parts := strings.Split(first, ": "); len(first) > long && len(parts) > 3 {
		first = parts[0] + ": " + parts[len(parts)-1]
	}
	if r := []rune(first); len(r) > most {
		first = string(r[:most]) + "…"
	}
	return strings.TrimSuffix(strings.TrimSpace(first), ":")
}

// needed are the capabilities that measuring needs, and what for.
var needed = []struct {
	name string
	n    int
	what string
}{
	{"CAP_BPF", unix.CAP_BPF, "load programs"},
	{"CAP_PERFMON", unix.CAP_PERFMON, "load them as root does, without Spectre mitigations; trace"},
	{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN, "load and attach network programs"},
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN, "make network namespaces, count run times"},
}

// lacking are the needed capabilities that this process does not have.
func (d *doctor) lacking() []string {
	var lack []string
	for _, c := range needed {
		if !d.caps.any(c.n) {
			lack = append(lack, c.name)
		}
	}
	return lack
}

// kernel files what the kernel and this process's place in it are.
func (d *doctor) kernel() {
	const group = groupKernel
	release := d.text("proc/sys/kernel/osrelease")
	switch v := d.host.kernel(); {
	case v == version{}:
		d.add(group, "version", CheckMissing, fmt.Sprintf("unknown (%q)", release), "mount /proc: everything is read from there")
	case v.less(leastKernel):
		d.add(group, "version", CheckMissing, release+", older than "+leastKernel.String(), fmt.Sprintf("use Linux %s or later", targetKernel))
	case v.less(targetKernel):
		d.add(group, "version", CheckWarn, release+", older than "+targetKernel.String(), fmt.Sprintf("use Linux %s or later: some measures and program types are missing", targetKernel))
	default:
		d.ok(group, "version", "%s %s", release, runtime.GOARCH)
	}

	if lack := d.lacking(); len(lack) > 0 {
		var why []string
		for _, c := range needed {
			if slices.Contains(lack, c.name) {
				why = append(why, c.name+" ("+c.what+")")
			}
		}
		d.add(group, "capabilities", CheckMissing, "lacks "+strings.Join(why, ", "), "run as root (sudo), or in a container with docker run --privileged")
	} else if !d.caps.any(unix.CAP_SYS_RESOURCE) && d.host.kernel().less(version{5, 11}) {
		d.add(group, "capabilities", CheckWarn, "lacks CAP_SYS_RESOURCE: maps are limited by RLIMIT_MEMLOCK", "run as root, or raise the limit: ulimit -l unlimited")
	} else {
		d.ok(group, "capabilities", "BPF, PERFMON, NET_ADMIN, SYS_ADMIN%s", map[bool]string{true: ", SYS_RESOURCE", false: " (not SYS_RESOURCE, which kernels before 5.11 need)"}[d.caps.any(unix.CAP_SYS_RESOURCE)])
	}

	where := d.container(os.Readlink)
	switch {
	case strings.HasPrefix(where, "a user namespace"):
		d.add(group, "container", CheckMissing, "in "+where+": its capabilities do not count for eBPF", "use a container without user namespace: docker run --privileged --userns=host")
	case where != "":
		d.ok(group, "container", "in %s: programs run on the host's kernel", where)
	default:
		d.ok(group, "container", "none")
	}
	if v := d.virtualization(); v != "" {
		d.ok(group, "virtualisation", "%s, %s", v, d.cpuModel())
	} else {
		d.ok(group, "virtualisation", "none, %s", d.cpuModel())
	}

	if d.jit() {
		d.ok(group, "JIT", "programs are compiled")
	} else {
		d.add(group, "JIT", CheckWarn, "off: programs are interpreted, 3 to 10 times slower than where they will run", "sysctl net.core.bpf_jit_enable=1 (needs CONFIG_BPF_JIT)")
	}
	if why := d.hardening(d.caps); len(why) > 0 {
		d.add(group, "hardening", CheckWarn, strings.Join(why, "; "), "run as root with net.core.bpf_jit_harden below 2; else it is a testbed of its own, and compared with none other")
	} else {
		d.ok(group, "hardening", "none: programs run as root's do")
	}
	d.unprivileged()
	d.addresses()
	d.btf()
	if n := len(d.config); n > 0 {
		d.ok(group, "Kconfig", "readable, %d options set", n)
	} else {
		d.add(group, "Kconfig", CheckWarn, "no /proc/config.gz and no /boot/config-"+release, "install the kernel's configuration in /boot (in a container: -v /boot:/boot:ro): programs with kconfig externs do not load without")
	}
	d.lockdown()
	if s := d.text("proc/sys/kernel/perf_event_paranoid"); s != "" && !d.caps.any(unix.CAP_PERFMON, unix.CAP_SYS_ADMIN) {
		d.add(group, "perf_event_paranoid", CheckWarn, s+": applies to this process, which lacks CAP_PERFMON", "run as root, or sysctl kernel.perf_event_paranoid=-1: else no counters and no profile")
	} else {
		d.ok(group, "perf_event_paranoid", "%s, does not apply to this process", orDash(s))
	}
}

func orDash(s string) string {
	if s == "" {
		return "not told"
	}
	return s
}

func (d *doctor) unprivileged() {
	const name = "unprivileged_bpf_disabled"
	switch s := d.text("proc/sys/kernel/" + name); s {
	case "":
		d.ok(groupKernel, name, "not told")
	case "0":
		d.add(groupKernel, name, CheckWarn, "0: any user may load programs", "sysctl kernel.unprivileged_bpf_disabled=2; measuring does not need it, and Spectre attacks use it")
	default:
		d.ok(groupKernel, name, "%s: loading takes privileges", s)
	}
}

// lockdown files the lockdown mode. Which mode refuses what has changed over the
// kernels, so the probes tell what it costs here.
func (d *doctor) lockdown() {
	modes := d.text("sys/kernel/security/lockdown") // "none [integrity] confidentiality"
	_, mode, _ := strings.Cut(modes, "[")
	mode, _, found := strings.Cut(mode, "]")
	switch {
	case !found:
		d.ok(groupKernel, "lockdown", "not told (securityfs is not mounted, or not built in); what it refused would be missing above")
	case mode == "confidentiality":
		d.add(groupKernel, "lockdown", CheckWarn, "confidentiality: programs may not read kernel memory", "boot with lockdown=integrity or none (Secure Boot may set it): tracing programs do not load")
	default:
		d.ok(groupKernel, "lockdown", "%s", mode)
	}
}

// noise files what makes numbers noisy.
func (d *doctor) noise(before cpuTimes, start time.Time, busy string) {
	const group = groupNoise
	if busy != "" {
		d.add(group, "other runs", CheckWarn, busy+" measures on this host now", "wait for it: gate run does so by itself")
	} else {
		d.ok(group, "other runs", "none")
	}
	cpus := d.cpus()
	if cpus == 1 {
		d.add(group, "CPUs", CheckWarn, "1: everything else on this host interrupts the measuring", "use a host with 2 CPUs or more")
	} else {
		d.ok(group, "CPUs", "%d online", cpus)
	}
	if load, ok := d.load(); !ok {
		d.add(group, "load", CheckWarn, "cannot be read from /proc/loadavg", "mount /proc")
	} else if load > float64(cpus) {
		d.add(group, "load", CheckWarn, fmt.Sprintf("%.2f on %d CPUs: other work shares them", load, cpus), "stop the other work, or expect more rounds until a verdict")
	} else {
		d.ok(group, "load", "%.2f on %d CPUs", load, cpus)
	}
	d.steal(before, start)
	d.frequency()
	d.siblings()
	if s := d.text(cpuDir + "isolated"); s != "" {
		d.ok(group, "isolated CPUs", "%s", s)
	}
	if clock := d.text("sys/devices/system/clocksource/clocksource0/current_clocksource"); slices.Contains([]string{"hpet", "acpi_pm", "jiffies", "refined-jiffies"}, clock) {
		d.add(group, "clock", CheckWarn, clock+": reading it takes a microsecond", "boot with clocksource=tsc, if the CPU's is steady (dmesg | grep -i tsc)")
	} else if d.unsteadyClock() {
		d.add(group, "clock", CheckWarn, orDash(clock)+", and the CPU has no constant_tsc: its clock may change its pace", "have the hypervisor pass the host's CPU on (-cpu host,+invtsc)")
	} else {
		d.ok(group, "clock", "%s", orDash(clock))
	}
}

func (d *doctor) steal(before cpuTimes, start time.Time) {
	if rest := stealWindow - time.Since(start); rest > 0 {
		select {
		case <-time.After(rest):
		case <-d.ctx.Done():
		}
	}
	after := d.cpuTimes()
	now, ever := after.stolen(before), after.stolen(cpuTimes{})
	detail := fmt.Sprintf("%.1f%% of CPU time now, %.1f%% since boot", 100*now, 100*ever)
	if now > stealLimit || ever > stealLimit {
		d.add(groupNoise, "steal", CheckWarn, detail, "the hypervisor gives the CPUs to others: use an instance with dedicated CPUs, or expect more rounds")
		return
	}
	d.ok(groupNoise, "steal", "%s", detail)
}

func (d *doctor) frequency() {
	const group = groupNoise
	governors := d.governors()
	switch {
	case len(governors) == 0 && d.virtualization() != "":
		d.ok(group, "frequency governor", "not visible in a virtual machine")
	case len(governors) == 0:
		d.ok(group, "frequency governor", "none")
	case governors[0] != "performance":
		d.add(group, "frequency governor", CheckWarn, strings.Join(governors, ", ")+": the clock follows the load", "cpupower frequency-set -g performance")
	default:
		d.ok(group, "frequency governor", "performance")
	}
	boost, off := "", ""
	if d.text(cpuDir+"intel_pstate/no_turbo") == "0" {
		boost, off = "turbo is on", "echo 1 >/sys/devices/system/cpu/intel_pstate/no_turbo"
	} else if d.text(cpuDir+"cpufreq/boost") == "1" {
		boost, off = "boost is on", "echo 0 >/sys/devices/system/cpu/cpufreq/boost"
	}
	switch {
	case boost != "":
		d.add(group, "turbo", CheckWarn, boost+": the clock depends on heat and on the other cores", off)
	case len(governors) == 0:
		d.ok(group, "turbo", "not visible")
	default:
		d.ok(group, "turbo", "off")
	}
}

func (d *doctor) siblings() {
	switch active := d.text(cpuDir + "smt/active"); active {
	case "1":
		d.add(groupNoise, "SMT", CheckWarn, "on: two hardware threads share a core", "leave one of them idle, or echo off >/sys/devices/system/cpu/smt/control")
	case "0":
		d.ok(groupNoise, "SMT", "no two CPUs of this system share a core")
	default:
		d.ok(groupNoise, "SMT", "not told")
	}
}
