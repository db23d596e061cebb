package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// A run's clock is its own word: an expired waiver must not live on by it.
func TestReportStampsTime(t *testing.T) {
	made := time.Now().Add(-time.Hour)
	r := &reporting{event: &github.Event{HeadSHA: sha(20)}, measured: made}
	for name, at := range map[string]time.Time{"past": made.AddDate(-1, 0, 0), "never": {}, "future": made.AddDate(1, 0, 0), "now": time.Now()} {
		b := measured("a", "t", "x", 1, 1)
		b.Head.Time = at
		r.stamp(nil, b.Head)
		if b.Head.Time.Before(made) || b.Head.Time.After(time.Now()) {
			t.Errorf("%s: %v", name, b.Head.Time)
		}
	}
}

func TestBaselinePullAndPush(t *testing.T) {
	const branch = "größe/#1%2F+x"
	s := newScene(t)
	s.server.Branches = map[string]string{branch: sha(10)}
	s.server.Runs = append(s.server.Runs, githubtest.Run{ID: 9, Event: "push", Path: reportWorkflow, Branch: branch, SHA: sha(10), HeadRepo: 1, Repo: 1})
	s.runs(9, branch, &store.Bundle{Head: measured("h", "t 1/ü", "fun_xdp/worst", 1, 100).Head})
	s.runs(500, branch, &store.Bundle{Head: measured("evil", "t", "fun_xdp/worst", 1, 1).Head})
	for k, v := range s.env {
		if strings.HasPrefix(k, "GITHUB_") {
			t.Setenv(k, v)
		}
	}
	t.Setenv("GATE_TOKEN", "")
	dir := t.TempDir()
	run := func(args ...string) int {
		s.out.Reset()
		s.log.Reset()
		return Command{Stdout: &s.out, Stderr: &s.log}.Main(append([]string{"gate", "baseline", "--store", filepath.Join(dir, "store")}, args...))
	}
	if code := run("pull", "--branch", branch, "--workflow", reportWorkflow); code != 0 || !strings.Contains(s.log.String(), "1 stored run on 1 testbed") || !strings.Contains(s.log.String(), "1 of them new") {
		t.Fatalf("exit %d: %s", code, &s.log)
	}
	if code := run("pull", "--branch", branch, "--workflow", reportWorkflow); code != 0 || !strings.Contains(s.log.String(), "0 of them new") {
		t.Errorf("again: exit %d: %s", code, &s.log)
	}
	if code := run("pull", "--branch", "dev", "--workflow", reportWorkflow); code != exitUnmeasured {
		t.Errorf("a branch that is not there: exit %d: %s", code, &s.log)
	}
	if code := run("push", "--to", filepath.Join(dir, "out")); code != 0 {
		t.Fatalf("exit %d: %s", code, &s.log)
	}
	name := strings.TrimSpace(s.out.String())
	if n, err := github.ParseName(name); err != nil || n.Branch != branch || n.Testbed != "t 1/ü" {
		t.Errorf("%q: %+v, %v", name, n, err)
	}
	if b, err := store.ReadBundle(filepath.Join(dir, "out", name)); err != nil || b.Head.ID != "h-1" || b.Head.Revision.Commit != sha(10) {
		t.Errorf("%+v, %v", b, err)
	}
}

// What actions/download-artifact left is read like what the API serves.
func TestReportFromDirectory(t *testing.T) {
	s := newScene(t)
	s.flags.artifacts = t.TempDir()
	put := func(n github.Name, b *store.Bundle) {
		n.Kind, n.ID, n.Branch = github.KindRun, "default", "feat/x"
		data, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(s.flags.artifacts, n.String())
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, store.BundleFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(github.Name{Testbed: "t1", Attempt: 1}, measured("a", "t1", "fun_xdp/worst", 100, 150))
	put(github.Name{Testbed: "t1", Attempt: 2}, measured("b", "t1", "fun_xdp/worst", 100, 100))
	if err := os.Mkdir(filepath.Join(s.flags.artifacts, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code := s.report(); code != exitPass {
		t.Errorf("the newest attempt counts: exit %d\n%s", code, &s.log)
	}
}
