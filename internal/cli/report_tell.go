package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/render"
	"github.com/org/ebpf-bench-gate/internal/store"
	"github.com/org/ebpf-bench-gate/stats"
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
		"report-path": filepath.Join(r.dir, "report.json"), "report-dir": r.dir, "comment-url": "", "history-name": "", "history-path": "",
	}
	switch {
	case !r.event.Stored() || r.f.store == "none":
	case r.f.inStore():
		if err := r.keep(ctx, j); err != nil {
			r.note("these runs are not in the baseline: %v", err)
			r.say("warning: not stored: %v", err)
		}
	default:
		if err := r.rollUp(out); err != nil {
			r.note("no roll-up of the baseline: %v", err)
		}
	}
	src := r.sources(ctx, j)
	r.options = r.render(ctx, j, src)
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
	r.annotate(ctx, j, src)
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

// render is what the comment and the summary show besides the reports.
func (r *reporting) render(ctx context.Context, j *judgement, src *sources) render.SuiteOptions {
	o := render.SuiteOptions{Title: j.title, Verdict: j.verdict, MarkdownOptions: render.MarkdownOptions{
		ID: r.f.id, Config: path.Clean(filepath.ToSlash(r.f.config)), ConfigOf: j.base.file, Policy: j.base.from, Until: waiverEnd(),
		Link: src.link(ctx), History: r.series(j),
	}}
	if r.event.Pull != nil {
		o.Label = r.f.label
	}
	return o
}

// series is how the measure that decided went on the base branch, on the testbed of
// the worst report; nil: nothing decided.
func (r *reporting) series(j *judgement) *render.Series {
	if len(j.reports) == 0 {
		return nil
	}
	worst := j.reports[0]
	c := worst.Deciding()
	if c == nil || c.Head == nil {
		return nil
	}
	s := &render.Series{Benchmark: c.Benchmark, Measure: c.Measure, Unit: c.Unit, Branch: r.event.BaseBranch}
	runs := slices.Clone(r.history.Runs)
	slices.SortStableFunc(runs, func(a, b *bench.Run) int { return a.Time.Compare(b.Time) })
	for _, run := range runs {
		if !run.Testbed.Equal(worst.Testbed) || r.measures[run.ID] {
			continue
		}
		for i := range run.Results {
			if res := &run.Results[i]; res.Benchmark == c.Benchmark && res.Measure == c.Measure && len(res.Samples) > 0 {
				x := make([]float64, len(res.Samples))
				for j, sample := range res.Samples {
					x[j] = sample.Value
				}
				s.Values = append(s.Values, stats.Median(x))
			}
		}
	}
	s.Values = append(s.Values, *c.Head)
	return s
}

func (r *reporting) markdown(j *judgement, most int) (string, error) {
	var b bytes.Buffer
	o := r.options
	o.MaxBytes, o.Notes = most, r.notes
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
	for _, format := range r.f.formats {
		if err := r.file(j, format); err != nil {
			return err
		}
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

// reportFiles are what the report is called in other formats.
var reportFiles = map[string]string{
	"html": "report.html", "junit": "report.junit.xml", "sarif": "report.sarif", "openmetrics": "report.openmetrics.txt", "csv": "report.csv",
}

// file writes the report in another format. Where something could not be measured, a
// testbed has no report to each of them.
func (r *reporting) file(j *judgement, format string) error {
	all := make([]judged, len(j.reports))
	for i, x := range j.reports {
		all[i] = j.of[x]
	}
	o := &output{format: format, configOf: j.base.file}
	if len(j.reports) == 0 || j.reports[0].Asked || j.code != exitPass {
		o.summary, o.verdict = j.title, j.verdict
	}
	var b bytes.Buffer
	if err := o.write(&b, all, min(1, len(r.problems)), 0); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, reportFiles[format]), b.Bytes(), 0o644)
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
