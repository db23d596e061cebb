package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// push makes the scene that of a push of commit n to main, whose run n measured.
func (s *scene) push(n int, testbeds ...string) {
	s.t.Helper()
	s.event("push", map[string]any{})
	s.env["GITHUB_REF"], s.env["GITHUB_SHA"], s.env["GITHUB_RUN_ID"] = "refs/heads/main", sha(n), fmt.Sprint(n)
	s.server.Runs = append(s.server.Runs, githubtest.Run{ID: int64(n), Event: "push", Path: reportWorkflow, Branch: "main", SHA: sha(n), HeadRepo: 1, Repo: 1, Created: time.Now().Add(time.Duration(n-1000) * time.Minute)})
	s.server.Files[sha(n)+":ebpf-bench.yml"] = reportConfig
	for i := n; i > 0; i-- {
		s.server.Commits[sha(n)] = append(s.server.Commits[sha(n)], sha(i))
	}
	for _, testbed := range testbeds {
		b := measured(fmt.Sprintf("push-%d-%s", n, testbed), testbed, "fun_xdp/worst", 1, float64(98+n%5))
		b.Head.Time = time.Now().Add(time.Duration(n-1000) * time.Minute)
		s.runs(int64(n), "main", &store.Bundle{Head: b.Head})
	}
}

// Runs that are kept in a store: a push puts its own there, and a pull request is held
// against those of the commits that its base has.
func TestReportInStore(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "größe #1", "runs")
		reportInStore(t, "file://"+strings.NewReplacer(" ", "%20", "#", "%23").Replace(filepath.ToSlash(dir)), dir)
	})
	t.Run("bucket", func(t *testing.T) {
		objects := s3mem.New()
		if err := objects.CreateBucket("runs"); err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(gofakes3.New(objects).Server())
		defer server.Close()
		t.Setenv("AWS_ACCESS_KEY_ID", "somebody")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "not to be told")
		t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
		reportInStore(t, "s3://runs/project?region=eu-central-1&endpoint="+url.QueryEscape(server.URL), "")
	})
}

// reportInStore keeps runs at a URL, which is that of a directory or of a bucket.
func reportInStore(t *testing.T, where, dir string) {
	s := newScene(t)
	s.flags.store = where
	for n := 1; n <= 12; n++ {
		s.push(n, "t1")
		for range 2 { // the job is run again: the run is there already
			if code := s.report(); code == exitUnmeasured || strings.Contains(s.log.String(), "not stored") {
				t.Fatalf("push %d: exit %d\n%s", n, code, &s.log)
			}
		}
		if out := s.outputs(); out["history-name"] != "" {
			t.Errorf("a roll-up beside the store: %v", out)
		}
	}
	kept, err := store.Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	// Of a commit that was thrown away, of another branch, of changed files: no baseline.
	for i, r := range []bench.Revision{{Commit: sha(777), Branch: "main"}, {Commit: sha(9), Branch: "dev"}, {Commit: sha(9), Branch: "main", Dirty: true}, {Commit: "main", Branch: "main"}, {Branch: "main"}} {
		evil := measured(fmt.Sprint("evil-", i), "t1", "fun_xdp/worst", 1, 1).Head
		evil.Revision = r
		if _, err := kept.Put(t.Context(), evil); err != nil {
			t.Fatal(err)
		}
	}
	want := "10 stored runs on 1 testbed, up to 0000000"
	if dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "runs", "main", "t1", "20260101-000000.000000000-x.json.gz"), []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
		want += "; 1 not readable"
	}

	s.pullRequest(1)
	s.env["GITHUB_RUN_ID"] = "500"
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
	s.server.Log = nil
	if code := s.report(); code != exitRegressed || s.outputs()["baseline-runs"] != "10" {
		t.Fatalf("exit %d, %v\n%s", code, s.outputs(), &s.log)
	}
	body := s.server.Comments[0].Body
	if !strings.Contains(body, want) || dir != "" && strings.Contains(body, dir) || strings.Contains(body+s.log.String(), "not to be told") {
		t.Errorf("%s", body)
	}
	if n := s.server.Logged("GET /repos/o/r/c"); n > maxAsked { // commits, compare
		t.Errorf("%d requests:\n%s", n, strings.Join(s.server.Log, "\n"))
	}
	if n := s.server.Logged("GET /repos/o/r/actions/workflows/"); n > 0 {
		t.Error("runs of the workflow are listed for nothing")
	}
	if entries, _, err := kept.List(t.Context(), store.Filter{Branch: "feat/x"}); len(entries) > 0 || err != nil {
		t.Errorf("a pull request has written into the store: %v, %v", entries, err)
	}

	// A testbed that the newest stored commit has cannot be left out.
	s.push(10, "t2")
	s.report()
	s.pullRequest(1)
	s.env["GITHUB_RUN_ID"] = "500"
	s.server.Artifacts = nil
	s.runs(500, "feat/x", measured("b", "t1", "fun_xdp/worst", 100, 100))
	if code := s.report(); code != exitUnmeasured || !strings.Contains(s.server.Comments[0].Body, "testbed t2 of main was not measured") {
		t.Errorf("exit %d\n%s", code, s.server.Comments[0].Body)
	}
}

// A store that nobody can open costs advice, a name that is none the report.
func TestReportStoreFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newScene(t)
	s.flags.store = "file://" + filepath.ToSlash(file)
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
	if code := s.report(); code != exitRegressed || !strings.Contains(s.server.Comments[0].Body, "no baseline: open store") {
		t.Errorf("exit %d\n%s", code, &s.log)
	}
	s.push(10, "t1")
	if code := s.report(); code == exitUnmeasured || !strings.Contains(s.log.String(), "warning: not stored: open store") {
		t.Errorf("a push: exit %d\n%s", code, &s.log)
	}
	for _, where := range []string{"ftp://x", "s3://", "s3://key:secret@bucket", "s3://bucket?secret=hunter2"} {
		s.flags.store = where
		if code := s.report(); code != exitUsage || strings.Contains(s.log.String(), "secret@") || strings.Contains(s.log.String(), "hunter2") {
			t.Errorf("%s: exit %d\n%s", where, code, &s.log)
		}
	}
}

// Many runs of commits that the branch lost cost no more requests than a baseline may.
func TestReportStoreAsksLittle(t *testing.T) {
	s := newScene(t)
	dir := t.TempDir()
	kept, err := store.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		r := measured(fmt.Sprint("lost-", i), "t1", "fun_xdp/worst", 1, 100).Head
		r.Revision = bench.Revision{Branch: "main", Commit: sha(5000 + i)}
		if _, err := kept.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	s.flags.store = "file://" + filepath.ToSlash(dir)
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 100))
	code := s.report()
	if n := s.server.Logged(http.MethodGet + " /repos/o/r/com"); code != exitPass || n > maxAsked || !strings.Contains(s.server.Comments[0].Body, "older stored runs were left out") {
		t.Errorf("exit %d, %d requests\n%s", code, n, s.server.Comments[0].Body)
	}
}

// A bucket that may be read and not written keeps its history, and says of a push that it
// has not become a part of it; one that refuses everything costs advice.
func TestReportBucketRefuses(t *testing.T) {
	objects := s3mem.New()
	if err := objects.CreateBucket("runs"); err != nil {
		t.Fatal(err)
	}
	all := gofakes3.New(objects).Server()
	refused := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused[r.Method] {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>not for you: not to be told</Message></Error>`)
			return
		}
		all.ServeHTTP(w, r)
	}))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "somebody")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not to be told")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))

	s := newScene(t)
	s.flags.store = "s3://runs/project?region=eu-central-1&endpoint=" + url.QueryEscape(server.URL)
	for n := 9; n <= 11; n++ { // the pull request is against the tenth
		refused[http.MethodPut] = n == 11
		s.push(n, "t1")
		code := s.report()
		if stored := !strings.Contains(s.log.String(), "warning: not stored: "); code == exitUnmeasured || stored != (n < 11) {
			t.Fatalf("push %d: exit %d\n%s", n, code, &s.log)
		}
	}
	if log := s.log.String(); !strings.Contains(log, "AccessDenied") || strings.Contains(log, "not to be told") {
		t.Errorf("%s", log)
	}
	s.pullRequest(1)
	s.env["GITHUB_RUN_ID"] = "500"
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
	if code := s.report(); code != exitRegressed || s.outputs()["baseline-runs"] != "2" {
		t.Errorf("exit %d, %v\n%s", code, s.outputs(), &s.log)
	}
	refused[http.MethodGet] = true
	if code := s.report(); code != exitRegressed || s.outputs()["baseline-runs"] != "0" {
		t.Errorf("exit %d, %v\n%s", code, s.outputs(), &s.log)
	}
	if body := s.server.Comments[0].Body; !strings.Contains(body, "no baseline: ") || strings.Contains(body+s.log.String(), "not to be told") {
		t.Errorf("%s\n%s", body, &s.log)
	}
}
