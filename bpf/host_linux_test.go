package bpf

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// files makes a host of pairs of a name and a content.
func files(pairs ...string) host {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return host{FS: m}
}

func TestCPUModel(t *testing.T) {
	for _, tt := range []struct{ name, cpuinfo, want string }{
		{"x86", "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763  64-Core Processor   \nflags\t\t: fpu\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 7763  64-Core Processor\n", "AMD EPYC 7763 64-Core Processor"},
		{"arm64", "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n", "ARM Neoverse-N1"},
		{"two kinds of cores", "CPU implementer\t: 0x41\nCPU part\t: 0xd05\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n", "ARM Cortex-A55 + ARM Cortex-A76"},
		{"part that nobody knows", "CPU implementer\t: 0x41\nCPU part\t: 0xfff\n", "ARM part 0xfff"},
		{"implementer that nobody knows", "CPU implementer\t: 0x99\nCPU part\t: 0x001\n", "implementer 0x99 part 0x001"},
		{"powerpc", "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 2.2MHz\n", "POWER9, altivec supported"},
		{"s390", "vendor_id       : IBM/S390\nprocessor 0: version = FF,  identification = 123456,  machine = 3906\n", "machine 3906"},
		{"nothing", "", "unknown " + runtime.GOARCH},
	} {
		if got := files("proc/cpuinfo", tt.cpuinfo).cpuModel(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestVirtualization(t *testing.T) {
	const guest, metal = "flags\t\t: fpu hypervisor lahf_lm\n", "flags\t\t: fpu lahf_lm\n"
	const dmi = "sys/class/dmi/id/"
	for _, tt := range []struct {
		name, signature string
		files           []string
		want            string
	}{
		{"kvm", "KVMKVMKVM\x00\x00\x00", nil, "kvm"},
		{"hyper-v", "Microsoft Hv", nil, "hyperv"},
		{"emulated", "TCGTCGTCGTCG", nil, "qemu"},
		{"signature before firmware", "KVMKVMKVM\x00\x00\x00", []string{dmi + "sys_vendor", "Microsoft Corporation", dmi + "product_name", "Virtual Machine"}, "kvm"},
		{"unknown signature", "SomethingNew", []string{"proc/cpuinfo", guest}, "vm"},
		{"xen by sysfs", "", []string{"proc/cpuinfo", guest, "sys/hypervisor/type", "xen\n"}, "xen"},
		{"hyper-v by firmware", "", []string{"proc/cpuinfo", guest, dmi + "sys_vendor", "Microsoft Corporation\n", dmi + "product_name", "Virtual Machine\n"}, "hyperv"},
		{"metal", "", []string{"proc/cpuinfo", metal}, ""},
		{"metal of a cloud", "", []string{"proc/cpuinfo", metal, dmi + "sys_vendor", "Amazon EC2", dmi + "product_name", "c6g.metal"}, ""},
		{"device tree", "", []string{"proc/cpuinfo", guest, "proc/device-tree/hypervisor/compatible", "linux,kvm\x00"}, "kvm"},
	} {
		h := files(tt.files...)
		h.signature = tt.signature
		if got := h.virtualization(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestContainer(t *testing.T) {
	links := func(pid, user string) func(string) (string, error) {
		return func(name string) (string, error) {
			return map[string]string{"/proc/self/ns/pid": pid, "/proc/self/ns/user": user}[name], nil
		}
	}
	const pid, user = "pid:[4026531836]", "user:[4026531837]"
	for _, tt := range []struct {
		name      string
		h         host
		pid, user string
		want      string
	}{
		{"host", files(), pid, user, ""},
		{"virtual machine made from an image", files(".dockerenv", ""), pid, user, ""},
		{"docker", files(".dockerenv", ""), "pid:[4026532200]", user, "a PID namespace (docker)"},
		{"rootless podman", files("run/.containerenv", ""), "pid:[4026532200]", "user:[4026532100]", "a user namespace (podman)"},
		{"nspawn", files("run/systemd/container", "systemd-nspawn\n"), "pid:[4026532200]", user, "a PID namespace (systemd-nspawn)"},
		{"no /proc", files(), "", "", ""},
	} {
		if got := tt.h.container(links(tt.pid, tt.user)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestHardening(t *testing.T) {
	const all, bpfOnly = capSet(1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON), capSet(1 << unix.CAP_BPF)
	for _, tt := range []struct {
		name   string
		harden string
		cmd    string
		caps   capSet
		want   []string // a word of each reason
	}{
		{"root", "0", "quiet", all, nil},
		{"root, 1 spares it", "1", "", all, nil},
		{"2 spares nobody", "2", "", all, []string{"is 2"}},
		{"no perfmon", "0", "", bpfOnly, []string{"CAP_PERFMON"}},
		{"no perfmon, no mitigations", "0", "ro mitigations=off quiet", bpfOnly, nil},
		{"mitigations by halves", "0", "mitigations=off,nosmt", bpfOnly, []string{"CAP_PERFMON"}},
		{"SYS_ADMIN has both", "1", "", 1 << unix.CAP_SYS_ADMIN, nil},
		{"nobody", "1", "", 0, []string{"is 1", "CAP_PERFMON"}},
		{"sysctl not told", "", "", all, nil},
	} {
		got := files("proc/sys/net/core/bpf_jit_harden", tt.harden+"\n", "proc/cmdline", tt.cmd+"\n").hardening(tt.caps)
		if !slices.EqualFunc(got, tt.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestHidesCode(t *testing.T) {
	const syslog = capSet(1 << unix.CAP_SYSLOG)
	for _, tt := range []struct {
		restrict, jit string
		caps          capSet
		want          string
	}{
		{"2", "1", syslog, "kptr_restrict is 2"},
		{"1", "1", 1 << unix.CAP_SYS_ADMIN, "lacks CAP_SYSLOG"},
		{"1", "0", syslog, "bpf_jit_enable is 0"},
		{"", "", syslog, "may be"},
	} {
		got := files("proc/sys/kernel/kptr_restrict", tt.restrict+"\n", "proc/sys/net/core/bpf_jit_enable", tt.jit+"\n").hidesCode(tt.caps)
		if !strings.Contains(got, tt.want) {
			t.Errorf("kptr_restrict %q, bpf_jit_enable %q, capabilities %x: %q, want %q", tt.restrict, tt.jit, tt.caps, got, tt.want)
		}
	}
}

func TestCountList(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-3": 4, "0-1,4,6-7": 5, "": 0, "x": 0, "3-1": 0, "0-": 0} {
		if got := countList(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}

func TestKconfig(t *testing.T) {
	const text = "# a comment\nCONFIG_BPF=y\nCONFIG_VETH=m\n# CONFIG_KPROBES is not set\nCONFIG_LSM=\"lockdown,bpf\"\nCONFIG_HZ=250\n"
	want := map[string]string{"CONFIG_BPF": "y", "CONFIG_VETH": "m", "CONFIG_LSM": "lockdown,bpf", "CONFIG_HZ": "250"}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const release = "proc/sys/kernel/osrelease"
	for name, h := range map[string]host{
		"proc":    files("proc/config.gz", packed.String()),
		"boot":    files(release, "6.1.0-13\n", "boot/config-6.1.0-13", text),
		"modules": files(release, "6.1.0-13\n", "usr/lib/modules/6.1.0-13/config", text),
		"damaged": files(release, "6.1.0-13\n", "proc/config.gz", "\x1f\x8bnothing", "boot/config-6.1.0-13", text),
	} {
		if got := h.kconfig(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := files(release, "6.1.0-13\n", "boot/config-6.1.0-14", text).kconfig(); got != nil {
		t.Errorf("another kernel's: %v", got)
	}
}

func TestWarnings(t *testing.T) {
	quiet := []string{
		"proc/sys/kernel/osrelease", "6.8.0\n", cpuDir + "online", "0-3\n", "proc/loadavg", "0.50 0.1 0.1 1/2 3\n",
		"proc/cpuinfo", "x\nflags\t\t: hypervisor constant_tsc \n", "proc/sys/kernel/bpf_stats_enabled", "0\n",
		cpuDir + "cpu0/cpufreq/scaling_governor", "performance\n",
	}
	at := func(total, steal uint64) cpuTimes { return cpuTimes{total, steal} }
	for _, tt := range []struct {
		name          string
		change        []string
		before, after cpuTimes
		want          string
	}{
		{"quiet", nil, at(100, 10), at(200, 11), ""},
		{"old", []string{"proc/sys/kernel/osrelease", "5.10.0-28-amd64\n"}, at(0, 0), at(0, 0), "Linux 5.10 is older than 5.15"},
		{"target", []string{"proc/sys/kernel/osrelease", "5.15.0\n"}, at(0, 0), at(0, 0), ""},
		{"busy", []string{"proc/loadavg", "4.01 1 1 1/2 3\n"}, at(0, 0), at(0, 0), "load 4.0 on 4 CPUs"},
		{"stolen", nil, at(100, 10), at(200, 30), "takes away 20%"},
		{"clock stood still", nil, at(100, 10), at(100, 10), ""},
		{"powersave", []string{cpuDir + "cpu1/cpufreq/scaling_governor", "powersave\n"}, at(0, 0), at(0, 0), "governor powersave, performance"},
		{"statistics", []string{"proc/sys/kernel/bpf_stats_enabled", "1\n"}, at(0, 0), at(0, 0), "bpf_stats_enabled is 1"},
		{"one CPU", []string{cpuDir + "online", "0\n"}, at(0, 0), at(0, 0), "only 1 CPU"},
		{"unsteady", []string{"proc/cpuinfo", "x\nflags\t\t: hypervisor tsc \n"}, at(0, 0), at(0, 0), "constant_tsc"},
	} {
		h := files(append(slices.Clone(quiet), tt.change...)...)
		h.signature = "KVMKVMKVM"
		got := h.warnings(tt.before, tt.after)
		if (tt.want == "" && len(got) != 0) || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCPUTimes(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest guest_nice
	h := files("proc/stat", "cpu  10 1 5 100 4 0 2 8 7 3\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	if got, want := h.cpuTimes(), (cpuTimes{total: 130, steal: 8}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCgroup2(t *testing.T) {
	const v1 = "24 1 0:20 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
	for _, tt := range []struct{ name, mountinfo, want string }{
		{"unified", v1 + "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup"},
		{"a space", "30 1 0:26 / /my\\040groups rw - cgroup2 none rw\n", "/my groups"},
		{"v1 only", v1, ""},
		{"torn", "30 1 - cgroup2 none rw\n", ""},
	} {
		if got := cgroup2(tt.mountinfo); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestTestbed holds the testbed against what commands say of this host.
func TestTestbed(t *testing.T) {
	b, err := Testbed()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v, %s", b, b.Slug())
	var u syscall.Sysinfo_t
	if err := syscall.Sysinfo(&u); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		command []string
		got     string
	}{
		"kernel": {[]string{"uname", "-r"}, b.Kernel},
		"model":  {[]string{"sh", "-c", "lscpu | sed -n 's/^Model name: *//p' | head -1"}, b.CPU},
	} {
		out, err := exec.Command(tt.command[0], tt.command[1:]...).Output()
		want := strings.Join(strings.Fields(string(out)), " ")
		if err != nil || want == "" || want == "-" {
			t.Logf("%s: no word: %v", name, err)
		} else if name == "kernel" && tt.got != want || name == "model" && runtime.GOARCH == "amd64" && tt.got != want {
			t.Errorf("%s %q, want %q", name, tt.got, want)
		}
	}
	if b.Arch != runtime.GOARCH || b.CPUs < runtime.NumCPU() || b.Name != "" || b.Clang != "" {
		t.Errorf("%+v", b)
	}
	if testkernel.Probe(testkernel.BPF) == nil {
		out, err := os.ReadFile("/proc/sys/net/core/bpf_jit_enable")
		if err == nil && b.JIT != (strings.TrimSpace(string(out)) != "0") {
			t.Errorf("JIT %v, bpf_jit_enable %s", b.JIT, out)
		}
	}
	if again, err := Testbed(); err != nil || again != b {
		t.Errorf("a second look: %+v, %v", again, err)
	}
}

// TestDoctor holds what the doctor finds against the probes of testkernel, which
// are another hand's.
func TestDoctor(t *testing.T) {
	testkernel.NoLeaks(t)
	checks := Doctor(context.Background())
	found := map[string]Check{}
	for i, c := range checks {
		t.Logf("%-9s %-25s %-8s %s", c.Group, c.Name, c.State, c.Detail)
		if _, twice := found[c.Name]; twice {
			t.Errorf("%s is checked twice", c.Name)
		}
		found[c.Name] = c
		if c.Name == "" || c.Detail == "" || strings.Contains(c.Detail, "\n") {
			t.Errorf("%+v", c)
		}
		if (c.Hint == "") != (c.State == CheckOK) {
			t.Errorf("%s is %s and its hint %q", c.Name, c.State, c.Hint)
		}
		if i > 0 && c.Group != checks[i-1].Group && slices.ContainsFunc(checks[:i], func(o Check) bool { return o.Group == c.Group }) {
			t.Errorf("group %s comes twice", c.Group)
		}
	}
	for feature, name := range map[testkernel.Feature]string{
		testkernel.BPF: "static", testkernel.Net: "macro veth", testkernel.TestRun: "micro XDP", testkernel.Stats: "run statistics",
		testkernel.Kprobe: "kprobe", testkernel.Fentry: "fentry, fexit", testkernel.PMU: "hardware counters",
		testkernel.BTF: "BTF", testkernel.Clang: "compile",
	} {
		want, c := testkernel.Probe(feature), found[name]
		if (c.State == CheckMissing || c.Name == "") != (want != nil) {
			t.Errorf("%s: %+v; testkernel says %v", name, c, want)
		}
	}
}

// TestDoctorEnds is that a doctor whose patience is over reports nothing.
func TestDoctorEnds(t *testing.T) {
	testkernel.NoLeaks(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if checks := Doctor(ctx); len(checks) != 0 {
		t.Errorf("%d checks after the end: %v", len(checks), checks)
	}
}

// TestDoctorWithoutRoot runs the doctor as nobody.
func TestDoctorWithoutRoot(t *testing.T) {
	if os.Getenv("GATE_TEST_DOCTOR") != "" {
		for _, c := range Doctor(context.Background()) {
			if c.Group == groupMeasures && (c.State != CheckMissing || !strings.Contains(c.Hint, "run as root")) {
				t.Errorf("%+v", c)
			}
		}
		if b, err := Testbed(); err != nil || !b.Hardened {
			t.Errorf("%+v, %v: want hardened", b, err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become nobody")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// t.TempDir lies in a directory that nobody may not enter.
	dir, err := os.MkdirTemp("", "gate-doctor-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/test", data, 0o755)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(dir+"/test", "-test.run=^TestDoctorWithoutRoot$", "-test.v")
	c.Dir, c.Env = dir, []string{"GATE_TEST_DOCTOR=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestDoctorWithoutRoot") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOtherSystems is that outside Linux the package is a stub that imports
// nothing of Linux.
func TestOtherSystems(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err) // a guest of make test-kernels
	}
	for _, system := range []string{"darwin", "windows"} {
		c := exec.Command("go", "list", "-f", "{{.GoFiles}} {{.SFiles}}", ".")
		c.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := c.Output()
		if want := "[doc.go host.go host_other.go] []"; err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %s, %v, want %s", system, out, err, want)
		}
	}
}
