//go:build linux

package work

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

func newPlace(t *testing.T, o Options) *Place {
	t.Helper()
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	testkernel.NoLeaks(t)
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// run runs one command in a jail of its own.
func run(t *testing.T, p *Place, in, command string) (Output, error) {
	t.Helper()
	j, err := p.Ready(in, true)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	return j.Run(context.Background(), command, time.Minute, p.Env(in, 3))
}

func said(t *testing.T, p *Place, in, command string) string {
	t.Helper()
	out, err := run(t, p, in, command)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out.Stdout))
}

// Two namespaces reach each other, and nothing of the host.
func TestPlace(t *testing.T) {
	p := newPlace(t, Options{})
	for _, tt := range []struct{ in, command, want string }{
		{"", "echo $GATE_NETNS $GATE_IFACE $GATE_ADDR $GATE_ADDR_SERVER $GATE_ROUND", "client server 192.0.2.1 198.51.100.1 3"},
		{"server", "echo $GATE_NETNS $GATE_IFACE $GATE_ADDR $GATE_ADDR_CLIENT_SERVER", "server client 198.51.100.1 192.0.2.1"},
		{"server", "ip -o link | cut -d: -f2 | cut -d@ -f1 | xargs", "lo client"},
		{"server", "cat /sys/class/net/lo/address; ip -br link show client | grep -o 02:[0-9a-f:]*", "00:00:00:00:00:00\n02:00:00:00:00:02"},
		{"client", "ip route get $GATE_ADDR_SERVER | head -1 | xargs", "198.51.100.1 dev server src 192.0.2.1 uid " + strconv.Itoa(os.Getuid())},
		{"client", "ip route show default", ""},
		// Its own /proc, in which its processes are all that there is.
		{"client", "ls -d /proc/[0-9]* | wc -l | xargs test 12 -gt && test -d /proc/$$ && echo few", "few"},
		{"client", "pwd", p.dir},
	} {
		if got := said(t, p, tt.in, tt.command); got != tt.want {
			t.Errorf("%s in %q: %q, want %q", tt.command, tt.in, got, tt.want)
		}
	}
	if _, err := p.Ready("nobody", false); err == nil || !strings.Contains(err.Error(), "there are client, server") {
		t.Errorf("a namespace that is not there: %v", err)
	}
}

func TestPlaceOfThree(t *testing.T) {
	end := func(ns, addr string) bench.End {
		return bench.End{Namespace: ns, Addr: netip.MustParsePrefix(addr)}
	}
	p := newPlace(t, Options{MTU: 9000, Links: []bench.Link{
		{Ends: [2]bench.End{end("client", "10.0.1.1/24"), end("router", "10.0.1.254/24")}},
		{Ends: [2]bench.End{end("router", "fd00::1/64"), end("server", "fd00::2/64")}},
	}})
	if got := said(t, p, "router", "echo $GATE_IFACE $GATE_ADDR $GATE_ADDR_ROUTER_SERVER $GATE_ADDR_SERVER"); got != "client 10.0.1.254 fd00::1 fd00::2" {
		t.Errorf("router's environment: %s", got)
	}
	// An address of IPv6 can be used at once.
	if got := said(t, p, "server", "ip -6 -o addr show dev router scope global | grep -c tentative || cat /sys/class/net/lo/mtu; ip -o link show router | grep -o 'mtu [0-9]*'"); !strings.HasSuffix(got, "mtu 9000") || strings.HasPrefix(got, "1\n") {
		t.Errorf("server's interface: %q", got)
	}
	for at, want := range map[string]string{"": "client", "server": "router", "router/server": "server"} {
		if _, name, index, err := p.Interface(at); err != nil || name != want || index == 0 {
			t.Errorf("at %q: %s, %d, %v", at, name, index, err)
		}
	}
	for at, want := range map[string]string{"router": "write router/client or router/server", "server/eth0": `no interface "eth0": it has router`, "x": "no namespace"} {
		if _, _, _, err := p.Interface(at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("at %q: %v", at, err)
		}
	}
}

func TestRunFails(t *testing.T) {
	p := newPlace(t, Options{})
	for _, tt := range []struct {
		command string
		want    []string
		not     string
	}{
		{"echo out; echo 'err\x1b[2Jor' >&2; exit 3", []string{"exit status 3", "\n  out", "\n  err[2Jor"}, "\x1b"},
		{"seq 100000; exit 1", []string{"exit status 1\n  …\n  99981\n", "\n  100000"}, "\n  99980\n"},
		{"kill -TERM $$", []string{"signal: terminated"}, ""},
		{"no-such-command", []string{"exit status 127", "not found"}, ""},
	} {
		_, err := run(t, p, "", tt.command)
		if err == nil {
			t.Errorf("%s: no error", tt.command)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", tt.command, err, want)
			}
		}
		if tt.not != "" && strings.Contains(err.Error(), tt.not) {
			t.Errorf("%s: %q says %q", tt.command, err, tt.not)
		}
	}
	// A flood is cut, and told so.
	out, err := run(t, p, "", "head -c 3000000 /dev/zero")
	if err != nil || len(out.Stdout) != MaxOutput || !out.Truncated {
		t.Errorf("%d bytes, truncated %t, %v", len(out.Stdout), out.Truncated, err)
	}
}

// alive tells whether a process of the host is there, by its command line.
func alive(t *testing.T, marker string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		text, _ := os.ReadFile(name)
		if strings.Contains(string(text), marker) && !strings.HasPrefix(name, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			return true
		}
	}
	return false
}

// daemons starts processes that hide in every way that a process has, and goes on
// without waiting for them. The marker is in the command line of each.
func daemons(marker string) string {
	sleep := "sleep 1000." + marker
	return fmt.Sprintf(`%[1]s & setsid %[1]s & (trap '' TERM INT HUP; setsid sh -c '%[1]s & disown' 2>/dev/null & ) ; sh -c '(setsid %[1]s >/dev/null 2>&1 &) &'; sleep 0.2; `, sleep)
}

// What a command leaves running does not keep it from being done, goes on until
// the jail is closed, and then is gone, however well it hid.
func TestJailEndsAll(t *testing.T) {
	p := newPlace(t, Options{})
	j, err := p.Ready("", false)
	if err != nil {
		t.Fatal(err)
	}
	marker := strconv.Itoa(os.Getpid()) + "1"
	// If it were waited for what goes on, it would not be done in time.
	if _, err := j.Run(context.Background(), daemons(marker)+"echo done", time.Minute, nil); err != nil {
		t.Error(err)
	}
	if !alive(t, marker) {
		t.Error("nothing was left running, so nothing is tested")
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if alive(t, marker) {
		t.Error("a process outlived its jail")
	}
}

func TestRunLate(t *testing.T) {
	p := newPlace(t, Options{})
	marker := strconv.Itoa(os.Getpid()) + "2"
	j, err := p.Ready("", false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = j.Run(context.Background(), "echo started; trap '' TERM INT; "+daemons(marker)+"while :; do sleep 1000."+marker+"; done", 3*time.Second, nil)
	if err == nil || !strings.Contains(err.Error(), "not done within 3s") || !strings.Contains(err.Error(), "started") {
		t.Errorf("error %v", err)
	}
	if alive(t, marker) {
		t.Error("a process outlived its time limit")
	}
	j.Close()

	if j, err = p.Ready("", false); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	if _, err := j.Run(ctx, "sleep 1000."+marker, time.Minute, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if alive(t, marker) {
		t.Error("a process outlived its context")
	}
}

// Commands run as the owner of the directory, who may do in his network namespace
// what needs doing there, and nothing else.
func TestRunAsOwner(t *testing.T) {
	dir := t.TempDir()
	for at := dir; at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to run commands as somebody else")
	}
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, Options{Dir: dir})
	if got := said(t, p, "", "id -u; ip link set lo mtu 4000 && cat /sys/class/net/lo/mtu >/dev/null && ip -o link show lo | grep -o 'mtu [0-9]*'"); got != "65534\nmtu 4000" {
		t.Errorf("as the owner: %q", got)
	}
	if _, err := run(t, p, "", "mount -t tmpfs none /mnt"); err == nil {
		t.Error("the owner could mount")
	}
	if _, err := run(t, p, "", "nsenter --net=/proc/1/ns/net ip link"); err == nil {
		t.Error("the owner could leave his namespace")
	}
}

// A control group is the work's own, and goes with it.
func TestCgroup(t *testing.T) {
	if _, err := cgroupMount(); err != nil {
		t.Skip(err)
	}
	parent, err := ownCgroup()
	if err != nil {
		t.Skip(err)
	}
	p := newPlace(t, Options{Cgroup: true})
	own := p.Cgroup().Name()
	if got := said(t, p, "", "grep -c "+filepath.Base(own)+" /proc/self/cgroup"); got != "1" {
		t.Errorf("the command is in another control group than %s", own)
	}
	// One whose process is gone; ours stays.
	stale := filepath.Join(parent, cgroupPrefix+"stale")
	if err := os.Mkdir(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	q, err := New(Options{Dir: p.dir, Cgroup: true})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{stale: false, own: true, q.Cgroup().Name(): true} {
		if isDir(path) != want {
			t.Errorf("%s is there: %t", path, !want)
		}
	}
	name := q.Cgroup().Name()
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if isDir(name) {
		t.Error("the control group outlived its place")
	}
}

// TestKilled kills a process whose work has hidden in every way: all of it must go,
// and so must the control group.
func TestKilled(t *testing.T) {
	const child = "GATE_TEST_WORK_CHILD"
	marker := os.Getenv(child)
	if marker != "" {
		p, err := New(Options{Dir: os.TempDir(), Cgroup: true})
		if err != nil {
			t.Fatal(err)
		}
		j, err := p.Ready("", true)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("cgroup %s\n", p.Cgroup().Name())
		_, err = j.Run(context.Background(), daemons(marker)+"while :; do sleep 1000."+marker+"; done", time.Hour, nil)
		t.Fatal(err)
	}
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	if _, err := cgroupMount(); err != nil {
		t.Skip(err)
	}
	testkernel.NoLeaks(t)
	marker = strconv.Itoa(os.Getpid()) + "3"
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), child+"="+marker)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cgroup := ""
	for lines := bufio.NewScanner(out); cgroup == "" && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "cgroup %s", &cgroup)
	}
	for end := time.Now().Add(time.Minute); !alive(t, marker) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if !alive(t, marker) || !isDir(cgroup) {
		t.Error("the child did not start its work")
	}
	_ = unix.Kill(cmd.Process.Pid, unix.SIGKILL)
	_ = cmd.Wait()
	for end := time.Now().Add(time.Minute); alive(t, marker) || isDir(cgroup); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after the kill: a process is there: %t; the control group %s is there: %t", alive(t, marker), cgroup, isDir(cgroup))
		}
	}
}
