package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// atWork are commands about what runs already.
var atWork = regexp.MustCompile(`--(pid|attach-to) `)

// TestDocsAtWork does what the documents show of agents and of real work, with fewer
// turns: each config measures something, and so does each command about an agent that
// runs already, or an interface that has a program.
func TestDocsAtWork(t *testing.T) {
	script := strings.Builder{}
	script.WriteString(atWorkSetup)
	files := atWorkFiles
	for _, e := range examples(t) {
		if e.block && atWork.MatchString(e.words) && !placeholder.MatchString(e.words) {
			fmt.Fprintf(&script, "\n# %s\nshown %s\nstdout ' latency '\n", e.where, quote("./beside.sh '"+e.words+" --no-store'"))
		}
	}
	fewer := strings.NewReplacer("seq 2000", "seq 40", "min_runs: 2000", "min_runs: 40", "seq 200", "seq 40", "min_runs: 200", "min_runs: 40", "200M", "20M")
	for _, name := range []string{"agents.md", "macro.md"} {
		text, err := os.ReadFile("../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if _, err := exec.LookPath("iperf3"); err != nil && strings.Contains(block[1], "iperf3") {
				t.Log("the example with iperf3 needs it")
				continue
			}
			config := fmt.Sprintf("%s.%d.yml", name, i)
			fmt.Fprintf(&script, "\n# %s\nshown 'gate run --no-store --budget 1s --config %s'\nstdout ' latency '\n! stdout skipped\n", config, config)
			files += fmt.Sprintf("-- %s --\n%s", config, fewer.Replace(block[1]))
		}
	}
	// The net has no holes.
	if n := strings.Count(script.String(), "shown "); n < 4 {
		t.Fatalf("%d examples in\n%s", n, script.String())
	}
	file := filepath.Join(t.TempDir(), "docs-at-work.txtar")
	if err := os.WriteFile(file, []byte(script.String()+files), 0o644); err != nil {
		t.Fatal(err)
	}
	runScripts(t, testscript.Params{Files: []string{file}})
}

const atWorkSetup = `require bpf stats netns clang
exec chmod 755 bin/agent beside.sh beside_too.sh
exec clang -O2 -g -target bpf -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu -c filter.bpf.c -o filter.o
`

const atWorkFiles = `
-- exec.bpf.c --
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("tracepoint/syscalls/sys_enter_execve") int on_exec(void *ctx) { return 0; }
char LICENSE[] SEC("license") = "GPL";
-- filter.bpf.c --
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("xdp") int filter(struct xdp_md *ctx) { return XDP_PASS; }
char LICENSE[] SEC("license") = "GPL";
-- Makefile --
all:
	test -x bin/agent
-- bin/agent --
#!/bin/sh
exec agent event_execve event_exit
-- beside.sh --
#!/bin/sh
# A command beside an agent and a program on eth0, in namespaces of its own.
exec unshare --net --mount ./beside_too.sh "$1"
-- beside_too.sh --
#!/bin/sh
set -e
mount -t bpf bpf /sys/fs/bpf # ip makes its directories in it, which would stay on the host
ip link add eth0 type veth peer name far
ip link set dev eth0 xdpgeneric obj filter.o sec xdp
ip link set eth0 up
ip link set far up
agent event_execve >said &
trap "kill $!" EXIT
until grep -q ready said; do sleep 0.02; done
bash -o pipefail -c "$1"
`
