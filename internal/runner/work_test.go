//go:build linux

package runner

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/packet"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// baseAndHead are a source of testdata without and with HEAD.
func baseAndHead(t *testing.T, source string) []bpf.Side {
	t.Helper()
	return []bpf.Side{{Name: "base", Object: hooks(t, source)}, {Name: "head", Object: hooks(t, source, "-DHEAD")}}
}

func hooks(t *testing.T, source string, flags ...string) *bpf.Object {
	t.Helper()
	obj := filepath.Join(t.TempDir(), "hooks.o")
	arch := map[string]string{"amd64": "x86"}[runtime.GOARCH]
	args := append([]string{"-O2", "-g", "-target", "bpf", "-D__TARGET_ARCH_" + cmp.Or(arch, runtime.GOARCH), "-I", testkernel.IncludeDir(), "-c", "testdata/" + source, "-o", obj}, flags...)
	if out, err := exec.Command("clang", args...).CombinedOutput(); err != nil {
		t.Fatalf("clang: %v\n%s", err, out)
	}
	o, err := bpf.OpenObject(obj)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestTalk is no test: as a command of the others it makes connections.
func TestTalk(t *testing.T) {
	how := os.Getenv("GATE_TEST_TALK")
	switch how {
	case "":
		t.Skip("a command of other tests")
	case "serve":
		l, err := net.Listen("tcp", ":7")
		if err != nil {
			t.Fatal(err)
		}
		for {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}
	const times = 20
	for range times {
		d := net.Dialer{Timeout: 5 * time.Second, Control: congestion}
		c, err := d.Dial("tcp", how)
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		for range times {
			fmt.Fprintln(c, "a line")
			if _, err := r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
	}
	fmt.Printf("\ntalked %d times\n", times)
}

// congestion sets the congestion control that the environment names.
func congestion(_, _ string, c syscall.RawConn) error {
	name := os.Getenv("GATE_TEST_CONGESTION")
	if name == "" {
		return nil
	}
	var err error
	return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name) }), err)
}

// talk is a shell command that runs TestTalk.
func talk(how string) string {
	return "GATE_TEST_TALK=" + how + " " + os.Args[0] + " -test.run='^TestTalk$'"
}

// Every kind of hook: attached, run by work that does what it hangs on, counted,
// and a head that does more is found slower.
func TestHooks(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Stats, testkernel.Net, testkernel.Clang)
	sides := baseAndHead(t, "hooks.bpf.c")
	unlink := bench.Work{Run: "f=$(mktemp); for i in $(seq 20); do touch $f; rm $f; done"}
	cmd := func(command string) bench.Work { return bench.Work{Run: command} }
	connect := cmd("for i in $(seq 20); do (echo >/dev/tcp/$GATE_ADDR_SERVER/1) 2>/dev/null; done; true")
	connect.Run = "bash -c '" + connect.Run + "'"
	sent := bench.Work{Packets: true, Count: 500}
	watched := bench.Work{Duration: time.Second}
	serve := []bench.Command{{In: "server", Run: talk("serve") + " >/dev/null 2>&1 &", Port: 7}}
	many := regexp.MustCompile("_k(ret)?probe_(multi|session)$")
	for _, tt := range []struct {
		program string
		work    bench.Work
		runs    int // at least
		needs   testkernel.Feature
		with    []string
		setup   []bench.Command
		at      string
		since   [2]int // the kernel that has the hook, if that is not 5.15
	}{
		{program: "tp", work: cmd("for i in $(seq 20); do /bin/true; done"), runs: 20},
		{program: "raw_tp", work: cmd("for i in $(seq 20); do /bin/true; done"), runs: 20},
		{program: "tp_btf", work: cmd("for i in $(seq 20); do /bin/true; done"), runs: 20, needs: testkernel.BTF},
		{program: "on_kprobe", work: unlink, runs: 20, needs: testkernel.Kprobe},
		{program: "on_kretprobe", work: unlink, runs: 20, needs: testkernel.Kprobe},
		{program: "on_kprobe_multi", work: unlink, runs: 20, needs: testkernel.Kprobe, since: [2]int{5, 18}},
		{program: "on_kretprobe_multi", work: unlink, runs: 20, needs: testkernel.Kprobe, since: [2]int{5, 18}},
		// At the entry and at the return.
		{program: "on_kprobe_session", work: unlink, runs: 2 * 20, needs: testkernel.Kprobe, since: [2]int{6, 10}},
		{program: "on_kretsyscall", work: unlink, runs: 20, needs: testkernel.Kprobe},
		{program: "on_ksyscall", work: unlink, runs: 20, needs: testkernel.Kprobe},
		{program: "on_fentry", work: unlink, runs: 20, needs: testkernel.Fentry},
		{program: "on_fexit", work: unlink, runs: 20, needs: testkernel.Fentry},
		{program: "on_fmod_ret", work: unlink, runs: 20, needs: testkernel.Fentry},
		{program: "on_lsm", work: unlink, runs: 20, needs: testkernel.Fentry},
		{program: "on_uprobe", work: cmd("/bin/true"), runs: 1},
		{program: "on_uretprobe", work: cmd("/bin/true"), runs: 1},
		{program: "on_uprobe_multi", work: cmd("/bin/true"), runs: 1, since: [2]int{6, 6}},
		{program: "on_uretprobe_multi", work: cmd("/bin/true"), runs: 1, since: [2]int{6, 6}},
		{program: "on_clock", work: watched, runs: 100},
		{program: "on_socket", work: sent, runs: 500},
		{program: "on_xdp", work: sent, runs: 500},
		{program: "on_tc", work: sent, runs: 500},
		{program: "on_tcx_egress", work: sent, runs: 0, at: "client"}, // past the queueing disciplines
		{program: "on_netfilter", work: sent, runs: 500, since: [2]int{6, 4}},
		{program: "on_egress", work: connect, runs: 20},
		{program: "on_sock_create", work: connect, runs: 20},
		{program: "on_connect", work: connect, runs: 20},
		{program: "on_post_bind", work: cmd(talk("$GATE_ADDR_SERVER:7")), runs: 0, setup: serve},
		{program: "on_setsockopt", work: cmd(talk("$GATE_ADDR_SERVER:7")), runs: 20, setup: serve},
		{program: "on_getsockopt", work: cmd(talk("$GATE_ADDR_SERVER:7")), runs: 20, setup: serve},
		{program: "on_sysctl", work: cmd("for i in $(seq 20); do cat /proc/sys/kernel/ostype; done"), runs: 20},
		{program: "on_dev", work: cmd("for i in $(seq 20); do cat </dev/null; done"), runs: 20},
		{program: "on_sockops", work: connect, runs: 20},
		{program: "on_lookup", work: connect, runs: 20},
		// Where packet sockets look for the transport header of what is sent.
		{program: "on_dissector", work: sent, runs: 500, at: "client"},
		{program: "on_task", work: watched, runs: 10, needs: testkernel.BTF},
		{program: "on_msg", work: cmd(talk("$GATE_ADDR_SERVER:7")), runs: 20 * 20, with: []string{"collect"}, setup: serve},
		{program: "on_parser", work: cmd(talk("$GATE_ADDR_SERVER:7")), runs: 20 * 20, with: []string{"collect", "on_verdict"}, setup: serve},
		{program: "on_verdict", work: cmd(talk("$GATE_ADDR_SERVER:7")), runs: 20 * 20, with: []string{"collect"}, setup: serve},
	} {
		t.Run(tt.program, func(t *testing.T) {
			needsKernel(t, tt.since)
			if tt.needs != "" {
				testkernel.Require(t, tt.needs)
			}
			if many.MatchString(tt.program) {
				needsFprobe(t)
			}
			testkernel.NoLeaks(t)
			b := bench.Benchmark{Program: tt.program, Work: &tt.work, With: tt.with, Setup: tt.setup, At: tt.at, MinRuns: tt.runs}
			if tt.work.Packets {
				b.Packets = [][]byte{datagram}
			}
			measureHook(t, b, sides, t.TempDir())
		})
	}
}

// needsKernel skips on kernels before the version.
func needsKernel(t *testing.T, since [2]int) {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var v [2]int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &v[0], &v[1]); err != nil {
		t.Fatal(err)
	}
	if v[0] < since[0] || v[0] == since[0] && v[1] < since[1] {
		t.Skipf("needs Linux %d.%d, this is %d.%d", since[0], since[1], v[0], v[1])
	}
}

// needsFprobe skips on kernels that attach a program to many functions at once only in
// name: Debian's 6.1 is built without CONFIG_FPROBE.
func needsFprobe(t *testing.T) {
	t.Helper()
	symbols, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(symbols), " register_fprobe\n") {
		t.Skip("needs CONFIG_FPROBE")
	}
}

// measureHook takes rounds of a benchmark, which must find head slower. A benchmark of no
// runs at all must say so.
func measureHook(t *testing.T, b bench.Benchmark, sides []bpf.Side, dir string) {
	t.Helper()
	b.Name = b.Program + "/x"
	s, err := bpf.NewSession(1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := &run{Plan: Plan{Dir: dir}, session: s, runs: []*bench.Run{{}}}
	l, err := r.openWork(context.Background(), b, sides)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if b.MinRuns == 0 {
		if _, err := l.round(0); err == nil || !strings.Contains(err.Error(), "did not run once") {
			t.Errorf("error %v, want that it did not run", err)
		}
		return
	}
	// What disturbs a round adds to it, so that the least of some rounds is the program's
	// own. Head calls a helper 100 times, which the kernel may inline.
	const most, slower = 10, 50
	least := 2
	if testing.Short() {
		least = 1 // an emulated CPU takes minutes for a round of trampolines, and is not disturbed
	}
	var base, head bench.Sample
	for n := range most {
		got, err := l.round(n)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range got {
			if s[1].Value < float64(b.MinRuns) {
				t.Errorf("round %d: side %d ran %g times, want %d", n, i, s[1].Value, b.MinRuns)
			}
		}
		if n == 0 || got[0][0].Value < base.Value {
			base = got[0][0]
		}
		if n == 0 || got[1][0].Value < head.Value {
			head = got[1][0]
		}
		if n+1 >= least && head.Value >= base.Value+slower {
			break
		}
	}
	_, path, _, warnings := l.describe()
	if base.Value <= 0 || head.Value < base.Value+slower || base.Floor <= 0 && !strings.Contains(path, "struct_ops") {
		t.Errorf("%s: %g ns, head with 100 calls of a helper %g ns, the empty program %g ns", path, base.Value, head.Value, base.Floor)
	}
	if len(warnings)+len(r.runs[0].Warnings) > 0 {
		t.Errorf("warnings %q %q", warnings, r.runs[0].Warnings)
	}
}

// Programs may write to the arguments of few tracepoints, of drivers that hosts seldom
// have. Where there is none, that is told; else nothing runs it here.
func TestWritableTracepoint(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Stats, testkernel.Net, testkernel.Clang)
	testkernel.NoLeaks(t)
	b := bench.Benchmark{Name: "raw_tp_writable/x", Program: "raw_tp_writable", Work: &bench.Work{Run: "true"}}
	s, err := bpf.NewSession(1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := (&run{Plan: Plan{Dir: t.TempDir()}, session: s, runs: []*bench.Run{{}}}).openWork(context.Background(), b, baseAndHead(t, "hooks.bpf.c"))
	if err == nil {
		l.Close()
		t.Fatal("a program that nothing runs was measured")
	}
	if got := err.Error(); !strings.Contains(got, "this kernel has no raw tracepoint nbd_send_request") && !strings.Contains(got, "did not run once") {
		t.Error(err)
	}
}

// A probe in user space, whose arguments the program reads.
func TestUSDT(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Stats, testkernel.Net, testkernel.Clang)
	needsKernel(t, [2]int{5, 15})
	if _, err := os.Stat("/usr/include/bpf/usdt.bpf.h"); err != nil {
		t.Skip("needs libbpf 0.8: ", err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("cc", "-O1", "-o", filepath.Join(dir, "tick"), "testdata/tick.c").CombinedOutput(); err != nil {
		t.Skipf("needs a C compiler: %v\n%s", err, out)
	}
	testkernel.NoLeaks(t)
	measureHook(t, bench.Benchmark{Program: "on_tick", Work: &bench.Work{Run: "./tick; ./tick"}, MinRuns: 200}, baseAndHead(t, "usdt.bpf.c"), dir)
}

// Operations of a kernel's structure, of which there is one of a name at a time.
func TestStructOps(t *testing.T) {
	needsKernel(t, [2]int{6, 4})
	testkernel.Require(t, testkernel.BPF, testkernel.Stats, testkernel.Net, testkernel.Clang, testkernel.BTF)
	testkernel.NoLeaks(t)
	measureHook(t, bench.Benchmark{
		Program: "on_ack", MinRuns: 100,
		Work:  &bench.Work{Run: "GATE_TEST_CONGESTION=gate_cc " + talk("$GATE_ADDR_SERVER:7")},
		Setup: []bench.Command{{In: "server", Run: talk("serve") + " >/dev/null 2>&1 &", Port: 7}},
	}, baseAndHead(t, "ops.bpf.c"), t.TempDir())
}

// datagram is a UDP packet to the server of the default net.
var datagram = mustPacket()

func mustPacket() []byte {
	for _, p := range packet.BuiltIn() {
		if len(p) > 34 && p[12] == 8 && p[23] == 17 {
			return p
		}
	}
	panic("no UDP packet among the built-in ones")
}

// A scheduler, of which there is one at a time. Where the kernel takes none, that is told
// in its words.
func TestSchedExt(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Stats, testkernel.Net, testkernel.Clang, testkernel.BTF)
	testkernel.NoLeaks(t)
	sides := baseAndHead(t, "sched.bpf.c")
	b := bench.Benchmark{Program: "on_running", MinRuns: 20, Work: &bench.Work{Run: "for i in $(seq 20); do /bin/true; done"}}
	if _, err := os.Stat("/sys/kernel/sched_ext"); err == nil {
		measureHook(t, b, sides, t.TempDir())
		return
	}
	s, err := bpf.NewSession(1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Load(sides[1].Object, b.Program)
	if err == nil {
		l.Close()
		t.Fatal("a program of a scheduler was loaded into a kernel that takes none")
	}
	if want := "this kernel has no operations sched_ext_ops"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
