package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/render"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// reportFlags are what gate report is told. Each default comes from the
// environment variable that action.yml sets.
type reportFlags struct {
	config, id, comment, failOn, store string
	status                             bool
	artifacts                          string // a directory of downloaded artifacts; empty: the API is asked
	results                            string // where reports are written
	needs                              string // how the measuring jobs ended
	label                              string
	author                             string
	pending                            bool
	formats                            []string // that the report is also written in
}

func (c Command) report() *cobra.Command {
	var f reportFlags
	var merge bool
	var out output
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Judge what a workflow measured, and tell it on the pull request",
		Long: `Report is the second half of the GitHub Action, for a job that has a token and
neither checks out nor runs anything of a pull request. It reads the artifacts of
the measuring jobs, judges them by the policy of the base branch, and writes one
comment, one commit status, the job's summary and outputs. On a push it also makes
the roll-up that later pull requests fetch as their baseline.

With --merge it makes one report of many repositories' or testbeds' instead: of FILEs that
--format json or an earlier report wrote (report.json), and of runs.json.gz of measuring
jobs. NAME=FILE says whose each is. Neither a workflow nor a token is needed.

It reads GITHUB_* as a job of GitHub Actions has them, and the token from
GATE_TOKEN or GITHUB_TOKEN. Every flag also has a variable: GATE_ and its name.`,
		Example: `  gate report
  gate report --artifacts ./artifacts --fail-on inconclusive
  gate report --merge --format markdown lb=lb/report.json fw=fw/report.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case !merge:
				return takes()(cmd, args)
			case len(args) == 0:
				return misused(cmd, errors.New("gate report --merge: missing FILE"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if merge {
				file := ""
				if cmd.Flags().Changed("config") {
					file = f.config
				}
				if out.format = "text"; len(f.formats) > 0 {
					out.format = strings.Join(f.formats, ",") // of several, none is known
				}
				return c.merge(args, file, &out)
			}
			if err := f.check(); err != nil {
				return err
			}
			return c.runReport(cmd.Context(), f, os.Getenv)
		},
	}
	env := func(name, or string) string {
		if v := strings.TrimSpace(os.Getenv("GATE_" + name)); v != "" {
			return v
		}
		return or
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", env("CONFIG", config.FileName), "the config's `PATH` in the repository")
	fl.StringVar(&f.id, "id", env("ID", "default"), "keeps apart the comments and statuses of several suites")
	fl.StringVar(&f.comment, "comment", env("COMMENT", "always"), "`always|on-change|on-regression|never`")
	fl.StringVar(&f.failOn, "fail-on", env("FAIL_ON", "regression"), "`regression|inconclusive|never`")
	fl.BoolVar(&f.status, "status", env("STATUS", "true") != "false", "set the commit status ebpf-bench/ID")
	fl.StringVar(&f.store, "store", env("STORE", "artifacts"), "where the baseline is: `artifacts|none|URL`, such as s3://BUCKET")
	fl.StringVar(&f.artifacts, "artifacts", env("ARTIFACTS", ""), "`DIRECTORY` of downloaded artifacts (default: they are fetched)")
	fl.StringVar(&f.results, "results", env("REPORT", ""), "`DIRECTORY` to write the report to (default: in RUNNER_TEMP)")
	fl.StringVar(&f.needs, "needs", env("NEEDS", ""), "how the measuring jobs ended: `success|failure|cancelled|skipped`")
	fl.StringVar(&f.label, "label", env("LABEL", "perf-accepted"), "the `LABEL` that lets waivers of head count")
	fl.StringVar(&f.author, "author", env("AUTHOR", ""), "the `LOGIN` that the token writes as (default: it is asked for)")
	fl.StringSliceVar(&f.formats, "format", strings.FieldsFunc(env("FORMAT", ""), func(r rune) bool { return r == ',' || r == ' ' }),
		"also write the report as `html,junit,sarif,openmetrics,csv`, into the same directory; with --merge, the one format")
	fl.BoolVar(&merge, "merge", false, "make one report of FILEs")
	fl.StringVarP(&out.file, "output", "o", "", "with --merge, write it to `FILE` instead of standard output")
	fl.StringVar(&out.onInconclusive, "on-inconclusive", "", "with --merge, exit as `pass|fail` where nothing could be decided (default: exit 4)")
	fl.BoolVar(&f.pending, "pending", false, "only set the status to pending")
	return cmd
}

func (f *reportFlags) check() error {
	for _, v := range []struct {
		flag, value string
		known       []string
	}{
		{"comment", f.comment, []string{"always", "on-change", "on-regression", "never"}},
		{"fail-on", f.failOn, []string{"regression", "inconclusive", "never"}},
		{"needs", f.needs, []string{"", "success", "failure", "cancelled", "skipped"}},
		{"store", f.store, []string{"artifacts", "none"}},
	} {
		ok := v.flag == "store" && f.inStore()
		for _, k := range v.known {
			ok = ok || k == v.value
		}
		if !ok {
			return usage("--%s %s: expected one of %s", v.flag, v.value, strings.TrimPrefix(strings.Join(v.known, ", "), ", "))
		}
	}
	for _, name := range f.formats {
		if reportFiles[name] == "" {
			return usage("--format %s: expected one of %s", name, strings.Join(slices.Sorted(maps.Keys(reportFiles)), ", "))
		}
	}
	if len(f.id) == 0 || len(f.id) > 40 || strings.Trim(f.id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		return usage("--id %.60q: expected 1 to 40 letters, digits, '.', '_' and '-'", f.id)
	}
	if !filepath.IsLocal(filepath.FromSlash(f.config)) {
		return usage("--config %s leads out of the repository", f.config)
	}
	return nil
}

// A reporting is one report in the making.
type reporting struct {
	c      Command
	f      reportFlags
	getenv func(string) string
	client *github.Client
	event  *github.Event
	// measured is when the measuring run was made, by the API's word.
	measured time.Time
	finished bool // the measuring run is over
	accepted *string
	history  *github.History
	store    *store.Store // nil: artifacts, none, or one that cannot be opened
	storeErr error
	notes    []string        // for the comment
	problems []string        // what makes the whole unmeasured
	measures map[string]bool // the ids of the runs that are reported on
	options  render.SuiteOptions
	dir      string
}

func (r *reporting) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *reporting) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// say tells the log. Text of others may be in it.
func (r *reporting) say(format string, args ...any) {
	fmt.Fprintln(r.c.Stderr, oneLine(fmt.Sprintf(format, args...)))
}

// oneLine makes text safe for the log of a job: a line that begins with "::" would
// be a command to the runner.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
	return strings.ReplaceAll(strings.ReplaceAll(s, "::", ": :"), "##[", "# #[")
}

func (c Command) runReport(ctx context.Context, f reportFlags, getenv func(string) string) error {
	r := &reporting{c: c, f: f, getenv: getenv}
	if err := r.open(ctx); err != nil {
		var refused *github.RefusedError
		switch {
		case errors.As(err, &refused) && refused.Harmless, errors.Is(err, github.ErrMoved):
			r.say("nothing to report: %v", err)
			return nil
		case errors.As(err, &refused):
			return usage("%w", err)
		}
		return unmeasured(err)
	}
	if f.pending || r.event.Started {
		r.start(ctx)
		return nil
	}
	if f.inStore() {
		if err := r.openStore(ctx); err != nil {
			return usage("--store: %w", err)
		}
		defer r.closeStore()
	}
	if err := r.setStatus(ctx, github.Pending, "measured, being judged"); err != nil {
		r.say("warning: %v", err)
	}
	j, err := r.judge(ctx)
	if err != nil {
		// A required status must not stay pending.
		_ = r.setStatus(ctx, github.Error, "could not be judged: see the job's log")
		return unmeasured(err)
	}
	return r.tell(ctx, j)
}

// start says that measuring has begun, unless it is over already: then its report may
// have been written before, and this would hide it.
func (r *reporting) start(ctx context.Context) {
	if r.event.Started && r.finished {
		r.say("nothing to start: the measuring run is over")
		return
	}
	if err := r.setStatus(ctx, github.Pending, "being measured"); err != nil {
		r.say("warning: %v", err)
	}
}

// open finds out what is reported on.
func (r *reporting) open(ctx context.Context) error {
	e, err := github.ReadEvent(r.getenv)
	if err != nil {
		return err
	}
	r.event = e
	r.client, err = github.New(e.Repo, github.Options{Token: token(r.getenv), API: r.getenv("GITHUB_API_URL"), Server: r.getenv("GITHUB_SERVER_URL"), Author: r.f.author})
	if err != nil {
		return err
	}
	r.dir = r.f.results
	if r.dir == "" {
		r.dir = filepath.Join(r.getenv("RUNNER_TEMP"), "ebpf-bench-report")
	}
	if e.Name == "workflow_run" {
		if err := r.openFork(ctx); err != nil {
			return err
		}
	}
	run, err := r.client.Run(ctx, e.Run)
	if err != nil {
		r.say("warning: %v; waivers of head cannot count", err)
		return nil
	}
	if e.Workflow == "" { // the runner of Gitea does not say
		e.Workflow = run.Path
	}
	r.measured, r.finished = run.Created, run.Finished
	return nil
}

// openFork finds the pull request of a workflow_run event. Nothing that the run
// wrote is asked, and the workflow must be one of the base branch: a fork's pull
// request can bring a workflow of the same name in another file.
func (r *reporting) openFork(ctx context.Context) error {
	e := r.event
	pull, err := r.client.FindPull(ctx, e)
	if err != nil {
		return err
	}
	e.Pull, e.BaseSHA, e.BaseBranch = &pull, pull.BaseSHA, pull.BaseRef
	e.HeadBranch, e.HeadRepo = pull.HeadRef, pull.HeadRepo
	if _, err := r.client.File(ctx, e.Workflow, e.BaseSHA); errors.Is(err, github.ErrNotFound) || e.Workflow == "" {
		return &github.RefusedError{
			Reason: fmt.Sprintf("the run is of the workflow %.100q, which %.60s does not have: a pull request brought it", e.Workflow, e.BaseBranch),
			Advice: "report on runs of a workflow that is on the base branch",
		}
	} else if err != nil {
		return err
	}
	if e.Conclusion != "" && e.Conclusion != "success" {
		r.problem("the measuring run ended with %q", e.Conclusion)
	}
	return nil
}

func (r *reporting) setStatus(ctx context.Context, s github.State, description string) error {
	if !r.f.status {
		return nil
	}
	// A read-only token (a fork's pull request) cannot: the summary says so.
	return r.client.Status(ctx, r.event.HeadSHA, r.f.id, s, description, r.client.RunURL(r.event.Run))
}

// stamp gives a run the identity that the event has, whatever it says itself.
func (r *reporting) stamp(base, head *bench.Run) {
	e := r.event
	head.Revision = bench.Revision{Commit: e.HeadSHA, Branch: e.HeadBranch}
	// Waivers end by head's time: neither may an old run be made of a new one.
	if !r.measured.IsZero() && head.Time.Before(r.measured) {
		head.Time = r.measured
	}
	if now := time.Now(); head.Time.After(now) {
		head.Time = now
	}
	if base == nil {
		return
	}
	commit := base.Revision.Commit
	if len(commit) != 40 && len(commit) != 64 || strings.Trim(commit, "0123456789abcdef") != "" {
		commit = e.BaseSHA // it stands in a command that people copy
	}
	base.Revision = bench.Revision{Name: e.BaseBranch, Commit: commit, Branch: e.BaseBranch}
}
