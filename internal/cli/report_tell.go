package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/render"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// fails tells whether an exit code fails the gate.
func (f *reportFlags) fails(code int) bool {
	switch f.failOn {
	case "never":
		return false
	case "inconclusive":
		return code != exitPass
	}
	// Nothing measured is not the same as not sure: a pull request that breaks
	// the measuring must not pass by it.
	return code == exitRegressed || code == exitUnmeasured
}

// tell writes everything that a report is read by. What cannot be written is told
// in what can.
func (r *reporting) tell(ctx context.Context, j *judgement) error {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return unmeasured(err)
	}
	out := github.Outputs{
		"verdict": j.verdict.String(), "regressions": strconv.Itoa(j.regressions()), "baseline-runs": strconv.Itoa(len(r.history.Runs)),
		"report-path": filepath.Join(r.dir, "report.json"), "comment-url": "", "history-name": "", "history-path": "",
	}
	if r.event.Stored() && r.f.store == "artifacts" {
		if err := r.rollUp(out); err != nil {
			r.note("no roll-up of the baseline: %v", err)
		}
	}
	url, commentErr := r.comment(ctx, j)
	out["comment-url"] = url
	if commentErr != nil {
		r.unwritten("comment", commentErr)
	}
	state, description := r.state(j)
	if err := r.setStatus(ctx, state, description); err != nil {
		r.unwritten("status", err)
	}
	if err := r.files(j); err != nil {
		return unmeasured(err)
	}
	r.annotate(ctx, j)
	if err := out.Write(r.getenv); err != nil {
		return unmeasured(err)
	}
	r.say("%s: %s", j.verdict, j.title)
	if r.f.fails(j.code) {
		return verdictError{j.code}
	}
	return nil
}

// unwritten notes what the token may not write: a fork's pull request has a
// read-only one, and its reader looks at the summary.
func (r *reporting) unwritten(what string, err error) {
	if errors.Is(err, github.ErrForbidden) {
		r.note("the %s was not written: the token may only read; report on workflow_run for forks", what)
	} else {
		r.note("the %s was not written: %v", what, err)
	}
	r.say("warning: the %s was not written: %v", what, err)
}

func (j *judgement) regressions() int {
	n := 0
	for _, x := range j.reports {
		for i := range x.Comparisons {
			if x.Comparisons[i].Judged && x.Comparisons[i].Verdict == gate.Regressed {
				n++
			}
		}
		for _, p := range x.Programs {
			if p.Outcome != bench.Accepted && x.Verdict == gate.Regressed {
				n++
			}
		}
	}
	return n
}

// state is the commit status of a judgement.
func (r *reporting) state(j *judgement) (github.State, string) {
	word := j.verdict.String()
	if j.code == exitUnmeasured {
		word = "not measured"
	}
	description := word + ": " + j.title
	switch {
	case !r.f.fails(j.code):
		return github.Success, description
	case j.code == exitUnmeasured:
		return github.Error, description
	}
	return github.Failure, description
}

func (r *reporting) markdown(j *judgement, most int) (string, error) {
	var b bytes.Buffer
	o := render.SuiteOptions{MarkdownOptions: render.MarkdownOptions{ID: r.f.id, MaxBytes: most}, Title: j.title, Verdict: j.verdict, Notes: r.notes}
	if len(j.reports) > 0 && !j.reports[0].Asked && j.code == exitPass {
		o.Title = "" // nothing was asked: the report's own words
	}
	err := render.Suite(&b, j.reports, o)
	return b.String(), err
}

// comment writes the one comment of the pull request.
func (r *reporting) comment(ctx context.Context, j *judgement) (url string, err error) {
	p := r.event.Pull
	if p == nil || r.f.comment == "never" {
		return "", nil
	}
	now, err := r.client.Pull(ctx, p.Number)
	if err != nil {
		return "", err
	}
	if now.HeadSHA != r.event.HeadSHA {
		r.note("the comment was left to the newer push")
		return "", nil
	}
	body, err := r.markdown(j, render.MaxComment)
	if err != nil {
		return "", err
	}
	if r.f.comment != "always" && !r.worthIt(j) {
		// What stands there already must not stay wrong.
		old, err := r.client.FindComment(ctx, p.Number, render.Marker(r.f.id))
		if err != nil || old == nil {
			return "", err
		}
	}
	c, err := r.client.Comment(ctx, p.Number, body)
	if err != nil {
		return "", err
	}
	return c.URL, nil
}

func (r *reporting) worthIt(j *judgement) bool {
	if r.f.comment == "on-regression" {
		return j.code == exitRegressed
	}
	return j.code != exitPass || j.verdict == gate.Improved
}

// files writes the report as JSON and as Markdown, and the job's summary.
func (r *reporting) files(j *judgement) error {
	data, err := json.MarshalIndent(map[string]any{"verdict": j.verdict, "title": j.title, "notes": r.notes, "reports": j.reports}, "", " ")
	if err != nil {
		return err
	}
	text, err := r.markdown(j, github.MaxSummary-4096)
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(filepath.Join(r.dir, "report.json"), data, 0o644), os.WriteFile(filepath.Join(r.dir, "report.md"), []byte(text), 0o644)); err != nil {
		return err
	}
	if _, err := github.Summary(r.getenv, text); err != nil {
		r.say("warning: %v", err)
		short, err := r.markdown(j, render.MaxComment)
		if err == nil {
			_, err = github.Summary(r.getenv, short)
		}
		if err != nil {
			r.say("warning: %v", err)
		}
	}
	return nil
}

// rollUp makes what later pull requests fetch as their baseline, of the runs
// themselves and this one's among them. Where it would be too large, of fewer.
func (r *reporting) rollUp(out github.Outputs) error {
	for n := store.MaxHistory; n > 0; n /= 2 {
		data, err := store.RollUp(r.history.Runs, n).Encode()
		if err != nil {
			if len(r.history.Runs) == 0 {
				return nil
			}
			if n > 1 {
				continue
			}
			return err
		}
		dir := filepath.Join(r.dir, "history")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, store.BundleFile), data, 0o644); err != nil {
			return err
		}
		out["history-path"] = filepath.Join(dir, store.BundleFile)
		out["history-name"] = github.Name{Kind: github.KindHistory, ID: r.f.id, Branch: r.event.BaseBranch, Attempt: r.event.Attempt}.String()
		return nil
	}
	return nil
}

// sourceLine is where the verifier's log quotes the source: "; while (b < n) @ v3.bpf.c:12".
var sourceLine = regexp.MustCompile(`@ ([A-Za-z0-9_./+-]+):([0-9]{1,6})\s*$`)

// annotate marks what failed: at the line of the diff where it is known.
func (r *reporting) annotate(ctx context.Context, j *judgement) {
	if r.event.Name == "workflow_run" || r.getenv("GITHUB_ACTIONS") != "true" {
		return // it would stand at a commit of the default branch
	}
	var all []github.Annotation
	for _, x := range j.reports {
		on := " (" + x.Testbed.Slug() + ")"
		for _, p := range x.Programs {
			if p.Outcome == bench.Accepted {
				continue
			}
			a := github.Annotation{Error: x.Verdict == gate.Regressed, Title: p.Program + " is " + string(p.Outcome) + on, Text: p.Reason}
			for _, l := range p.LogTail {
				if m := sourceLine.FindStringSubmatch(l); m != nil {
					a.File = m[1]
					a.Line, _ = strconv.Atoi(m[2])
				}
			}
			all = append(all, a)
		}
		for i := range x.Comparisons {
			if c := &x.Comparisons[i]; c.Judged && c.Verdict == gate.Regressed {
				all = append(all, github.Annotation{Error: true, Title: c.Benchmark + " " + c.Measure + " regressed" + on, Text: fmt.Sprintf("%s %s", c.Limit, c.Reason)})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	lines := map[string]map[int]bool{}
	if p := r.event.Pull; p != nil {
		var err error
		if lines, err = r.client.DiffLines(ctx, p.Number); err != nil {
			r.say("warning: %v", err)
		}
	}
	for i := range all {
		all[i].File = inDiff(lines, all[i].File)
	}
	if lines == nil {
		lines = map[string]map[int]bool{}
	}
	github.Annotate(r.c.Stdout, all, lines)
}

// inDiff is the file of a diff that a compiler meant, which knows it by a path of
// its own: the only one that ends so.
func inDiff(lines map[string]map[int]bool, name string) string {
	found := ""
	name = strings.TrimPrefix(filepath.ToSlash(filepath.Clean(name)), "./")
	for file := range lines {
		if file == name || strings.HasSuffix(file, "/"+name) || strings.HasSuffix(name, "/"+file) {
			if found != "" {
				return ""
			}
			found = file
		}
	}
	return found
}
