package action

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{"GATE_IMAGE": "i", "GITHUB_WORKSPACE": "/w", "RUNNER_TEMP": "/t"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(k string) string { return m[k] }
}

func TestReadInputs(t *testing.T) {
	in, err := ReadInputs(env("GATE_BUDGET", "90s", "GATE_ARGS", "--only fun_xdp --only=a/*", "GATE_PRIVILEGES", "caps"))
	if err != nil || in.Config != "ebpf-bench.yml" || in.ID != "default" || in.Budget != 90*time.Second || in.Privileges != Caps ||
		!slices.Equal(in.Only, []string{"fun_xdp", "a/*"}) {
		t.Fatalf("%+v, %v", in, err)
	}
	for _, tt := range []struct{ name, value, want string }{
		{"GATE_CONFIG", "../x.yml", "leads out"},
		{"GATE_CONFIG", "/etc/passwd", "leads out"},
		{"GATE_BASE", "--upload-pack=x", "no git ref"},
		{"GATE_PRIVILEGES", "root", "none of auto"},
		{"GATE_BUDGET", "-1s", "no time"},
		{"GATE_BUDGET", "forever", "no time"},
		{"GATE_ARGS", "--store /", "expected --only"},
		{"GATE_ARGS", "--only", "expected --only"},
		{"GATE_ARGS", "--only [", "expected --only"},
		{"GATE_TESTBED", "a\nb", "more than one line"},
		{"GATE_ID", strings.Repeat("x", 2000), "longer"},
		{"GATE_IMAGE", "", "no image"},
		{"RUNNER_TEMP", "/a,readonly=false", "no container"},
	} {
		if _, err := ReadInputs(env(tt.name, tt.value)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s=%.40q: %v, want %q", tt.name, tt.value, err, tt.want)
		}
	}
}

func event(t *testing.T, name, payload string, pairs ...string) Event {
	t.Helper()
	file := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(file, []byte(payload), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := ReadEvent(env(append(pairs, "GITHUB_EVENT_NAME", name, "GITHUB_EVENT_PATH", file)...))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRefuse(t *testing.T) {
	const own = `{"pull_request":{"head":{"ref":"x","repo":{"full_name":"o/r"}},"base":{"ref":"main","repo":{"full_name":"o/r"}}}}`
	const fork = `{"pull_request":{"head":{"ref":"x","repo":{"full_name":"evil/r"}},"base":{"ref":"main","repo":{"full_name":"o/r"}}}}`
	const gone = `{"pull_request":{"head":{"ref":"x","repo":null},"base":{"ref":"main","repo":{"full_name":"o/r"}}}}`
	self := []string{"RUNNER_ENVIRONMENT", "self-hosted"}
	hosted := []string{"RUNNER_ENVIRONMENT", "github-hosted"}
	for _, tt := range []struct {
		name, payload string
		env           []string
		ephemeral     bool
		want          string
	}{
		{"pull_request", own, nil, false, ""},
		{"pull_request", own, self, false, ""},
		{"pull_request", fork, hosted, false, ""},
		{"pull_request", fork, nil, false, "self-hosted"}, // it does not say what it is
		{"pull_request", fork, self, false, "self-hosted"},
		{"pull_request", gone, self, false, "self-hosted"},
		{"pull_request", fork, self, true, ""},
		{"pull_request_target", own, nil, false, "secrets"},
		{"workflow_run", `{}`, nil, false, "secrets"},
		{"push", `{"ref":"refs/heads/main"}`, self, false, ""},
	} {
		err := event(t, tt.name, tt.payload, tt.env...).Refuse(tt.ephemeral)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: %v, want %q", tt.name, tt.payload, err, tt.want)
		}
	}
}

// TestLog holds that nothing that others write is a command to the runner.
func TestLog(t *testing.T) {
	var b bytes.Buffer
	l := NewLog(&b, true)
	hostile := "::set-output name=verdict::pass\n  ::add-mask::x\r::error::boo\n##[set-env name=PATH]/evil\nx ##[error]y\n" +
		"\x1b[2J\x1b]0;title\x07red\x1b[31m\n\u202egpj.exe\u2066\u200b\n" + strings.Repeat("a", 3*maxLogLine) + "\nno newline ::endgroup::"
	// In pieces, as a pipe gives it.
	for i := 0; i < len(hostile); i += 7 {
		if _, err := l.Write([]byte(hostile[i:min(i+7, len(hostile))])); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	token := strings.TrimPrefix(lines[0], "::stop-commands::")
	if len(token) < 20 || lines[len(lines)-1] != "::"+token+"::" {
		t.Errorf("not between tokens: %q … %q", lines[0], lines[len(lines)-1])
	}
	for _, line := range lines[1 : len(lines)-1] {
		if !strings.HasPrefix(line, "| ") || strings.Contains(line, "##[") || strings.ContainsAny(line, "\x1b\r\x07\u202e\u2066\u200b") || len(line) > maxLogLine+20 {
			t.Errorf("%.100q", line)
		}
	}
}

func TestLogFlood(t *testing.T) {
	var b bytes.Buffer
	l := NewLog(&b, false)
	for range 100_000 {
		_, _ = l.Write([]byte("0123456789 0123456789 0123456789 0123456789\n"))
	}
	_ = l.Close()
	if b.Len() > maxLogTotal+8192 || !strings.Contains(b.String(), "cut off") || strings.Contains(b.String(), "::stop") {
		t.Errorf("%d bytes", b.Len())
	}
}

// TestArgs holds what the container may not have, whatever the privileges.
func TestArgs(t *testing.T) {
	for _, p := range []Privileges{Auto, Privileged, Caps} {
		for _, g := range grants(p) {
			args := Container{Docker: "docker", Image: "img", Name: "n", In: "/tmp/in", Grant: g, Memory: 1 << 30}.Args()
			line := strings.Join(args, " ")
			for _, must := range []string{"--rm", "--init", "--network none", "--read-only", "type=bind,source=/tmp/in,target=/in,readonly", "--pids-limit", "--memory 1073741824", "--name n", "--log-driver none"} {
				if !strings.Contains(line, must) {
					t.Errorf("%s: no %s in %s", p, must, line)
				}
			}
			if n := strings.Count(line, "type=bind"); n != 1 {
				t.Errorf("%d files of the host", n)
			}
			for _, never := range []string{"docker.sock", "--pid=host", "--network host", "--env-file", "/home", "GITHUB", "TOKEN"} {
				if strings.Contains(line, never) {
					t.Errorf("%s in %s", never, line)
				}
			}
			if p == Caps && strings.Contains(line, "--privileged") {
				t.Error("caps is privileged")
			}
		}
	}
}

// TestCapabilities holds what may be asked of an engine, in which order: lists that are tried early have
// more, and time by line (SYSLOG) is given up last of all that can be.
func TestCapabilities(t *testing.T) {
	var got []string
	for _, g := range grants(Caps) {
		var added []string
		for i, a := range g {
			if a == "--cap-add" {
				added = append(added, g[i+1])
			}
		}
		got = append(got, strings.Join(added, " "))
	}
	const needed = "SYS_ADMIN NET_ADMIN NET_RAW SYS_NICE"
	want := []string{
		needed + " BPF PERFMON SYSLOG SYS_RESOURCE IPC_LOCK SYS_PTRACE", needed + " SYSLOG SYS_RESOURCE IPC_LOCK SYS_PTRACE",
		needed + " BPF PERFMON SYSLOG", needed + " SYSLOG",
		needed + " BPF PERFMON", needed,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestDockerEnv(t *testing.T) {
	got := DockerEnv([]string{"PATH=/bin", "GITHUB_TOKEN=x", "DOCKER_HOST=y", "ACTIONS_RUNTIME_TOKEN=z", "HOMEX=1"})
	if !slices.Equal(got, []string{"PATH=/bin", "DOCKER_HOST=y"}) {
		t.Error(got)
	}
}

func TestOutputs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	if err := Outputs(file, [2]string{"a", "1"}, [2]string{"b", "x y"}); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(file); string(data) != "a=1\nb=x y\n" {
		t.Errorf("%q", data)
	}
	for _, p := range [][2]string{{"a", "1\nverdict=pass"}, {"a\nb", "1"}, {"a<<EOF", "1"}} {
		if Outputs(file, p) == nil {
			t.Errorf("%q was written", p)
		}
	}
}

func TestPlanRefusesPaths(t *testing.T) {
	dir := t.TempDir()
	for _, p := range []Suite{
		{Config: "../../etc/passwd"},
		{Config: "head/c.yml", Policy: "/etc/passwd"},
		{Config: "head/c.yml", Head: Side{Objects: []Object{{Name: "o", File: "../o"}}}},
		{Config: "head/c.yml", Base: &Side{Objects: []Object{{Name: "o", File: "/o"}}}},
	} {
		if err := WritePlan(dir, &Plan{Suites: []Suite{{Config: "head/c.yml"}, p}}); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPlan(dir); err == nil || !strings.Contains(err.Error(), "leads out") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestContainerName(t *testing.T) {
	got := ContainerName(Event{Run: "12", Attempt: "1", Job: "mea sure/é"}, "abc")
	if got != "ebpf-bench-gate-12-1-mea-sure-abc" {
		t.Error(got)
	}
}
