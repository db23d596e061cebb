package github

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
)

// asGitea is a client that takes the server for a Gitea.
func asGitea(t *testing.T, s *githubtest.Server) *Client {
	t.Helper()
	c, err := New("o/r", Options{Token: githubtest.Token, API: s.API.URL + "/api/v1"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// When a run was made is told by its jobs where it does not tell itself, and only
// by Gitea.
func TestRunCreated(t *testing.T) {
	s, c, _ := forge(t)
	made := time.Unix(1_700_000_000, 0)
	s.Runs = []githubtest.Run{{ID: 5, Created: made, OmitCreated: true}}
	if r, err := asGitea(t, s).Run(t.Context(), 5); err != nil || !r.Created.Equal(made) {
		t.Errorf("%v, %v", r.Created, err)
	}
	if r, err := c.Run(t.Context(), 5); err != nil || !r.Created.IsZero() || s.Logged("GET /repos/o/r/actions/runs/5/jobs") != 1 {
		t.Errorf("GitHub: %v, %v", r.Created, err)
	}
}

// Gitea's event of a run's end names the pull request in place of its head.
func TestFindPullGitea(t *testing.T) {
	s, c, _ := forge(t)
	s.Pulls = []githubtest.Pull{
		{Number: 7, HeadOwner: "stranger", HeadRef: "x", HeadSHA: sha(2), HeadRepo: 2, BaseRef: "main", BaseSHA: sha(1)},
		{Number: 8, HeadSHA: sha(2), HeadRepo: 2, State: "closed"},
	}
	const payload = `{"repository":{"id":1},"workflow":{"path":".github/workflows/bench.yml"},
		"workflow_run":{"id":5,"path":"bench.yml@refs/pull/%d/head","event":"pull_request_sync","head_sha":"%s"}}`
	for _, tt := range []struct {
		pull, head, want int
		moved            bool
	}{{7, 2, 7, false}, {7, 3, 0, true}, {8, 2, 0, true}, {9, 2, 0, false}} {
		e, err := readEvent(t, "workflow_run", fmt.Sprintf(payload, tt.pull, sha(tt.head)), nil)
		if err != nil || e.Workflow != workflow {
			t.Fatalf("%+v, %v", e, err)
		}
		p, err := asGitea(t, s).FindPull(t.Context(), e)
		if p.Number != tt.want && tt.want != 0 || (err == nil) != (tt.want != 0) || errors.Is(err, ErrMoved) != tt.moved {
			t.Errorf("%+v: %+v, %v", tt, p, err)
		}
		if _, err := c.FindPull(t.Context(), e); err == nil {
			t.Errorf("%+v: GitHub's API names heads, always", tt)
		}
	}
	for path, want := range map[string]int{
		"x.yml@refs/pull/12/head": 12, "x.yml@refs/heads/main": 0, "x.yml@refs/heads/refs/pull/7/head": 0, "x.yml@refs/pull/7/head/x": 0,
		"x.yml@refs/pull/0/head": 0, "x.yml@refs/pull/99999999999/head": 0, "": 0,
	} {
		if got := pullOfRef(path); got != want {
			t.Errorf("%q: %d, want %d", path, got, want)
		}
	}
}
