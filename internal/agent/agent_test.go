//go:build linux

package agent

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// ours is the command of the agent of package testkernel.
func ours(args string) string { return "exec " + self + " agent " + args }

// self is this test's binary.
var self = func() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}()

func startAgent(t *testing.T, spec bench.Agent) (*Agent, error) {
	t.Helper()
	if spec.Name == "" {
		spec.Name = "mine"
	}
	a, err := Start(context.Background(), spec, Where{Dir: t.TempDir()})
	if err == nil {
		t.Cleanup(func() { _, _ = a.Stop() })
	}
	return a, err
}

func namesOf(found []Program) string {
	var names []string
	for _, p := range found {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func requireKernel(t *testing.T) {
	t.Helper()
	testkernel.Require(t, testkernel.BPF, testkernel.Net)
	testkernel.NoLeaks(t)
}

func TestAgent(t *testing.T) {
	requireKernel(t)
	for _, tt := range []struct {
		name     string
		spec     bench.Agent
		programs string
		others   string
	}{
		{name: "as it comes", spec: bench.Agent{Run: ours("b_program a_program_of_quite_a_long_name")}, programs: "a_program_of_quite_a_long_name b_program"},
		{name: "by name", spec: bench.Agent{Run: ours("a b"), Programs: []string{"b"}}, programs: "b", others: "a"},
		{name: "by glob", spec: bench.Agent{Run: ours("one_a two_a one_b"), Programs: []string{"one_*"}}, programs: "one_a one_b", others: "two_a"},
		{name: "in a shell", spec: bench.Agent{Run: self + " agent a; true"}, programs: "a"},
		{name: "a daemon", spec: bench.Agent{Run: ours("-daemon a")}, programs: "a"},
		{name: "late, and expected", spec: bench.Agent{Run: ours("-late 1s a b"), Programs: []string{"b"}, Ready: bench.Ready{Stable: 10 * time.Millisecond}}, programs: "b", others: "a"},
		{name: "late, and patience", spec: bench.Agent{Run: ours("-late 500ms a b"), Ready: bench.Ready{Stable: 3 * time.Second}}, programs: "a b"},
		{name: "when it says so", spec: bench.Agent{Run: ours("-late 500ms a b"), Ready: bench.Ready{Log: "^agent: ready$", Stable: 10 * time.Millisecond}}, programs: "a b"},
		{name: "looks at its programs again and again", spec: bench.Agent{Run: self + " agent a & while sleep 0.02; do bpftool prog show >/dev/null; done"}, programs: "a"},
		{
			name:     "when a command says so",
			spec:     bench.Agent{Run: "(sleep 0.5; touch $GATE_TMP/ready) & " + ours("a"), Ready: bench.Ready{Command: "test -e $GATE_TMP/ready"}},
			programs: "a",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := startAgent(t, tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			found, others := a.Programs()
			if namesOf(found) != tt.programs || namesOf(others) != tt.others {
				t.Errorf("%s and %s, want %s and %s", namesOf(found), namesOf(others), tt.programs, tt.others)
			}
			for _, p := range found {
				if len(p.IDs) != 1 || p.Type != "raw_tracepoint" || p.Uncounted {
					t.Errorf("%+v", p)
				}
			}
			if err := a.Check(); err != nil {
				t.Error(err)
			}
			if w, err := a.Stop(); w != "" || err != nil {
				t.Errorf("stop: %q, %v", w, err)
			}
			for _, p := range found {
				within(t, "unloaded", func() bool {
					left, err := programs.Describe(p.IDs)
					return err == nil && len(left) == 0
				})
			}
		})
	}
}

// Two programs of one name are one row; which of base's is which of head's, nobody
// knows.
func TestAgentTwins(t *testing.T) {
	requireKernel(t)
	a, err := startAgent(t, bench.Agent{Run: ours("twin other twin")})
	if err != nil {
		t.Fatal(err)
	}
	found, _ := a.Programs()
	if namesOf(found) != "other twin" || len(found[0].IDs) != 1 || len(found[1].IDs) != 2 {
		t.Errorf("%+v", found)
	}
}

func TestAgentFails(t *testing.T) {
	requireKernel(t)
	hurry := bench.Ready{Within: 700 * time.Millisecond, Stable: 100 * time.Millisecond}
	// For what first has to be found.
	calm := bench.Ready{Within: 5 * time.Second, Stable: 100 * time.Millisecond}
	for _, tt := range []struct {
		name string
		spec bench.Agent
		want []string
	}{
		{"exits at once", bench.Agent{Run: "echo nothing to do"}, []string{"it ended at once (exit status 0) and left no program in the kernel", "it said:\n  nothing to do"}},
		{"fails", bench.Agent{Run: "echo no luck >&2; exit 7"}, []string{"it ended before it was ready: exit status 7; it said:\n  no luck"}},
		{"is not there", bench.Agent{Run: "./bin/agent --export x"}, []string{"exit status 127", "./bin/agent: not found"}},
		{"crashes", bench.Agent{Run: ours("-crash 1ms -quiet a"), Ready: bench.Ready{Stable: 20 * time.Second}}, []string{"exit status 3", "\n  agent: [31mout of luck[0m"}},
		{"never loads", bench.Agent{Run: "echo thinking; exec sleep 1000", Ready: hurry}, []string{"not ready within 700ms; found none; it said:\n  thinking"}},
		{"lacks a program", bench.Agent{Run: ours("a b"), Programs: []string{"b", "c", "d_*"}, Ready: calm}, []string{"not ready within 5s; no program c, d_*; found a, b"}},
		{"ends and lacks one", bench.Agent{Run: "true", Programs: []string{"c"}, Ready: hurry}, []string{"it ended at once", "; no program c"}},
		{"never says so", bench.Agent{Run: ours("-quiet a"), Ready: bench.Ready{Log: "ready", Within: calm.Within}}, []string{`no line of its output matches "ready"; found a`}},
		{"never listens", bench.Agent{Run: ours("a"), Ready: bench.Ready{Port: 1, Within: hurry.Within}}, []string{"nothing listens on port 1"}},
		{"check fails", bench.Agent{Run: ours("a"), Ready: bench.Ready{Command: "exit 1", Within: hurry.Within}}, []string{`"exit 1" does not end with 0`}},
		{"bad directory", bench.Agent{Run: "true", Find: bench.Find{Cgroups: []string{"/no/such/group"}}}, []string{"no such file"}},
		{"nobody there", bench.Agent{Find: bench.Find{PIDs: []int{1}}}, []string{"not found at work; found none"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := startAgent(t, tt.spec)
			if err == nil {
				t.Fatalf("found %s", foundNames(a.found))
			}
			var e *Error
			if !errors.As(err, &e) || e.Who != "agent mine" {
				t.Errorf("%#v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\x1b") {
				t.Errorf("the terminal is told something: %q", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(200*time.Millisecond, cancel)
	if _, err := Start(ctx, bench.Agent{Name: "mine", Run: "exec sleep " + marker(1)}, Where{Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if left := sleepers(marker(1)); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestAgentMisbehavesLater(t *testing.T) {
	requireKernel(t)
	a, err := startAgent(t, bench.Agent{Run: ours("-crash 5s a"), Ready: bench.Ready{Stable: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	within(t, "noticed", func() bool { return a.Check() != nil })
	if err := a.Check(); !strings.Contains(err.Error(), "ended while it was measured: exit status 3; it said:\n  agent: ready\n  agent: [31mout") {
		t.Error(err)
	}

	if a, err = startAgent(t, bench.Agent{Run: ours("-deaf a"), Stop: bench.Stop{Signal: "SIGINT", Within: 100 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	if w, err := a.Stop(); err != nil || w != "agent mine: 1 of its processes had not ended 100ms after SIGINT, and was killed" {
		t.Errorf("%q, %v", w, err)
	}

	if a, err = startAgent(t, bench.Agent{Run: ours("-late 5s a b"), Ready: bench.Ready{Stable: 10 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	if found, _ := a.Programs(); namesOf(found) != "a" {
		t.Fatalf("%s", namesOf(found))
	}
	within(t, "late", func() bool {
		late, err := a.Late()
		return err == nil && namesOf(late) == "b"
	})
}

// One that takes the place of another of its name is late, too; the other is not.
func TestAgentReloads(t *testing.T) {
	requireKernel(t)
	a, err := startAgent(t, bench.Agent{
		Run:      "trap 'kill $p' USR1; " + self + " agent a b & p=$!; wait $p; exec " + self + " agent b",
		Programs: []string{"b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if late, err := a.Late(); err != nil || len(late) > 0 {
		t.Errorf("before: %v, %v", late, err)
	}
	for _, m := range a.p.members() {
		_ = unix.Kill(m.pid, unix.SIGUSR1)
	}
	within(t, "reloaded", func() bool {
		late, err := a.Late()
		return err == nil && namesOf(late) == "b" && len(late[0].IDs) == 1
	})
}

// An agent that runs already is looked at, and goes on.
func TestAgentAtWork(t *testing.T) {
	requireKernel(t)
	last, err := programs.Last()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "agent", "a_running_one", "another")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	within(t, "loaded", func() bool { ids, err := programs.LoadedAfter(last); return err == nil && len(ids) >= 2 })
	a, err := startAgent(t, bench.Agent{Find: bench.Find{PIDs: []int{cmd.Process.Pid}}, Programs: []string{"a_running_one"}})
	if err != nil {
		t.Fatal(err)
	}
	if found, others := a.Programs(); namesOf(found) != "a_running_one" || namesOf(others) != "another" {
		t.Errorf("%s, %s", namesOf(found), namesOf(others))
	}
	if _, err := a.Stop(); err != nil {
		t.Error(err)
	}
	if _, there := stat(cmd.Process.Pid); !there {
		t.Error("somebody else's agent was stopped")
	}
	// Of somebody else's, by name.
	a = &Agent{spec: bench.Agent{Find: bench.Find{Names: []string{"a_run*"}}}, last: last}
	if l, err := a.look(); err != nil || namesOf(l.programs) != "a_running_one" {
		t.Errorf("%+v, %v", l, err)
	}
}

// What agents get: a directory of their own, and no secret.
func TestAgentEnvironment(t *testing.T) {
	requireKernel(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	dir := t.TempDir()
	_, err := Start(context.Background(), bench.Agent{Name: "mine", Run: "env; pwd; ls -d $GATE_TMP; exit 1", Env: []string{"MINE=yes"}}, Where{Dir: dir, Env: []string{"GATE_IFACE=client"}})
	if err == nil {
		t.Fatal("no error")
	}
	said := err.Error()
	for _, want := range []string{"MINE=yes", "GATE_IFACE=client", "\n  " + dir, "PATH=", "HOME=/sys/fs/bpf/gate-tmp"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
	if strings.Contains(said, "secret") {
		t.Errorf("a secret got in: %s", said)
	}
	if _, err := os.Stat(tmpDir); err == nil {
		t.Errorf("the host has %s", tmpDir)
	}
}

func TestGroup(t *testing.T) {
	got := group([]programs.Info{{ID: 9, Name: "b", Type: "xdp"}, {ID: 3, Name: "a", Type: "ext"}, {ID: 4, Type: "xdp"}, {ID: 1, Name: "b", Type: "xdp"}, {ID: 9, Name: "b", Type: "xdp"}})
	if namesOf(got) != "a b unnamed_xdp" || !got[0].Uncounted || !slices.Equal(got[1].IDs, []uint32{1, 9}) {
		t.Errorf("%+v", got)
	}
	for _, tt := range []struct {
		name, want string
		is         bool
	}{
		{"sys_enter_execv", "sys_enter_execve", true}, // 15 of them
		{"sys_enter_exec", "sys_enter_execve", false},
		{"sys_enter_execve", "sys_enter_*", true},
		{"sys_enter_execve", "sys_exit_*", false},
	} {
		if got := (Program{Name: tt.name}).is(tt.want); got != tt.is {
			t.Errorf("%s is %s: %t", tt.name, tt.want, got)
		}
	}
}
