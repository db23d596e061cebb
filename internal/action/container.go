package action

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/ebpf-bench-gate/internal/store"
)

// Label marks the containers of the action, so that what a killed runner left can
// be found.
const Label = "org.ebpf-bench-gate"

// lockVolume is shared by all measuring containers of an engine, for the lock
// that keeps two from measuring each other. See bpf.LockHost.
const lockVolume = "ebpf-bench-gate-lock"

// A Container is how the measuring container is started.
type Container struct {
	Docker string
	Image  string
	Name   string
	In     string // directory of the plan, read-only inside
	// Grant are the arguments that [Grants] found the engine to take.
	Grant  []string
	Memory int64 // bytes
}

// capabilities are what measuring takes: what every engine knows; what engines know
// that are younger than Linux 5.8 (SYS_ADMIN stands for them); without which nobody is
// told where machine code lies, so that a slowdown has no line (kallsyms_show_value);
// and what only some programs need. Hosts may lack those of the last two.
var (
	capsNeeded  = []string{"SYS_ADMIN", "NET_ADMIN", "NET_RAW", "SYS_NICE"}
	capsNewer   = []string{"BPF", "PERFMON"}
	capsExplain = []string{"SYSLOG"}
	capsWished  = []string{"SYS_RESOURCE", "IPC_LOCK", "SYS_PTRACE"}
)

// unconfined are the filters that would refuse bpf(2), mount(2) and
// perf_event_open(2) though the capability is there.
var unconfined = []string{"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"}

// grants are the ways to give the container what it needs, best first.
func grants(p Privileges) [][]string {
	caps := func(lists ...[]string) []string {
		out := append([]string{"--cap-drop", "ALL", "--security-opt", "no-new-privileges"}, unconfined...)
		for _, c := range slices.Concat(lists...) {
			out = append(out, "--cap-add", c)
		}
		return out
	}
	var some [][]string
	for _, less := range [][][]string{{capsExplain, capsWished}, {capsExplain}, {}} {
		some = append(some,
			caps(append([][]string{capsNeeded, capsNewer}, less...)...),
			caps(append([][]string{capsNeeded}, less...)...)) // an engine that does not know CAP_BPF
	}
	switch p {
	case Privileged:
		return [][]string{{"--privileged"}}
	case Caps:
		return some
	}
	return append([][]string{{"--privileged"}}, some...)
}

// Grants finds out how the engine lets a container measure. Engines differ in what
// they know, and hosts in what they may give away: a nested host that lacks a
// capability can start no privileged container at all.
func Grants(ctx context.Context, docker, image string, p Privileges) ([]string, error) {
	var last string
	for _, g := range grants(p) {
		args := append([]string{"run", "--rm", "--network", "none", "--log-driver", "none", "--pull", "never"}, g...)
		cmd := exec.CommandContext(ctx, docker, append(args, image, "version")...)
		var msg bytes.Buffer
		cmd.Stderr = &msg
		err := cmd.Run()
		if err == nil {
			return g, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if last = Clean(strings.TrimSpace(msg.String())); last == "" {
			last = err.Error()
		}
	}
	return nil, &Refusal{"the Docker engine starts no container that may load eBPF: " + last,
		"privileges: privileged or caps chooses a way; rootless engines cannot measure at all"}
}

// proxies are variables that the docker command would set by itself, from its own
// config; a proxy's URL may hold a password.
var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"}

// Contained is the flag by which gate measure knows that its container is its own.
const Contained = "contained"

// Args are the arguments of docker. The environment is what stands here and
// nothing else; the only file of the host inside is the plan's directory.
func (c Container) Args() []string {
	args := []string{
		"run", "--rm", "--init", "--interactive", "--pull", "never",
		"--name", c.Name, "--label", Label + "=" + c.Name, "--hostname", "gate",
		"--network", "none", "--log-driver", "none",
		"--read-only", "--tmpfs", "/tmp:rw,nosuid,nodev,size=512m,mode=1777",
		"--mount", "type=bind,source=" + c.In + ",target=/in,readonly",
		"--mount", "type=volume,source=" + lockVolume + ",target=/run",
		"--workdir", "/tmp", "--user", "0:0",
		"--pids-limit", "512", "--ulimit", "core=0",
	}
	if c.Memory > 0 {
		m := fmt.Sprint(c.Memory)
		args = append(args, "--memory", m, "--memory-swap", m)
	}
	for _, p := range proxies {
		args = append(args, "--env", p+"=", "--env", strings.ToLower(p)+"=")
	}
	args = append(args, "--env", "TMPDIR=/tmp", "--env", "NO_COLOR=1")
	args = append(args, c.Grant...)
	return append(args, c.Image, "measure", "--"+Contained, "/in")
}

// Run measures, writing to messages what the container says, and returns the
// bundle that it made, decoded and checked. A cancelled context leaves no
// container behind. The error of a container that measured and found something
// amiss comes with its bundle.
func (c Container) Run(ctx context.Context, messages io.Writer) (*store.Bundle, error) {
	// Nothing of the job's environment: the docker command needs to find its
	// engine, and no more.
	cmd := exec.Command(c.Docker, c.Args()...)
	cmd.Env = DockerEnv(os.Environ())
	isolate(cmd)
	cmd.Stderr = messages
	// The container ends when its standard input does, however this process
	// ends: a runner's kill -9 leaves nothing running.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start docker: %w", err)
	}
	var once sync.Once
	kill := func() {
		once.Do(func() {
			_ = stdin.Close()
			c.remove()
			time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		})
	}
	stop := context.AfterFunc(ctx, kill)
	packed, readErr := io.ReadAll(io.LimitReader(stdout, store.MaxPacked+1))
	flood := len(packed) > store.MaxPacked
	drained := make(chan struct{})
	go func() { // the engine ends no container whose output waits to be read
		defer close(drained)
		_, _ = io.Copy(io.Discard, stdout)
	}()
	if flood {
		kill()
	}
	<-drained
	err = cmd.Wait()
	stop()
	_ = stdin.Close()
	if ctx.Err() != nil {
		kill()
		// It may have been created after it was killed.
		c.remove()
		return nil, context.Cause(ctx)
	}
	if flood {
		return nil, fmt.Errorf("the measuring container wrote more than %d MB", store.MaxPacked>>20)
	}
	if readErr != nil {
		return nil, fmt.Errorf("read what was measured: %w", readErr)
	}
	if len(packed) == 0 {
		if err == nil {
			err = errors.New("it wrote nothing")
		}
		return nil, fmt.Errorf("nothing was measured: %w", explain(err))
	}
	b, decodeErr := store.DecodeBundle(packed)
	if decodeErr != nil {
		return nil, decodeErr
	}
	if b.Head == nil {
		return nil, errors.New("the measuring container wrote a history, and no measurement")
	}
	if err != nil {
		err = fmt.Errorf("not everything was measured: %w", explain(err))
	}
	return b, err
}

// explain says what an exit code of docker means.
func explain(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	switch exit.ExitCode() {
	case 125:
		return errors.New("the Docker engine did not start the container")
	case 126, 127:
		return errors.New("the image holds no gate that runs here: is it one of this action's, and of this architecture?")
	case 137:
		return errors.New("the container was killed; it may have needed more memory than it may have")
	}
	return err
}

// remove ends the container, if it is there. The job's context may be over.
func (c Container) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Docker, "rm", "--force", "--volumes=false", c.Name)
	cmd.Env = DockerEnv(os.Environ())
	isolate(cmd)
	_ = cmd.Run()
}

// dockerVars are the variables by which the docker command finds its engine.
var dockerVars = []string{"PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_API_VERSION", "XDG_RUNTIME_DIR"}

// DockerEnv keeps of an environment what the docker command needs.
func DockerEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(dockerVars, name)
	})
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// ContainerName names the container of a job, in the characters that Docker takes.
func ContainerName(e Event, unique string) string {
	parts := []string{"ebpf-bench-gate"}
	for _, p := range []string{e.Run, e.Attempt, e.Job, unique} {
		if p = strings.Trim(notInName.ReplaceAllString(p, "-"), "-"); p != "" {
			parts = append(parts, p[:min(len(p), 40)])
		}
	}
	return strings.Join(parts, "-")
}
