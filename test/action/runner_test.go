//go:build linux

package action

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/cli"
)

// A runner is nektos/act over one repository.
type runner struct {
	t         *testing.T
	repo      string
	artifacts string
	home      string
	port      int // of act's server of artifacts
}

const uploadAction = "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02"

func needsRunner(t *testing.T) {
	t.Helper()
	if os.Getenv("GATE_TEST_ACT") == "" {
		t.Skip("GATE_TEST_ACT is not set: make test-action sets up a runner of workflows, and a Docker engine")
	}
}

func newRunner(t *testing.T) *runner {
	t.Helper()
	needsRunner(t)
	r := &runner{t: t, repo: filepath.Join(t.TempDir(), "project"), artifacts: t.TempDir(), home: t.TempDir(), port: freePort(t)}
	if err := os.MkdirAll(filepath.Join(r.repo, ".github", "workflows"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch=main")
	r.write("fun_xdp.h", r.example("fun_xdp.h"))
	r.write("fun_xdp.bpf.c", r.example("v2_fizzbuzz.bpf.c"))
	r.commit("an XDP program")
	return r
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (r *runner) top() string {
	r.t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		r.t.Fatal(err)
	}
	return dir
}

var publish struct {
	sync.Once
	dir string
	err error
}

// published is a copy of the action as a tag would have it: the tracked files.
func published(t *testing.T) string {
	t.Helper()
	publish.Do(func() {
		cmd := exec.Command("sh", "-c", `cd ../.. && git ls-files -z | tar --null --files-from=- --ignore-failed-read -cf - | tar -C "$0" -xf -`, publish.dir)
		cmd.Stderr = os.Stderr
		publish.err = cmd.Run()
	})
	if publish.err != nil {
		t.Fatal(publish.err)
	}
	return publish.dir
}

// TestMain makes the directory that all tests share.
func TestMain(m *testing.M) {
	var err error
	if publish.dir, err = os.MkdirTemp("", "gate-action-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(publish.dir)
	os.Exit(code)
}

func (r *runner) example(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.top(), "examples", "fun-xdp", name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

func (r *runner) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.repo, name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *runner) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.repo
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *runner) commit(message string) {
	r.git("add", ".")
	r.git("commit", "--quiet", "--message", message)
}

// workflow is a short one, as the README has it, with inputs of the action.
func workflow(with string) string {
	return `name: ebpf-bench
on: {pull_request: {}, push: {branches: [main]}}
permissions: {}
jobs:
  measure:
    permissions: {contents: read}
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2
        with: {persist-credentials: false, fetch-depth: 2}
      - uses: org/ebpf-bench-gate@v1
        with: {mode: measure, testbed: test, privileges: caps, budget: 30s, ` + with + `}
`
}

func (r *runner) withWorkflow() {
	r.write(".github/workflows/ebpf-bench.yml", workflow("image: '"+os.Getenv("GATE_TEST_IMAGE")+"'"))
}

func (r *runner) withConfig() {
	r.write("ebpf-bench.yml", strings.Replace(r.example("ebpf-bench.yml"), "v4_lookup.bpf.c", "fun_xdp.bpf.c", 1))
}

// pull checks out what actions/checkout does for a pull request of a branch into
// main, and returns the event.
func (r *runner) pull(branch string) string {
	r.t.Helper()
	head, base := r.git("rev-parse", branch), r.git("rev-parse", "main")
	r.git("checkout", "--quiet", "--detach", "main")
	r.git("merge", "--quiet", "--no-ff", "--message", "merge", branch)
	type side map[string]any
	repo := side{"id": 1, "full_name": "org/project"}
	return r.event(side{"number": 1, "pull_request": side{
		"number": 1,
		"head":   side{"ref": branch, "sha": head, "repo": repo},
		"base":   side{"ref": "main", "sha": base, "repo": repo},
	}})
}

func (r *runner) event(payload any) string {
	r.t.Helper()
	data, err := json.Marshal(payload)
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.t.TempDir(), "event.json")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		r.t.Fatal(err)
	}
	return file
}

func (r *runner) command(event, payload string, args ...string) *exec.Cmd {
	args = append([]string{
		event, "--platform", "ubuntu-latest=-self-hosted", "--eventpath", payload, "--container-daemon-socket", "-",
		"--artifact-server-path", r.artifacts, "--artifact-server-addr", "127.0.0.1", "--artifact-server-port", fmt.Sprint(r.port),
		"--local-repository", "org/ebpf-bench-gate@v1=" + published(r.t),
		"--local-repository", uploadAction + "=" + filepath.Join(r.top(), "scripts/action/testdata/upload-artifact"),
	}, args...)
	// act gives a step a terminal, and closes it before it has read what a step says
	// that fails. Where there are no terminals it reads a pipe, to the end.
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", `mount --bind /dev/null /dev/ptmx && exec "$0" "$@"`, os.Getenv("GATE_TEST_ACT")}, args...)...)
	cmd.Dir = r.repo
	cmd.Env = append(os.Environ(), "HOME="+r.home, "XDG_CONFIG_HOME="+r.home, "XDG_CACHE_HOME="+r.home, "NODE_PATH="+os.Getenv("GATE_TEST_CLIENT"))
	return cmd
}

// run runs the workflow for an event, and returns its log.
func (r *runner) run(event, payload string, args ...string) (log string, ok bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Minute)
	defer cancel()
	cmd := r.command(event, payload, args...)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	start := time.Now()
	err := cmd.Run()
	r.t.Logf("%s: %s", event, time.Since(start).Round(100*time.Millisecond))
	for _, line := range strings.Split(b.String(), "\n") {
		if strings.Contains(line, "built ") || strings.Contains(line, "measured in") {
			r.t.Log(line)
		}
	}
	if r.t.Failed() || testing.Verbose() && os.Getenv("GATE_TEST_LOG") != "" {
		r.t.Log(b.String())
	}
	return b.String(), err == nil
}

// bundle reads what was uploaded under a name. (A bundle is read here as the
// report does: unzip, inflate, decode; the schema's checks have tests of theirs.)
func (r *runner) bundle(name string) (base, head *bench.Run) {
	r.t.Helper()
	found, _ := filepath.Glob(filepath.Join(r.artifacts, "*", name, "*.zip"))
	if len(found) != 1 {
		all, _ := filepath.Glob(filepath.Join(r.artifacts, "*", "*"))
		r.t.Fatalf("no artifact %s; there are %v", name, all)
	}
	z, err := zip.OpenReader(found[0])
	if err != nil {
		r.t.Fatal(err)
	}
	defer z.Close()
	if len(z.File) != 1 || z.File[0].Name != "runs.json.gz" {
		r.t.Fatalf("artifact holds %v", z.File)
	}
	f, err := z.File[0].Open()
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	g, err := gzip.NewReader(f)
	if err != nil {
		r.t.Fatal(err)
	}
	var b struct{ Base, Head *bench.Run }
	if err := json.NewDecoder(io.LimitReader(g, 50<<20)).Decode(&b); err != nil {
		r.t.Fatal(err)
	}
	return b.Base, b.Head
}

// compare is gate compare over what was uploaded.
func (r *runner) compare(base, head *bench.Run) (code int, report string) {
	r.t.Helper()
	dir := r.t.TempDir()
	write := func(name string, run *bench.Run) string {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			r.t.Fatal(err)
		}
		defer f.Close()
		if err := bench.Encode(f, run); err != nil {
			r.t.Fatal(err)
		}
		return f.Name()
	}
	var out bytes.Buffer
	c := cli.Command{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}
	code = c.Main([]string{"gate", "compare", "--config", filepath.Join(r.repo, "ebpf-bench.yml"), write("base.json", base), write("head.json", head)})
	return code, out.String()
}
