package github

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
)

const perPage = 100

// A WorkflowRun is what the API says of one run of a workflow.
type WorkflowRun struct {
	ID       int64
	Attempt  int
	Event    string
	Path     string // of the workflow's file, without "@ref"
	Branch   string // of the head
	SHA      string // of the head
	Created  time.Time
	Finished bool
	// HeadRepo and Repo are ids; 0 where the API does not say. They differ for
	// a fork.
	HeadRepo, Repo int64
}

// trustedEvents are those that only run code which somebody with write access put
// on a branch.
var trustedEvents = []string{"push", "schedule", "workflow_dispatch"}

// trusted tells that the run is of this repository's own branch. What the API
// does not say counts as no.
func (r WorkflowRun) trusted(repo int64, workflow, branch string) bool {
	return repo != 0 && r.Repo == repo && r.HeadRepo == repo && slices.Contains(trustedEvents, r.Event) &&
		branch != "" && r.Branch == branch && samePath(r.Path, workflow) && isSHA(r.SHA)
}

// samePath tells that a run is of a workflow. Gitea leaves the directory out, GitHub
// never does.
func samePath(run, workflow string) bool {
	return run != "" && (run == workflow || !strings.Contains(run, "/") && strings.HasSuffix(workflow, "/"+run))
}

func isSHA(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}

func newRun(r *gh.WorkflowRun, path string) WorkflowRun {
	path, _, _ = strings.Cut(path, "@")
	return WorkflowRun{
		ID: r.GetID(), Attempt: max(r.GetRunAttempt(), 1), Event: r.GetEvent(), Path: path, Branch: r.GetHeadBranch(),
		SHA: r.GetHeadSHA(), Created: r.GetCreatedAt().Time, Finished: r.GetStatus() == "completed",
		HeadRepo: r.GetHeadRepository().GetID(), Repo: r.GetRepository().GetID(),
	}
}

// apiRun is a run with the field that go-github v60 leaves out.
type apiRun struct {
	gh.WorkflowRun
	Path string `json:"path"`
}

// RepoID is the number of the repository.
func (c *Client) RepoID(ctx context.Context) (int64, error) {
	r, _, err := c.api.Repositories.Get(ctx, c.owner, c.name)
	if err != nil {
		return 0, failed("read the repository "+c.Repo(), err)
	}
	return r.GetID(), nil
}

// BranchSHA is the newest commit of a branch.
func (c *Client) BranchSHA(ctx context.Context, branch string) (string, error) {
	var b struct {
		Commit struct {
			SHA string `json:"sha"`
			ID  string `json:"id"` // Gitea
		} `json:"commit"`
	}
	if _, err := c.get(ctx, "branches/"+url.PathEscape(branch), nil, &b); err != nil {
		return "", failed("read the branch "+branch, err)
	}
	if sha := b.Commit.SHA + b.Commit.ID; isSHA(sha) {
		return sha, nil
	}
	return "", fmt.Errorf("read the branch %s: the API named no commit", branch)
}

// Run reads one workflow run.
func (c *Client) Run(ctx context.Context, id int64) (WorkflowRun, error) {
	var r apiRun
	if _, err := c.get(ctx, fmt.Sprintf("actions/runs/%d", id), nil, &r); err != nil {
		return WorkflowRun{}, failed(fmt.Sprintf("read workflow run %d", id), err)
	}
	run := newRun(&r.WorkflowRun, r.Path)
	if run.Created.IsZero() && c.gitea() {
		var err error
		if run.Created, err = c.created(ctx, id); err != nil {
			return WorkflowRun{}, err
		}
	}
	return run, nil
}

// TrustedRuns lists the newest runs of a workflow on a branch of this repository,
// newest first, at most n: those of events that no stranger can cause, by the word
// of the API alone. Their commits are yet to be held against the base
// ([Client.Ancestors]): a tag or a branch that was thrown away has a name too.
//
// Each event is a request of its own, so that runs of pull requests, of which anybody
// can cause any number, are not even listed.
func (c *Client) TrustedRuns(ctx context.Context, repo int64, workflow, branch string, n int) ([]WorkflowRun, error) {
	const maxPages = 5 // a branch whose last 500 runs are not enough has no history
	path := runsOf(workflow)
	var all []WorkflowRun
	for _, event := range trustedEvents {
		found := 0
		for page := 1; page != 0 && page <= maxPages && found < n; {
			runs, next, err := c.listRuns(ctx, path, url.Values{"branch": {branch}, "event": {event}}, page)
			if errors.Is(err, ErrNotFound) && path != "actions/runs" {
				path = "actions/runs" // older Gitea does not list runs by workflow
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, r := range runs {
				if r.HeadRepo == 0 && c.gitea() {
					// Gitea does not say. Its runs of these events are the repository's own,
					// as everywhere: those of a fork's pushes are listed at the fork.
					r.HeadRepo = r.Repo
				}
				// Some forges ignore the filters.
				if r.Event == event && r.trusted(repo, workflow, branch) {
					all = append(all, r)
					found++
				}
			}
			page = next
		}
	}
	slices.SortStableFunc(all, func(a, b WorkflowRun) int { return b.Created.Compare(a.Created) })
	return all[:min(n, len(all))], nil
}

// runsOf is where the API lists the runs of a workflow.
func runsOf(workflow string) string {
	file := workflow[strings.LastIndexByte(workflow, '/')+1:]
	return "actions/workflows/" + url.PathEscape(file) + "/runs"
}

// listRuns reads a page of a list of runs; next is 0 after the last.
func (c *Client) listRuns(ctx context.Context, path string, q url.Values, page int) (runs []WorkflowRun, next int, err error) {
	// GitHub knows per_page, Gitea limit.
	q.Set("per_page", strconv.Itoa(perPage))
	q.Set("limit", strconv.Itoa(perPage))
	q.Set("page", strconv.Itoa(page))
	var list struct {
		Runs []apiRun `json:"workflow_runs"`
	}
	resp, err := c.get(ctx, path, q, &list)
	if err != nil {
		return nil, 0, failed("list the workflow's runs", err)
	}
	for i := range list.Runs {
		runs = append(runs, newRun(&list.Runs[i].WorkflowRun, list.Runs[i].Path))
	}
	if len(runs) == 0 {
		return nil, 0, nil
	}
	return runs, resp.NextPage, nil
}

// Ancestors answers whether commits are ancestors of one, or that one. Most
// questions cost nothing: one request reads a hundred ancestors, the newest first.
// It is for one goroutine.
type Ancestors struct {
	c     *Client
	sha   string
	known map[string]bool
	pages int // that may still be read
	next  int
}

// Ancestors asks about the ancestors of a commit. At most so many pages of a
// hundred are listed; what is not on them costs a request each.
func (c *Client) Ancestors(sha string, pages int) *Ancestors {
	return &Ancestors{c: c, sha: sha, known: map[string]bool{sha: isSHA(sha)}, pages: pages, next: 1}
}

// Has tells whether a commit is an ancestor. A commit that the repository does not
// know is none; where the API would not say, it is an error.
func (a *Ancestors) Has(ctx context.Context, sha string) (bool, error) {
	if !isSHA(sha) || !isSHA(a.sha) {
		return false, nil
	}
	if is, ok := a.known[sha]; ok {
		return is, nil
	}
	for ; a.pages > 0; a.pages-- {
		if err := a.list(ctx); err != nil {
			return false, err
		}
		if is, ok := a.known[sha]; ok {
			return is, nil
		}
	}
	// What sha has and the other lacks: nothing, if it is an ancestor.
	var cmp struct {
		Status string `json:"status"` // GitHub
		Ahead  *int   `json:"ahead_by"`
		Total  *int   `json:"total_commits"`
	}
	_, err := a.c.get(ctx, "compare/"+a.sha+"..."+sha, url.Values{"per_page": {"1"}}, &cmp)
	switch err = failed("compare "+short(sha)+" with "+short(a.sha), err); {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrInvalid):
		a.known[sha] = false
		return false, nil
	case err != nil:
		return false, err
	}
	is := cmp.Status == "behind" || cmp.Status == "identical"
	if cmp.Status == "" { // Gitea
		is = cmp.Total != nil && *cmp.Total == 0
	}
	if cmp.Ahead != nil && *cmp.Ahead != 0 {
		is = false
	}
	a.known[sha] = is
	return is, nil
}

// list reads the next page of ancestors.
func (a *Ancestors) list(ctx context.Context) error {
	var list []struct {
		SHA string `json:"sha"`
	}
	q := url.Values{"sha": {a.sha}, "per_page": {strconv.Itoa(perPage)}, "limit": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(a.next)}}
	resp, err := a.c.get(ctx, "commits", q, &list)
	switch err = failed("list the commits of "+short(a.sha), err); {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrInvalid):
		a.pages = 0 // compare will say
		return nil
	case err != nil:
		return err
	}
	for _, commit := range list {
		a.known[commit.SHA] = true
	}
	if a.next = resp.NextPage; a.next == 0 {
		a.pages = 1 // that was the last
	}
	return nil
}

func short(sha string) string { return sha[:min(7, len(sha))] }
