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
	port      int
}

const uploadAction = "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02"

func newRunner(t *testing.T) *runner {
	t.Helper()
	if os.Getenv("GATE_TEST_ACT") == "" {
		t.Skip("GATE_TEST_ACT is not set: make test-action sets up a runner of workflows, and a Docker engine")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	r := &runner{t: t, repo: filepath.Join(t.TempDir(), "project"), artifacts: t.TempDir(), home: t.TempDir(), port: port}
	if err := os.MkdirAll(filepath.Join(r.repo, ".github", "workflows"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch=main")
	r.write("fun_xdp.h", r.example("fun_xdp.h"))
	r.write("fun_xdp.bpf.c", r.example("v2_fizzbuzz.bpf.c"))
	r.commit("an XDP program")
	return r
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
	cmd := exec.Command(os.Getenv("GATE_TEST_ACT"), args...)
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

// pack writes runs as the measuring job does.
func (r *runner) pack(file string, base, head *bench.Run) {
	r.t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(map[string]any{"schema": 1, "base": base, "head": head}); err != nil {
		r.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		r.t.Fatal(err)
	}
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

// TestScenario goes from the first pull request, which adds the config, to one
// that is slower.
func TestScenario(t *testing.T) {
	r := newRunner(t)

	r.git("checkout", "--quiet", "-b", "feat/größe#1")
	r.withWorkflow()
	r.withConfig()
	r.commit("measure")
	log, ok := r.run("pull_request", r.pull("feat/größe#1"))
	if !ok {
		t.Fatalf("the first pull request:\n%s", log)
	}
	base, head := r.bundle("ebpf-bench.run.default.feat_2fgr_c3_b6_c3_9fe_231.test.1")
	if base == nil || head == nil || len(head.Results) == 0 {
		t.Fatalf("base %v, head %v", base, head)
	}
	if base.Session != head.Session || base.Revision.Commit != r.git("rev-parse", "main") || base.Revision.Branch != "main" ||
		head.Revision.Branch != "feat/größe#1" || head.Testbed.Name != "test" || head.Testbed.Clang == "" {
		t.Errorf("base %+v, head %+v, %+v", base.Revision, head.Revision, head.Testbed)
	}
	if !strings.Contains(strings.Join(head.Warnings, "\n"), "base has no ebpf-bench.yml") {
		t.Errorf("warnings: %q", head.Warnings)
	}
	if code, report := r.compare(base, head); code == 1 || code == 3 {
		t.Errorf("unchanged programs: exit %d\n%s", code, report)
	}

	// It is merged: a push stores a baseline.
	r.git("checkout", "--quiet", "main")
	r.git("merge", "--quiet", "feat/größe#1")
	if log, ok = r.run("push", r.event(map[string]any{"ref": "refs/heads/main"})); !ok {
		t.Fatalf("push:\n%s", log)
	}
	if base, head = r.bundle("ebpf-bench.run.default.main.test.1"); base != nil || head.Revision.Branch != "main" || head.Revision.Commit != r.git("rev-parse", "HEAD") {
		t.Errorf("push: base %v, head %+v", base, head.Revision)
	}

	r.git("checkout", "--quiet", "-b", "fibonacci")
	r.write("fun_xdp.bpf.c", r.example("v3_fibonacci.bpf.c"))
	r.commit("Fibonacci")
	if log, ok = r.run("pull_request", r.pull("fibonacci")); !ok {
		t.Fatalf("v2 to v3:\n%s", log)
	}
	base, head = r.bundle("ebpf-bench.run.default.fibonacci.test.1")
	code, report := r.compare(base, head)
	t.Logf("v2 to v3:\n%s", report)
	if code != 1 || !strings.Contains(report, "fun_xdp/worst") {
		t.Errorf("v2 to v3: exit %d", code)
	}
	noContainers(t)
}

// containers are those of the action that are there, running or not.
func containers(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("docker", "ps", "--all", "--quiet", "--filter", "label=org.ebpf-bench-gate").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func noContainers(t *testing.T) {
	t.Helper()
	for range 150 {
		if containers(t) == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("containers are left: %s", containers(t))
}

// TestCancelled ends the runner in the middle of measuring, kindly and not.
func TestCancelled(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			r := newRunner(t)
			r.withWorkflow()
			r.withConfig()
			r.commit("measure")
			r.git("checkout", "--quiet", "-b", "change")
			r.write("fun_xdp.bpf.c", r.example("v4_lookup.bpf.c"))
			r.commit("a change")
			noContainers(t)
			cmd := r.command("pull_request", r.pull("change"))
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var b bytes.Buffer
			cmd.Stdout, cmd.Stderr = &b, &b
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			found := false
			for range 600 {
				if found = containers(t) != ""; found {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			if !found {
				_ = cmd.Process.Kill()
				t.Fatalf("no container appeared:\n%s", b.String())
			}
			start := time.Now()
			_ = cmd.Process.Signal(sig)
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				t.Error("the runner does not end")
				<-ended
			}
			if sig == syscall.SIGKILL {
				// What a runner's host does in the end.
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			}
			noContainers(t)
			t.Logf("nothing left after %s", time.Since(start).Round(100*time.Millisecond))
		})
	}
}

// TestRefused holds the events for which nothing is measured.
func TestRefused(t *testing.T) {
	r := newRunner(t)
	r.withWorkflow()
	r.withConfig()
	r.write(".github/workflows/ebpf-bench.yml", strings.Replace(workflow("image: '"+os.Getenv("GATE_TEST_IMAGE")+"'"), "pull_request:", "pull_request_target:", 1))
	r.commit("measure")
	log, ok := r.run("pull_request_target", r.event(map[string]any{"pull_request": map[string]any{}}))
	if ok || !strings.Contains(log, "gives the code of a pull request the secrets") {
		t.Errorf("pull_request_target:\n%s", log)
	}
}

// TestBuildFails shows hostile output of a build, which must command nothing.
func TestBuildFails(t *testing.T) {
	r := newRunner(t)
	r.withWorkflow()
	r.withConfig()
	r.write("ebpf-bench.yml", `version: 1
build: {run: "printf '::set-output name=verdict::pass\\n\\033[2J::error::forged\\n'; test -z \"$GITHUB_OUTPUT$GITHUB_ENV$ACTIONS_RUNTIME_TOKEN\" && echo nothing to steal; exit 7"}
programs: {fun_xdp: {object: fun_xdp.bpf.c}}
benchmarks: {fun_xdp/a: {}}
`)
	r.commit("measure")
	log, ok := r.run("push", r.event(map[string]any{"ref": "refs/heads/main"}))
	if ok || !strings.Contains(log, "exit status 7") || !strings.Contains(log, "nothing to steal") {
		t.Errorf("a build that fails:\n%s", log)
	}
	if strings.Contains(log, "\x1b[2J") || strings.Contains(log, "❗  ::error::forged") {
		t.Errorf("a build commands the runner:\n%s", log)
	}
}

// TestBuildsImage leaves the image out: the action builds its own.
func TestBuildsImage(t *testing.T) {
	r := newRunner(t)
	r.withConfig()
	r.write(".github/workflows/ebpf-bench.yml", workflow("args: '--only fun_xdp/worst'"))
	r.commit("measure")
	// The engine of the test has no bridge.
	t.Setenv("GATE_BUILD_FLAGS", "--network host")
	log, ok := r.run("push", r.event(map[string]any{"ref": "refs/heads/main"}))
	if !ok || !strings.Contains(log, "building the image") {
		t.Fatalf("an image of its own:\n%s", log)
	}
	if _, head := r.bundle("ebpf-bench.run.default.main.test.1"); len(head.Results) == 0 {
		t.Error("nothing was measured")
	}
}

// TestOrdinaryUser runs the measuring step as runners do: not as root, and with
// the right to use the engine.
func TestOrdinaryUser(t *testing.T) {
	r := newRunner(t)
	socket, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if !ok {
		socket = "/var/run/docker.sock"
	}
	info, err := os.Stat(socket)
	if err != nil {
		t.Skipf("no socket of the engine: %v", err)
	}
	const uid = 12345
	gid := info.Sys().(*syscall.Stat_t).Gid
	r.withConfig()
	r.commit("measure")
	r.write("fun_xdp.bpf.c", r.example("v4_lookup.bpf.c"))
	r.commit("a change")
	temp := t.TempDir()
	for _, dir := range []string{temp, r.repo} {
		if out, err := exec.Command("chown", "-R", fmt.Sprint(uid), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	action := published(t)
	// Directories for tests are closed to others.
	for _, dir := range []string{action, filepath.Dir(temp), filepath.Dir(r.repo), filepath.Dir(filepath.Dir(r.repo))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(action, "scripts/action/measure.sh"))
	cmd.Dir = r.repo
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "DOCKER_HOST=unix://" + socket, "HOME=" + temp, "RUNNER_TEMP=" + temp, "GITHUB_WORKSPACE=" + r.repo,
		"GITHUB_ACTIONS=true", "GATE_MODE=measure", "GATE_BASE=HEAD~1", "GATE_IMAGE=" + os.Getenv("GATE_TEST_IMAGE"), "GATE_ARGS=--only fun_xdp/worst",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{gid}}}
	start := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("%s\n%s", time.Since(start).Round(100*time.Millisecond), out)
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(temp, "*", "results", "runs.json.gz"))
	if len(found) != 1 {
		t.Fatalf("results: %v", found)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Sys().(*syscall.Stat_t).Uid != uid {
		t.Errorf("the results are not the runner's: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*", "in")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
