//go:build linux

package agent

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// Agents as distributions have them. Which programs they load is their authors'
// business; that they are found, named and gone is ours.
func TestRealTracers(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.BPFTools, testkernel.BTF)
	requireKernel(t)
	for _, tt := range []struct {
		command, want string
	}{
		{"exec execsnoop", "tracepoint__syscalls__sys_enter_execve tracepoint__syscalls__sys_exit_execve"},
		{"opensnoop -T", "tracepoint__syscalls__sys_enter_openat tracepoint__syscalls__sys_exit_openat"},
		{"exec sigsnoop", "sig_trace"},
		// Without types of the functions: the kernel's own name, of 15 characters.
		{"exec bpftrace -e 'tracepoint:syscalls:sys_enter_execve { @[comm] = count(); }'", "sys_enter_execv"},
		{"exec bpftrace -e 'tracepoint:syscalls:sys_enter_execve { @a = count(); } tracepoint:syscalls:sys_enter_execveat { @b = count(); }'", "sys_enter_execv"},
	} {
		t.Run(tt.command, func(t *testing.T) {
			tool := strings.Fields(strings.TrimPrefix(tt.command, "exec "))[0]
			if _, err := exec.LookPath(tool); err != nil {
				t.Skip(err)
			}
			a, err := startAgent(t, bench.Agent{Run: tt.command})
			if err != nil {
				t.Fatal(err)
			}
			programs, _ := a.Programs()
			names := strings.Fields(namesOf(programs))
			for _, want := range strings.Fields(tt.want) {
				if !slices.Contains(names, want) {
					t.Errorf("found %q, not %s", names, want)
				}
			}
			if err := a.Check(); err != nil {
				t.Error(err)
			}
			if _, err := a.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Loaders of libxdp attach a dispatcher and leave: it is found by its interface, and
// what it dispatches, which the kernel does not count, by pins. On kernels that refuse
// to replace functions they attach the program itself.
func TestRealXDP(t *testing.T) {
	testkernel.Require(t, testkernel.XDPTools)
	requireKernel(t)
	objects, err := filepath.Glob("/usr/lib*/*/bpf/xdpfilt_alw_eth.o")
	if err != nil || len(objects) == 0 {
		t.Skip("no object of xdp-filter")
	}
	for _, command := range []string{
		"xdp-loader load -m skb gatex0 " + objects[0],
		"xdp-filter load -m skb -f ethernet gatex0",
	} {
		t.Run(strings.Fields(command)[0], func(t *testing.T) {
			if _, err := exec.LookPath(strings.Fields(command)[0]); err != nil {
				t.Skip(err)
			}
			testkernel.NetNS(t)
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "gatex0"}, PeerName: "gatex1"}); err != nil {
				t.Fatal(err)
			}
			ns, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				t.Fatal(err)
			}
			defer ns.Close()
			// In a /run of its own: a loader that was killed leaves a lock there, which
			// xdp-tools 1.3 takes for another loader's for ever.
			run := "mount -t tmpfs tmpfs /run && exec " + command
			a, err := Start(context.Background(), bench.Agent{Name: "xdp", Run: run}, Where{Dir: t.TempDir(), Net: ns})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Stop()
			programs, _ := a.Programs()
			counted := 0
			for _, p := range programs {
				if dispatched := len(programs) > 1; dispatched && p.Uncounted != (p.Name != "xdp_dispatcher") {
					t.Errorf("%+v", p)
				}
				if !p.Uncounted {
					counted++
				}
			}
			if !strings.Contains(namesOf(programs), "xdpfilt_alw_eth") || counted != 1 {
				t.Errorf("found %s", namesOf(programs))
			}
			if err := a.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
