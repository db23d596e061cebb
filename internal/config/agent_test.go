package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ebpf-bench-gate/bench"
)

func TestAgents(t *testing.T) {
	const src = `version: 1
agents:
  tracer:
    run: ./bin/agent --export $GATE_TMP/events.json
    where: host
    in: client
    env: {LEVEL: 3, EMPTY: "", PATHS: "a:b"}
    ready: {log: "^listening on [0-9]+$", command: curl -f localhost, port: 9090, programs: all, stable: 2s, within: 90s}
    programs: [event_execve, "event_ex*"]
    find: {names: ["event_*"], pins: [/sys/fs/bpf/x], cgroups: [/sys/fs/cgroup/x], interfaces: [eth0, eth1]}
    stop: {signal: SIGINT, within: 3s}
  running: {find: {interfaces: [eth0]}}
benchmarks:
  tracer/exec: {agent: tracer, work: {run: "seq 2000", within: 30s}, min_runs: 2000, budget: 3m}
  tracer/idle: {work: {duration: 2s}}
  running/now: {work: {duration: 2s}}
`
	got, err := Parse("f", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	want := []bench.Agent{{
		Name: "tracer", Run: "./bin/agent --export $GATE_TMP/events.json", In: "client", Env: []string{"LEVEL=3", "EMPTY=", "PATHS=a:b"},
		Ready:    bench.Ready{Log: "^listening on [0-9]+$", Command: "curl -f localhost", Port: 9090, Stable: 2 * time.Second, Within: 90 * time.Second},
		Programs: []string{"event_execve", "event_ex*"},
		Find:     bench.Find{Names: []string{"event_*"}, Pins: []string{"/sys/fs/bpf/x"}, Cgroups: []string{"/sys/fs/cgroup/x"}, Interfaces: []string{"eth0", "eth1"}},
		Stop:     bench.Stop{Signal: "SIGINT", Within: 3 * time.Second},
	}, {Name: "running", Find: bench.Find{Interfaces: []string{"eth0"}}}}
	if diff := cmp.Diff(want, got.Agents, noPos); diff != "" {
		t.Error(diff)
	}
	for i, name := range []string{"tracer", "tracer", "running"} {
		if b := got.Benchmarks[i]; b.Agent == nil || b.Agent.Name != name || b.Program != name || b.Work == nil {
			t.Errorf("%+v", b)
		}
	}
	if b := got.Benchmarks[0]; b.MinRuns != 2000 || b.Budget != 3*time.Minute || b.Work.Run != "seq 2000" {
		t.Errorf("%+v", b)
	}
}

// One mistake each; its place is marked.
func TestAgentMistakes(t *testing.T) {
	agent := func(s string) string { return "version: 1\nagents:\n  a: {run: x, " + s + "}" }
	for _, c := range []struct{ src, message, hint string }{
		{"version: 1\nagents:\n  §a: {stop: {within: 1s}}", "agent \"a\" has neither run nor find", "run: ./bin/agent"},
		{"version: 1\nagents:\n  §a/b: {run: x}", "is not a name of an agent", ""},
		{agent("where: §container"), "gate starts no container; an agent runs where gate does", "in the action, that is the measuring container"},
		{agent("where: §moon"), "where cannot be", "expected one of host, container"},
		{"version: 1\nagents:\n  §a: {run: x, in: nowhere}\nbenchmarks: {a/b: {work: {run: x}}}", `no namespace "nowhere"`, "there are client, server"},
		{agent("§redy: {}"), "unknown key", "did you mean ready?"},
		{agent("ready: {log: §'(' }"), "missing closing )", "regexp/syntax"},
		{agent("ready: {port: §70000}"), "port must be a whole number from 1 to 65535", ""},
		{agent("ready: {programs: §some}"), "programs cannot be", "all"},
		{agent("ready: §{stable: 2m}"), "stable is 2m0s, but it has to be ready within 1m0s", ""},
		{agent("programs: [§'a[']"), "is not a pattern", ""},
		{agent("programs: §a"), "programs must be a list", ""},
		{agent("find: {pins: [§pins]}"), "is not a path from the root on", ""},
		{agent("stop: {signal: §SIGSEGV}"), "signal cannot be", "SIGTERM"},
		{agent("env: {§A-B: 1}"), "is not a name of a variable", ""},
		{agent("env: {A: §[1]}"), "A must be text", ""},
		{"version: 1\nagents: {a: {run: x}}\nbenchmarks:\n  §a/b: {min_runs: 3, work: {duration: 1s}, drain: [m]}", "drain has no meaning with an agent", ""},
		{"version: 1\nagents: {a: {run: x}}\nbenchmarks:\n  §a/b: {budget: 3s}", "does not say what is at work", "work:"},
		{"version: 1\nagents: {a: {run: x}, b: {run: x}}\nbenchmarks:\n  a/b: {agent: §b, work: {duration: 1s}}", "a benchmark of agent \"b\" has its name before the slash", "name it b/"},
		{"version: 1\nagents: {a: {run: x}}\nprograms:\n  §a: {object: a.o}", "\"a\" is a program and an agent", ""},
	} {
		t.Run(c.src, func(t *testing.T) {
			before, _, _ := strings.Cut(c.src, "§")
			_, err := Parse("f", []byte(strings.ReplaceAll(c.src, "§", "")))
			var ds Diagnostics
			if !errors.As(err, &ds) || len(ds) != 1 {
				t.Fatalf("got %v, want one mistake: %s", err, c.message)
			}
			if !strings.Contains(ds[0].Message, c.message) || !strings.Contains(ds[0].Hint, c.hint) {
				t.Errorf("%q, %q; want %q, %q", ds[0].Message, ds[0].Hint, c.message, c.hint)
			}
			if want := fmt.Sprintf("f:%d:%d", strings.Count(before, "\n")+1, len(before)-strings.LastIndex(before, "\n")); ds[0].Pos.String() != want {
				t.Errorf("place %s, want %s", ds[0].Pos, want)
			}
		})
	}
}
