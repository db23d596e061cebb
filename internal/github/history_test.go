package github

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
	"github.com/org/ebpf-bench-gate/internal/store"
)

func ids(h *History) []string {
	var out []string
	for _, r := range h.Runs {
		out = append(out, r.ID)
	}
	slices.Sort(out)
	return out
}

func rollUp(t testing.TB, s *githubtest.Server, run int64, testbeds ...string) {
	t.Helper()
	var runs []*bench.Run
	for i := range 20 {
		for _, tb := range testbeds {
			r := aRun(fmt.Sprintf("up-%d-%s", i, tb), tb, 100, 3)
			r.Revision.Commit = sha(int(run))
			runs = append(runs, r)
		}
	}
	s.Artifacts = append(s.Artifacts, githubtest.Artifact{
		ID: 90000 + run, Run: run, Name: Name{Kind: KindHistory, ID: "default", Branch: "main", Attempt: 1}.String(), Zip: zipOf(t, store.RollUp(runs, 1024)),
	})
}

func TestHistoryFromRollUp(t *testing.T) {
	s, c, _ := forge(t)
	trustedHistory(t, s, 70, "a", "b")
	rollUp(t, s, 69, "a", "b") // the newest has none yet: it still runs
	h, err := c.History(t.Context(), HistoryQuery{Workflow: workflow, Branch: "main", Base: sha(70), ID: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Runs) != 40 || !h.RolledUp || h.Newest != sha(69) || len(h.Problems) > 0 {
		t.Errorf("%s, %+v", h, h.Problems)
	}
	if n := c.Requests(); n > 10 {
		t.Errorf("%d requests, at most 10:\n%s", n, strings.Join(s.Log, "\n"))
	}
	if !slices.Equal(h.Testbeds(), []string{"a", "b"}) {
		t.Errorf("testbeds %v", h.Testbeds())
	}
	if want := "40 stored runs on 2 testbeds, up to 0000000"; h.String() != want {
		t.Errorf("%s, want %s", h, want)
	}
}

// Without any roll-up a pull request still gets what ten requests reach.
func TestHistoryWithoutRollUp(t *testing.T) {
	s, c, _ := forge(t)
	trustedHistory(t, s, 30, "a")
	h, err := c.History(t.Context(), query(30))
	if err != nil || len(h.Runs) == 0 || h.RolledUp {
		t.Errorf("%s, %v", h, err)
	}
	if c.Requests() > 10 {
		t.Errorf("%d requests", c.Requests())
	}
	// The branch is what the API says, whatever the artifact does.
	if r := h.Runs[0].Revision; r.Branch != "main" || r.Commit != h.Newest {
		t.Errorf("%+v", r)
	}
}

// Each lacks one thing that makes a run trusted, and has the newest date and an
// artifact with the right name.
func TestHistoryTrust(t *testing.T) {
	good := githubtest.Run{Event: "push", Path: workflow, Branch: "main", SHA: sha(5), HeadRepo: 1, Repo: 1, Created: time.Unix(1_800_000_000, 0)}
	for name, change := range map[string]func(*githubtest.Run){
		"":                 func(*githubtest.Run) {},
		"schedule":         func(r *githubtest.Run) { r.Event = "schedule" },
		"dispatch":         func(r *githubtest.Run) { r.Event = "workflow_dispatch" },
		"fork":             func(r *githubtest.Run) { r.HeadRepo = 2 },
		"no head repo":     func(r *githubtest.Run) { r.OmitHeadRepo = true },
		"other repo":       func(r *githubtest.Run) { r.Repo, r.HeadRepo = 2, 2 },
		"pull request":     func(r *githubtest.Run) { r.Event = "pull_request" },
		"target":           func(r *githubtest.Run) { r.Event = "pull_request_target" },
		"workflow_run":     func(r *githubtest.Run) { r.Event = "workflow_run" },
		"only head here":   func(r *githubtest.Run) { r.Repo = 2 },
		"other branch":     func(r *githubtest.Run) { r.Branch = "main2" },
		"other workflow":   func(r *githubtest.Run) { r.Path = ".github/workflows/x/bench.yml" },
		"no workflow":      func(r *githubtest.Run) { r.OmitPath = true },
		"thrown away":      func(r *githubtest.Run) { r.SHA = sha(999) },
		"no commit":        func(r *githubtest.Run) { r.SHA = "main" },
		"newer than base":  func(r *githubtest.Run) { r.SHA = sha(6) },
		"tag of the name ": func(r *githubtest.Run) { r.SHA = sha(777) },
	} {
		trusted := name == "" || name == "schedule" || name == "dispatch"
		s, c, _ := forge(t)
		s.NoFilters = true
		trustedHistory(t, s, 5)
		run := good
		run.ID = 50
		change(&run)
		s.Runs = append([]githubtest.Run{run}, s.Runs...)
		for i, kind := range []Kind{KindRun, KindHistory} {
			b := &store.Bundle{Head: aRun("evil", "a", 1, 3)}
			if kind == KindHistory {
				b = store.RollUp([]*bench.Run{b.Head}, 1)
			}
			s.Artifacts = append(s.Artifacts, githubtest.Artifact{ID: int64(7 + i), Run: 50, Name: Name{Kind: kind, ID: "default", Branch: "main", Attempt: 1}.String(), Zip: zipOf(t, b)})
		}
		for what, find := range map[string]func() (*History, error){
			"history": func() (*History, error) { return c.History(t.Context(), query(5)) },
			"collect": func() (*History, error) { return c.Collect(t.Context(), query(5)) },
		} {
			h, err := find()
			if err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			if got := slices.Contains(ids(h), "evil"); got != trusted {
				t.Errorf("%s, %s: counted is %v, want %v", name, what, got, trusted)
			}
		}
		if n := s.Logged("GET /repos/o/r/actions/runs/50/"); !trusted && n > 0 {
			t.Errorf("%s: its artifacts were listed", name)
		}
		if !trusted && len(s.Served) > 0 {
			t.Errorf("%s: an artifact was fetched", name)
		}
	}
}

// Thousands of artifacts of forks, with the names of our baseline, are never read:
// they are not even listed, and no number of them hides ours.
func TestHistoryFlood(t *testing.T) {
	s, c, _ := forge(t)
	for i := range 1500 {
		run := int64(10000 + i)
		s.Runs = append(s.Runs, githubtest.Run{ID: run, Event: "pull_request", Path: workflow, Branch: "main", SHA: sha(5), HeadRepo: 2, Repo: 1, Created: time.Unix(1_900_000_000, 0)})
		for j := range 10 {
			s.Artifacts = append(s.Artifacts, githubtest.Artifact{ID: run*100 + int64(j), Run: run, Name: Name{Kind: KindHistory, ID: "default", Branch: "main", Attempt: j + 1}.String(), Zip: []byte("evil")})
		}
	}
	trustedHistory(t, s, 5, "a")
	rollUp(t, s, 5, "a")
	h, err := c.History(t.Context(), query(5))
	if err != nil || len(h.Runs) != 20 {
		t.Fatalf("%v, %v", h, err)
	}
	if c.Requests() > 10 || len(s.Served) != 1 {
		t.Errorf("%d requests, fetched %v", c.Requests(), s.Served)
	}
	for _, l := range s.Log {
		if strings.Contains(l, "/runs/1") && strings.HasSuffix(l, "artifacts") {
			t.Errorf("listed: %s", l)
		}
	}
}

func TestHistoryLosesOnlyDamaged(t *testing.T) {
	s, c, _ := forge(t)
	trustedHistory(t, s, 6, "a")
	s.Artifacts[0].Expired = true
	s.Artifacts[1].Zip = []byte("no zip")
	s.Artifacts[2].Size = 1 << 30
	s.Artifacts[3].Name = "somebody else's"
	h, err := c.Collect(t.Context(), query(6))
	if err != nil || len(h.Runs) != 2 || len(h.Problems) != 3 {
		t.Fatalf("%v, %v, %v", h, h.Problems, err)
	}
	if !slices.ContainsFunc(h.Problems, func(e error) bool { return errors.Is(e, ErrGone) }) {
		t.Errorf("%v", h.Problems)
	}
	if want := "; 1 expired; 2 not readable"; !strings.HasSuffix(h.String(), want) {
		t.Errorf("%s", h)
	}
	for _, e := range h.Problems {
		if strings.Contains(e.Error(), "sig=") {
			t.Errorf("a signed URL is told: %v", e)
		}
	}
}

// What claims to be a roll-up in a single run's name, or the other way, is neither.
func TestHistoryKinds(t *testing.T) {
	s, c, _ := forge(t)
	trustedHistory(t, s, 2)
	s.Artifacts = []githubtest.Artifact{
		{ID: 1, Run: 2, Name: Name{Kind: KindHistory, ID: "default", Branch: "main", Attempt: 1}.String(), Zip: zipOf(t, &store.Bundle{Head: aRun("x", "a", 1, 1)})},
		{ID: 2, Run: 2, Name: Name{Kind: KindRun, ID: "default", Branch: "main", Testbed: "a", Attempt: 1}.String(), Zip: zipOf(t, store.RollUp([]*bench.Run{aRun("y", "a", 1, 1)}, 1))},
	}
	h, err := c.History(t.Context(), query(2))
	if err != nil || len(h.Runs) != 0 || len(h.Problems) != 2 {
		t.Errorf("%v, %v, %v", h, h.Problems, err)
	}
	if h.String() != "no stored runs; 2 not readable" {
		t.Error(h)
	}
}

// Other ids and branches whose names begin alike are not ours.
func TestHistoryNames(t *testing.T) {
	s, c, _ := forge(t)
	trustedHistory(t, s, 1)
	for i, n := range []Name{
		{ID: "default", Branch: "main"}, {ID: "default", Branch: "main.x"}, {ID: "default", Branch: "mai"}, {ID: "other", Branch: "main"}, {ID: "", Branch: "main"},
	} {
		n.Kind, n.Testbed = KindRun, "t"
		s.Artifacts = append(s.Artifacts, githubtest.Artifact{ID: int64(i), Run: 1, Name: n.String(), Zip: zipOf(t, &store.Bundle{Head: aRun(fmt.Sprint("r-", i), "t", 1, 1)})})
	}
	h, err := c.Collect(t.Context(), query(1))
	if err != nil || !slices.Equal(ids(h), []string{"r-0"}) {
		t.Errorf("%v, %v", ids(h), err)
	}
}

func TestArtifactsNewestAttempt(t *testing.T) {
	s, c, _ := forge(t)
	s.PerPage = 2
	for i, n := range []Name{{Testbed: "a", Attempt: 1}, {Testbed: "a", Attempt: 10}, {Testbed: "a", Attempt: 9}, {Testbed: "b", Attempt: 1}} {
		n.Kind, n.ID = KindRun, "default"
		s.Artifacts = append(s.Artifacts, githubtest.Artifact{ID: int64(i), Run: 1, Name: n.String()})
	}
	all, err := c.Artifacts(t.Context(), 1)
	if err != nil || len(all) != 2 || all[0].Name.Attempt != 10 || all[1].Name.Testbed != "b" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestAncestors(t *testing.T) {
	s, c, _ := forge(t)
	for i := 500; i > 0; i-- {
		s.Commits[sha(500)] = append(s.Commits[sha(500)], sha(i))
	}
	a := c.Ancestors(sha(500), 1)
	for commit, want := range map[string]bool{sha(500): true, sha(450): true, sha(3): true, sha(501): false, "main": false, "": false, sha(0): false} {
		if got, err := a.Has(t.Context(), commit); got != want || err != nil {
			t.Errorf("%.40s: %v, %v", commit, got, err)
		}
	}
	if n := s.Logged("GET /repos/o/r/compare/"); n != 2 {
		t.Errorf("%d comparisons, want those of 3 and 501", n)
	}
	if got, err := c.Ancestors(sha(9999), 1).Has(t.Context(), sha(3)); got || err != nil {
		t.Errorf("of an unknown commit: %v, %v", got, err)
	}
}

// Pushes, scheduled runs and those that somebody started count alike, by their time.
func TestTrustedRunsOfEveryEvent(t *testing.T) {
	s, c, _ := forge(t)
	trustedHistory(t, s, 30, "a")
	for i := range s.Runs {
		s.Runs[i].Event = []string{"push", "schedule", "workflow_dispatch"}[i%3]
	}
	for _, s.NoFilters = range []bool{false, true} {
		runs, err := c.TrustedRuns(t.Context(), 1, workflow, "main", 16)
		if err != nil || len(runs) != 16 || runs[0].SHA != sha(30) || runs[15].SHA != sha(15) {
			t.Errorf("%v, %d runs: %+v", err, len(runs), runs)
		}
	}
}

// A roll-up costs three lists, a page of commits, and two requests a run.
func TestCollectRequests(t *testing.T) {
	s, c, _ := forge(t)
	trustedHistory(t, s, 64, "a")
	if h, err := c.Collect(t.Context(), query(64)); err != nil || len(h.Runs) != 64 || c.Requests() > 4+2*64 {
		t.Errorf("%v, %v, %d requests", h, err, c.Requests())
	}
}

// What a roll-up of 64 runs takes where each request takes 50 ms.
func BenchmarkRollUp64(b *testing.B) {
	s, c, _ := forge(b)
	trustedHistory(b, s, 64, "a", "b")
	s.Latency = 50 * time.Millisecond
	before := c.Requests()
	for b.Loop() {
		h, err := c.Collect(b.Context(), query(64))
		if err != nil || len(h.Runs) != 128 {
			b.Fatal(h, err)
		}
		if _, err := store.RollUp(h.Runs, 1024).Encode(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(c.Requests()-before)/float64(b.N), "requests/op")
}

// What the baseline of a pull request takes there.
func BenchmarkBaseline(b *testing.B) {
	s, c, _ := forge(b)
	trustedHistory(b, s, 64, "a", "b")
	rollUp(b, s, 63, "a", "b")
	s.Latency = 50 * time.Millisecond
	before := c.Requests()
	for b.Loop() {
		if h, err := c.History(b.Context(), query(64)); err != nil || !h.RolledUp {
			b.Fatal(h, err)
		}
	}
	b.ReportMetric(float64(c.Requests()-before)/float64(b.N), "requests/op")
}

// Gitea names no head repository, and the workflow by its file alone.
func TestHistoryGitea(t *testing.T) {
	s, _, _ := forge(t)
	trustedHistory(t, s, 3, "a")
	for i := range s.Runs {
		s.Runs[i].OmitHeadRepo = true
		s.Runs[i].Path = "bench.yml@refs/heads/main"
	}
	s.Runs[0].Event = "pull_request"
	s.Fail = func(r *http.Request) *githubtest.Failure {
		if strings.Contains(r.URL.Path, "/actions/workflows/") { // older ones cannot
			return &githubtest.Failure{Code: 404}
		}
		return nil
	}
	for api, want := range map[string]int{"/api/v1": 2, "": 0} {
		c, err := New("o/r", Options{Token: githubtest.Token, API: s.API.URL + api})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := c.Collect(t.Context(), query(3)); err != nil || len(h.Runs) != want {
			t.Errorf("%q: %v, %v, want %d runs", api, h, err, want)
		}
	}
}
