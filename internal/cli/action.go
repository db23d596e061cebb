package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"crypto/rand"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/internal/action"
	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// action is the verb of the GitHub Action's measuring step. All that it is told
// stands in the environment; action.yml says what.
func (c Command) action() *cobra.Command {
	return &cobra.Command{
		Use:    "action",
		Short:  "The measuring step of the GitHub Action",
		Hidden: true,
		Args:   takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.runAction(cmd.Context(), os.Getenv)
		},
	}
}

func (c Command) runAction(ctx context.Context, getenv func(string) string) (err error) {
	onRunner := getenv("GITHUB_ACTIONS") == "true"
	outputs := getenv("GITHUB_OUTPUT")
	// Errors show what others wrote: the end of a compiler's output, a name in
	// the config.
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = c.foreignError(err, onRunner)
		}
	}()
	in, err := action.ReadInputs(getenv)
	if err != nil {
		return usage("%w", err)
	}
	event, err := action.ReadEvent(getenv)
	if err != nil {
		return unmeasured(err)
	}
	if err := event.Refuse(in.Ephemeral); err != nil {
		return usage("%w", err)
	}
	if action.Credentials(ctx, in.Workspace) {
		c.notice(onRunner, "the checkout holds the job's token (.git/config), where the pull request's code can read it: give actions/checkout persist-credentials: false")
	}
	action.HideFromBuilds()

	work, err := os.MkdirTemp(in.Temp, "ebpf-bench-gate-")
	if err != nil {
		return unmeasured(err)
	}
	stage, results := filepath.Join(work, "in"), filepath.Join(work, "results")
	for _, dir := range []string{stage, results} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return unmeasured(err)
		}
	}
	defer os.RemoveAll(stage)
	start := time.Now()
	plan, err := action.Stage(ctx, in, event, stage)
	if err != nil {
		return unmeasured(err)
	}
	against := ""
	if plan.Base != nil {
		against = " against " + plan.Base.Short()
	}
	c.say("built %s%s in %s", plan.Head.Short(), against, time.Since(start).Round(100*time.Millisecond))

	grant, err := action.Grants(ctx, in.Docker, in.Image, in.Privileges)
	if err != nil {
		return unmeasured(err)
	}
	container := action.Container{
		Docker: in.Docker, Image: in.Image, In: stage, Grant: grant, Memory: action.MemoryLimit(),
		Name: action.ContainerName(event, strings.ToLower(rand.Text()[:8])),
	}
	c.say("measuring in %s: docker %s", container.Name, strings.Join(grant, " "))
	start = time.Now()
	log := action.NewLog(c.Stderr, onRunner)
	bundle, measureErr := container.Run(ctx, log)
	if err := log.Close(); err != nil {
		return unmeasured(err)
	}
	if bundle == nil {
		return unmeasured(measureErr)
	}
	c.say("measured in %s", time.Since(start).Round(100*time.Millisecond))
	// Written anew from what was understood: no byte of the container's is.
	packed, err := bundle.Encode()
	if err != nil {
		return unmeasured(err)
	}
	if err := os.WriteFile(filepath.Join(results, store.BundleFile), packed, 0o644); err != nil {
		return unmeasured(err)
	}
	name := github.Name{Kind: github.KindRun, ID: in.ID, Branch: bundle.Head.Revision.Branch, Testbed: bundle.Head.Testbed.Slug(), Attempt: event.AttemptNumber()}
	if err := action.Outputs(outputs, [2]string{"artifact", name.String()}, [2]string{"results-path", results}); err != nil {
		return unmeasured(err)
	}
	if measureErr != nil {
		// The report says which benchmarks are missing, and judges that.
		c.notice(onRunner, "%v", measureErr)
	}
	return nil
}

func (c Command) say(format string, args ...any) {
	fmt.Fprintln(c.Stderr, action.Clean(fmt.Sprintf(format, args...)))
}

// notice is a warning that a runner shows with the job.
func (c Command) notice(onRunner bool, format string, args ...any) {
	text := action.Clean(fmt.Sprintf(format, args...))
	if onRunner {
		// As in the runner's own toolkit; text is one line already.
		fmt.Fprintf(c.Stdout, "::warning title=ebpf-bench-gate::%s\n", strings.ReplaceAll(text, "%", "%25"))
		return
	}
	fmt.Fprintf(c.Stderr, "warning: %s\n", text)
}

// foreignError prints an error as the work of others, and returns its exit code.
func (c Command) foreignError(err error, onRunner bool) error {
	log := action.NewLog(c.Stderr, onRunner)
	Command{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: log}.printError(err)
	_ = log.Close()
	code := exitUnmeasured
	var e *exitError
	if errors.As(err, &e) {
		code = e.code
	}
	return verdictError{code}
}
