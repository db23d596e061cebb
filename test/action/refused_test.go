//go:build linux

package action

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPullRequestEscapes opens pull requests whose objects, captures and configs
// are not what they should be. Each runs as a job does, and is refused with a reason;
// nothing of the host gets into the container or out of it.
func TestPullRequestEscapes(t *testing.T) {
	needsEngine(t)
	needsRunner(t)
	const program = "version: 1\nbuild: {run: 'COMMAND'}\nprograms: {fun_xdp: {object: OBJECT}}\nbenchmarks: {fun_xdp/worst: {MORE}}\n"
	secret := filepath.Join(t.TempDir(), "secret.o")
	if err := os.WriteFile(secret, []byte("a secret of the runner"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, command, object, more, want string }{
		{"a link out of the checkout", "ln -sf " + secret + " x.o", "x.o", "", "leads out of the checkout"},
		{"a link by a directory", "ln -sfn " + filepath.Dir(secret) + " d", "d/secret.o", "", "leads out of the checkout"},
		{"a path out of the checkout", "true", "../../secret.o", "", "ebpf-bench.yml:3"},
		{"a pipe", "mkfifo x.o", "x.o", "", "not a regular file"},
		{"a directory", "mkdir x.o", "x.o", "", "not a regular file"},
		{"too large", "truncate -s 300M x.o", "x.o", "", "300 MB, at most 256"},
		{"a flood of output", "yes flood | head -c 20000000; exit 7", "x.o", "", "the last 40 lines"},
		{"not an object", "head -c 100000 /dev/urandom >x.o", "x.o", "", "x.o"},
		{"half an object", "head -c 700 /bin/sh >x.o", "x.o", "", "x.o"},
		{"a capture that is a link", "true", "fun_xdp.bpf.c", "packets: x.pcap", "x.pcap"},
		{"a source that reads the runner", "printf '#include \"" + secret + "\"\\n' >x.bpf.c", "x.bpf.c", "", "file not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRunner(t)
			r.withWorkflow()
			r.write("ebpf-bench.yml", suiteWith(""))
			r.commit("measure")
			r.git("checkout", "--quiet", "-b", "evil")
			r.write("ebpf-bench.yml", strings.NewReplacer("COMMAND", strings.ReplaceAll(tt.command, "'", "''"), "OBJECT", tt.object, "MORE", tt.more).Replace(program))
			if err := os.Symlink(secret, filepath.Join(r.repo, "x.pcap")); err != nil {
				t.Fatal(err)
			}
			r.commit("evil")
			log, ok := r.run("pull_request", r.pull("evil"))
			if ok || !strings.Contains(log, tt.want) {
				t.Errorf("ok %t, does not say %q:\n%s", ok, tt.want, log)
			}
			if strings.Contains(log, "a secret of the runner") {
				t.Errorf("the secret is out:\n%s", log)
			}
			if len(log) > 4<<20 {
				t.Errorf("the log has %d bytes", len(log))
			}
			if found, _ := filepath.Glob(filepath.Join(r.artifacts, "*", "*", "*")); len(found) > 0 {
				t.Errorf("uploaded: %v", found)
			}
			for _, line := range strings.Split(log, "\n") {
				if strings.Contains(line, "  | | ") && strings.Contains(line, tt.want) {
					t.Log(line)
				}
			}
		})
	}
	noContainers(t)
}

// TestForkOnOwnRunner opens a stranger's pull request where the runner does not say that
// it is GitHub's: nothing of it is built, unless every job gets a fresh machine.
func TestForkOnOwnRunner(t *testing.T) {
	for _, tt := range []struct {
		environment, with string
		ok                bool
	}{{"", "ephemeral: false", false}, {"self-hosted", "ephemeral: false", false}, {"github-hosted", "ephemeral: false", true}, {"self-hosted", "ephemeral: true", true}} {
		r := newRunner(t)
		t.Setenv("RUNNER_ENVIRONMENT", tt.environment)
		r.write(".github/workflows/ebpf-bench.yml", workflow("args: '--only fun_xdp/worst', image: '"+os.Getenv("GATE_TEST_IMAGE")+"', "+tt.with))
		r.withConfig()
		r.write("ebpf-bench.yml", strings.Replace(suiteWith(""), "programs:", "build: {run: 'echo built by a stranger'}\nprograms:", 1))
		r.commit("measure")
		repo := func(id int, name string) map[string]any {
			return map[string]any{"ref": "main", "sha": r.git("rev-parse", "HEAD"), "repo": map[string]any{"id": id, "full_name": name}}
		}
		log, ok := r.run("pull_request", r.event(map[string]any{"number": 1, "pull_request": map[string]any{
			"number": 1, "head": repo(2, "stranger/project"), "base": repo(1, "org/project"),
		}}))
		if ok != tt.ok || ok == strings.Contains(log, "a fork's code would run as root on a self-hosted runner") {
			t.Errorf("%+v: ok %t\n%s", tt, ok, log)
		}
		if !tt.ok && strings.Contains(log, "built by a stranger") {
			t.Errorf("%+v: it was built:\n%s", tt, log)
		}
	}
}
