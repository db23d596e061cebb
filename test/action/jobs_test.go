//go:build linux

package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The forge finds the workflows of a push or a pull request, makes their runs, and
// hands out their jobs to a runner, with a token and the rights that the workflow
// asks for. Its own runner is no module that a Go proxy has, so nektos/act, from
// which that one is made, runs the jobs here, and what follows speaks the few calls
// by which a runner gets and returns them. The runs, the tokens and their rights, the
// artifacts, secrets, approvals and re-runs are the forge's own.

// A task is a job that the forge hands out.
type task struct {
	ID       string `json:"id"`
	Workflow []byte `json:"workflowPayload"` // of this job alone
	Context  struct {
		Event      json.RawMessage `json:"event"`
		EventName  string          `json:"event_name"`
		Ref        string          `json:"ref"`
		SHA        string          `json:"sha"`
		HeadRef    string          `json:"head_ref"`
		BaseRef    string          `json:"base_ref"`
		Job        string          `json:"job"`
		RunID      json.Number     `json:"run_id"`
		Attempt    string          `json:"run_attempt"`
		Repository string          `json:"repository"`
		API        string          `json:"api_url"`
		Server     string          `json:"server_url"`
		Runtime    string          `json:"gitea_runtime_token"` // for artifacts
	} `json:"context"`
	Secrets map[string]string `json:"secrets"` // GITHUB_TOKEN among them
	Needs   map[string]struct {
		Result string `json:"result"`
	} `json:"needs"`
}

// A job is one that ran.
type job struct{ result, log string }

// A run is a workflow run by the API's word, and its jobs by their names.
type run struct {
	ID                              int64
	Event, Status, Conclusion, Path string
	HeadSHA                         string `json:"head_sha"`
	jobs                            map[string]job
}

// runnerCall asks the part of the forge that runners speak with.
func (f *forge) runnerCall(method string, in, out any) {
	f.t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		f.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+"/api/actions/runner.v1.RunnerService/"+method, bytes.NewReader(data))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Runner-Uuid", f.runner.UUID)
	req.Header.Set("X-Runner-Token", f.runner.Token)
	if err := answer(req, out); err != nil {
		f.t.Fatal(err)
	}
}

// register makes this process a runner of the forge.
func (f *forge) register() {
	f.t.Helper()
	var token struct{ Token string }
	f.call("POST", "/admin/actions/runners/registration-token", nil, &token)
	var made struct{ Runner registration }
	f.runnerCall("Register", map[string]any{"name": "test", "token": token.Token, "version": "test", "labels": []string{"ubuntu-latest"}}, &made)
	f.runner = made.Runner
	f.ran = map[int64]map[string]job{}
	f.causes = map[int64]int64{}
	f.seen = map[int64]bool{}
}

type registration struct{ UUID, Token string }

// serve runs one job that waits, if there is one.
func (f *forge) serve() bool {
	f.t.Helper()
	var next struct{ Task *task }
	f.runnerCall("FetchTask", map[string]any{"tasksVersion": 0}, &next)
	if next.Task == nil {
		return false
	}
	t := next.Task
	j := f.runJob(t)
	f.t.Logf("run %s, attempt %s, %s, job %s: %s", t.Context.RunID, t.Context.Attempt, t.Context.EventName, t.Context.Job, j.result)
	id, err := t.Context.RunID.Int64()
	if err != nil {
		f.t.Fatal(err)
	}
	var event struct {
		Run struct{ ID int64 } `json:"workflow_run"`
	}
	if err := json.Unmarshal(t.Context.Event, &event); err != nil {
		f.t.Fatal(err)
	}
	f.causes[id] = event.Run.ID
	if f.ran[id] == nil {
		f.ran[id] = map[string]job{}
	}
	f.ran[id][t.Context.Job] = j
	now := time.Now().UTC().Format(time.RFC3339)
	f.runnerCall("UpdateTask", map[string]any{"state": map[string]any{
		"id": t.ID, "result": "RESULT_" + strings.ToUpper(j.result), "startedAt": now, "stoppedAt": now,
	}}, nil)
	return true
}

// finish runs what waits until the first run of an event and a commit that nobody
// has asked for yet is over, by the forge's word.
func (f *forge) finish(event, sha string) run {
	f.t.Helper()
	return f.wait(event+" of "+sha, func(r run) bool {
		return strings.HasPrefix(r.Event, event) && r.HeadSHA == sha // a push to a pull request is "pull_request_sync" here
	})
}

// follow does so for the run that the end of another one causes.
func (f *forge) follow(cause run) run {
	f.t.Helper()
	return f.wait(fmt.Sprintf("workflow_run of run %d", cause.ID), func(r run) bool {
		return r.Event == "workflow_run" && f.causes[r.ID] == cause.ID
	})
}

func (f *forge) wait(what string, is func(run) bool) run {
	f.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		var list struct {
			Runs []run `json:"workflow_runs"`
		}
		f.call("GET", "/repos/"+f.repo+"/actions/runs?limit=50", nil, &list)
		for _, r := range slices.Backward(list.Runs) { // the newest come first
			if r.Status == "completed" && !f.seen[r.ID] && is(r) {
				f.seen[r.ID] = true
				r.jobs = f.ran[r.ID]
				return r
			}
		}
		if !f.serve() {
			time.Sleep(100 * time.Millisecond)
		}
	}
	f.t.Fatalf("%s did not run", what)
	return run{}
}

// again runs jobs of a run that is over once more, as its button does; empty: all.
func (f *forge) again(r run, name string) run {
	f.t.Helper()
	path := fmt.Sprintf("/repos/%s/actions/runs/%d", f.repo, r.ID)
	if name == "" {
		f.call("POST", path+"/rerun", nil, nil)
	} else {
		var list struct {
			Jobs []struct {
				ID   int64
				Name string
			}
		}
		f.call("GET", path+"/jobs", nil, &list)
		for _, j := range list.Jobs {
			if j.Name == name {
				f.call("POST", fmt.Sprintf("%s/jobs/%d/rerun", path, j.ID), nil, nil)
			}
		}
	}
	delete(f.seen, r.ID)
	f.ran[r.ID] = nil
	return f.finish(r.Event, r.HeadSHA)
}

// stubbed is the workflow of a task with stubs for the jobs that ended before, from
// which act takes needs.NAME.result.
func (t *task) stubbed() ([]byte, error) {
	var w map[string]any
	if err := yaml.Unmarshal(t.Workflow, &w); err != nil {
		return nil, err
	}
	jobs, ok := w["jobs"].(map[string]any)
	if !ok {
		return nil, errors.New("no jobs")
	}
	job, ok := jobs[t.Context.Job].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no job %s", t.Context.Job)
	}
	if strategy, ok := job["strategy"].(map[string]any); ok {
		delete(strategy, "fail-fast") // the forge makes a word of it, which act refuses
	}
	var names []string
	for name, need := range t.Needs {
		names = append(names, name)
		command := "exit 1"
		if need.Result == "RESULT_SUCCESS" {
			command = "true"
		}
		jobs[name] = map[string]any{"runs-on": "ubuntu-latest", "steps": []any{map[string]any{"run": command}}}
	}
	job["needs"] = names
	return yaml.Marshal(w)
}

var jobEnd = regexp.MustCompile(`(?m)^\[[^\]]*/([\w-]+)(?: \([^)]*\))? *\] +🏁 +Job (succeeded|failed)`)

// runJob runs a job in act, in a checkout of its own, as the forge's runner does.
func (f *forge) runJob(t *task) job {
	f.t.Helper()
	dir := f.t.TempDir()
	r := &runner{t: f.t, repo: filepath.Join(dir, "project"), artifacts: filepath.Join(dir, "artifacts"), home: filepath.Join(dir, "home"), port: freePort(f.t)}
	for _, d := range []string{r.repo, r.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			f.t.Fatal(err)
		}
	}
	r.git("init", "--quiet", "--initial-branch=main")
	if bytes.Contains(t.Workflow, []byte("actions/checkout")) {
		// act has checkout done before: that of the commit that the forge names, and
		// of all branches.
		r.git("remote", "add", "origin", f.url+"/"+t.Context.Repository+".git")
		r.git("fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*", t.Context.Ref)
		r.git("checkout", "--quiet", "--detach", t.Context.SHA)
	} else {
		r.git("commit", "--quiet", "--allow-empty", "--message", "nothing is checked out")
	}
	workflow, err := t.stubbed()
	if err != nil {
		f.t.Fatal(err)
	}
	file, event, secrets := filepath.Join(dir, "job.yml"), filepath.Join(dir, "event.json"), filepath.Join(dir, "secrets")
	var lines strings.Builder
	for k, v := range t.Secrets {
		fmt.Fprintf(&lines, "%s=%s\n", k, v)
	}
	for name, data := range map[string][]byte{file: workflow, event: t.Context.Event, secrets: []byte(lines.String())} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	c := t.Context
	owner, _, _ := strings.Cut(c.Repository, "/")
	args := []string{"--workflows", file, "--job", c.Job, "--secret-file", secrets}
	for k, v := range map[string]string{
		"GITHUB_RUN_ID": c.RunID.String(), "GITHUB_RUN_ATTEMPT": c.Attempt, "GITHUB_REPOSITORY": c.Repository, "GITHUB_REPOSITORY_OWNER": owner,
		"GITHUB_REF": c.Ref, "SHA_REF": c.SHA, "GITHUB_HEAD_REF": c.HeadRef, "GITHUB_BASE_REF": c.BaseRef,
		"GITHUB_SERVER_URL": strings.TrimSuffix(c.Server, "/"), "GITHUB_API_URL": c.API, "GITEA_ACTIONS": "true",
	} {
		args = append(args, "--env", k+"="+v)
	}
	cmd := r.command(c.EventName, event, args...)
	cmd.Env = append(cmd.Env, "ACTIONS_RUNTIME_URL="+f.url+"/", "ACTIONS_RUNTIME_TOKEN="+c.Runtime, f.upload)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	j := job{result: "skipped", log: string(out)}
	for _, m := range jobEnd.FindAllStringSubmatch(j.log, -1) {
		if m[1] == c.Job {
			j.result = map[string]string{"succeeded": "success", "failed": "failure"}[m[2]]
		}
	}
	if j.result == "skipped" && err != nil {
		f.t.Fatalf("act: %v\n%s", err, out)
	}
	if os.Getenv("GATE_TEST_LOG") != "" {
		f.t.Log(j.log)
	}
	return j
}
