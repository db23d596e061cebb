//go:build linux

package action

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
	start := time.Now()
	code, report := r.compare(base, head)
	if m := regexp.MustCompile(`measured in (\S+)`).FindStringSubmatch(log); m != nil {
		took, err := time.ParseDuration(m[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("from docker run to the verdict of the example suite: %s (to be at most 1m0s)", (took + time.Since(start)).Round(100*time.Millisecond))
	}
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

// TestBuildsImage leaves the image out: the action builds its own, and measures in that
// one although another job gives its name to another image meanwhile.
func TestBuildsImage(t *testing.T) {
	r := newRunner(t)
	other := filepath.Join(t.TempDir(), "docker")
	const script = "#!/bin/sh\n[ \"$1\" = build ] || exec docker \"$@\"\ndocker \"$@\" && exec docker tag \"$GATE_TEST_IMAGE-slim\" ebpf-bench-gate:action-full\n"
	if err := os.WriteFile(other, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GATE_DOCKER", other)
	r.withConfig()
	r.write(".github/workflows/ebpf-bench.yml", workflow("args: '--only fun_xdp/worst'"))
	r.commit("measure")
	// The engine of the test has no bridge.
	t.Setenv("GATE_BUILD_FLAGS", "--network host "+os.Getenv("GATE_TEST_BUILD_FLAGS"))
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
