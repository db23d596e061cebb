package github

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/english"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// A HistoryQuery says which stored runs a comparison is to be held against.
type HistoryQuery struct {
	Repo     int64  // number of the repository; 0: it is asked for
	Workflow string // path of the workflow's file
	Branch   string // the base branch
	// Base is the commit of that branch of which every stored run must be an
	// ancestor, or that itself.
	Base string
	ID   string // of the report
	// Runs is the number of workflow runs to look at; 0 is [DefaultHistory].
	Runs int
}

// DefaultHistory is the number of workflow runs that a roll-up is made of.
const DefaultHistory = 64

// A History is what was found.
type History struct {
	Runs []*bench.Run
	// Newest is the commit of the newest workflow run that counted.
	Newest string
	// Problems are artifacts that were not counted, and why. They lose only
	// themselves.
	Problems []error
	// RolledUp tells that Runs come from one roll-up.
	RolledUp bool
}

const (
	// maxRequests is what the baseline of a pull request may cost of the API.
	maxRequests = 10
	parallel    = 8
)

func (c *Client) query(ctx context.Context, q HistoryQuery) (HistoryQuery, error) {
	var err error
	if q.Repo == 0 {
		q.Repo, err = c.RepoID(ctx)
	}
	if q.Runs == 0 {
		q.Runs = DefaultHistory
	}
	return q, err
}

// History finds the baseline of a pull request in at most 10 requests: the newest
// roll-up that a trusted run on the base branch wrote, or, where the newest few
// have none, what of their own runs the remaining requests reach.
func (c *Client) History(ctx context.Context, q HistoryQuery) (*History, error) {
	start := c.Requests()
	left := func(n int) bool { return c.Requests()-start+n <= maxRequests }
	q, err := c.query(ctx, q)
	if err != nil {
		return nil, err
	}
	runs, err := c.TrustedRuns(ctx, q.Repo, q.Workflow, q.Branch, 16)
	if err != nil {
		return nil, err
	}
	h := &History{}
	ancestors := c.Ancestors(q.Base, 1)
	var singles []Artifact
	shas := map[int64]string{}
	for _, run := range runs {
		if !left(3) {
			break
		}
		ok, err := ancestors.Has(ctx, run.SHA)
		if err != nil {
			return nil, err
		}
		if !ok || !left(2) {
			continue
		}
		found, err := c.Artifacts(ctx, run.ID)
		if err != nil {
			h.Problems = append(h.Problems, err)
			continue
		}
		for _, a := range ofBranch(found, q, KindHistory) {
			b, err := c.bundle(ctx, a)
			if err == nil && b.Head != nil {
				err = fmt.Errorf("artifact %d: no roll-up", a.ID)
			}
			if err != nil {
				h.Problems = append(h.Problems, err)
				continue
			}
			h.Runs, h.Newest, h.RolledUp = b.History, run.SHA, true
			return h, nil
		}
		singles = append(singles, ofBranch(found, q, KindRun)...)
		shas[run.ID] = run.SHA
	}
	for _, a := range singles {
		if !left(1) {
			break
		}
		h.add(ctx, c, a, q.Branch, shas[a.Run])
	}
	return h, nil
}

func (h *History) add(ctx context.Context, c *Client, a Artifact, branch, sha string) {
	r, err := c.single(ctx, a, branch, sha)
	if err != nil {
		h.Problems = append(h.Problems, err)
		return
	}
	if h.Newest == "" {
		h.Newest = sha
	}
	h.Runs = append(h.Runs, r)
}

// Collect reads the runs of the newest workflow runs one by one, as a roll-up is
// made of them: two requests and a download each, eight at a time. A roll-up is
// always made of the runs themselves and never of another roll-up, so that two
// jobs at once lose nothing.
func (c *Client) Collect(ctx context.Context, q HistoryQuery) (*History, error) {
	q, err := c.query(ctx, q)
	if err != nil {
		return nil, err
	}
	runs, err := c.TrustedRuns(ctx, q.Repo, q.Workflow, q.Branch, q.Runs)
	if err != nil {
		return nil, err
	}
	ancestors := c.Ancestors(q.Base, 10)
	var mine []WorkflowRun
	for _, run := range runs {
		ok, err := ancestors.Has(ctx, run.SHA)
		if err != nil {
			return nil, err
		}
		if ok {
			mine = append(mine, run)
		}
	}
	parts := make([]History, len(mine))
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i, run := range mine {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found, err := c.Artifacts(ctx, run.ID)
			if err != nil {
				parts[i].Problems = append(parts[i].Problems, err)
				return
			}
			for _, a := range ofBranch(found, q, KindRun) {
				parts[i].add(ctx, c, a, q.Branch, run.SHA)
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h := &History{}
	for i := range parts {
		h.Runs = append(h.Runs, parts[i].Runs...)
		h.Problems = append(h.Problems, parts[i].Problems...)
		if h.Newest == "" {
			h.Newest = parts[i].Newest
		}
	}
	return h, nil
}

// maxTestbeds bounds the artifacts of one workflow run that are fetched.
const maxTestbeds = 64

// ofBranch keeps the artifacts whose names fit. The names only save requests: what
// counts is whose run they belong to.
func ofBranch(found []Artifact, q HistoryQuery, kind Kind) []Artifact {
	var out []Artifact
	for _, a := range found {
		want := Name{Kind: kind, ID: q.ID, Branch: q.Branch}.prefix()
		if strings.HasPrefix(a.Name.Key(), want) && len(out) < maxTestbeds {
			out = append(out, a)
		}
	}
	return out
}

// Bundle fetches an artifact and checks its content.
func (c *Client) Bundle(ctx context.Context, a Artifact) (*store.Bundle, error) {
	return c.bundle(ctx, a)
}

func (c *Client) bundle(ctx context.Context, a Artifact) (*store.Bundle, error) {
	data, err := c.Download(ctx, a)
	if err != nil {
		return nil, err
	}
	b, err := store.UnzipBundle(data)
	if err != nil {
		return nil, fmt.Errorf("artifact %d: %w", a.ID, err)
	}
	return b, nil
}

// single is the run of one artifact, with the branch and the commit that the API
// says it is of, whatever it says itself.
func (c *Client) single(ctx context.Context, a Artifact, branch, sha string) (*bench.Run, error) {
	b, err := c.bundle(ctx, a)
	if err != nil {
		return nil, err
	}
	if b.Head == nil {
		return nil, fmt.Errorf("artifact %d: no single run", a.ID)
	}
	b.Head.Revision.Branch, b.Head.Revision.Commit, b.Head.Revision.Dirty = branch, sha, false
	return b.Head, nil
}

// String says what the baseline consists of, in a sentence.
func (h *History) String() string {
	testbeds := map[string]bool{}
	for _, r := range h.Runs {
		testbeds[r.Testbed.Slug()] = true
	}
	s := fmt.Sprintf("%s on %s", english.Count(len(h.Runs), "stored run"), english.Count(len(testbeds), "testbed"))
	if len(h.Runs) == 0 {
		s = "no stored runs"
	} else if h.Newest != "" {
		s += ", up to " + short(h.Newest)
	}
	gone := 0
	for _, err := range h.Problems {
		if errors.Is(err, ErrGone) {
			gone++
		}
	}
	if gone > 0 {
		s += fmt.Sprintf("; %d expired", gone)
	}
	if bad := len(h.Problems) - gone; bad > 0 {
		s += fmt.Sprintf("; %d not readable", bad)
	}
	return s
}

// Testbeds are the names that users gave to the testbeds of the newest commit.
func (h *History) Testbeds() []string {
	var names []string
	for _, r := range h.Runs {
		if r.Revision.Commit == h.Newest && r.Testbed.Name != "" && !slices.Contains(names, r.Testbed.Name) {
			names = append(names, r.Testbed.Name)
		}
	}
	slices.Sort(names)
	return names
}
