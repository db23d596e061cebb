package github

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
