package github

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
)

// What Gitea and Forgejo say in other words than GitHub. Everything here is the
// word of the API or of its event, as there.

// gitea tells that the API is that of Gitea or Forgejo, by its version: GitHub's is
// v3.
func (c *Client) gitea() bool { return strings.HasSuffix(c.transport.base.Path, "/api/v1/") }

// pullRef is the ref of a pull request's run in Gitea, which stands in the event of
// its end in place of the head's branch and repository.
var pullRef = regexp.MustCompile(`@refs/pull/([1-9][0-9]{0,9})/head$`)

// pullOfRef is the number in "x.yml@refs/pull/7/head"; 0: none.
func pullOfRef(path string) int {
	m := pullRef.FindStringSubmatch(path)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// pullOf finds the pull request of a workflow_run event that names no head: Gitea's
// names the pull request. Its head must be the commit that was measured.
func (c *Client) pullOf(ctx context.Context, number int, sha string) (Pull, error) {
	p, err := c.Pull(ctx, number)
	if err == nil && (p.HeadSHA != sha || p.closed) {
		err = fmt.Errorf("find the pull request of %s: %w", short(sha), ErrMoved)
	}
	return p, err
}

// created is when a run was made, by the first of its jobs: Gitea tells it of jobs
// alone. A re-run keeps it.
func (c *Client) created(ctx context.Context, run int64) (first time.Time, err error) {
	var list struct {
		Jobs []struct {
			Created time.Time `json:"created_at"`
		} `json:"jobs"`
	}
	if _, err := c.get(ctx, fmt.Sprintf("actions/runs/%d/jobs", run), nil, &list); err != nil {
		return first, failed(fmt.Sprintf("list the jobs of run %d", run), err)
	}
	for _, j := range list.Jobs {
		if first.IsZero() || j.Created.Before(first) {
			first = j.Created
		}
	}
	return first, nil
}

// timeline lists who set and took off labels, as GitHub's list of events has it.
func (c *Client) timeline(ctx context.Context, pull int) ([]*gh.IssueEvent, error) {
	var events []*gh.IssueEvent
	for page := 1; page <= 20; page++ { // no page says whether there is a next one
		var list []struct {
			Type    string       `json:"type"`
			Body    string       `json:"body"` // "1": set
			User    *gh.User     `json:"user"`
			Label   *gh.Label    `json:"label"`
			Created gh.Timestamp `json:"created_at"`
		}
		if _, err := c.get(ctx, fmt.Sprintf("issues/%d/timeline", pull), url.Values{"limit": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}, &list); err != nil {
			return nil, err
		}
		if len(list) == 0 {
			break
		}
		for _, e := range list {
			if e.Type != "label" {
				continue
			}
			kind := "unlabeled"
			if e.Body == "1" {
				kind = "labeled"
			}
			events = append(events, &gh.IssueEvent{Event: &kind, Actor: e.User, Label: e.Label, CreatedAt: &e.Created})
		}
	}
	return events, nil
}
