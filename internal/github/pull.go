package github

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
)

// ErrMoved is that no open pull request has the measured commit as its head any
// more: there is a newer push, or it was closed.
var ErrMoved = errors.New("no open pull request has this head")

// A Pull is what the API says of a pull request.
type Pull struct {
	Number   int
	HeadSHA  string
	HeadRef  string
	HeadRepo int64 // 0: the fork was deleted
	BaseSHA  string
	BaseRef  string
	Labels   []string
	closed   bool
}

func newPull(p *gh.PullRequest) Pull {
	out := Pull{
		Number: p.GetNumber(), HeadSHA: p.GetHead().GetSHA(), HeadRef: p.GetHead().GetRef(), HeadRepo: p.GetHead().GetRepo().GetID(),
		BaseSHA: p.GetBase().GetSHA(), BaseRef: p.GetBase().GetRef(), closed: p.GetState() == "closed",
	}
	for _, l := range p.Labels {
		out.Labels = append(out.Labels, l.GetName())
	}
	return out
}

// Pull reads a pull request.
func (c *Client) Pull(ctx context.Context, number int) (Pull, error) {
	p, _, err := c.api.PullRequests.Get(ctx, c.owner, c.name, number)
	if err != nil {
		return Pull{}, failed(fmt.Sprintf("read pull request #%d", number), err)
	}
	return newPull(p), nil
}

// FindPull finds the open pull request of a head: the branch of an owner, whose
// repository and commit must be the event's. It is how a fork's pull request is
// known: the API's list is asked, not anything that the fork's code wrote.
// [ErrMoved] where there is none; several are an error too, since they have
// different bases.
func (c *Client) FindPull(ctx context.Context, e *Event) (Pull, error) {
	owner, branch, repo, sha := e.HeadOwner, e.HeadBranch, e.HeadRepo, e.HeadSHA
	if c.gitea() && repo == 0 && e.pull != 0 {
		return c.pullOf(ctx, e.pull, sha)
	}
	if owner == "" || branch == "" || repo == 0 || !isSHA(sha) {
		return Pull{}, errors.New("find the pull request: the event does not tell owner, branch, repository and commit")
	}
	var found []Pull
	for page := 1; page <= 5; {
		var list []*gh.PullRequest
		q := url.Values{"state": {"open"}, "head": {owner + ":" + branch}, "per_page": {strconv.Itoa(perPage)}, "limit": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}
		resp, err := c.get(ctx, "pulls", q, &list)
		if err != nil {
			return Pull{}, failed("find the pull request of "+short(sha), err)
		}
		for _, p := range list {
			// Some forges ignore the filter.
			if pull := newPull(p); pull.HeadSHA == sha && pull.HeadRepo == repo && pull.HeadRef == branch && !pull.closed {
				found = append(found, pull)
			}
		}
		if page = resp.NextPage; page == 0 {
			break
		}
	}
	switch len(found) {
	case 0:
		return Pull{}, fmt.Errorf("find the pull request of %s: %w", short(sha), ErrMoved)
	case 1:
		return found[0], nil
	}
	return Pull{}, fmt.Errorf("find the pull request of %s: #%d and #%d have the same head, and different bases", short(sha), found[0].Number, found[1].Number)
}

// Queued is the pull request that a merge group would merge, and when its head was
// measured last: who labels it after that has seen what is queued.
func (c *Client) Queued(ctx context.Context, e *Event) (p Pull, measured time.Time, err error) {
	if e.Name != "merge_group" || e.pull == 0 {
		return p, measured, fmt.Errorf("find the queued pull request: %.80q names none", e.HeadBranch)
	}
	if p, err = c.Pull(ctx, e.pull); err != nil {
		return p, measured, err
	}
	if p.closed || p.BaseRef != e.BaseBranch || !isSHA(p.HeadSHA) {
		return p, measured, fmt.Errorf("find the queued pull request: #%d is none of %s", p.Number, e.BaseBranch)
	}
	runs, _, err := c.listRuns(ctx, runsOf(e.Workflow), url.Values{"event": {"pull_request"}, "head_sha": {p.HeadSHA}}, 1)
	if err != nil {
		return p, measured, err
	}
	for _, r := range runs {
		if r.Repo == e.RepoID && r.Event == "pull_request" && r.SHA == p.HeadSHA && samePath(r.Path, e.Workflow) && r.Created.After(measured) {
			measured = r.Created
		}
	}
	if measured.IsZero() {
		return p, measured, fmt.Errorf("find the queued pull request: no run of %s measured #%d", e.Workflow, p.Number)
	}
	return p, measured, nil
}

// maxFile is the largest file that [Client.File] reads, in bytes: a config's limit.
const maxFile = 1 << 20

// File reads a file of a commit. The error is [ErrNotFound] where the commit has
// none.
func (c *Client) File(ctx context.Context, path, sha string) ([]byte, error) {
	what := fmt.Sprintf("read %s of %s", path, short(sha))
	if !isSHA(sha) {
		return nil, fmt.Errorf("%s: not a commit", what)
	}
	file, _, _, err := c.api.Repositories.GetContents(ctx, c.owner, c.name, strings.TrimPrefix(path, "./"), &gh.RepositoryContentGetOptions{Ref: sha})
	if err != nil {
		return nil, failed(what, err)
	}
	if file == nil || file.GetType() != "file" || file.GetSize() > maxFile {
		return nil, fmt.Errorf("%s: not a file of at most 1 MB", what)
	}
	text, err := file.GetContent()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return []byte(text), nil
}

// Accepted tells who set a label that a pull request has now, if they did so after
// the given time and may write to the repository; empty where that is not so. The
// time is that of the measured workflow run by the API's word, which every push
// makes anew and a re-run keeps: what was pushed after the label was set is never
// accepted by it.
func (c *Client) Accepted(ctx context.Context, pull int, label string, since time.Time) (by string, err error) {
	what := fmt.Sprintf("read who labelled #%d", pull)
	if since.IsZero() {
		return "", fmt.Errorf("%s: the time of the workflow run is not known", what)
	}
	events := c.events
	if c.gitea() {
		events = c.timeline
	}
	all, err := events(ctx, pull)
	if err != nil {
		return "", failed(what, err)
	}
	var last *gh.IssueEvent
	for _, e := range all {
		if (e.GetEvent() == "labeled" || e.GetEvent() == "unlabeled") && strings.EqualFold(e.GetLabel().GetName(), label) &&
			(last == nil || !e.GetCreatedAt().Before(last.GetCreatedAt().Time)) {
			last = e
		}
	}
	if last == nil || last.GetEvent() != "labeled" || !last.GetCreatedAt().After(since) {
		return "", nil
	}
	login := last.GetActor().GetLogin()
	if login == "" {
		return "", nil
	}
	// Who may only triage can label too: the label is not enough.
	level, _, err := c.api.Repositories.GetPermissionLevel(ctx, c.owner, c.name, url.PathEscape(login))
	switch err = failed(what, err); {
	case errors.Is(err, ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	}
	switch level.GetPermission() {
	case "admin", "write", "owner": // the last is Gitea's
		return login, nil
	}
	return "", nil
}

// events lists what happened to a pull request.
func (c *Client) events(ctx context.Context, pull int) ([]*gh.IssueEvent, error) {
	var all []*gh.IssueEvent
	for page := 1; page <= 20; {
		var list []*gh.IssueEvent
		q := url.Values{"per_page": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}
		resp, err := c.get(ctx, fmt.Sprintf("issues/%d/events", pull), q, &list)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
		if page = resp.NextPage; page == 0 {
			break
		}
	}
	return all, nil
}
