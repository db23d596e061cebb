//go:build linux

package action

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// engine is the image that a real engine has, made by scripts/test-action.sh.
func engine(t *testing.T) (image string) {
	t.Helper()
	image = os.Getenv("GATE_TEST_IMAGE")
	if image == "" {
		t.Skip("GATE_TEST_IMAGE is not set: make test-action sets up a Docker engine and the image")
	}
	return image
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// hostile is an image in which a script stands for gate.
func hostile(t *testing.T, script string) Container {
	t.Helper()
	image, dir := engine(t), t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("gate", "#!/bin/sh\n[ \"$1\" != version ] || exit 0\n"+script)
	write("Dockerfile", "FROM "+image+"\nCOPY gate /usr/local/bin/gate\n")
	id := docker(t, "build", "--quiet", "--network", "none", dir)
	t.Cleanup(func() { docker(t, "image", "rm", "--force", id) })
	// What this very process has must not get in.
	t.Setenv("GITHUB_TOKEN", "s3cret")
	t.Setenv("ACTIONS_RUNTIME_TOKEN", "s3cret")
	t.Setenv("HTTP_PROXY", "http://user:s3cret@proxy")
	grant, err := Grants(t.Context(), "docker", id, Caps)
	if err != nil {
		t.Fatal(err)
	}
	in := t.TempDir()
	if err := os.Chmod(in, 0o755); err != nil {
		t.Fatal(err)
	}
	c := Container{Docker: "docker", Image: id, In: in, Grant: grant, Memory: 256 << 20, Name: fmt.Sprintf("ebpf-bench-gate-test-%d-%d", os.Getpid(), time.Now().UnixNano())}
	t.Cleanup(func() {
		if left := docker(t, "ps", "--all", "--quiet", "--filter", "name="+c.Name); left != "" {
			docker(t, "rm", "--force", c.Name)
			t.Errorf("the container is still there")
		}
	})
	return c
}

// TestContainerHoldsNothing looks around in the measuring container: what a pull
// request's code would find there.
func TestContainerHoldsNothing(t *testing.T) {
	c := hostile(t, `exec >&2
echo "== env"; env
echo "== mounts"; cut -d' ' -f5,6,9- /proc/self/mountinfo
echo "== files"; ls -A / /in /run /tmp /home /root
echo "== net"; ls /sys/class/net
echo "== writable"; for d in / /in /etc /usr /sys/fs/cgroup /out; do touch $d/x 2>/dev/null && echo "$d"; done
echo "== limits"; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null
echo "== sockets"; ls /var/run/docker.sock /run/docker.sock 2>/dev/null
echo "== git"; find / -xdev -name .git -not -path '/proc/*' 2>/dev/null
echo "== end"
`)
	if err := os.WriteFile(filepath.Join(c.In, PlanFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := c.Run(t.Context(), &b); err == nil || !strings.Contains(err.Error(), "wrote nothing") {
		t.Errorf("a container without a result: %v", err)
	}
	parts := map[string][]string{}
	name := ""
	for _, line := range strings.Split(b.String(), "\n") {
		if n, ok := strings.CutPrefix(line, "== "); ok {
			name = n
		} else if line != "" {
			parts[name] = append(parts[name], line)
		}
	}
	if _, ok := parts["env"]; !ok || name != "end" {
		t.Fatalf("looked around in vain:\n%s", b.String())
	}
	allowed := []string{"PATH", "HOSTNAME", "HOME", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "NO_COLOR"}
	for _, kv := range parts["env"] {
		k, v, _ := strings.Cut(kv, "=")
		if slices.Contains(allowed, k) || v == "" && slices.Contains(proxies, strings.ToUpper(k)) {
			continue
		}
		t.Errorf("environment: %s", kv)
	}
	for _, m := range parts["mounts"] {
		f := strings.Fields(m)
		at, flags := f[0], strings.Split(f[1], ",")
		ro := slices.Contains(flags, "ro")
		switch {
		case at == "/" || at == "/in" || at == "/sys" || strings.HasPrefix(at, "/sys/fs/cgroup"), strings.HasPrefix(at, "/etc/"), strings.HasSuffix(at, "/sbin/docker-init"):
			// Docker's own three files in /etc are its own, but only on paper
			// read-only where the root is.
			// The same goes for the empty directory above version 1's cgroups.
			if !ro && !strings.HasPrefix(at, "/etc/") && at != "/sys/fs/cgroup" {
				t.Errorf("writable: %s", m)
			}
		case at == "/tmp", at == "/run", at == "/proc", strings.HasPrefix(at, "/proc/"), at == "/dev", strings.HasPrefix(at, "/dev/"), strings.HasPrefix(at, "/sys/firmware"):
		default:
			t.Errorf("mounted: %s", m)
		}
	}
	if got := parts["net"]; !slices.Equal(got, []string{"lo"}) {
		t.Errorf("network: %v", got)
	}
	for _, none := range []string{"writable", "sockets", "git"} {
		if len(parts[none]) > 0 {
			t.Errorf("%s: %v", none, parts[none])
		}
	}
	if got := strings.Join(parts["limits"], " "); got != "268435456 512" {
		t.Errorf("limits: %s", got)
	}
	if strings.Contains(b.String(), "s3cret") {
		t.Error("a secret of the runner's environment is inside")
	}
}

// TestContainerFlood, and others who do not write what they should.
func TestContainerFlood(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"flood", "cat /dev/zero", "more than 5 MB"},
		{"garbage", "echo hello", "not a packed file"},
		{"history", `echo '{"schema":1,"history":[{"schema":1,"id":"x","time":"2026-01-01T00:00:00Z","seed":1,"revision":{"name":"x"},"testbed":{"kernel":"k","arch":"amd64","cpu":"c","cpus":1,"jit":true}}]}' | gzip`, "no measurement"},
		{"twice", `for i in 1 2; do echo '{"schema":1,"head":{"schema":1,"id":"x","time":"2026-01-01T00:00:00Z","seed":1,"revision":{"name":"x"},"testbed":{"kernel":"k","arch":"amd64","cpu":"c","cpus":1,"jit":true}}}' | gzip; done`, "data after the runs"},
		{"bomb", "head -c 200000000 /dev/zero | gzip -1", "inflated"},
		{"memory", "head -c 1000000000 /dev/zero | tail", "nothing was measured"},
		{"fork", "i=0; while [ $i -lt 2000 ]; do sleep 60 & i=$((i+1)); done; exit 1", "nothing was measured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := hostile(t, tt.script)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if b, err := c.Run(ctx, io.Discard); b != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			t.Logf("%s", time.Since(start).Round(time.Millisecond))
		})
	}
}

// running waits until a container runs.
func running(t *testing.T, name string) {
	t.Helper()
	for range 100 {
		if docker(t, "ps", "--quiet", "--filter", "name="+name) != "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("no container")
}

// TestContainerCancelled cancels in the middle, of what ignores every signal.
func TestContainerCancelled(t *testing.T) {
	c := hostile(t, "trap '' TERM INT HUP; while :; do sleep 1; done")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		running(t, c.Name)
		cancel()
	}()
	start := time.Now()
	if _, err := c.Run(ctx, io.Discard); err == nil {
		t.Error("a cancelled run is no error")
	}
	t.Logf("gone after %s", time.Since(start).Round(time.Millisecond))
}

// TestContainerOutlivesNobody kills the docker command, as a runner that gives up
// does: the real gate ends with its standard input.
func TestContainerOutlivesNobody(t *testing.T) {
	image := engine(t)
	c := Container{Docker: "docker", Image: image, In: t.TempDir(), Name: fmt.Sprintf("ebpf-bench-gate-orphan-%d", os.Getpid())}
	_ = os.Chmod(c.In, 0o755)
	grant, err := Grants(t.Context(), "docker", image, Caps)
	if err != nil {
		t.Fatal(err)
	}
	c.Grant = grant
	plan := &Plan{Suites: []Suite{{Config: "head/ebpf-bench.yml", Head: Side{Objects: []Object{{Name: "x.bpf.o", File: "fifo"}}}}}}
	if err := WritePlan(c.In, plan); err != nil {
		t.Fatal(err)
	}
	// The lock is held by another: gate waits, as long as it takes.
	holder := docker(t, "run", "--detach", "--rm", "--mount", "type=volume,source="+lockVolume+",target=/run", "--network", "none", "--entrypoint", "flock", image, "/run/ebpf-bench-gate.lock", "sleep", "60")
	defer exec.Command("docker", "rm", "--force", holder).Run()
	if err := os.MkdirAll(filepath.Join(c.In, "head"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.In, "head", "ebpf-bench.yml"), []byte("version: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	plan.Suites[0].Head.Objects = nil
	if err := WritePlan(c.In, plan); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("docker", c.Args()...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	msg, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	running(t, c.Name)
	said, lines := "", bufio.NewScanner(msg)
	for !strings.Contains(said, "waiting") {
		if !lines.Scan() {
			t.Fatalf("it did not wait: %s", said)
		}
		said += lines.Text() + "\n"
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for range 100 {
		if docker(t, "ps", "--quiet", "--filter", "name="+c.Name) == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	docker(t, "rm", "--force", c.Name)
	t.Error("the container outlives the docker command that started it")
}
