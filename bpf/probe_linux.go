package bpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// probeFunc is a kernel function that is exported, so that no compiler inlines it
// away.
const probeFunc = "vfs_read"

// measures files what can be measured, by measuring an empty program.
func (d *doctor) measures(busy string) {
	const group = groupMeasures
	load := d.probe(group, "static", "use Linux 5.8 or later with CONFIG_BPF_SYSCALL", probeStatic)

	// Before the macro lane switches them on.
	left := d.leftOn(load)
	if d.ctx.Err() != nil {
		return
	}
	s, err := NewSession(1)
	if err != nil {
		for _, name := range []string{"micro XDP", "micro tc", "macro veth"} {
			d.add(group, name, CheckMissing, oneLine(err), d.privileged(err, "it needs CONFIG_NET_NS and loopback; in a container: docker run --privileged"))
		}
	} else {
		defer s.Close()
		const tryDriver = "gate falls back on attaching, which takes 25 ms a round; Linux 5.18 has what the driver needs"
		d.micro(s, "micro XDP", ebpf.XDP, tryDriver)
		d.micro(s, "micro tc", ebpf.SchedCLS, tryDriver)
		if busy == "" {
			d.macro(s)
		} else {
			d.add(group, "macro veth", CheckWarn, "not tried: it would disturb "+busy, "run gate doctor again later")
		}
	}
	d.counters(load, left, busy)
}

// counters files what can be counted and sampled.
func (d *doctor) counters(load bool, left, busy string) {
	const group = groupCounters
	d.statistics(load, left, busy)
	d.probe(group, "hardware counters", "hosted runners and most clouds have none: use bare metal, or an instance type that passes the PMU on; nothing but profiles and counters needs it", func() (string, error) {
		return "CPU cycles", perfOpen(unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES, 0)
	})
	d.probe(group, "profiles", "sysctl kernel.perf_event_paranoid=-1, or a kernel with CONFIG_PERF_EVENTS", func() (string, error) {
		const period = 100_000 // ns: 10 kHz
		return "the cpu-clock event, 10 kHz", perfOpen(unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK, period)
	})
}

func probeStatic() (string, error) {
	l, err := emptyObject(ebpf.XDP).Load(emptyName, LoadOptions{Stats: true})
	if err != nil {
		return "", err
	}
	defer l.Close()
	results, err := Static(l)
	if err != nil {
		return "", err
	}
	have := map[string]bool{}
	for _, r := range results {
		have[r.Measure] = true
	}
	var lack []string
	for _, m := range bench.Measures() {
		if m.Static && !have[m.Name] {
			lack = append(lack, m.Name)
		}
	}
	if !have[bench.XlatedInsns] {
		return "", errors.New("the kernel tells nothing of a loaded program")
	}
	if len(lack) > 0 {
		return "without " + strings.Join(lack, ", "), nil
	}
	return fmt.Sprintf("all %d measures", len(results)), nil
}

const emptyName = "gate_empty"

// emptyObject is an object of one program that does nothing.
func emptyObject(typ ebpf.ProgramType) *Object {
	spec := emptyLike(&ebpf.ProgramSpec{Type: typ})
	spec.Name = emptyName
	return &Object{Path: emptyName, spec: &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{}, Programs: map[string]*ebpf.ProgramSpec{emptyName: spec},
		ByteOrder: binary.NativeEndian,
	}}
}

// probeFrame is an Ethernet frame with an empty IPv4 packet in it, which no
// protocol takes: 192.0.2.1 to 192.0.2.2, protocol 253 (experiments).
func probeFrame() []byte {
	p := make([]byte, 60)
	copy(p, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2})
	return p
}

// micro drives an empty program as the micro lane does.
func (d *doctor) micro(s *Session, name string, typ ebpf.ProgramType, hint string) {
	if d.ctx.Err() != nil {
		return
	}
	side := Side{Name: "probe", Object: emptyObject(typ)}
	b := bench.Benchmark{Name: "doctor/" + name, Program: emptyName, Packets: [][]byte{probeFrame()}}
	m, err := s.Micro(b, side)
	if err != nil {
		d.add(groupMeasures, name, CheckMissing, oneLine(err), d.privileged(err, "use Linux 5.8 or later"))
		return
	}
	defer m.Close()
	samples, err := m.Round(0)
	switch {
	case err != nil:
		d.add(groupMeasures, name, CheckMissing, oneLine(err), d.privileged(err, "use Linux 5.8 or later"))
	case m.Path != "driver":
		d.add(groupMeasures, name, CheckWarn, strings.Join(append([]string{"path " + m.Path}, m.Warnings...), ": "), hint)
	default:
		d.ok(groupMeasures, name, "test run through the driver, an empty program takes %.0f ns", samples[0].Value)
	}
}

// macro attaches an empty program to a veth pair and sends packets through it.
func (d *doctor) macro(s *Session) {
	const name, hint = "macro veth", "it needs CONFIG_VETH (modprobe veth), CAP_SYS_ADMIN and Linux 5.9"
	if d.ctx.Err() != nil {
		return
	}
	b := bench.Benchmark{
		Name: "doctor/" + name, Program: emptyName, Packets: [][]byte{probeFrame()},
		Veth: &bench.Veth{Mode: "native", Count: 500},
	}
	m, err := s.Macro(b, Side{Name: "probe", Object: emptyObject(ebpf.XDP)})
	if err != nil {
		d.add(groupMeasures, name, CheckMissing, oneLine(err), d.privileged(err, hint))
		return
	}
	defer m.Close()
	samples, err := m.Round(0)
	if err != nil {
		d.add(groupMeasures, name, CheckMissing, oneLine(err), d.privileged(err, hint))
		return
	}
	d.ok(groupMeasures, name, "real packets through attached programs, an empty one takes %.0f ns", samples[0].Latency.Value)
}

// leftOn tells who has left the kernel's run-time statistics on, which slows every
// test run.
func (d *doctor) leftOn(load bool) string {
	if !load || d.ctx.Err() != nil {
		return ""
	}
	if on, err := countsRuns(nil); err != nil || !on {
		return ""
	}
	if d.text("proc/sys/kernel/bpf_stats_enabled") == "1" {
		return "kernel.bpf_stats_enabled is 1"
	}
	return "a process has them on now (another agent, bpftool prog profile, bpftop)"
}

// statistics tries the kernel's run-time statistics.
func (d *doctor) statistics(load bool, left, busy string) {
	const name, hint = "run statistics", "BPF_ENABLE_STATS needs Linux 5.8 and CAP_SYS_ADMIN: no macro measures without"
	switch {
	case !load:
		d.add(groupCounters, name, CheckMissing, "no program can be loaded to try them", d.privileged(unix.EPERM, hint))
	case left != "":
		d.add(groupCounters, name, CheckWarn, left, "stop it (sysctl kernel.bpf_stats_enabled=0): they add about 70 ns to every run")
	case busy != "":
		d.add(groupCounters, name, CheckWarn, "not tried: it would disturb "+busy, "run gate doctor again later")
	default:
		d.probe(groupCounters, name, hint, func() (string, error) {
			counts, err := countsRuns(programs.EnableStats)
			if err == nil && !counts {
				err = errors.New("switched on, and runs are not counted")
			}
			return "off, and can be switched on", err
		})
	}
}

// countsRuns tells whether the kernel counts a program's runs, after enable.
func countsRuns(enable func() (io.Closer, error)) (bool, error) {
	p, err := loadPass(ebpf.XDP)
	if err != nil {
		return false, err
	}
	defer p.Close()
	if enable != nil {
		on, err := enable()
		if err != nil {
			return false, err
		}
		defer on.Close()
	}
	if _, _, err := newTestRun(p.FD(), probeFrame(), nil, 0).call(1); err != nil {
		return false, err
	}
	u, err := programs.NewMeter(p).Read()
	return u.Runs > 0, err
}

// programs files which types of programs can be attached.
func (d *doctor) programs() {
	const group = groupPrograms
	trace := "sysctl kernel.perf_event_paranoid=-1 or root; lockdown=confidentiality refuses it"
	d.probe(group, "kprobe", d.built("CONFIG_KPROBES", trace), func() (string, error) {
		return "attached to " + probeFunc, withProgram(ebpf.ProgramSpec{Type: ebpf.Kprobe}, func(p *ebpf.Program) (io.Closer, error) {
			return attachKprobe(attaching{Hook: Hook{target: probeFunc}, name: "kprobe", prog: p})
		})
	})
	fentry := d.built("CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS", "the kernel, or a security module, refuses trampolines: use another kernel; gate skips such programs")
	if _, err := btf.LoadKernelSpec(); err != nil {
		fentry = d.built("CONFIG_DEBUG_INFO_BTF", "it needs the kernel's BTF")
	}
	d.probe(group, "fentry, fexit", fentry, func() (string, error) {
		return "attached to " + probeFunc, withProgram(ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: probeFunc}, func(p *ebpf.Program) (io.Closer, error) {
			return closer(link.AttachTracing(link.TracingOptions{Program: p}))
		})
	})
	d.probe(group, "LSM", d.built("CONFIG_BPF_LSM", "it needs trampolines, as fentry does, and bpf in lsm= on the kernel's command line"), func() (string, error) {
		const hook = "file_open"
		return "attached to " + hook, withProgram(ebpf.ProgramSpec{Type: ebpf.LSM, AttachType: ebpf.AttachLSMMac, AttachTo: hook}, func(p *ebpf.Program) (io.Closer, error) {
			return attachLSM(attaching{prog: p})
		})
	})
	d.probe(group, "tracepoint", d.built("CONFIG_BPF_EVENTS", trace), func() (string, error) {
		const name = "sched/sched_process_fork"
		return "attached to " + name, withProgram(ebpf.ProgramSpec{Type: ebpf.TracePoint}, func(p *ebpf.Program) (io.Closer, error) {
			return attachTracepoint(attaching{Hook: Hook{target: name}, prog: p})
		})
	})
	d.probe(group, "perf event", d.built("CONFIG_BPF_EVENTS", trace), func() (string, error) {
		const event = "cpu-clock:1"
		return "attached to cpu-clock", withProgram(ebpf.ProgramSpec{Type: ebpf.PerfEvent}, func(p *ebpf.Program) (io.Closer, error) {
			return attachPerf(attaching{Hook: Hook{target: event}, prog: p})
		})
	})
	d.probe(group, "raw tracepoint", d.built("CONFIG_BPF_EVENTS", trace), func() (string, error) {
		return "attached to sched_process_fork", withProgram(ebpf.ProgramSpec{Type: ebpf.RawTracepoint}, func(p *ebpf.Program) (io.Closer, error) {
			return closer(link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_fork", Program: p}))
		})
	})
	d.probe(group, "cgroup", d.built("CONFIG_CGROUP_BPF", "mount -t cgroup2 none /sys/fs/cgroup; in a container: --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup"), d.cgroup)
}

// built is what to do about something that failed, which needs a kernel option.
func (d *doctor) built(option, otherwise string) string {
	if len(d.config) > 0 && d.config[option] != "y" && d.config[option] != "m" {
		return "this kernel is built without " + option + ": use another kernel; gate skips such programs"
	}
	return otherwise
}

// withProgram loads a program that does nothing, attaches it, and takes it away.
func withProgram(spec ebpf.ProgramSpec, attach func(*ebpf.Program) (io.Closer, error)) error {
	empty := emptyLike(&spec)
	empty.AttachTo, empty.License = spec.AttachTo, "GPL"
	p, err := ebpf.NewProgram(empty)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("load: %w", unix.EPERM) // without the library's guess at RLIMIT_MEMLOCK
	} else if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer p.Close()
	l, err := attach(p)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	return l.Close()
}

// cgroup asks a cgroup v2 for its programs. Attaching one would touch what others
// do in that cgroup.
func (d *doctor) cgroup() (string, error) {
	dir := cgroup2(d.text("proc/self/mountinfo"))
	if dir == "" {
		return "", errors.New("no cgroup v2 is mounted")
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = link.QueryPrograms(link.QueryOptions{Target: int(f.Fd()), Attach: ebpf.AttachCGroupInetEgress})
	if err != nil && !d.caps.any(unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN) {
		return "", fmt.Errorf("ask %s for its programs: %w", dir, unix.EPERM) // the library reads that as an old kernel
	} else if err != nil {
		return "", fmt.Errorf("ask %s for its programs: %w", dir, err)
	}
	return "v2 at " + dir, nil
}

// cgroup2 is where a mountinfo says that cgroup v2 is mounted, or "".
func cgroup2(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		// 36 35 98:0 /root /mount/point rw,relatime shared:1 - cgroup2 source options
		before, after, ok := strings.Cut(line, " - ")
		if f := strings.Fields(before); ok && len(f) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(f[4])
		}
	}
	return ""
}

func perfOpen(typ uint32, config, period uint64) error {
	attr := unix.PerfEventAttr{Type: typ, Config: config, Sample: period}
	attr.Size = uint32(perfEventAttrSize)
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("no counter of CPU cycles: %w", err)
	case err != nil:
		return fmt.Errorf("perf_event_open: %w", err)
	}
	return os.NewSyscallError("close", unix.Close(fd))
}

// perfEventAttrSize is PERF_ATTR_SIZE_VER0, which every kernel takes.
const perfEventAttrSize = 64

// addresses files whether the kernel tells where it put machine code.
func (d *doctor) addresses() {
	const name = "JIT addresses"
	if !d.jit() {
		return
	}
	l, err := emptyObject(ebpf.XDP).Load(emptyName, LoadOptions{})
	if err != nil {
		d.add(groupKernel, name, CheckWarn, "unknown: no program can be loaded", d.privileged(err, "see above"))
		return
	}
	defer l.Close()
	if l.offset() < 0 {
		d.add(groupKernel, name, CheckWarn, "hidden (kernel.kptr_restrict is "+orDash(d.text("proc/sys/kernel/kptr_restrict"))+"): code placement cannot be told from slowness", "run as root (CAP_SYSLOG) with sysctl kernel.kptr_restrict=1 or 0")
		return
	}
	d.ok(groupKernel, name, "readable, so code placement is recorded")
}

func (d *doctor) btf() {
	d.probe(groupKernel, "BTF", "use a kernel with CONFIG_DEBUG_INFO_BTF: CO-RE, fentry and kfuncs need it", func() (string, error) {
		spec, err := btf.LoadKernelSpec()
		if err != nil {
			return "", err
		}
		var f *btf.Func
		if err := spec.TypeByName(probeFunc, &f); err != nil {
			return "", err
		}
		return "the kernel's types are readable", nil
	})
}

// clang compiles: one without the BPF target or without headers is of no use.
func (d *doctor) clang() {
	const name = "compile"
	hint := "apt-get install clang libbpf-dev linux-libc-dev (Debian, Ubuntu), dnf install clang libbpf-devel (Fedora): only C sources need it, objects do not"
	clang, err := findClang(os.Getenv("CLANG"), os.Getenv("PATH"))
	if err != nil {
		d.add(groupTools, name, CheckMissing, oneLine(err), hint)
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, 20*time.Second)
	defer cancel()
	run := func(stdin string, args ...string) (string, error) {
		c := exec.CommandContext(ctx, clang, args...)
		c.Stdin = strings.NewReader(stdin)
		out, err := c.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	said, err := run("", "--version")
	if err != nil {
		d.add(groupTools, name, CheckMissing, fmt.Sprintf("%s does not run: %v", clang, err), hint)
		return
	}
	version, _, _ := strings.Cut(said, "\n")
	const source = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\nSEC(\"xdp\") int x(struct xdp_md *c) { return XDP_PASS; }\n"
	args := []string{"-target", "bpf", "-O2", "-g", "-x", "c", "-c", "-", "-o", "/dev/null"}
	if triple := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "riscv64": "riscv64", "s390x": "s390x", "ppc64le": "powerpc64le"}[runtime.GOARCH]; triple != "" {
		args = append(args, "-I", "/usr/include/"+triple+"-linux-gnu")
	}
	if out, err := run(source, args...); err != nil {
		lines := slices.Collect(strings.Lines(out))
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "error:") })
		if i >= 0 {
			err = errors.New(strings.TrimSpace(lines[i]))
		}
		d.add(groupTools, name, CheckMissing, fmt.Sprintf("%s cannot compile for BPF: %s", version, oneLine(err)), hint)
		return
	}
	d.ok(groupTools, name, "%s", version)
}

var versionedClang = regexp.MustCompile(`^clang-(\d+)$`)

// findClang finds the clang that gate run compiles with: $CLANG, else clang, else
// the highest clang-N in PATH.
func findClang(given, path string) (string, error) {
	if given != "" {
		return exec.LookPath(given)
	}
	if p, err := exec.LookPath("clang"); err == nil {
		return p, nil
	}
	best, at := 0, ""
	for _, dir := range filepath.SplitList(path) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if m := versionedClang.FindStringSubmatch(e.Name()); m != nil && filepath.IsAbs(dir) {
				if n, _ := strconv.Atoi(m[1]); n > best {
					best, at = n, filepath.Join(dir, e.Name())
				}
			}
		}
	}
	if best == 0 {
		return "", errors.New("no clang in PATH")
	}
	return at, nil
}
