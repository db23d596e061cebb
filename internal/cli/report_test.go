package cli

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
	"github.com/org/ebpf-bench-gate/internal/render"
	"github.com/org/ebpf-bench-gate/internal/store"
)

const (
	reportWorkflow = ".github/workflows/bench.yml"
	reportConfig   = "version: 1\npolicy: {latency: {fail: 5%}}\n"
)

func sha(n int) string { return fmt.Sprintf("%040x", n) }

// A scene is a repository with a pull request 7 of the commit 20 against main at
// 10, whose run 500 measured.
type scene struct {
	t      *testing.T
	server *githubtest.Server
	env    map[string]string
	flags  reportFlags
	out    bytes.Buffer
	log    bytes.Buffer
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, server: githubtest.New()}
	t.Cleanup(s.server.Close)
	s.flags = reportFlags{config: "ebpf-bench.yml", id: "default", comment: "always", failOn: "regression", status: true, store: "artifacts", label: "perf-accepted"}
	dir := t.TempDir()
	s.env = map[string]string{
		"GITHUB_API_URL": s.server.API.URL, "GITHUB_SERVER_URL": "https://github.example", "GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": githubtest.Token,
		"GITHUB_RUN_ID": "500", "GITHUB_RUN_ATTEMPT": "1", "GITHUB_SHA": sha(99), "GITHUB_ACTIONS": "true", "RUNNER_TEMP": dir,
		"GITHUB_WORKFLOW_REF": "o/r/" + reportWorkflow + "@refs/pull/7/merge",
		"GITHUB_OUTPUT":       filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY": filepath.Join(dir, "summary"),
	}
	s.server.Pulls = []githubtest.Pull{{Number: 7, HeadOwner: "o", HeadRef: "feat/x", HeadSHA: sha(20), HeadRepo: 1, BaseRef: "main", BaseSHA: sha(10)}}
	s.server.Runs = []githubtest.Run{{ID: 500, Event: "pull_request", Path: reportWorkflow, Branch: "feat/x", SHA: sha(20), HeadRepo: 1, Repo: 1, Created: time.Now().Add(-time.Hour)}}
	s.server.Files[sha(10)+":ebpf-bench.yml"] = reportConfig
	s.server.Files[sha(20)+":ebpf-bench.yml"] = reportConfig
	s.server.Files[sha(10)+":"+reportWorkflow] = "on: pull_request"
	s.server.Commits[sha(10)] = []string{sha(10)}
	s.pullRequest(1)
	return s
}

func (s *scene) event(name string, payload map[string]any) {
	s.t.Helper()
	payload["repository"] = map[string]any{"id": 1, "full_name": "o/r"}
	data, err := json.Marshal(payload)
	if err != nil {
		s.t.Fatal(err)
	}
	s.env["GITHUB_EVENT_NAME"] = name
	s.env["GITHUB_EVENT_PATH"] = filepath.Join(s.t.TempDir(), "event.json")
	if err := os.WriteFile(s.env["GITHUB_EVENT_PATH"], data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) pullRequest(headRepo int) {
	s.event("pull_request", map[string]any{"pull_request": map[string]any{
		"number": 7, "head": map[string]any{"sha": sha(20), "ref": "feat/x", "repo": map[string]any{"id": headRepo, "owner": map[string]any{"login": "o"}}},
		"base": map[string]any{"sha": sha(10), "ref": "main", "repo": map[string]any{"id": 1}},
	}})
}

// fork makes the scene that of a fork's pull request, told by workflow_run.
func (s *scene) fork() {
	s.server.Pulls[0].HeadOwner, s.server.Pulls[0].HeadRepo = "stranger", 2
	s.server.Runs[0].HeadRepo = 2
	s.event("workflow_run", map[string]any{"workflow_run": map[string]any{
		"id": 500, "run_attempt": 1, "path": reportWorkflow, "event": "pull_request", "conclusion": "success", "head_sha": sha(20), "head_branch": "feat/x",
		"head_repository": map[string]any{"id": 2, "owner": map[string]any{"login": "stranger"}},
	}})
	s.env["GITHUB_RUN_ID"] = "501"
	s.env["GITHUB_WORKFLOW_REF"] = "o/r/.github/workflows/report.yml@refs/heads/main"
}

// measured makes the runs of one testbed: latencies of base and head.
func measured(id, testbed, benchmark string, base, head float64) *store.Bundle {
	b := &store.Bundle{}
	for i, v := range []float64{base, head} {
		r := &bench.Run{
			Schema: 1, ID: fmt.Sprintf("%s-%d", id, i), Session: id, Time: time.Now(), Seed: 1,
			Revision: bench.Revision{Name: "forged", Commit: "x;curl a|sh", Branch: "main"},
			Testbed:  bench.Testbed{Name: testbed, Kernel: "6.11", Arch: "amd64", CPU: "EPYC", CPUs: 2, JIT: true},
			Programs: []bench.ProgramResult{{Program: "fun_xdp", Object: "o", Outcome: bench.Accepted, Digest: id + fmt.Sprint(v)}},
		}
		res := bench.Result{Benchmark: benchmark, Program: "fun_xdp", Measure: bench.Latency, Kind: bench.Micro}
		for n := range 40 {
			res.Samples = append(res.Samples, bench.Sample{Round: n, Value: v + float64((n*7+i*3)%11)/10})
		}
		r.Results = []bench.Result{res}
		if i == 0 {
			b.Base = r
		} else {
			b.Head = r
		}
	}
	return b
}

func (s *scene) upload(run int64, n github.Name, data []byte) {
	s.t.Helper()
	n.ID = "default"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(store.BundleFile)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		s.t.Fatal(err)
	}
	z.Close()
	s.server.Artifacts = append(s.server.Artifacts, githubtest.Artifact{ID: int64(len(s.server.Artifacts) + 1), Run: run, Name: n.String(), Zip: b.Bytes()})
}

func (s *scene) runs(run int64, branch string, b *store.Bundle) {
	s.t.Helper()
	data, err := b.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	s.upload(run, github.Name{Kind: github.KindRun, Branch: branch, Testbed: b.Head.Testbed.Name, Attempt: 1}, data)
}

// report runs the verb, and returns its exit code.
func (s *scene) report() int {
	s.t.Helper()
	if err := s.flags.check(); err != nil {
		s.t.Fatal(err)
	}
	s.out.Reset()
	s.log.Reset()
	c := Command{Stdout: &s.out, Stderr: &s.log}
	err := c.runReport(s.t.Context(), s.flags, func(k string) string { return s.env[k] })
	if err == nil {
		return 0
	}
	switch e := err.(type) {
	case verdictError:
		return e.code
	case *exitError:
		fmt.Fprintln(&s.log, e)
		return e.code
	}
	s.t.Fatal(err)
	return -1
}

func (s *scene) outputs() map[string]string {
	s.t.Helper()
	data, err := os.ReadFile(s.env["GITHUB_OUTPUT"])
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	key := ""
	for l := range strings.Lines(string(data)) {
		l = strings.TrimSuffix(l, "\n")
		if k, _, ok := strings.Cut(l, "<<"); ok {
			key = k
		} else if !strings.HasPrefix(l, "_GitHub") {
			out[key] = l
		}
	}
	return out
}

func (s *scene) lastStatus() githubtest.Status {
	if len(s.server.Statuses) == 0 {
		return githubtest.Status{}
	}
	return s.server.Statuses[len(s.server.Statuses)-1]
}

func TestReportRegressionAndFix(t *testing.T) {
	s := newScene(t)
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
	s.runs(500, "feat/x", measured("b", "t2", "fun_xdp/worst", 100, 100))
	if code := s.report(); code != exitRegressed {
		t.Fatalf("exit %d\n%s", code, &s.log)
	}
	if len(s.server.Comments) != 1 {
		t.Fatalf("%d comments", len(s.server.Comments))
	}
	c := s.server.Comments[0]
	for _, want := range []string{render.Marker("default") + "\n### ❌", "fun&#95;xdp", "<b>t1</b>", "<b>t2</b>", "policy from main", "1 of 2 testbeds", "gate run --base " + sha(10)[:12]} {
		if !strings.Contains(c.Body, want) {
			t.Errorf("the comment lacks %q:\n%s", want, c.Body)
		}
	}
	if strings.Contains(c.Body, "curl") || strings.Contains(c.Body, "forged") {
		t.Error("the comment quotes a revision of the artifact")
	}
	if n := len(s.server.Statuses); n != 2 || s.server.Statuses[0].State != "pending" {
		t.Errorf("statuses %+v", s.server.Statuses)
	}
	if st := s.lastStatus(); st.State != "failure" || st.SHA != sha(20) || st.Context != "ebpf-bench/default" || len([]rune(st.Description)) > 140 {
		t.Errorf("%+v", st)
	}
	out := s.outputs()
	if out["verdict"] != "regressed" || out["regressions"] != "1" || out["comment-url"] != fmt.Sprintf("https://github.example/o/r/pull/7#issuecomment-%d", c.ID) || out["baseline-runs"] != "0" {
		t.Errorf("%v", out)
	}
	if data, err := os.ReadFile(out["report-path"]); err != nil || !json.Valid(data) {
		t.Errorf("%v", err)
	}
	if !strings.Contains(s.out.String(), "::error title=fun_xdp/worst regressed::latency +") {
		t.Errorf("annotations: %s", &s.out)
	}

	// A new commit fixes it: the same comment, another verdict.
	s.server.Artifacts = nil
	s.runs(500, "feat/x", measured("c", "t1", "fun_xdp/worst", 100, 100))
	if code := s.report(); code != exitPass {
		t.Fatalf("exit %d\n%s", code, &s.log)
	}
	if len(s.server.Comments) != 1 || c.Edits != 1 || !strings.Contains(c.Body, "### ✅") || s.lastStatus().State != "success" {
		t.Errorf("%d comments, %d edits, %+v\n%.300s", len(s.server.Comments), c.Edits, s.lastStatus(), c.Body)
	}
}

func TestReportFailsClosed(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"nothing measured": func(s *scene) { s.server.Artifacts = nil },
		"damaged":          func(s *scene) { s.server.Artifacts[0].Zip = []byte("x") },
		"expired":          func(s *scene) { s.server.Artifacts[0].Expired = true },
		"one more damaged": func(s *scene) {
			s.upload(500, github.Name{Kind: github.KindRun, Branch: "feat/x", Testbed: "t9", Attempt: 1}, []byte("x"))
		},
		"a job failed": func(s *scene) { s.flags.needs = "failure" },
		"a roll-up": func(s *scene) {
			s.server.Artifacts = nil
			data, _ := store.RollUp([]*bench.Run{measured("a", "t1", "x", 1, 1).Head}, 1).Encode()
			s.upload(500, github.Name{Kind: github.KindRun, Branch: "feat/x", Testbed: "t1", Attempt: 1}, data)
		},
		"benchmark of base missing": func(s *scene) {
			s.server.Files[sha(10)+":ebpf-bench.yml"] = reportConfig + "benchmarks: {fun_xdp/gone: {}}\n"
		},
		"testbed of base missing": func(s *scene) {
			s.server.Runs = append(s.server.Runs, githubtest.Run{ID: 9, Event: "push", Path: reportWorkflow, Branch: "main", SHA: sha(10), HeadRepo: 1, Repo: 1})
			s.runs(9, "main", &store.Bundle{Head: measured("h", "t2", "fun_xdp/worst", 1, 100).Head})
		},
	} {
		s := newScene(t)
		s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 100))
		change(s)
		if code := s.report(); code != exitUnmeasured || s.lastStatus().State != "error" || s.outputs()["verdict"] != "inconclusive" {
			t.Errorf("%s: exit %d, %+v, %v", name, code, s.lastStatus(), s.outputs())
		}
		if c := s.server.Comments; len(c) != 1 || strings.Contains(c[0].Body, "### ✅") {
			t.Errorf("%s: comments %+v", name, c)
		}
		s.flags.failOn = "never"
		if code := s.report(); code != 0 || s.lastStatus().State != "success" {
			t.Errorf("%s, never: exit %d, %+v", name, code, s.lastStatus())
		}
	}
}

// Head's policy cannot loosen this verdict; a waiver needs the label.
func TestReportPolicyIsBases(t *testing.T) {
	s := newScene(t)
	s.server.Files[sha(20)+":ebpf-bench.yml"] = "version: 1\npolicy: {latency: {fail: 500%}}\n"
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
	if code := s.report(); code != exitRegressed || !strings.Contains(s.server.Comments[0].Body, "head loosens the fail limit of latency") {
		t.Errorf("exit %d\n%s", code, s.server.Comments[0].Body)
	}
	delete(s.server.Files, sha(10)+":ebpf-bench.yml")
	if code := s.report(); code != exitPass || !strings.Contains(s.server.Comments[0].Body, "which adds it") {
		t.Errorf("the pull request that adds the config: exit %d\n%s", code, s.server.Comments[0].Body)
	}
	s.fork() // a stranger's does not even then
	if code := s.report(); code != exitRegressed {
		t.Errorf("fork: exit %d\n%s", code, &s.log)
	}
}

func TestReportRemovedBenchmarkAccepted(t *testing.T) {
	s := newScene(t)
	s.server.Files[sha(10)+":ebpf-bench.yml"] = reportConfig + "benchmarks: {fun_xdp/gone: {}}\n"
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 100))
	label := githubtest.IssueEvent{Pull: 7, Event: "labeled", Label: "perf-accepted", Actor: "triager", Created: time.Now()}
	s.server.Permissions = map[string]string{"triager": "read", "boss": "write"}
	for name, tt := range map[string]struct {
		change func(*githubtest.IssueEvent)
		code   int
	}{
		"who may not write": {func(*githubtest.IssueEvent) {}, exitUnmeasured},
		"before the push":   {func(e *githubtest.IssueEvent) { e.Actor, e.Created = "boss", time.Now().Add(-2*time.Hour) }, exitUnmeasured},
		"another label":     {func(e *githubtest.IssueEvent) { e.Actor, e.Label = "boss", "x" }, exitUnmeasured},
		"accepted":          {func(e *githubtest.IssueEvent) { e.Actor = "boss" }, exitPass},
	} {
		e := label
		tt.change(&e)
		s.server.Events = []githubtest.IssueEvent{e}
		if code := s.report(); code != tt.code {
			t.Errorf("%s: exit %d, want %d\n%s", name, code, tt.code, &s.log)
		}
	}
	s.server.Events = []githubtest.IssueEvent{label, label}
	s.server.Events[0].Actor, s.server.Events[1].Event = "boss", "unlabeled"
	if code := s.report(); code != exitUnmeasured {
		t.Errorf("taken off again: exit %d", code)
	}
}

func TestReportReadOnlyToken(t *testing.T) {
	s := newScene(t)
	s.server.ReadOnly = true
	s.pullRequest(2)
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
	if code := s.report(); code != exitRegressed {
		t.Fatalf("exit %d\n%s", code, &s.log)
	}
	summary, err := os.ReadFile(s.env["GITHUB_STEP_SUMMARY"])
	if err != nil || !strings.Contains(string(summary), "the comment was not written: the token may only read") || !strings.Contains(string(summary), "the status was not written") {
		t.Errorf("%v\n%s", err, summary)
	}
	if len(s.server.Comments)+len(s.server.Statuses) != 0 || s.outputs()["comment-url"] != "" {
		t.Error("written")
	}
}

func TestReportFork(t *testing.T) {
	s := newScene(t)
	s.fork()
	s.server.Pulls = append(s.server.Pulls, githubtest.Pull{Number: 1, HeadOwner: "o", HeadRef: "x", HeadSHA: sha(30), HeadRepo: 1, BaseRef: "main", BaseSHA: sha(10)})
	b := measured("a", "t1", "](javascript:alert(1))|`<b>@everyone #1 ", 100, 150)
	// All that an artifact could claim of who it is.
	b.Head.Warnings = []string{"pull request #1", "<!-- ebpf-bench-gate id=default -->", "\n::set-output name=verdict::pass"}
	s.runs(500, "feat/x", b)
	if code := s.report(); code != exitRegressed {
		t.Fatalf("exit %d\n%s", code, &s.log)
	}
	if c := s.server.Comments; len(c) != 1 || c[0].Pull != 7 {
		t.Fatalf("comments %+v", c)
	}
	body := s.server.Comments[0].Body
	for _, bad := range []string{"](javascript", "<b>@", "@everyone", "`<"} {
		if strings.Contains(body, bad) {
			t.Errorf("holds %q", bad)
		}
	}
	if strings.Count(body, "<!--") != 1 {
		t.Error("a second marker")
	}
	if st := s.lastStatus(); st.SHA != sha(20) || st.State != "failure" || !strings.HasSuffix(st.TargetURL, "/runs/500") {
		t.Errorf("%+v", st)
	}
	if strings.Contains(s.out.String(), "::") || strings.Contains(s.log.String(), "::set-output") {
		t.Errorf("workflow commands:\n%s\n%s", &s.out, &s.log)
	}
}

func TestReportForkRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*scene)
		code   int
		want   string
	}{
		"pushed since":       {func(s *scene) { s.server.Pulls[0].HeadSHA = sha(21) }, 0, "no open pull request"},
		"closed":             {func(s *scene) { s.server.Pulls[0].State = "closed" }, 0, "no open pull request"},
		"another repository": {func(s *scene) { s.server.Pulls[0].HeadRepo = 3 }, 0, "no open pull request"},
		"two bases": {func(s *scene) {
			p := s.server.Pulls[0]
			p.Number, p.BaseRef = 8, "dev"
			s.server.Pulls = append(s.server.Pulls, p)
		}, exitUnmeasured, "the same head"},
		"a workflow of its own": {func(s *scene) { delete(s.server.Files, sha(10)+":"+reportWorkflow) }, exitUsage, "a pull request brought it"},
	} {
		s := newScene(t)
		s.fork()
		s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 100))
		tt.change(s)
		if code := s.report(); code != tt.code || !strings.Contains(s.log.String(), tt.want) {
			t.Errorf("%s: exit %d, %s", name, code, &s.log)
		}
		if len(s.server.Comments)+len(s.server.Statuses) > 0 {
			t.Errorf("%s: written", name)
		}
	}
}

func TestReportRefusesTarget(t *testing.T) {
	s := newScene(t)
	s.env["GITHUB_EVENT_NAME"] = "pull_request_target"
	if code := s.report(); code != exitUsage || len(s.server.Log) > 0 {
		t.Errorf("exit %d, %v", code, s.server.Log)
	}
}

// An older run that ends later leaves the comment to the newer one.
func TestReportSuperseded(t *testing.T) {
	s := newScene(t)
	s.server.Pulls[0].HeadSHA = sha(21)
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
	if code := s.report(); code != exitRegressed || len(s.server.Comments) != 0 || s.lastStatus().SHA != sha(20) {
		t.Errorf("exit %d, %d comments, %+v", code, len(s.server.Comments), s.lastStatus())
	}
}

func TestReportCommentModes(t *testing.T) {
	for _, tt := range []struct {
		mode   string
		head   float64
		before bool
		want   int
	}{
		{"always", 100, false, 1}, {"on-change", 100, false, 0}, {"on-change", 150, false, 1}, {"on-regression", 100, false, 0}, {"on-regression", 150, false, 1},
		{"never", 150, false, 0}, {"on-regression", 100, true, 1},
	} {
		s := newScene(t)
		s.flags.comment = tt.mode
		if tt.before {
			s.server.Comments = []*githubtest.Comment{{ID: 5, Pull: 7, Login: "github-actions[bot]", Type: "Bot", Body: render.Marker("default") + "\n### ❌ old"}}
		}
		s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, tt.head))
		s.report()
		if len(s.server.Comments) != tt.want || tt.before && !strings.Contains(s.server.Comments[0].Body, "### ✅") {
			t.Errorf("%+v: %d comments", tt, len(s.server.Comments))
		}
	}
}

// A push stores: the roll-up is made of the runs themselves, this one's among them.
func TestReportPush(t *testing.T) {
	s := newScene(t)
	s.event("push", map[string]any{})
	s.env["GITHUB_REF"], s.env["GITHUB_SHA"], s.env["GITHUB_RUN_ATTEMPT"] = "refs/heads/main", sha(10), "2"
	s.server.Runs = []githubtest.Run{{ID: 500, Attempt: 2, Event: "push", Path: reportWorkflow, Branch: "main", SHA: sha(10), HeadRepo: 1, Repo: 1}}
	s.runs(500, "main", &store.Bundle{Head: measured("a", "t1", "fun_xdp/worst", 1, 100).Head})
	if code := s.report(); code != exitPass {
		t.Fatalf("exit %d\n%s", code, &s.log)
	}
	out := s.outputs()
	want := github.Name{Kind: github.KindHistory, ID: "default", Branch: "main", Attempt: 2}.String()
	if out["history-name"] != want || out["baseline-runs"] != "1" {
		t.Fatalf("%v", out)
	}
	b, err := store.ReadBundle(filepath.Dir(out["history-path"]))
	if err != nil || len(b.History) != 1 || b.History[0].Revision.Commit != sha(10) {
		t.Errorf("%+v, %v", b, err)
	}
	if len(s.server.Comments) != 0 || s.lastStatus().State != "success" {
		t.Errorf("%+v", s.lastStatus())
	}
}

func TestReportMergeGroup(t *testing.T) {
	s := newScene(t)
	s.event("merge_group", map[string]any{"merge_group": map[string]any{
		"head_sha": sha(30), "head_ref": "refs/heads/gh-readonly-queue/main/pr-7", "base_sha": sha(10), "base_ref": "refs/heads/main",
	}})
	s.runs(500, "q", measured("a", "t1", "fun_xdp/worst", 100, 150))
	if code := s.report(); code != exitRegressed || s.lastStatus().SHA != sha(30) || len(s.server.Comments) != 0 {
		t.Errorf("exit %d, %+v", code, s.lastStatus())
	}
}

// What was accepted on a pull request passes its merge queue, which has no label.
func TestReportMergeGroupAccepted(t *testing.T) {
	s := newScene(t)
	s.event("merge_group", map[string]any{"merge_group": map[string]any{
		"head_sha": sha(30), "head_ref": "refs/heads/gh-readonly-queue/main/pr-7-" + sha(10), "base_sha": sha(10), "base_ref": "refs/heads/main",
	}})
	s.server.Files[sha(30)+":ebpf-bench.yml"] = "version: 1\npolicy: {latency: {fail: 5%}, waivers: [{benchmark: fun_xdp/worst, max: {latency: 200%}, until: 2999-01-01, reason: wanted}]}\n"
	s.env["GITHUB_RUN_ID"] = "600"
	s.server.Runs = append(s.server.Runs, githubtest.Run{ID: 600, Event: "merge_group", Path: reportWorkflow, SHA: sha(30), HeadRepo: 1, Repo: 1, Created: time.Now()})
	s.runs(600, "q", measured("a", "t1", "fun_xdp/worst", 100, 150))
	s.server.Permissions = map[string]string{"triager": "read", "boss": "write"}
	label := func(actor string, ago time.Duration) []githubtest.IssueEvent {
		return []githubtest.IssueEvent{{Pull: 7, Event: "labeled", Label: "perf-accepted", Actor: actor, Created: time.Now().Add(-ago)}}
	}
	for name, tt := range map[string]struct {
		events []githubtest.IssueEvent
		code   int
	}{
		"no label":             {nil, exitRegressed},
		"before the last push": {label("boss", 2*time.Hour), exitRegressed},
		"who may not write":    {label("triager", time.Minute), exitRegressed},
		"accepted":             {label("boss", time.Minute), exitPass},
	} {
		s.server.Events = tt.events
		if code := s.report(); code != tt.code || s.lastStatus().SHA != sha(30) || len(s.server.Comments) != 0 {
			t.Errorf("%s: exit %d, want %d, %+v\n%s", name, code, tt.code, s.lastStatus(), &s.log)
		}
	}
}

// What head does to the policy and to benchmarks is named, and has no effect.
func TestReportNamesWhatHeadChanges(t *testing.T) {
	s := newScene(t)
	waiver := "{benchmark: fun_xdp/old, max: {latency: 10%}, until: 2999-01-01, reason: x}"
	s.server.Files[sha(10)+":ebpf-bench.yml"] = "version: 1\nbenchmarks: {fun_xdp/worst: {expect: XDP_PASS}, fun_xdp/same: {}}\n" +
		"policy: {latency: {fail: 5%}, overrides: [{benchmark: fun_xdp/worst, latency: {fail: 5%}}], waivers: [" + waiver + "]}\n"
	s.server.Files[sha(20)+":ebpf-bench.yml"] = "version: 1\nbenchmarks: {fun_xdp/worst: {expect: XDP_DROP}, fun_xdp/same: {}}\n" +
		"policy: {alpha: 0.1%, latency: {fail: 5%}, overrides: [{benchmark: fun_xdp/worst, latency: {fail: 900%}}]}\n"
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
	if code := s.report(); code != exitRegressed {
		t.Fatalf("exit %d\n%s", code, &s.log)
	}
	body := strings.ReplaceAll(s.server.Comments[0].Body, "&#95;", "_")
	for _, want := range []string{"head loosens alpha", "head changes the limits of single benchmarks", "head removes or changes the waiver of fun_xdp/old", "head changes what fun_xdp/worst measures"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

// The status is pending from the start, and stays what it is where the end was first.
func TestReportStart(t *testing.T) {
	s := newScene(t)
	s.flags.pending = true
	if code := s.report(); code != 0 || len(s.server.Statuses) != 1 || s.lastStatus().State != "pending" || s.lastStatus().SHA != sha(20) ||
		s.lastStatus().Context != "ebpf-bench/default" || len(s.server.Comments) != 0 {
		t.Errorf("exit %d, %+v\n%s", code, s.server.Statuses, &s.log)
	}
	s.server.ReadOnly = true
	if code := s.report(); code != 0 || !strings.Contains(s.log.String(), "may not") {
		t.Errorf("a read-only token: exit %d\n%s", code, &s.log)
	}
	s = newScene(t)
	s.event("merge_group", map[string]any{"merge_group": map[string]any{
		"head_sha": sha(30), "head_ref": "refs/heads/gh-readonly-queue/main/pr-7", "base_sha": sha(10), "base_ref": "refs/heads/main",
	}})
	s.flags.pending = true
	if code := s.report(); code != 0 || s.lastStatus().State != "pending" || s.lastStatus().SHA != sha(30) {
		t.Errorf("merge group: exit %d, %+v", code, s.lastStatus())
	}
	for action, want := range map[string]int{"requested": 1, "in_progress": 1, "completed": 2} {
		s := newScene(t)
		s.fork()
		data, err := os.ReadFile(s.env["GITHUB_EVENT_PATH"])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.env["GITHUB_EVENT_PATH"], bytes.Replace(data, []byte("{"), []byte(`{"action":"`+action+`",`), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
		s.report()
		if n := len(s.server.Statuses); n != want || s.server.Statuses[0].State != "pending" || s.server.Statuses[0].SHA != sha(20) {
			t.Errorf("%s: %+v\n%s", action, s.server.Statuses, &s.log)
		}
		s.server.Statuses = nil
		s.server.Runs[0].Status = "completed"
		if s.report(); action != "completed" && len(s.server.Statuses) != 0 {
			t.Errorf("%s, told late: %+v", action, s.server.Statuses)
		}
	}
}

func TestReportFlags(t *testing.T) {
	good := newScene(t).flags
	for name, change := range map[string]func(*reportFlags){
		"comment": func(f *reportFlags) { f.comment = "sometimes" },
		"fail-on": func(f *reportFlags) { f.failOn = "" },
		"id":      func(f *reportFlags) { f.id = "a --> b" },
		"empty":   func(f *reportFlags) { f.id = "" },
		"config":  func(f *reportFlags) { f.config = "../x.yml" },
		"needs":   func(f *reportFlags) { f.needs = "ok" },
		"store":   func(f *reportFlags) { f.store = "s3:bucket" },
	} {
		f := good
		change(&f)
		if f.check() == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
