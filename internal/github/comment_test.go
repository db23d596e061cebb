package github

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
)

const marker = "<!-- ebpf-bench-gate id=default -->"

func TestCommentInPlace(t *testing.T) {
	s, c, _ := forge(t)
	s.PerPage = 2
	for i, other := range []githubtest.Comment{
		{Login: "stranger", Type: "User", Body: marker + "\nhello"},
		{Login: "other-app[bot]", Type: "Bot", Body: marker + "\nhello"},
		{Login: "github-actions[bot]", Type: "User", Body: marker + "\nhello"},
		{Login: "github-actions[bot]", Type: "Bot", Body: "<!-- ebpf-bench-gate id=other -->\nx"},
		{Login: "github-actions[bot]", Type: "Bot", Body: "see " + marker + "\nx"},
		{Login: "github-actions[bot]", Type: "Bot", Body: "quoted:\n" + marker},
		{Login: "github-actions[bot]", Type: "Bot", Body: marker + "\nof #8", Pull: 8},
		{Login: "gitea-actions", Type: "User", ID: 77, Body: marker + "\nx"},
	} {
		if other.Pull == 0 {
			other.Pull = 7
		}
		if other.ID == 0 {
			other.ID = int64(i + 1)
		}
		s.Comments = append(s.Comments, &other)
	}
	before := len(s.Comments)
	first, err := c.Comment(t.Context(), 7, marker+"\none")
	if err != nil || len(s.Comments) != before+1 {
		t.Fatalf("%v, %d comments", err, len(s.Comments))
	}
	second, err := c.Comment(t.Context(), 7, marker+"\ntwo")
	if err != nil || second.ID != first.ID || len(s.Comments) != before+1 || s.Comments[before].Body != marker+"\ntwo" {
		t.Errorf("%+v, %v", second, err)
	}
	// The same text again is no edit: nobody is to be notified of nothing.
	if _, err := c.Comment(t.Context(), 7, marker+"\ntwo"); err != nil || s.Comments[before].Edits != 1 {
		t.Errorf("%d edits, %v", s.Comments[before].Edits, err)
	}
	for _, other := range s.Comments[:before] {
		if other.Edits != 0 {
			t.Errorf("edited that of %s: %q", other.Login, other.Body)
		}
	}
	if want := fmt.Sprintf("https://github.example/o/r/pull/7#issuecomment-%d", first.ID); first.URL != want {
		t.Errorf("%s, want %s", first.URL, want)
	}
}

func TestCommentAsUser(t *testing.T) {
	s, c, _ := forge(t)
	s.User = "robot"
	s.Comments = []*githubtest.Comment{{ID: 1, Pull: 7, Login: "github-actions[bot]", Type: "Bot", Body: marker}, {ID: 2, Pull: 7, Login: "Robot", Body: marker + "\r\nx"}}
	if m, err := c.Comment(t.Context(), 7, marker+"\ny"); err != nil || m.ID != 2 || s.Comments[0].Edits != 0 {
		t.Errorf("%+v, %v", m, err)
	}
}

// Whoever the token is, it finds its own comment and nobody else's.
func TestCommentOfEveryToken(t *testing.T) {
	for name, tt := range map[string]struct {
		user, app, author, api string
		viewerless             bool
		want                   string
	}{
		"a job":                         {want: "github-actions[bot]"},
		"a job, GraphQL refused":        {viewerless: true, want: "github-actions[bot]"},
		"a person":                      {user: "Alice", want: "alice"},
		"an App":                        {app: "my-app[bot]", want: "my-app[bot]"},
		"an App, GitHub Enterprise":     {app: "my-app[bot]", api: "/api/v3", want: "my-app[bot]"},
		"an App by name":                {app: "my-app[bot]", author: "my-app[bot]", viewerless: true, want: "my-app[bot]"},
		"an App by name, other letters": {app: "My-App[bot]", author: "my-app[bot]", viewerless: true, want: "my-app[bot]"},
	} {
		s, _, _ := forge(t)
		s.User, s.App, s.Viewerless = tt.user, tt.app, tt.viewerless
		for i, login := range []string{"github-actions[bot]", "alice", "bob", "my-app[bot]", "my-app", "your-app[bot]"} {
			kind := "User"
			if strings.HasSuffix(login, "[bot]") {
				kind = "Bot"
			}
			s.Comments = append(s.Comments, &githubtest.Comment{ID: int64(i + 1), Pull: 7, Login: login, Type: kind, Body: marker + "\nold"})
		}
		// What no server sends: a person with an App's name.
		s.Comments = append(s.Comments, &githubtest.Comment{ID: 99, Pull: 7, Login: "my-app[bot]", Type: "User", Body: marker + "\nold"})
		slices.Reverse(s.Comments)
		c, err := New("o/r", Options{Token: githubtest.Token, API: s.API.URL + tt.api, Author: tt.author})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Comment(t.Context(), 7, marker+"\nnew"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, m := range s.Comments {
			if mine := m.Login == tt.want && m.ID != 99; mine != (m.Edits == 1) {
				t.Errorf("%s: that of %s %d has %d edits", name, m.Login, m.ID, m.Edits)
			}
		}
		if len(s.Comments) != 7 {
			t.Errorf("%s: a second comment", name)
		}
	}
}

// A POST that failed may have been carried out: it is looked for, never sent twice
// in blindness.
func TestCommentAfterBadGateway(t *testing.T) {
	for _, written := range []bool{true, false} {
		s, c, _ := forge(t)
		failed := false
		s.Fail = func(r *http.Request) *githubtest.Failure {
			if r.Method != http.MethodPost || failed {
				return nil
			}
			failed = true
			if written {
				s.Comments = append(s.Comments, &githubtest.Comment{ID: 9, Pull: 7, Login: "github-actions[bot]", Type: "Bot", Body: marker + "\none"})
			}
			return &githubtest.Failure{Code: 502}
		}
		if _, err := c.Comment(t.Context(), 7, marker+"\none"); err != nil || len(s.Comments) != 1 {
			t.Errorf("written %v: %d comments, %v", written, len(s.Comments), err)
		}
	}
}

func TestCommentErrors(t *testing.T) {
	s, c, _ := forge(t)
	if _, err := c.Comment(t.Context(), 7, "no marker"); err == nil || len(s.Log) > 0 {
		t.Errorf("%v", err)
	}
	if _, err := c.Comment(t.Context(), 7, marker+"\n"+strings.Repeat("x", 65536)); !errors.Is(err, ErrInvalid) {
		t.Errorf("too long: %v", err)
	}
	s.ReadOnly = true
	if _, err := c.Comment(t.Context(), 7, marker); !errors.Is(err, ErrForbidden) {
		t.Errorf("read-only: %v", err)
	}
	if err := c.Status(t.Context(), sha(1), "d", Success, "x", ""); !errors.Is(err, ErrForbidden) {
		t.Errorf("read-only: %v", err)
	}
}

func TestStatus(t *testing.T) {
	s, c, _ := forge(t)
	s.Fail = once(1, githubtest.Failure{Code: 502}) // twice is once: it is sent again
	if err := c.Status(t.Context(), sha(5), "", Failure, "a\nb "+strings.Repeat("ü", 200), c.RunURL(3)); err != nil {
		t.Fatal(err)
	}
	st := s.Statuses[0]
	if len(s.Statuses) != 1 || st.Context != "ebpf-bench/default" || st.State != "failure" || len([]rune(st.Description)) != 140 || !strings.HasPrefix(st.Description, "a b ü") || st.TargetURL != "https://github.example/o/r/actions/runs/3" {
		t.Errorf("%+v", st)
	}
	for _, bad := range []string{"", "main", "../x", sha(0)} {
		if c.Status(t.Context(), bad, "", Success, "", "") == nil {
			t.Errorf("%q is a commit", bad)
		}
	}
}

func TestFindPull(t *testing.T) {
	s, c, _ := forge(t)
	head := &Event{HeadOwner: "stranger", HeadBranch: "feat/x #1", HeadRepo: 2, HeadSHA: sha(2)}
	good := githubtest.Pull{Number: 7, HeadOwner: "stranger", HeadRef: "feat/x #1", HeadSHA: sha(2), HeadRepo: 2, BaseRef: "main", BaseSHA: sha(1)}
	for i, change := range []func(*githubtest.Pull){
		func(p *githubtest.Pull) { p.HeadSHA = sha(3) }, func(p *githubtest.Pull) { p.HeadRepo = 3 }, func(p *githubtest.Pull) { p.HeadRepo = 0 },
		func(p *githubtest.Pull) { p.State = "closed" }, func(p *githubtest.Pull) { p.HeadRef = "y" }, func(p *githubtest.Pull) { p.HeadOwner = "other" },
	} {
		p := good
		p.Number = 100 + i
		change(&p)
		s.Pulls = append(s.Pulls, p)
	}
	if _, err := c.FindPull(t.Context(), head); !errors.Is(err, ErrMoved) {
		t.Errorf("%v", err)
	}
	s.Pulls = append(s.Pulls, good)
	if p, err := c.FindPull(t.Context(), head); err != nil || p.Number != 7 || p.BaseRef != "main" {
		t.Errorf("%+v, %v", p, err)
	}
	second := good
	second.Number, second.BaseRef = 8, "dev"
	s.Pulls = append(s.Pulls, second)
	if p, err := c.FindPull(t.Context(), head); err == nil || errors.Is(err, ErrMoved) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := c.FindPull(t.Context(), &Event{HeadBranch: "x", HeadRepo: 2, HeadSHA: sha(2)}); err == nil {
		t.Error("without an owner every pull request is listed")
	}
}

func TestAccepted(t *testing.T) {
	since := time.Unix(1_700_000_000, 0)
	s, c, _ := forge(t)
	s.PerPage = 1
	s.Permissions = map[string]string{"boss": "admin", "dev": "write", "triager": "read", "own": "owner"}
	ev := func(event, label, actor string, after time.Duration) githubtest.IssueEvent {
		return githubtest.IssueEvent{Pull: 7, Event: event, Label: label, Actor: actor, Created: since.Add(after)}
	}
	for name, tt := range map[string]struct {
		events []githubtest.IssueEvent
		want   string
	}{
		"none":            {nil, ""},
		"admin":           {[]githubtest.IssueEvent{ev("labeled", "ok", "boss", time.Hour)}, "boss"},
		"owner":           {[]githubtest.IssueEvent{ev("labeled", "ok", "own", time.Hour)}, "own"},
		"write":           {[]githubtest.IssueEvent{ev("labeled", "OK", "dev", time.Hour)}, "dev"},
		"triage":          {[]githubtest.IssueEvent{ev("labeled", "ok", "triager", time.Hour)}, ""},
		"unknown":         {[]githubtest.IssueEvent{ev("labeled", "ok", "ghost", time.Hour)}, ""},
		"deleted account": {[]githubtest.IssueEvent{ev("labeled", "ok", "", time.Hour)}, ""},
		"before the push": {[]githubtest.IssueEvent{ev("labeled", "ok", "boss", -time.Hour)}, ""},
		"same second":     {[]githubtest.IssueEvent{ev("labeled", "ok", "boss", 0)}, ""},
		"other label":     {[]githubtest.IssueEvent{ev("labeled", "no", "boss", time.Hour)}, ""},
		"taken off":       {[]githubtest.IssueEvent{ev("labeled", "ok", "boss", time.Hour), ev("unlabeled", "ok", "triager", 2*time.Hour)}, ""},
		"put back by triage": {[]githubtest.IssueEvent{
			ev("labeled", "ok", "boss", time.Hour), ev("unlabeled", "ok", "boss", 2*time.Hour), ev("labeled", "ok", "triager", 3*time.Hour)}, ""},
		"put back": {[]githubtest.IssueEvent{ev("labeled", "ok", "triager", -time.Hour), ev("unlabeled", "ok", "boss", time.Hour), ev("labeled", "ok", "dev", 2*time.Hour)}, "dev"},
	} {
		s.Events = tt.events
		for _, c := range []*Client{c, asGitea(t, s)} {
			if by, err := c.Accepted(t.Context(), 7, "ok", since); by != tt.want || err != nil {
				t.Errorf("%s, Gitea %t: %q, %v, want %q", name, c.gitea(), by, err, tt.want)
			}
		}
	}
	if _, err := c.Accepted(t.Context(), 7, "ok", time.Time{}); err == nil {
		t.Error("a push at no time")
	}
}

func TestFile(t *testing.T) {
	s, c, _ := forge(t)
	s.Files[sha(1)+":a b/ebpf-bench.yml"] = "version: 1\n"
	if b, err := c.File(t.Context(), "./a b/ebpf-bench.yml", sha(1)); err != nil || string(b) != "version: 1\n" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := c.File(t.Context(), "x", sha(1)); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	s.Files[sha(1)+":big"] = strings.Repeat("x", maxFile+1)
	for _, bad := range [][2]string{{"big", sha(1)}, {"a", "main"}, {"../x", sha(1)}} {
		if _, err := c.File(t.Context(), bad[0], bad[1]); err == nil {
			t.Errorf("%v was read", bad)
		}
	}
}

func TestDiffLines(t *testing.T) {
	s, c, _ := forge(t)
	s.Pulls = []githubtest.Pull{{Number: 7, Files: map[string]string{
		"a.c":           "@@ -1,3 +10,4 @@ int f()\n a\n-b\n+c\n+d\n e\n\\ No newline at end of file\n@@ -50 +60 @@\n-x\n+y",
		"sub dir/\"ü.c": "@@ -0,0 +1,3 @@\n+one\n+++ b/evil.c\n+@@ -1 +99 @@",
		"only less.c":   "@@ -4,2 +3,0 @@\n--- a/evil.c\n-x",
		"binary":        "",
	}}}
	const want = `map[a.c:map[11:true 12:true 60:true] binary:map[] only less.c:map[] sub dir/"ü.c:map[1:true 2:true 3:true]]`
	for _, c := range []*Client{c, asGitea(t, s)} {
		if lines, err := c.DiffLines(t.Context(), 7); err != nil || fmt.Sprint(lines) != want {
			t.Errorf("Gitea %t: %v, %v, want %s", c.gitea(), lines, err, want)
		}
	}
}

// A file that is removed has no new name, and one of many MB is read in part.
func TestAddedLines(t *testing.T) {
	for diff, want := range map[string]string{
		"--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n":                      "map[]",
		"+++ b/x y\t\n@@ -1 +1 @@\n-a\n+b\n+not in the hunk":               "map[x y:map[1:true]]",
		"+++ \"b/\\q\"\n@@ -1 +1 @@\n+a":                                   "map[]",
		"@@ -1 +1 @@\n+a":                                                  "map[]",
		"+++ b/x\n@@ -1,99999999999999999999 +1,2 @@\n+a\n+b\n+c\n+++ b/y": "map[x:map[1:true 2:true 3:true 4:true]]",
	} {
		if got := fmt.Sprint(addedLines("", diff)); got != want {
			t.Errorf("%q: %s, want %s", diff, got, want)
		}
	}
	var b strings.Builder
	if n, err := (&capped{&b, 3}).Write([]byte("12345")); n != 5 || err != nil || b.String() != "123" {
		t.Errorf("%d, %v, %q", n, err, b.String())
	}
}
