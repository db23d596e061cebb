package bpf

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A host is the files that describe this machine. Tests give others.
type host struct {
	fs.FS
	// signature is what the hypervisor calls itself in CPUID; see
	// hypervisorSignature.
	signature string
}

func thisHost() host { return host{os.DirFS("/"), hypervisorSignature()} }

// text is the content of a small file without the final newline; "" where it is
// not there or may not be read.
func (h host) text(name string) string {
	b, err := fs.ReadFile(h, name)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(b), "\n\x00")
}

// texts are the distinct contents of the files that match, sorted.
func (h host) texts(pattern string) []string {
	names, _ := fs.Glob(h, pattern)
	var all []string
	for _, n := range names {
		if s := h.text(n); s != "" {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

const cpuDir = "sys/devices/system/cpu/"

// cpus is the number of CPUs that are online.
func (h host) cpus() int {
	if n := countList(h.text(cpuDir + "online")); n > 0 {
		return n
	}
	return runtime.NumCPU()
}

// countList counts the members of a list such as "0-3,8"; 0 where it is none.
func countList(list string) int {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b := a
		if err == nil && ranged {
			b, err = strconv.Atoi(last)
		}
		if err != nil || b < a {
			return 0
		}
		n += b - a + 1
	}
	return n
}

// cpuModel is the CPU's name from /proc/cpuinfo. On arm64, which tells numbers
// there only, it is made from those; cores of several kinds are all named. It is
// never empty.
func (h host) cpuModel() string {
	var implementer string
	var models []string
	add := func(m string) {
		if m != "" && !slices.Contains(models, m) {
			models = append(models, m)
		}
	}
	for line := range strings.Lines(h.text("proc/cpuinfo")) {
		key, value, ok := strings.Cut(line, ":")
		if value = strings.Join(strings.Fields(value), " "); !ok || value == "" {
			continue
		}
		switch strings.TrimSpace(key) {
		case "model name", "cpu", "uarch": // x86, powerpc, riscv
			add(value)
		case "CPU implementer":
			implementer = value
		case "CPU part":
			add(armName(implementer, value))
		}
	}
	if len(models) == 0 { // s390: "processor 0: version = FF,  identification = …,  machine = 3906"
		_, after, _ := strings.Cut(h.text("proc/cpuinfo"), "machine =")
		if f := strings.Fields(after); len(f) > 0 {
			add("machine " + f[0])
		}
	}
	if len(models) == 0 {
		return "unknown " + runtime.GOARCH
	}
	return strings.Join(models, " + ")
}

// armName names an arm64 core by its MIDR numbers, as lscpu does.
func armName(implementer, part string) string {
	hex := func(s string) uint64 { n, _ := strconv.ParseUint(s, 0, 16); return n }
	vendor := armVendors[hex(implementer)]
	if vendor == "" {
		vendor = "implementer " + implementer
	}
	if name := armParts[hex(implementer)<<16|hex(part)]; name != "" {
		return vendor + " " + name
	}
	return fmt.Sprintf("%s part %s", vendor, part)
}

var armVendors = map[uint64]string{
	0x41: "ARM", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4e: "NVIDIA",
	0x50: "APM", 0x51: "Qualcomm", 0x53: "Samsung", 0x61: "Apple", 0x6d: "Microsoft", 0xc0: "Ampere",
}

// armParts are the cores of servers, boards and laptops that run eBPF, from
// arch/arm64/include/asm/cputype.h: implementer << 16 | part.
var armParts = map[uint64]string{
	0x41_0d03: "Cortex-A53", 0x41_0d05: "Cortex-A55", 0x41_0d07: "Cortex-A57", 0x41_0d08: "Cortex-A72",
	0x41_0d09: "Cortex-A73", 0x41_0d0a: "Cortex-A75", 0x41_0d0b: "Cortex-A76", 0x41_0d0c: "Neoverse-N1",
	0x41_0d0d: "Cortex-A77", 0x41_0d40: "Neoverse-V1", 0x41_0d41: "Cortex-A78", 0x41_0d44: "Cortex-X1",
	0x41_0d46: "Cortex-A510", 0x41_0d47: "Cortex-A710", 0x41_0d48: "Cortex-X2", 0x41_0d49: "Neoverse-N2",
	0x41_0d4d: "Cortex-A715", 0x41_0d4e: "Cortex-X3", 0x41_0d4f: "Neoverse-V2", 0x41_0d80: "Cortex-A520",
	0x41_0d81: "Cortex-A720", 0x41_0d82: "Cortex-X4", 0x41_0d84: "Neoverse-V3", 0x41_0d8e: "Neoverse-N3",
	0x43_00a1: "ThunderX", 0x43_00af: "ThunderX2", 0x46_0001: "A64FX", 0x48_0d01: "Kunpeng-920",
	0x4e_0004: "Carmel", 0x50_0000: "X-Gene", 0x51_0001: "Oryon", 0x51_0c00: "Falkor",
	0x61_0022: "M1 Icestorm", 0x61_0023: "M1 Firestorm", 0x61_0032: "M2 Blizzard", 0x61_0033: "M2 Avalanche",
	0x6d_0d49: "Azure-Cobalt-100", 0xc0_0ac3: "Ampere-1", 0xc0_0ac4: "Ampere-1a",
}

// virtualization names the hypervisor: "kvm", "xen", "hyperv", "vmware", "qemu"
// (emulated), …, "vm" for one that hides its name; empty on bare metal.
//
// Note: a container is not told. Its programs run on the host's kernel and CPUs,
// and cost what they cost outside.
func (h host) virtualization() string {
	for _, s := range []struct{ signature, name string }{
		{"KVMKVMKVM", "kvm"}, {"Linux KVM Hv", "kvm"}, {"Microsoft Hv", "hyperv"}, {"VMwareVMware", "vmware"},
		{"XenVMMXenVMM", "xen"}, {"TCGTCGTCGTCG", "qemu"}, {"bhyve bhyve ", "bhyve"}, {"ACRNACRNACRN", "acrn"},
		{"QNXQVMBSQG", "qnx"}, {" lrpepyh vr", "parallels"}, {"VBoxVBoxVBox", "virtualbox"}, {"SRESRESRESRE", "sre"},
	} {
		if strings.HasPrefix(h.signature, s.signature) {
			return s.name
		}
	}
	flag := strings.Contains(h.text("proc/cpuinfo")+" ", " hypervisor ")
	if h.signature == "" && !flag && runtime.GOARCH == "amd64" {
		return "" // the firmware of a metal instance bears the cloud's name
	}
	if name := h.text("sys/hypervisor/type"); name != "" {
		return name
	}
	const tree = "proc/device-tree/hypervisor/compatible"
	if s := h.text(tree); strings.Contains(s, "kvm") {
		return "kvm"
	} else if s != "" {
		return strings.TrimPrefix(strings.Split(s, "\x00")[0], "linux,")
	}
	const dmi = "sys/class/dmi/id/"
	product := h.text(dmi + "product_name")
	if strings.HasSuffix(product, ".metal") { // Amazon EC2
		return ""
	}
	firmware := strings.Join([]string{h.text(dmi + "sys_vendor"), product, h.text(dmi + "bios_vendor"), h.text(dmi + "board_vendor")}, "\n")
	for _, s := range []struct{ word, name string }{
		{"KVM", "kvm"}, {"OpenStack", "kvm"}, {"Google Compute Engine", "kvm"}, {"Amazon EC2", "kvm"},
		{"KubeVirt", "kvm"}, {"QEMU", "qemu"}, {"VMware", "vmware"}, {"VMW", "vmware"}, {"innotek GmbH", "virtualbox"},
		{"VirtualBox", "virtualbox"}, {"Xen", "xen"}, {"Bochs", "bochs"}, {"Parallels", "parallels"}, {"BHYVE", "bhyve"},
		{"Hyper-V", "hyperv"}, {"Microsoft Corporation\nVirtual Machine", "hyperv"}, {"Apple Virtualization", "apple"},
	} {
		if strings.Contains(firmware, s.word) {
			return s.name
		}
	}
	if flag || h.signature != "" {
		return "vm"
	}
	return ""
}

// container says what shows that this process is in one; empty outside. Files
// such as /.dockerenv show only what the file system was made from: a virtual
// machine whose root was a docker image has it too.
func (h host) container(readlink func(string) (string, error)) string {
	// PROC_PID_INIT_INO and PROC_USER_INIT_INO (include/linux/proc_ns.h).
	pid, _ := readlink("/proc/self/ns/pid")
	user, _ := readlink("/proc/self/ns/user")
	manager := h.text("run/systemd/container")
	for name, m := range map[string]string{".dockerenv": "docker", "run/.containerenv": "podman"} {
		if _, err := fs.Stat(h, name); err == nil && manager == "" {
			manager = m
		}
	}
	if manager != "" {
		manager = " (" + manager + ")"
	}
	switch {
	case user != "" && user != "user:[4026531837]":
		return "a user namespace" + manager
	case pid != "" && pid != "pid:[4026531836]":
		return "a PID namespace" + manager
	}
	return ""
}
