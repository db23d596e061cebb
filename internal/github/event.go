package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// An Event is what a workflow runs for, by the word of the forge: from the
// environment of the job and the event's file, neither of which a pull request's
// code can write before the job starts.
type Event struct {
	// Name is "pull_request", "merge_group", "push", "schedule",
	// "workflow_dispatch" or "workflow_run".
	Name   string
	Repo   string // "owner/name"
	RepoID int64
	// Run is the workflow run that measured: this one, or the one that a
	// workflow_run event tells of. Attempt is this job's.
	Run     int64
	Attempt int
	// Workflow is the path of the file of the workflow that measured.
	Workflow string
	// Conclusion is how the measuring run ended, and empty before it did; only of
	// workflow_run.
	Conclusion string
	// Started tells that a workflow_run event is about a run that has begun, and
	// not about one that ended.
	Started bool

	Pull *Pull // of pull_request; [Client.FindPull] has it for workflow_run
	// pull is the number that the event tells of a workflow_run or a merge group; 0:
	// it does not.
	pull int
	// HeadSHA gets the status. HeadRepo, HeadOwner and HeadBranch are where it
	// comes from.
	HeadSHA    string
	HeadRepo   int64
	HeadOwner  string
	HeadBranch string
	// BaseSHA and BaseBranch are what head is held against. BaseSHA is empty for
	// push, schedule and dispatch, which are held against history.
	BaseSHA    string
	BaseBranch string
}

// Fork tells that head comes from another repository, or from one that is gone.
func (e *Event) Fork() bool { return e.HeadRepo != e.RepoID || e.RepoID == 0 }

// Stored tells that the event stores a baseline: its code is on a branch already.
func (e *Event) Stored() bool {
	return e.Name == "push" || e.Name == "schedule" || e.Name == "workflow_dispatch"
}

// A RefusedError is that an event is not reported on because it would not be
// safe, with what to do instead.
type RefusedError struct {
	Reason, Advice string
	// Harmless tells that there is just nothing to report on.
	Harmless bool
}

func (e *RefusedError) Error() string { return e.Reason }

// Hint is what to do instead.
func (e *RefusedError) Hint() string { return e.Advice }

// maxEvent is the largest event's file in bytes; GitHub's limit is 25 MB.
const maxEvent = 25 << 20

type eventRepo struct {
	ID       int64  `json:"id"`
	FullName string `json:"full_name"`
	Owner    struct {
		Login string `json:"login"`
	} `json:"owner"`
}

type eventFile struct {
	Action      string    `json:"action"`
	Repository  eventRepo `json:"repository"`
	PullRequest *struct {
		Number int       `json:"number"`
		Head   eventSide `json:"head"`
		Base   eventSide `json:"base"`
		Labels []struct{ Name string }
	} `json:"pull_request"`
	MergeGroup *struct {
		HeadSHA string `json:"head_sha"`
		HeadRef string `json:"head_ref"`
		BaseSHA string `json:"base_sha"`
		BaseRef string `json:"base_ref"`
	} `json:"merge_group"`
	WorkflowRun *struct {
		ID         int64     `json:"id"`
		Attempt    int       `json:"run_attempt"`
		Path       string    `json:"path"`
		Event      string    `json:"event"`
		Conclusion string    `json:"conclusion"`
		HeadSHA    string    `json:"head_sha"`
		HeadBranch string    `json:"head_branch"`
		HeadRepo   eventRepo `json:"head_repository"`
	} `json:"workflow_run"`
	Workflow *struct {
		Path string `json:"path"`
	} `json:"workflow"`
}

type eventSide struct {
	SHA  string     `json:"sha"`
	Ref  string     `json:"ref"`
	Repo *eventRepo `json:"repo"`
}

// ReadEvent reads the event of a job by its environment (GITHUB_EVENT_NAME,
// GITHUB_EVENT_PATH and so on). An event in which a stranger's code would meet a
// token is a [RefusedError].
func ReadEvent(getenv func(string) string) (*Event, error) {
	name := getenv("GITHUB_EVENT_NAME")
	switch name {
	case "":
		return nil, errors.New("GITHUB_EVENT_NAME is not set: this runs in a job of GitHub Actions")
	case "pull_request_target", "issue_comment":
		return nil, &RefusedError{Reason: "the event " + name + " gives a pull request's code a token that can write", Advice: "use pull_request to measure, and workflow_run to report on forks"}
	}
	file, err := os.Open(getenv("GITHUB_EVENT_PATH"))
	if err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	defer file.Close()
	var f eventFile
	if err := json.NewDecoder(io.LimitReader(file, maxEvent)).Decode(&f); err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	e := &Event{Name: name, Repo: getenv("GITHUB_REPOSITORY"), RepoID: f.Repository.ID, HeadRepo: f.Repository.ID}
	e.Run, _ = strconv.ParseInt(getenv("GITHUB_RUN_ID"), 10, 64)
	e.Attempt, _ = strconv.Atoi(getenv("GITHUB_RUN_ATTEMPT"))
	e.Attempt = max(e.Attempt, 1)
	e.Workflow = workflowPath(getenv("GITHUB_WORKFLOW_REF"))
	e.HeadSHA = getenv("GITHUB_SHA")
	if err := e.read(&f, getenv); err != nil {
		return nil, err
	}
	if !isSHA(e.HeadSHA) || e.BaseSHA != "" && !isSHA(e.BaseSHA) {
		return nil, fmt.Errorf("read the event: %.80q against %.80q are not commits", e.HeadSHA, e.BaseSHA)
	}
	return e, nil
}

func (e *Event) read(f *eventFile, getenv func(string) string) error {
	switch e.Name {
	case "pull_request":
		p := f.PullRequest
		if p == nil || p.Number <= 0 {
			return errors.New("read the event: no pull request in it")
		}
		e.HeadSHA, e.HeadBranch, e.HeadRepo = p.Head.SHA, p.Head.Ref, 0
		if r := p.Head.Repo; r != nil {
			e.HeadRepo, e.HeadOwner = r.ID, r.Owner.Login
		}
		e.BaseSHA, e.BaseBranch = p.Base.SHA, p.Base.Ref
		e.Pull = &Pull{Number: p.Number, HeadSHA: e.HeadSHA, HeadRef: e.HeadBranch, HeadRepo: e.HeadRepo, BaseSHA: e.BaseSHA, BaseRef: e.BaseBranch}
	case "merge_group":
		g := f.MergeGroup
		if g == nil {
			return errors.New("read the event: no merge group in it")
		}
		e.HeadSHA, e.HeadBranch = g.HeadSHA, strings.TrimPrefix(g.HeadRef, "refs/heads/")
		e.BaseSHA, e.BaseBranch = g.BaseSHA, strings.TrimPrefix(g.BaseRef, "refs/heads/")
		e.pull = queued(e.HeadBranch, e.BaseBranch)
	case "push", "schedule", "workflow_dispatch":
		ref := getenv("GITHUB_REF")
		branch, ok := strings.CutPrefix(ref, "refs/heads/")
		if !ok {
			return &RefusedError{Reason: fmt.Sprintf("%.80s is not a branch: its runs are nobody's baseline", ref), Harmless: true, Advice: "on: {push: {branches: [main]}}"}
		}
		e.HeadBranch, e.BaseBranch = branch, branch
	case "workflow_run":
		w := f.WorkflowRun
		if w == nil || w.ID == 0 {
			return errors.New("read the event: no workflow run in it")
		}
		if w.Event != "pull_request" && w.Event != "pull_request_sync" { // Gitea's, of a push to one
			return &RefusedError{Reason: fmt.Sprintf("the run was caused by %.40q, not by a pull request: its own report job tells of it", w.Event), Harmless: true}
		}
		e.Run, e.HeadSHA, e.HeadBranch, e.Conclusion = w.ID, w.HeadSHA, w.HeadBranch, w.Conclusion
		e.HeadRepo, e.HeadOwner = w.HeadRepo.ID, w.HeadRepo.Owner.Login
		e.Started = f.Action == "requested" || f.Action == "in_progress"
		e.pull = pullOfRef(w.Path)
		w.Path, _, _ = strings.Cut(w.Path, "@")
		if !strings.Contains(w.Path, "/") && f.Workflow != nil { // Gitea's has no directory
			w.Path, _, _ = strings.Cut(f.Workflow.Path, "@")
		}
		e.Workflow = w.Path
	default:
		return &RefusedError{Reason: fmt.Sprintf("the event %.40q is not one that gate reports on", e.Name), Advice: "use pull_request, merge_group, push, schedule, workflow_dispatch or workflow_run"}
	}
	return nil
}

// queuedPull is how GitHub ends the branch that a merge queue makes for a pull request.
var queuedPull = regexp.MustCompile(`^pr-([1-9][0-9]{0,9})-[0-9a-f]{40}$`)

// queued is the number in "gh-readonly-queue/main/pr-7-81d0…", a branch that nobody but
// GitHub can push to; 0: none.
func queued(head, base string) int {
	rest, ok := strings.CutPrefix(head, "gh-readonly-queue/"+base+"/")
	m := queuedPull.FindStringSubmatch(rest)
	if !ok || m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// workflowPath is the file in "owner/name/.github/workflows/x.yml@refs/heads/main".
func workflowPath(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	parts := strings.SplitN(ref, "/", 3)
	if len(parts) < 3 || path.Clean(parts[2]) != parts[2] {
		return ""
	}
	return parts[2]
}
