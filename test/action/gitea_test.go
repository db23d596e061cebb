//go:build linux

package action

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/internal/cli"
)

// A forge is a Gitea of one test, with one repository, octo/project.
type forge struct {
	t     *testing.T
	url   string
	token string
}

func newForge(t *testing.T) *forge {
	t.Helper()
	gitea, source := os.Getenv("GATE_TEST_GITEA"), os.Getenv("GATE_TEST_GITEA_SOURCE")
	if gitea == "" {
		t.Skip("GATE_TEST_GITEA is not set: make test-action builds a forge")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir := t.TempDir()
	ini := filepath.Join(dir, "app.ini")
	text := fmt.Sprintf(`APP_NAME = test
RUN_MODE = prod
RUN_USER = %s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = %s
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %d
ROOT_URL = http://%s/
DISABLE_SSH = true
OFFLINE_MODE = true
STATIC_ROOT_PATH = %s
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
[log]
LEVEL = error
[cron]
ENABLED = false
[repository]
DEFAULT_BRANCH = main
`, "root", dir, port, addr, source)
	if err := os.WriteFile(ini, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(gitea, append([]string{"--config", ini, "--work-path", dir}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		var out, msg bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &msg
		if err := cmd.Run(); err != nil {
			t.Fatalf("gitea %v: %v\n%s%s", args, err, out.String(), msg.String())
		}
		// What it warns of comes before.
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return lines[len(lines)-1]
	}
	run("migrate")
	run("admin", "user", "create", "--admin", "--username", "octo", "--random-password", "--email", "org@example.com", "--must-change-password=false")
	f := &forge{t: t, url: "http://" + addr}
	f.token = run("admin", "user", "generate-access-token", "--username", "octo", "--scopes", "all", "--raw")

	cmd := exec.Command(gitea, "--config", ini, "--work-path", dir, "web")
	cmd.Env = append(os.Environ(), "HOME="+dir)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("gitea: %s", log.String())
		}
	})
	for range 300 {
		if resp, err := http.Get(f.url + "/api/v1/version"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				f.call("POST", "/user/repos", map[string]any{"name": "project"}, nil)
				return f
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("gitea does not answer:\n%s", log.String())
	return nil
}

func (f *forge) call(method, path string, in, out any) {
	f.t.Helper()
	if err := f.try(method, path, in, out); err != nil {
		f.t.Fatal(err)
	}
}

// eventually waits for what Gitea does in a queue after a push.
func (f *forge) eventually(what string, ok func() bool) {
	f.t.Helper()
	for range 200 {
		if ok() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatalf("gitea: no %s after 20 s", what)
}

func (f *forge) try(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+"/api/v1"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "token "+f.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s\n%s", method, path, resp.Status, data)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

func (f *forge) push(r *runner, branch string) {
	f.t.Helper()
	r.git("push", "--quiet", "--force", strings.Replace(f.url, "http://", "http://octo:"+f.token+"@", 1)+"/octo/project.git", branch)
	tip := r.git("rev-parse", branch)
	f.eventually("branch "+branch, func() bool {
		var b struct{ Commit struct{ ID string } }
		return f.try("GET", "/repos/octo/project/branches/"+branch, nil, &b) == nil && b.Commit.ID == tip
	})
}

// open opens a pull request.
func (f *forge) open(branch string) (number int) {
	f.t.Helper()
	var p struct{ Number int }
	f.eventually("pull request", func() bool {
		return f.try("POST", "/repos/octo/project/pulls", map[string]any{"head": branch, "base": "main", "title": branch}, &p) == nil
	})
	return p.Number
}

// report measures a pull request in the runner of workflows, and reports it to the
// forge, as the two jobs do. It returns gate's exit code.
func (f *forge) report(r *runner, number, run int) (code int, log string) {
	f.t.Helper()
	var pull map[string]any
	var branch string
	f.eventually("new commit of the pull request", func() bool {
		f.call("GET", fmt.Sprintf("/repos/octo/project/pulls/%d", number), nil, &pull)
		head := pull["head"].(map[string]any)
		branch = head["ref"].(string)
		return head["sha"] == r.git("rev-parse", branch)
	})
	repo := pull["base"].(map[string]any)["repo"]
	r.git("checkout", "--quiet", "--detach", "main")
	r.git("merge", "--quiet", "--no-ff", "--message", "merge", branch)
	event := r.event(map[string]any{"pull_request": pull, "repository": repo, "number": number})
	if err := os.RemoveAll(r.artifacts); err != nil {
		f.t.Fatal(err)
	}
	if log, ok := r.run("pull_request", event); !ok {
		f.t.Fatalf("measure:\n%s", log)
	}
	base, head := r.bundle("ebpf-bench.run.default." + branch + ".test.1")
	results := f.t.TempDir()
	r.pack(filepath.Join(results, "runs.json.gz"), base, head)
	dir := f.t.TempDir()
	for k, v := range map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": event, "GITHUB_REPOSITORY": "octo/project",
		"GITHUB_RUN_ID": fmt.Sprint(run), "GITHUB_RUN_ATTEMPT": "1", "GITHUB_SHA": r.git("rev-parse", "HEAD"), "GITHUB_REF": fmt.Sprintf("refs/pull/%d/merge", number),
		"GITHUB_API_URL": f.url + "/api/v1", "GITHUB_SERVER_URL": f.url, "GITHUB_WORKFLOW_REF": "octo/project/.github/workflows/ebpf-bench.yml@refs/heads/main",
		"GITHUB_OUTPUT": filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY": filepath.Join(dir, "summary"), "RUNNER_TEMP": dir,
		"GATE_TOKEN": f.token, "GATE_RESULTS": results, "GATE_NEEDS": "success",
	} {
		f.t.Setenv(k, v)
	}
	var out bytes.Buffer
	code = cli.Command{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}.Main([]string{"gate", "report"})
	return code, out.String()
}

type comment struct {
	ID   int64
	Body string
}

func (f *forge) comments(number int) (all []comment) {
	f.call("GET", fmt.Sprintf("/repos/octo/project/issues/%d/comments", number), nil, &all)
	return all
}

// status is the state of our context on a commit; empty: none.
func (f *forge) status(sha string) string {
	// The newest of each context. (A list of all has those of one second in no
	// order.)
	var combined struct {
		Statuses []struct{ Status, Context string }
	}
	f.call("GET", "/repos/octo/project/commits/"+sha+"/status", nil, &combined)
	for _, s := range combined.Statuses {
		if s.Context == "ebpf-bench/default" {
			return s.Status
		}
	}
	return ""
}

// TestForge goes through the life of a regression on a real forge: a pull request
// turns v2 into v3, and a new commit cures it.
func TestForge(t *testing.T) {
	f := newForge(t)
	r := newRunner(t)
	r.withWorkflow()
	r.withConfig()
	r.commit("measure")
	f.push(r, "main")

	r.git("checkout", "--quiet", "-b", "fibonacci")
	r.write("fun_xdp.bpf.c", r.example("v3_fibonacci.bpf.c"))
	r.commit("Fibonacci")
	f.push(r, "fibonacci")
	number := f.open("fibonacci")
	slow := r.git("rev-parse", "fibonacci")
	code, log := f.report(r, number, 1)
	comments := f.comments(number)
	if code != 1 || f.status(slow) != "failure" || len(comments) != 1 || !strings.Contains(comments[0].Body, "slower") {
		t.Fatalf("v2 to v3: exit %d, status %q, comments %v\n%s", code, f.status(slow), comments, log)
	}
	t.Logf("the comment:\n%s", comments[0].Body)

	r.git("checkout", "--quiet", "fibonacci")
	r.write("fun_xdp.bpf.c", r.example("v2_fizzbuzz.bpf.c")+"\n/* as it was */\n")
	r.commit("cured")
	f.push(r, "fibonacci")
	cured := r.git("rev-parse", "fibonacci")
	code, log = f.report(r, number, 2)
	now := f.comments(number)
	if code != 0 || f.status(cured) != "success" || len(now) != 1 || now[0].ID != comments[0].ID || now[0].Body == comments[0].Body {
		t.Errorf("cured: exit %d, status %q, comments %v\n%s", code, f.status(cured), now, log)
	}
	if f.status(slow) != "failure" {
		t.Errorf("the status of the slow commit became %q", f.status(slow))
	}

	// An unrelated pull request.
	r.git("checkout", "--quiet", "-b", "readme", "main")
	r.write("README.md", "hello")
	r.commit("readme")
	f.push(r, "readme")
	other := f.open("readme")
	if code, log = f.report(r, other, 3); code != 0 || f.status(r.git("rev-parse", "readme")) != "success" {
		t.Errorf("unrelated: exit %d\n%s", code, log)
	}
}
