package github

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
)

func readEvent(t *testing.T, name, payload string, more map[string]string) (*Event, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(file, []byte(payload), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": file, "GITHUB_REPOSITORY": "o/r", "GITHUB_SHA": sha(9), "GITHUB_RUN_ID": "5", "GITHUB_RUN_ATTEMPT": "2",
		"GITHUB_WORKFLOW_REF": "o/r/.github/workflows/bench.yml@refs/heads/feat/x",
	}
	for k, v := range more {
		env[k] = v
	}
	return ReadEvent(func(k string) string { return env[k] })
}

const pullPayload = `{"repository":{"id":1},"pull_request":{"number":7,"head":{"sha":"%s","ref":"feat/x","repo":%s},"base":{"sha":"%s","ref":"main"}}}`

func TestReadEvent(t *testing.T) {
	e, err := readEvent(t, "pull_request", fmt.Sprintf(pullPayload, sha(2), `{"id":1}`, sha(1)), nil)
	if err != nil || e.HeadSHA != sha(2) || e.BaseSHA != sha(1) || e.Pull.Number != 7 || e.Fork() || e.Stored() || e.Workflow != workflow || e.Run != 5 || e.Attempt != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	for _, repo := range []string{`{"id":2}`, `null`, `{}`} {
		if e, err = readEvent(t, "pull_request", fmt.Sprintf(pullPayload, sha(2), repo, sha(1)), nil); err != nil || !e.Fork() {
			t.Errorf("%s: %+v, %v", repo, e, err)
		}
	}
	e, err = readEvent(t, "push", `{"repository":{"id":1}}`, map[string]string{"GITHUB_REF": "refs/heads/release/1"})
	if err != nil || !e.Stored() || e.BaseBranch != "release/1" || e.HeadSHA != sha(9) {
		t.Errorf("%+v, %v", e, err)
	}
	run := `{"repository":{"id":1},"workflow_run":{"id":77,"path":".github/workflows/bench.yml@main","event":"%s","conclusion":"success","head_sha":"` + sha(2) + `","head_branch":"b","head_repository":{"id":2,"owner":{"login":"s"}},"pull_requests":[{"number":1}]}}`
	e, err = readEvent(t, "workflow_run", fmt.Sprintf(run, "pull_request"), nil)
	if err != nil || e.Run != 77 || e.Workflow != workflow || e.Pull != nil || !e.Fork() || e.HeadOwner != "s" || e.HeadSHA != sha(2) {
		t.Errorf("%+v, %v", e, err)
	}
	for name, tt := range map[string]struct {
		name, payload string
		env           map[string]string
		harmless      bool
	}{
		"target":   {"pull_request_target", fmt.Sprintf(pullPayload, sha(2), `{"id":2}`, sha(1)), nil, false},
		"comment":  {"issue_comment", `{}`, nil, false},
		"release":  {"release", `{"repository":{"id":1}}`, nil, false},
		"tag":      {"push", `{"repository":{"id":1}}`, map[string]string{"GITHUB_REF": "refs/tags/main"}, true},
		"run push": {"workflow_run", fmt.Sprintf(run, "push"), nil, true},
	} {
		_, err := readEvent(t, tt.name, tt.payload, tt.env)
		var refused *RefusedError
		if tt.name == "pull_request_target" && !strings.Contains(err.Error(), "gives a pull request's code a token") {
			t.Errorf("%s: %v", name, err)
		}
		if !errors.As(err, &refused) || refused.Harmless != tt.harmless || !tt.harmless && refused.Hint() == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, tt := range map[string][2]string{
		"none":       {"", "{}"},
		"no json":    {"push", "x"},
		"no pull":    {"pull_request", `{"repository":{"id":1}}`},
		"no run":     {"workflow_run", `{"repository":{"id":1}}`},
		"no group":   {"merge_group", `{"repository":{"id":1}}`},
		"no commits": {"pull_request", fmt.Sprintf(pullPayload, "x", `{"id":1}`, sha(1))},
		"no base":    {"pull_request", fmt.Sprintf(pullPayload, sha(2), `{"id":1}`, "../main")},
	} {
		if e, err := readEvent(t, tt[0], tt[1], nil); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// A merge group is found by the branch that GitHub makes for it, and its pull request
// counts as it was measured last.
func TestQueued(t *testing.T) {
	const payload = `{"repository":{"id":1},"merge_group":{"head_sha":"%s","head_ref":"refs/heads/%s","base_sha":"%s","base_ref":"refs/heads/release/1"}}`
	s, c, _ := forge(t)
	s.NoFilters = true
	made := time.Unix(1_700_000_000, 0)
	s.Pulls = []githubtest.Pull{
		{Number: 7, HeadRef: "x", HeadSHA: sha(2), HeadRepo: 2, BaseRef: "release/1", BaseSHA: sha(1)},
		{Number: 8, HeadSHA: sha(2), BaseRef: "main"}, {Number: 9, HeadSHA: sha(2), BaseRef: "release/1", State: "closed"},
		{Number: 10, HeadSHA: sha(4), BaseRef: "release/1"},
	}
	run := githubtest.Run{ID: 1, Event: "pull_request", Path: workflow, SHA: sha(2), HeadRepo: 2, Repo: 1, Created: made}
	s.Runs = []githubtest.Run{run}
	for i, change := range []func(*githubtest.Run){
		func(r *githubtest.Run) { r.Created = made.Add(-time.Hour) }, func(r *githubtest.Run) { r.SHA = sha(3) }, func(r *githubtest.Run) { r.Event = "push" },
		func(r *githubtest.Run) { r.Repo = 2 }, func(r *githubtest.Run) { r.Path = ".github/workflows/x/bench.yml" },
	} {
		r := run
		r.ID, r.Created = int64(2+i), made.Add(time.Hour)
		change(&r)
		s.Runs = append(s.Runs, r)
	}
	queue := "gh-readonly-queue/release/1/"
	for ref, want := range map[string]int{
		queue + "pr-7-" + sha(1): 7, queue + "pr-8-" + sha(1): 0, queue + "pr-9-" + sha(1): 0, queue + "pr-10-" + sha(1): 0, queue + "pr-99-" + sha(1): 0,
		"gh-readonly-queue/main/pr-7-" + sha(1): 0, "x/" + queue + "pr-7-" + sha(1): 0, queue + "pr-7": 0, queue + "pr-07-" + sha(1): 0, queue + "x/pr-7-" + sha(1): 0, "pr-7-" + sha(1): 0,
	} {
		e, err := readEvent(t, "merge_group", fmt.Sprintf(payload, sha(3), ref, sha(1)), nil)
		if err != nil {
			t.Fatal(err)
		}
		p, measured, err := c.Queued(t.Context(), e)
		if (err == nil) != (want != 0) || want != 0 && (p.Number != want || !measured.Equal(made)) {
			t.Errorf("%s: #%d, %v, %v, want #%d", ref, p.Number, measured, err, want)
		}
	}
}

func TestAnnotate(t *testing.T) {
	var b bytes.Buffer
	all := []Annotation{
		{Error: true, File: "a.c", Line: 3, Title: "x,y::z", Text: "50% slower\n::error::evil"},
		{Error: true, File: "a.c", Title: "no line", Text: "t"},
	}
	for range 13 {
		all = append(all, Annotation{Title: "many", Text: "t"})
	}
	Annotate(&b, all)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2+maxAnnotations || lines[len(lines)-1] != "::warning title=4 more::the job's summary has all of them" {
		t.Errorf("%d lines, %s", len(lines), lines[len(lines)-1])
	}
	if lines[0] != "::error file=a.c,line=3,title=x%2Cy%3A%3Az::50%25 slower ::error::evil" {
		t.Error(lines[0])
	}
	for _, l := range lines[1:] {
		if strings.Contains(l, "line=") {
			t.Error(l)
		}
	}
}

func TestOutputsAndSummary(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"GITHUB_OUTPUT": filepath.Join(dir, "out"), "GITHUB_STEP_SUMMARY": filepath.Join(dir, "summary")}
	getenv := func(k string) string { return env[k] }
	if err := (Outputs{"verdict": "pass", "n": "3"}).Write(getenv); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(env["GITHUB_OUTPUT"]); !strings.Contains(string(b), "verdict<<") {
		t.Errorf("%s", b)
	}
	for _, bad := range []string{"a\nb", "$(x)", "`x`", "${{ x }}", "a;b", "ü", `"`} {
		if (Outputs{"x": bad}).Write(getenv) == nil {
			t.Errorf("%q was handed on", bad)
		}
	}
	if ok, err := Summary(getenv, strings.Repeat("x", MaxSummary/2)); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := Summary(getenv, strings.Repeat("x", MaxSummary/2+1)); ok || err == nil {
		t.Error("beyond the limit of all steps together")
	}
	env["GITHUB_STEP_SUMMARY"] = dir
	if _, err := Summary(getenv, "x"); err == nil {
		t.Error("a directory is no file")
	}
	if ok, err := Summary(func(string) string { return "" }, "x"); ok || err != nil {
		t.Error(ok, err)
	}
}
