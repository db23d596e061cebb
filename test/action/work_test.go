//go:build linux

package action

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
)

// hooks are programs that hang at something that a container has not by itself:
// tracefs, a control group of version 2.
const hooks = `#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, __u64); } runs SEC(".maps");

static __always_inline int count(void)
{
	__u32 key = 0;
	__u64 *n = bpf_map_lookup_elem(&runs, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
	return 1;
}

SEC("tracepoint/syscalls/sys_enter_execve") int on_exec(void *ctx) { return !count(); }
SEC("cgroup_skb/egress") int sent(struct __sk_buff *skb) { return count(); }

char LICENSE[] SEC("license") = "GPL";
`

// TestAttached measures in the action's container what programs cost while commands
// of the pull request run there.
func TestAttached(t *testing.T) {
	r := newRunner(t)
	r.withWorkflow()
	r.write("hooks.bpf.c", hooks)
	r.write("ebpf-bench.yml", `version: 1
programs: {on_exec: {object: hooks.bpf.c}, sent: {object: hooks.bpf.c}}
benchmarks:
  on_exec/shell: {work: {run: "seq 50 | xargs -n1 true"}, min_runs: 50}
  sent/udp: {work: {run: "bash -c 'for n in $(seq 100); do echo >/dev/udp/$GATE_ADDR/9; done'"}, min_runs: 100}
policy: {budget: 15s, latency: {fail: 900%}, runs: {fail: 900%}}
`)
	r.commit("measure")
	log, ok := r.run("push", r.event(map[string]any{"ref": "refs/heads/main"}))
	if !ok {
		t.Fatalf("attached programs:\n%s", log)
	}
	_, head := r.bundle("ebpf-bench.run.default.main.test.1")
	seen := map[string]bool{}
	for _, res := range head.Results {
		seen[res.Benchmark+" "+res.Measure] = len(res.Samples) > 0
	}
	if !seen["on_exec/shell latency"] || !seen["sent/udp latency"] || len(head.Skipped) > 0 {
		t.Errorf("%v, skipped %v\n%s", seen, head.Skipped, log)
	}
	noContainers(t)
}

// counter is what an agent and a loader load, which gate itself does not see.
const counter = `#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, __u64); } packets SEC(".maps");

SEC("xdp") int count(struct xdp_md *ctx)
{
	__u32 key = 0;

	for (int i = 0; i < TIMES; i++) {
		__u64 *n = bpf_map_lookup_elem(&packets, &key);
		if (n)
			__sync_fetch_and_add(n, 1);
	}
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
`

// TestAgent goes through a pull request of a project whose programs are loaded by its own
// agent and by its own loader, and built by its own toolchain on the runner: in the
// container each side's take turns under live frames, and the slower one is found.
func TestAgent(t *testing.T) {
	r := newRunner(t)
	r.withWorkflow()
	r.write("count.bpf.c", strings.Replace(counter, "TIMES", "1", 1))
	r.write("agent.sh", `set -e
bpftool prog load count.o /sys/fs/bpf/count
bpftool net attach xdpgeneric pinned /sys/fs/bpf/count dev "$GATE_IFACE"
exec sleep 1000
`)
	r.write("ebpf-bench.yml", `version: 1
build: {run: "clang -O2 -g -target bpf -I/usr/include/$(uname -m)-linux-gnu -c count.bpf.c -o count.o", outputs: [count.o, agent.sh]}
programs: {count: {object: count.o, loader: 'bpftool prog load "$GATE_OBJECT" /sys/fs/bpf/count type xdp'}}
agents: {agent: {run: sh ./agent.sh, in: server, programs: [count]}}
benchmarks:
  agent/packets: {work: {packets: {udp: {}}, count: 2000}, min_runs: 1000}
  count/udp: {packets: {udp: {}}}
policy: {latency: {fail: 200%}, runs: {fail: 900%}}
`)
	r.commit("measure")
	if log, ok := r.run("push", r.event(map[string]any{"ref": "refs/heads/main"})); !ok {
		t.Fatalf("push:\n%s", log)
	}
	if base, head := r.bundle("ebpf-bench.run.default.main.test.1"); base != nil || slices.ContainsFunc(head.Skipped, func(s bench.Skip) bool { return s.Required }) {
		t.Errorf("push: base %v, skipped %v", base, head.Skipped)
	}
	r.git("checkout", "--quiet", "-b", "slow")
	r.write("count.bpf.c", strings.Replace(counter, "TIMES", "500", 1))
	r.commit("slow")
	log, ok := r.run("pull_request", r.pull("slow"))
	if !ok {
		t.Fatalf("slow:\n%s", log)
	}
	code, report := r.compare(r.bundle("ebpf-bench.run.default.slow.test.1"))
	for _, want := range []string{`✗ agent/packets/count +latency .* regressed`, `✗ count/udp +latency .* regressed`} {
		if code != 1 || !regexp.MustCompile(want).MatchString(report) {
			t.Errorf("exit %d, no %s in\n%s\n%s", code, want, report, log)
		}
	}
	noContainers(t)
}

// looksAround is a stranger's command where programs are measured: it floods whatever
// takes it, and tells at last what it has found. (As an owner's it would not even be
// root, which these tests are.)
const looksAround = `exec 2>&1
say() { said="$said$1: $2
"; }
say environment "$(env | grep -iE 'token|secret|github_|docker' || echo nothing)"
say repositories "$(find / -xdev -name .git 2>/dev/null | grep . || echo nothing)"
say sockets "$(find / -xdev -type s 2>/dev/null | grep . || echo nothing)"
say checkout "$(ls -R /in | grep -c secret.txt)"
say written "$(touch /in/x /in/0/head/x /etc/x 2>/dev/null && echo all || echo nothing)"
say network "$(grep -c 'eth[0-9]' /proc/net/dev)"
say gate "$(grep -l '^gate$' /proc/[0-9]*/comm 2>/dev/null || echo nothing)"
for p in /proc/[0-9]*; do head -c 6000000 /dev/zero >$p/fd/1; done 2>/dev/null
ln -s /etc/passwd /tmp/runs.json.gz
head -c 700000000 /dev/zero >/tmp/flood 2>/dev/null && say flood written || say flood stopped
rm -f /tmp/flood
say processes "$( (n=0; while [ $n -lt 1000 ]; do sleep 100 >/dev/null 2>&1 & n=$((n+1)); done) 2>&1 | grep -c -i fork)"
echo
echo "$said" | sed 's/^/found /'
exit 7`

// TestPullRequestLooksAround runs that command in a job, and reads in the log what it
// found: it has failed, and is told as what was not measured.
func TestPullRequestLooksAround(t *testing.T) {
	r := newRunner(t)
	r.withWorkflow()
	r.write("hooks.bpf.c", hooks)
	r.write("secret.txt", "is in the checkout")
	r.write("ebpf-bench.yml", "version: 1\nprograms: {on_exec: {object: hooks.bpf.c}}\nbenchmarks:\n  on_exec/evil:\n    work:\n      within: 60s\n      run: |\n        "+strings.ReplaceAll(looksAround, "\n", "\n        ")+"\n")
	r.commit("measure")
	t.Setenv("GITHUB_TOKEN", "s3cret")
	log, ok := r.run("push", r.event(map[string]any{"ref": "refs/heads/main"}))
	if !ok || !strings.Contains(log, "not everything was measured") {
		t.Errorf("the job failed as a whole:\n%s", log)
	}
	for _, want := range []string{"environment: nothing", "repositories: nothing", "sockets: nothing", "checkout: 0", "written: nothing", "network: 0", "gate: nothing", "flood: stopped"} {
		if !strings.Contains(log, "found "+want) {
			t.Errorf("the command did not find %s", want)
		}
	}
	if strings.Contains(log, "found processes: 0") || !strings.Contains(log, "found processes: ") {
		t.Error("processes are not limited")
	}
	_, head := r.bundle("ebpf-bench.run.default.main.test.1")
	if len(head.Skipped) != 1 || !head.Skipped[0].Required {
		t.Errorf("skipped: %+v", head.Skipped)
	}
	if t.Failed() {
		t.Log(log)
	}
	noContainers(t)
}

// TestPullRequestWritesTheRuns has an agent of a stranger's, which is root beside gate in
// the container, write into the pipe by which the runs leave it. It could make up
// numbers of its own; it gets no more out than runs that are checked.
func TestPullRequestWritesTheRuns(t *testing.T) {
	needsEngine(t)
	const into = `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = gate ] && COMMAND >$p/fd/1; done; exit 1`
	for _, tt := range []struct{ name, command, want string }{
		{"a flood", "head -c 6000000 /dev/urandom", "the measuring container wrote more than 5 MB"},
		{"no runs", "echo '::set-output name=verdict::pass'", "not a packed file"},
		{"runs before the runs", `sh -c "echo '{\"schema\":1}' | gzip"`, "data after the runs"},
		{"a bomb", `sh -c "head -c 200000000 /dev/zero | gzip"`, "more than 50 MB inflated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRunner(t)
			r.withWorkflow()
			r.write("agent.sh", strings.Replace(into, "COMMAND", tt.command, 1))
			r.write("ebpf-bench.yml", `version: 1
build: {run: "true", outputs: [agent.sh]}
agents: {evil: {run: sh ./agent.sh, ready: {within: 60s}}}
benchmarks: {evil/idle: {work: {duration: 1s}}}
`)
			r.commit("measure")
			log, ok := r.run("push", r.event(map[string]any{"ref": "refs/heads/main"}))
			if ok || !strings.Contains(log, tt.want) {
				t.Errorf("ok %t, does not say %q:\n%s", ok, tt.want, log)
			}
			if strings.Contains(log, "uploaded") {
				t.Errorf("something was uploaded:\n%s", log)
			}
		})
	}
	noContainers(t)
}
