//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// TestMain makes the test binary the agent when it is told so: the tests stop it
// by signals, and only a process of its own can be killed.
func TestMain(m *testing.M) {
	if os.Getenv("FUN_XDP_AGENT") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// output collects what the agent logs, while the test reads it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start runs the agent in the network namespace of this thread.
func start(t *testing.T, args ...string) (*exec.Cmd, *output) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := new(output)
	c := exec.Command(exe, args...)
	c.Env = append(os.Environ(), "FUN_XDP_AGENT=1")
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c, log
}

// eventually waits for something that another process or the kernel does.
func eventually(t *testing.T, what string, log fmt.Stringer, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s; the agent said:\n%s", what, log)
		}
	}
}

// pair makes a veth pair in the network namespace of this thread.
func pair(t *testing.T) {
	t.Helper()
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "fun0"}, PeerName: "fun1"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fun0", "fun1"} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// attached tells whether an XDP program is on fun0.
func attached(t *testing.T) bool {
	t.Helper()
	l, err := netlink.LinkByName("fun0")
	if err != nil {
		t.Fatal(err)
	}
	return l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
}

// send puts frames on the wire at fun1.
func send(t *testing.T, frames ...[]byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	dev, err := net.InterfaceByName("fun1")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index}); err != nil {
			t.Fatal(err)
		}
	}
}

// said is what the agent is to log of a value.
func said(version string, value uint32) string {
	if version == "v1_basic" {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], value)
		return netip.AddrFrom4(ip).String()
	}
	return []string{fizz: "Fizz", buzz: "Buzz", fizzBuzz: "FizzBuzz", fibonacci: "Fibonacci"}[value]
}

// TestAgent runs the agent on a veth pair, sends real packets, reads what it logs
// of them, and stops it in every way that there is.
func TestAgent(t *testing.T) {
	for _, tt := range []struct {
		version, mode string
		signal        syscall.Signal
	}{
		{"v1_basic", "native", unix.SIGINT},
		{"v2_fizzbuzz", "generic", unix.SIGTERM},
		{"v3_fibonacci", "auto", unix.SIGINT},
		{"v4_lookup", "native", unix.SIGKILL},
	} {
		t.Run(tt.version, func(t *testing.T) {
			testkernel.Require(t, testkernel.BPF, testkernel.Net)
			testkernel.NoLeaks(t)
			object := compile(t, tt.version)
			if tt.version == "v3_fibonacci" {
				load(t, tt.version) // or skip where the verifier refuses it
			}
			testkernel.NetNS(t)
			pair(t)

			agent, log := start(t, "-iface", "fun0", "-object", object, "-mode", tt.mode)
			eventually(t, "attached", log, func() bool { return strings.Contains(log.String(), "msg=attached") })
			if !attached(t) {
				t.Error("the agent says that it is attached, the kernel does not")
			}

			var want []string
			frames := make([][]byte, 0, 256)
			for _, addr := range addresses() {
				frames = append(frames, frame(addr))
				if v := model(tt.version, addr); v != 0 {
					want = append(want, said(tt.version, v))
				}
			}
			send(t, frames...)
			heard := func() (all []string) {
				for line := range strings.Lines(log.String()) {
					if _, value, ok := strings.Cut(strings.TrimSpace(line), "msg=packet source="); ok {
						all = append(all, value)
					}
				}
				return all
			}
			eventually(t, "all packets heard", log, func() bool { return len(heard()) >= len(want) })
			if got := heard(); !slices.Equal(got, want) {
				t.Errorf("logged %v, want %v", got, want)
			}

			// Those that arrive just before the end are not lost either.
			if tt.signal != unix.SIGKILL {
				send(t, frame(0x0100000e))
			}
			if err := agent.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			err := agent.Wait()
			if tt.signal == unix.SIGKILL {
				if err == nil {
					t.Error("the agent survived SIGKILL")
				}
			} else {
				if err != nil {
					t.Errorf("exit after %v: %v\n%s", tt.signal, err, log)
				}
				if last := fmt.Sprintf("values=%d", len(want)+1); !strings.Contains(log.String(), last) {
					t.Errorf("no %q in the log's end:\n%s", last, log)
				}
			}
			eventually(t, "detached", log, func() bool { return !attached(t) })
		})
	}
}

// TestAgentErrors holds what the agent says when it cannot begin.
func TestAgentErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no interface named", nil, 2, "Usage"},
		{"no such mode", []string{"-iface", "lo", "-mode", "offload"}, 2, "Usage"},
		{"stray argument", []string{"-iface", "lo", "lo"}, 2, "Usage"},
		{"no such interface", []string{"-iface", "nope0"}, 1, "interface nope0"},
		{"no such object", []string{"-iface", "lo", "-object", "nope.o"}, 1, "read nope.o"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			agent, log := start(t, tt.args...)
			if err := agent.Wait(); err == nil || agent.ProcessState.ExitCode() != tt.code {
				t.Errorf("exit %d, want %d", agent.ProcessState.ExitCode(), tt.code)
			}
			if !strings.Contains(log.String(), tt.want) {
				t.Errorf("said %q, want %q", log, tt.want)
			}
		})
	}
}
