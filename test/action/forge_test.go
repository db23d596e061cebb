//go:build linux

package action

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A forge is a Gitea of one test, seen by one of its users, with the repository
// octo/project.
type forge struct {
	t    *testing.T
	url  string
	repo string
	user string // octo owns the repository; stranger has no rights in it
	// token is the user's; tokens are those of all.
	token  string
	tokens map[string]string
	author string // of our comments

	// What the jobs need that this process runs for the forge.
	runner registration
	ran    map[int64]map[string]job // by the run's number and the job's name
	causes map[int64]int64          // of workflow_run: which run's end it tells of
	seen   map[int64]bool           // runs that somebody has asked for
	upload string                   // for the upload step's environment
}

// password is that of all users.
const password = "correct horse battery staple"

const giteaConfig = `APP_NAME = test
RUN_MODE = prod
RUN_USER = root
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = %[1]s
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[2]d
ROOT_URL = http://127.0.0.1:%[2]d/
DISABLE_SSH = true
OFFLINE_MODE = true
STATIC_ROOT_PATH = %[3]s
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
[actions]
ENABLED = true
[log]
LEVEL = error
[cron]
ENABLED = false
[repository]
DEFAULT_BRANCH = main
`

func newForge(t *testing.T) *forge {
	t.Helper()
	gitea, source := os.Getenv("GATE_TEST_GITEA"), os.Getenv("GATE_TEST_GITEA_SOURCE")
	if gitea == "" {
		t.Skip("GATE_TEST_GITEA is not set: make test-action builds a forge")
	}
	port, dir := freePort(t), t.TempDir()
	ini := filepath.Join(dir, "app.ini")
	if err := os.WriteFile(ini, fmt.Appendf(nil, giteaConfig, dir, port, source), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(gitea, append([]string{"--config", ini, "--work-path", dir}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		return cmd
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := command(args...)
		var out, msg bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &msg
		if err := cmd.Run(); err != nil {
			t.Fatalf("gitea %v: %v\n%s%s", args, err, out.String(), msg.String())
		}
		return out.String()
	}
	token := regexp.MustCompile(`(?m)^[0-9a-f]{40}$`) // among what it warns of
	run("migrate")
	f := &forge{t: t, url: fmt.Sprintf("http://127.0.0.1:%d", port), repo: "octo/project", user: "octo", tokens: map[string]string{}, author: "gitea-actions", upload: "GATE_TEST_UPLOAD=anywhere"}
	for _, name := range []string{"octo", "stranger"} {
		run("admin", "user", "create", fmt.Sprintf("--admin=%t", name == "octo"), "--username", name, "--password", password, "--email", name+"@example.com", "--must-change-password=false")
		f.tokens[name] = token.FindString(run("admin", "user", "generate-access-token", "--username", name, "--scopes", "all", "--raw"))
		if f.tokens[name] == "" {
			t.Fatalf("gitea: no token for %s", name)
		}
	}
	f.token = f.tokens["octo"]

	cmd := command("web")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		for _, line := range strings.Split(log.String(), "\n") {
			if t.Failed() && strings.Contains(line, "[E]") {
				t.Logf("gitea: %s", line)
			}
		}
	})
	f.eventually("answer: "+log.String(), func() bool { return f.try("GET", "/version", nil, nil) == nil })
	f.call("POST", "/user/repos", map[string]any{"name": "project"}, nil)
	f.register()
	return f
}

// as is the forge as another user sees it.
func (f *forge) as(user string) *forge {
	g := *f
	g.user, g.token = user, f.tokens[user]
	return &g
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
	for range 300 {
		if ok() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatalf("gitea: no %s after 30 s", what)
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
	return answer(req, out)
}

// answer sends a request and decodes what comes back.
func answer(req *http.Request, out any) error {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s\n%s", req.Method, req.URL.Path, resp.Status, data)
	case out == nil:
		return nil
	}
	return json.Unmarshal(data, out)
}

// push pushes a branch as the user, to the user's own repository of this name.
func (f *forge) push(r *runner, branch string) {
	f.t.Helper()
	repo := f.user + "/project"
	r.git("push", "--quiet", "--force", strings.Replace(f.url, "http://", "http://"+f.user+":"+f.token+"@", 1)+"/"+repo+".git", branch)
	tip := r.git("rev-parse", branch)
	f.eventually("branch "+branch, func() bool {
		var b struct{ Commit struct{ ID string } }
		return f.try("GET", "/repos/"+repo+"/branches/"+url.PathEscape(branch), nil, &b) == nil && b.Commit.ID == tip
	})
}

// open opens a pull request of a branch of the user's into main.
func (f *forge) open(branch string) (number int) {
	f.t.Helper()
	head := branch
	if f.user != "octo" {
		head = f.user + ":" + branch
	}
	var p struct{ Number int }
	var err error
	f.eventually("pull request", func() bool {
		err = f.try("POST", "/repos/"+f.repo+"/pulls", map[string]any{"head": head, "base": "main", "title": "from " + branch}, &p)
		return err == nil
	})
	return p.Number
}

// merge merges a pull request, and has the result in the local main.
func (f *forge) merge(r *runner, number int) (sha string) {
	f.t.Helper()
	f.eventually("merge", func() bool {
		return f.try("POST", fmt.Sprintf("/repos/%s/pulls/%d/merge", f.repo, number), map[string]any{"Do": "merge"}, nil) == nil
	})
	r.git("checkout", "--quiet", "main")
	r.git("pull", "--quiet", "--ff-only", f.url+"/"+f.repo+".git", "main")
	return r.git("rev-parse", "main")
}

// approve lets the runs of a stranger's pull request begin. Only a page can.
func (f *forge) approve() {
	f.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	post := func(path string, form url.Values) bool {
		resp, err := client.PostForm(f.url+path, form)
		if err != nil {
			f.t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode < 400
	}
	if !post("/user/login", url.Values{"user_name": {f.user}, "password": {password}}) {
		f.t.Fatal("gitea: no login")
	}
	f.eventually("run to approve", func() bool {
		var list struct {
			Runs []run `json:"workflow_runs"`
		}
		f.call("GET", "/repos/"+f.repo+"/actions/runs", nil, &list)
		return len(list.Runs) > 0 && !f.seen[list.Runs[0].ID] && post(fmt.Sprintf("/%s/actions/runs/%d/approve", f.repo, list.Runs[0].ID), nil)
	})
}

// bot gives the report a token of its own in place of the job's: the owner's. Gitea
// tells only an administrator of the repository who may write to it, and lets every
// job's token comment as the same user, be it a fork's.
func (f *forge) bot() {
	f.t.Helper()
	f.call("PUT", "/repos/"+f.repo+"/actions/secrets/BOT", map[string]any{"data": f.token}, nil)
	f.author = f.user
}

type comment struct {
	ID   int64
	Body string
	User struct{ Login string }
}

func (f *forge) comments(number int) (all []comment) {
	f.t.Helper()
	f.call("GET", fmt.Sprintf("/repos/%s/issues/%d/comments", f.repo, number), nil, &all)
	return all
}

// rendered is the HTML that the forge makes of a comment.
func (f *forge) rendered(body string) string {
	f.t.Helper()
	data, err := json.Marshal(map[string]any{"Text": body, "Mode": "comment", "Context": f.repo})
	if err != nil {
		f.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+"/api/v1/repos/"+f.repo+"/markdown", bytes.NewReader(data))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+f.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	html, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		f.t.Fatalf("render: %s, %v\n%s", resp.Status, err, html)
	}
	return string(html)
}

// status is the state of our context on a commit; empty: none.
func (f *forge) status(sha string) string {
	f.t.Helper()
	// The newest of each context. (A list of all has those of one second in no
	// order.)
	var combined struct {
		Statuses []struct{ Status, Context string }
	}
	f.call("GET", "/repos/"+f.repo+"/commits/"+sha+"/status", nil, &combined)
	for _, s := range combined.Statuses {
		if s.Context == "ebpf-bench/default" {
			return s.Status
		}
	}
	return ""
}
