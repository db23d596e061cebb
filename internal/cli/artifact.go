package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// defaultWorkflow is the file that the documentation writes.
const defaultWorkflow = ".github/workflows/ebpf-bench.yml"

// baselinePull fetches from a repository's artifacts what a roll-up is made of.
func (c Command) baselinePull(dir, branch *string) *cobra.Command {
	var repo, workflow, id string
	var runs int
	cmd := &cobra.Command{
		Use: "pull", Short: "Fetch the baseline of a branch from a repository's artifacts", Args: takes(),
		Long: `Pull lists the trusted runs of a workflow (of this repository, by push, schedule or
dispatch, of the branch, an ancestor of its tip), fetches their artifacts, checks
them, and puts the runs into the store. Runs that are there already stay. The token
is read from GATE_TOKEN or GITHUB_TOKEN; it needs actions: read and contents: read.`,
		Example: "  GITHUB_TOKEN=$(gh auth token) gate baseline pull --repo org/project --branch main",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if *branch == "" {
				*branch = "main"
			}
			ctx := cmd.Context()
			s, err := c.openStore(cmd, *dir)
			if err != nil {
				return err
			}
			defer s.Close()
			client, err := github.New(repo, github.Options{Token: token(os.Getenv), API: os.Getenv("GITHUB_API_URL"), Server: os.Getenv("GITHUB_SERVER_URL")})
			if err != nil {
				return &exitError{code: exitUsage, err: err, hint: "--repo OWNER/NAME"}
			}
			tip, err := client.BranchSHA(ctx, *branch)
			if err != nil {
				return unmeasured(err)
			}
			h, err := client.Collect(ctx, github.HistoryQuery{Workflow: workflow, Branch: *branch, Base: tip, ID: id, Runs: runs})
			if err != nil {
				return unmeasured(err)
			}
			for _, p := range h.Problems {
				fmt.Fprintf(c.Stderr, "warning: not counted: %s\n", oneLine(p.Error()))
			}
			stored := 0
			for _, r := range h.Runs {
				switch file, err := s.Put(ctx, r); {
				case err == nil:
					stored++
					fmt.Fprintln(c.Stdout, file)
				case !errors.Is(err, fs.ErrExist):
					return unmeasured(err)
				}
			}
			fmt.Fprintf(c.Stderr, "%s; %d of them new, %d requests\n", h, stored, client.Requests())
			if len(h.Runs) == 0 {
				return verdictError{exitInconclusive}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&repo, "repo", os.Getenv("GITHUB_REPOSITORY"), "`OWNER/NAME` of the repository")
	f.StringVar(&workflow, "workflow", defaultWorkflow, "`PATH` of the workflow's file")
	f.StringVar(&id, "id", "default", "the suite's id")
	f.IntVar(&runs, "runs", github.DefaultHistory, "look at the newest `N` runs of the workflow")
	return cmd
}

// baselinePush writes stored runs as artifacts, for the upload step of a job:
// GitHub takes artifacts from running jobs only.
func (c Command) baselinePush(dir, branch, testbed *string) *cobra.Command {
	var to, id string
	var attempt int
	cmd := &cobra.Command{
		Use: "push", Short: "Write the newest stored run of each testbed as an artifact to upload", Args: takes(),
		Long: `Push writes DIRECTORY/NAME/runs.json.gz for the newest stored run of each testbed, and
prints the names. A step with actions/upload-artifact then uploads each under its
name: GitHub takes artifacts from running jobs alone, and believes a baseline only
where the job ran for a push, a schedule or a dispatch.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.openStore(cmd, *dir)
			if err != nil {
				return err
			}
			defer s.Close()
			ctx := cmd.Context()
			entries, problems, err := s.List(ctx, store.Filter{Branch: *branch, Testbed: *testbed})
			if err != nil {
				return unmeasured(err)
			}
			c.uncounted(problems)
			newest := map[github.Name]store.Entry{}
			var order []github.Name
			for _, e := range entries { // oldest first
				n := github.Name{Kind: github.KindRun, ID: id, Branch: e.Revision.Branch, Testbed: e.Testbed.Slug(), Attempt: attempt}
				if _, ok := newest[n]; !ok {
					order = append(order, n)
				}
				newest[n] = e
			}
			if len(order) == 0 {
				return &exitError{code: exitInconclusive, err: fmt.Errorf("no runs in %s", s), hint: "gate run makes some"}
			}
			for _, n := range order {
				run, err := s.Load(ctx, newest[n])
				if err != nil {
					return unmeasured(err)
				}
				data, err := (&store.Bundle{Head: run}).Encode()
				if err != nil {
					return unmeasured(err)
				}
				at := filepath.Join(to, n.String())
				if err := os.MkdirAll(at, 0o755); err != nil {
					return unmeasured(err)
				}
				if err := os.WriteFile(filepath.Join(at, store.BundleFile), data, 0o644); err != nil {
					return unmeasured(err)
				}
				fmt.Fprintln(c.Stdout, n)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "artifacts", "the `DIRECTORY` to write to")
	f.StringVar(&id, "id", "default", "the suite's id")
	f.IntVar(&attempt, "attempt", 1, "the attempt `N` of the workflow run")
	return cmd
}

// token is that of the job.
func token(getenv func(string) string) string {
	if t := getenv("GATE_TOKEN"); t != "" {
		return t
	}
	return getenv("GITHUB_TOKEN")
}
