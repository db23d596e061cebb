//go:build linux

package action

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// step runs a step of the action by itself, as a job does.
func step(t *testing.T, script string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(published(t), "scripts/action", script))
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "DOCKER_HOST=" + os.Getenv("DOCKER_HOST"), "GITHUB_ACTIONS=true", "RUNNER_TEMP=" + t.TempDir(), "GATE_MODE=measure", "GATE_IMAGE=" + os.Getenv("GATE_TEST_IMAGE")}, env...)
	return cmd
}

// refuses runs a command that must end with exit code 3 and say why.
func refuses(t *testing.T, cmd *exec.Cmd, words ...string) {
	t.Helper()
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%s: %v\n%s", cmd, cmd.ProcessState, out)
	}
	for _, w := range append(words, "::error title=ebpf-bench-gate::") {
		if !bytes.Contains(out, []byte(w)) {
			t.Errorf("does not say %q:\n%s", w, out)
		}
	}
	t.Logf("%s", out)
}

func needsEngine(t *testing.T) {
	t.Helper()
	if os.Getenv("GATE_TEST_ACT") == "" {
		t.Skip("GATE_TEST_ACT is not set: make test-action sets up a runner of workflows, and a Docker engine")
	}
}

// TestRunnerWithoutDocker holds what a runner says that cannot start containers.
func TestRunnerWithoutDocker(t *testing.T) {
	needsEngine(t)
	bin := t.TempDir()
	for _, name := range []string{"bash", "dirname", "uname", "env"} {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, script := range []string{"measure.sh", "report.sh"} {
		refuses(t, step(t, script, "PATH="+bin), "this runner has no docker command", "hint: use a hosted Linux runner")
		refuses(t, step(t, script, "DOCKER_HOST=unix:///nowhere/docker.sock"), "the Docker engine cannot be reached", "container:")
		refuses(t, step(t, script, "GATE_IMAGE=ebpf-bench-gate:there-is-none"), "there is no image ebpf-bench-gate:there-is-none")
	}
}

// TestRunnerWithoutBTF hides the kernel's types from the step, as an old kernel has
// none.
func TestRunnerWithoutBTF(t *testing.T) {
	needsEngine(t)
	cmd := step(t, "measure.sh")
	cmd.Args = []string{"sh", "-c", `mount --make-rprivate / && mount -t tmpfs none /sys/kernel/btf && exec "$0"`, cmd.Path}
	cmd.Path = "/bin/sh"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	refuses(t, cmd, "this kernel tells no types (BTF)", "CONFIG_DEBUG_INFO_BTF")
}

// TestJobContainer runs the steps inside of a job's container (container: in a
// workflow), where there is no engine.
func TestJobContainer(t *testing.T) {
	needsEngine(t)
	for _, script := range []string{"measure.sh", "report.sh"} {
		refuses(t, exec.Command("docker", "run", "--rm", "--network", "none", "--mount", "type=bind,source="+published(t)+",target=/action,readonly",
			"--env", "GATE_MODE=measure", "--env", "RUNNER_TEMP=/tmp", "--entrypoint", "/action/scripts/action/"+script, os.Getenv("GATE_TEST_IMAGE")),
			"this runner has no docker command", "inside of a job container (container:), leave that line out")
	}
}

// TestContainerLacks holds what gate says in containers that lack something: it finds
// out what it needs by trying, and says what to do. (It mounts tracefs for itself.)
func TestContainerLacks(t *testing.T) {
	needsEngine(t)
	may := []string{"--cap-drop", "ALL", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
		"--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW", "--cap-add", "SYS_NICE"}
	for _, tt := range []struct {
		name  string
		args  []string
		code  int
		words []string
	}{
		{"tracefs and cgroup v2", append([]string{"--mount", "type=tmpfs,target=/sys/fs/cgroup", "--mount", "type=tmpfs,target=/sys/kernel/tracing", "--mount", "type=tmpfs,target=/sys/kernel/debug"}, may...), 0,
			[]string{"✓ micro XDP", "✓ tracepoint", "✗ cgroup", "no cgroup v2 is mounted", "in a container: --cgroupns=host"}},
		{"BTF", append([]string{"--mount", "type=tmpfs,target=/sys/kernel/btf"}, may...), 0,
			[]string{"✓ micro XDP", "✗ BTF", "use a kernel with CONFIG_DEBUG_INFO_BTF"}},
		{"capabilities", nil, 3, []string{"✗ micro XDP", "operation not permitted", "lacks CAP_BPF", "docker run --privileged"}},
	} {
		args := append([]string{"run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp"}, tt.args...)
		cmd := exec.Command("docker", append(args, os.Getenv("GATE_TEST_IMAGE"), "doctor")...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.code {
			t.Errorf("without %s: exit %d, want %d\n%s", tt.name, code, tt.code, out)
		}
		for _, w := range tt.words {
			if !strings.Contains(string(out), w) {
				t.Errorf("without %s: does not say %q:\n%s", tt.name, w, out)
			}
		}
	}
}

// TestTwoJobs runs two jobs on one host: both wait while something else measures,
// then one for the other, and neither loses anything.
func TestTwoJobs(t *testing.T) {
	var jobs [2]*runner
	var events [2]string
	for i := range jobs {
		r := newRunner(t)
		r.withWorkflow()
		r.write("ebpf-bench.yml", suiteWith(""))
		r.commit("measure")
		r.git("checkout", "--quiet", "-b", fmt.Sprintf("change-%d", i))
		r.write("fun_xdp.bpf.c", r.example("v4_lookup.bpf.c"))
		r.commit("a change")
		jobs[i], events[i] = r, r.pull(fmt.Sprintf("change-%d", i))
	}
	// The host's lock is held until both wait for it.
	holder := exec.Command("docker", "run", "--rm", "--init", "--interactive", "--network", "none", "--mount", "type=volume,source=ebpf-bench-gate-lock,target=/run",
		"--entrypoint", "flock", os.Getenv("GATE_TEST_IMAGE"), "/run/ebpf-bench-gate.lock", "sh", "-c", "echo held; read _")
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	held, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	var logs [2]lines
	var oks [2]bool
	var all sync.WaitGroup
	for i, r := range jobs {
		all.Go(func() {
			cmd := r.command("pull_request", events[i])
			cmd.Stdout, cmd.Stderr = &logs[i], &logs[i]
			oks[i] = cmd.Run() == nil
		})
	}
	const waiting = "waiting: another gate measures on this host"
	for range 600 {
		if strings.Contains(logs[0].String(), waiting) && strings.Contains(logs[1].String(), waiting) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	in.Close()
	all.Wait()
	_ = holder.Wait()
	for i, r := range jobs {
		if log := logs[i].String(); !oks[i] || !strings.Contains(log, waiting) {
			t.Fatalf("job %d:\n%s", i, log)
		}
		if base, head := r.bundle(fmt.Sprintf("ebpf-bench.run.default.change-%d.test.1", i)); base == nil || len(head.Results) == 0 {
			t.Errorf("job %d measured nothing", i)
		}
	}
	noContainers(t)
}

// lines are what a command has written so far.
type lines struct {
	sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) String() string {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String()
}
