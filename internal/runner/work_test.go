//go:build linux

package runner

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/packet"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// hooks compiles testdata/hooks.bpf.c.
func hooks(t *testing.T, flags ...string) *bpf.Object {
	t.Helper()
	obj := filepath.Join(t.TempDir(), "hooks.o")
	args := append([]string{"-O2", "-g", "-target", "bpf", "-I", testkernel.IncludeDir(), "-c", "testdata/hooks.bpf.c", "-o", obj}, flags...)
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
		c, err := net.DialTimeout("tcp", how, 5*time.Second)
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

// talk is a shell command that runs TestTalk.
func talk(how string) string {
	return "GATE_TEST_TALK=" + how + " " + os.Args[0] + " -test.run='^TestTalk$'"
}

// Every kind of hook: attached, run by work that does what it hangs on, counted,
// and a head that does more is found slower.
func TestHooks(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Stats, testkernel.Net, testkernel.Clang)
	sides := []bpf.Side{{Name: "base", Object: hooks(t)}, {Name: "head", Object: hooks(t, "-DHEAD")}}
	unlink := bench.Work{Run: "f=$(mktemp); for i in $(seq 20); do touch $f; rm $f; done"}
	cmd := func(command string) bench.Work { return bench.Work{Run: command} }
	connect := cmd("for i in $(seq 20); do (echo >/dev/tcp/$GATE_ADDR_SERVER/1) 2>/dev/null; done; true")
	connect.Run = "bash -c '" + connect.Run + "'"
	sent := bench.Work{Packets: true, Count: 500}
	watched := bench.Work{Duration: 300 * time.Millisecond}
	serve := []bench.Command{{In: "server", Run: talk("serve") + " >/dev/null 2>&1 &", Port: 7}}
	for _, tt := range []struct {
		program string
		work    bench.Work
		runs    int // at least
		needs   testkernel.Feature
		with    []string
		setup   []bench.Command
		at      string
	}{
		{program: "tp", work: cmd("for i in $(seq 20); do /bin/true; done"), runs: 20},
		{program: "raw_tp", work: cmd("for i in $(seq 20); do /bin/true; done"), runs: 20},
		{program: "tp_btf", work: cmd("for i in $(seq 20); do /bin/true; done"), runs: 20, needs: testkernel.BTF},
		{program: "on_kprobe", work: unlink, runs: 20, needs: testkernel.Kprobe},
		{program: "on_kretprobe", work: unlink, runs: 20, needs: testkernel.Kprobe},
		{program: "on_kprobe_multi", work: unlink, runs: 20, needs: testkernel.Kprobe},
		{program: "on_ksyscall", work: unlink, runs: 20, needs: testkernel.Kprobe},
		{program: "on_fentry", work: unlink, runs: 20, needs: testkernel.Fentry},
		{program: "on_fexit", work: unlink, runs: 20, needs: testkernel.Fentry},
		{program: "on_lsm", work: unlink, runs: 20, needs: testkernel.Fentry},
		{program: "on_uprobe", work: cmd("/bin/true"), runs: 1},
		{program: "on_uretprobe", work: cmd("/bin/true"), runs: 1},
		{program: "on_uprobe_multi", work: cmd("/bin/true"), runs: 1},
		{program: "on_clock", work: watched, runs: 100},
		{program: "on_socket", work: sent, runs: 500},
		{program: "on_xdp", work: sent, runs: 500},
		{program: "on_tc", work: sent, runs: 500},
		{program: "on_tcx_egress", work: sent, runs: 0, at: "client"}, // past the queueing disciplines
		{program: "on_netfilter", work: sent, runs: 500},
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
		{program: "on_task", work: watched, runs: 10, needs: testkernel.BTF},
		{program: "on_msg", work: cmd(talk("$GATE_ADDR_SERVER:7")), runs: 20 * 20, with: []string{"collect"}, setup: serve},
		{program: "on_verdict", work: cmd(talk("$GATE_ADDR_SERVER:7")), runs: 20 * 20, with: []string{"collect"}, setup: serve},
	} {
		t.Run(tt.program, func(t *testing.T) {
			if tt.needs != "" {
				testkernel.Require(t, tt.needs)
			}
			testkernel.NoLeaks(t)
			b := bench.Benchmark{Name: tt.program + "/x", Program: tt.program, Work: &tt.work, With: tt.with, Setup: tt.setup, At: tt.at, MinRuns: tt.runs}
			if tt.work.Packets {
				b.Packets = [][]byte{datagram}
			}
			s, err := bpf.NewSession(1)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			r := &run{Plan: Plan{Dir: t.TempDir()}, session: s, runs: []*bench.Run{{}}}
			l, err := r.openWork(context.Background(), b, sides)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var got [][]bench.Sample
			for range 2 { // the first one may be anything on a busy host
				if got, err = l.round(0); err != nil {
					break
				}
			}
			if tt.runs == 0 {
				if err == nil || !strings.Contains(err.Error(), "did not run once") {
					t.Errorf("error %v, want that it did not run", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, path, _, warnings := l.describe()
			base, head := got[0], got[1]
			// 20 calls of a helper, which the kernel may inline.
			if base[0].Value <= 0 || head[0].Value < base[0].Value+50 || base[0].Floor <= 0 {
				t.Errorf("%s: %g ns, head with 20 calls of a helper %g ns, the empty program %g ns", path, base[0].Value, head[0].Value, base[0].Floor)
			}
			for i, s := range got {
				if s[1].Value < float64(tt.runs) {
					t.Errorf("%s: side %d ran %g times, want %d", path, i, s[1].Value, tt.runs)
				}
			}
			if len(warnings)+len(r.runs[0].Warnings) > 0 {
				t.Errorf("warnings %q %q", warnings, r.runs[0].Warnings)
			}
		})
	}
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
