package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// An Event is what a workflow runs for, as far as measuring has to know.
type Event struct {
	Name string // GITHUB_EVENT_NAME
	// Branch is the branch that the runs belong to: of a pull request, that of
	// its head.
	Branch string
	// BaseBranch and BaseCommit are what a pull request or a merge group would
	// be merged into; empty for every other event.
	BaseBranch, BaseCommit string
	// HeadCommit is the tip of a pull request's branch. What is checked out is
	// usually its merge with base.
	HeadCommit string
	Fork       bool // the code is that of another repository
	// SelfHosted is also a runner that does not say what it is, as those of Gitea.
	SelfHosted bool
	Attempt    string
	Run, Job   string
}

// maxEvent is more than GitHub's largest payload in bytes.
const maxEvent = 32 << 20

// ReadEvent reads the event from the runner's environment and its payload's file.
func ReadEvent(getenv func(string) string) (Event, error) {
	e := Event{
		Name: getenv("GITHUB_EVENT_NAME"), Branch: getenv("GITHUB_REF_NAME"),
		SelfHosted: getenv("RUNNER_ENVIRONMENT") != "github-hosted",
		Attempt:    getenv("GITHUB_RUN_ATTEMPT"), Run: getenv("GITHUB_RUN_ID"), Job: getenv("GITHUB_JOB"),
	}
	var p struct {
		PullRequest *struct {
			Head, Base struct {
				Ref, SHA string
				Repo     *struct {
					ID       int64
					FullName string `json:"full_name"`
				}
			}
		} `json:"pull_request"`
		MergeGroup *struct {
			BaseSHA string `json:"base_sha"`
			BaseRef string `json:"base_ref"`
			HeadSHA string `json:"head_sha"`
		} `json:"merge_group"`
	}
	if name := getenv("GITHUB_EVENT_PATH"); name != "" {
		f, err := os.Open(name)
		if err != nil {
			return e, fmt.Errorf("read the event: %w", err)
		}
		defer f.Close()
		if err := json.NewDecoder(io.LimitReader(f, maxEvent)).Decode(&p); err != nil && !errors.Is(err, io.EOF) {
			return e, fmt.Errorf("read the event: %w", err)
		}
	}
	switch {
	case p.PullRequest != nil:
		head, base := p.PullRequest.Head, p.PullRequest.Base
		e.Branch, e.HeadCommit, e.BaseBranch, e.BaseCommit = head.Ref, head.SHA, base.Ref, base.SHA
		// The repository of a fork that was deleted is null.
		e.Fork = head.Repo == nil || base.Repo == nil || head.Repo.FullName != base.Repo.FullName
	case p.MergeGroup != nil:
		e.HeadCommit, e.BaseBranch, e.BaseCommit = p.MergeGroup.HeadSHA, p.MergeGroup.BaseRef, p.MergeGroup.BaseSHA
	}
	return e, nil
}

// A Refusal is an event for which nothing is measured, and what to do instead.
type Refusal struct{ Reason, Advice string }

func (r *Refusal) Error() string { return r.Reason }

// Hint is what to do instead.
func (r *Refusal) Hint() string { return r.Advice }

// Refuse tells why an event must not be measured, or nil. Measuring runs the code
// of a pull request, as root where eBPF asks for it.
func (e Event) Refuse(ephemeral bool) error {
	switch {
	case e.Name == "pull_request_target":
		return &Refusal{"pull_request_target gives the code of a pull request the secrets of this repository",
			"measure on: pull_request, and report fork pull requests on: workflow_run (docs/action.md)"}
	case e.Name == "workflow_run":
		return &Refusal{"workflow_run holds the token and secrets of this repository: nothing is measured there",
			"use mode: report in this workflow"}
	case e.Fork && e.SelfHosted && !ephemeral:
		return &Refusal{"a fork's code would run as root on a self-hosted runner, and could stay there",
			"use a hosted runner for forks; or, if every job gets a fresh machine, say so: ephemeral: true"}
	}
	return nil
}

// AttemptNumber is the attempt of the workflow run, from 1.
func (e Event) AttemptNumber() int {
	n, err := strconv.Atoi(e.Attempt)
	if err != nil || n < 1 {
		return 1
	}
	return n
}
