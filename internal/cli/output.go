package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/render"
)

// output holds the flags of every verb that prints a report.
type output struct {
	format         string
	file           string
	onInconclusive string
	// configFlag is what --config was, and configOf the file of each suite, which
	// waivers go into; nil: the usual one.
	configFlag string
	configOf   func(suite string) string
}

func (o *output) flags(f *pflag.FlagSet) {
	f.StringVar(&o.format, "format", "text", "text, markdown or json")
	f.StringVarP(&o.file, "output", "o", "", "write the report to `FILE` instead of standard output")
	f.StringVar(&o.onInconclusive, "on-inconclusive", "", "exit as `pass|fail` where nothing could be decided (default: exit 4)")
}

func (o *output) check() error {
	switch o.format {
	case "text", "markdown", "json":
	default:
		return usage("--format %s: expected one of text, markdown, json", o.format)
	}
	switch o.onInconclusive {
	case "", "pass", "fail":
	default:
		return usage("--on-inconclusive %s: expected one of pass, fail", o.onInconclusive)
	}
	if o.file == "" {
		return nil
	}
	// Before anything is measured: the report would be lost.
	if info, err := os.Stat(filepath.Dir(o.file)); err != nil || !info.IsDir() {
		return usage("--output %s: there is no directory %s", o.file, filepath.Dir(o.file))
	}
	if info, err := os.Stat(o.file); err == nil && info.IsDir() {
		return usage("--output %s: that is a directory", o.file)
	}
	return nil
}

// print writes the report and returns its exit code as an error, or nil for 0.
func (o *output) print(c Command, r *gate.Report, elapsed time.Duration) error {
	to, buf := c.Stdout, bytes.Buffer{}
	if o.file != "" {
		to = &buf
	}
	var err error
	switch o.format {
	case "json":
		err = render.JSON(to, r)
	case "markdown":
		err = render.Markdown(to, r, render.MarkdownOptions{Until: waiverEnd(), Config: filepath.ToSlash(o.configFlag), ConfigOf: o.configOf})
	default:
		err = render.Text(to, r, render.Options{Color: colorful(to), Width: width(to), Elapsed: elapsed, Until: waiverEnd(), ConfigOf: o.configOf})
	}
	if err == nil && o.file != "" {
		err = os.WriteFile(o.file, buf.Bytes(), 0o644)
	}
	if err != nil {
		return &exitError{code: exitUnmeasured, err: fmt.Errorf("write the report: %w", err)}
	}
	if o.file != "" {
		fmt.Fprintln(c.Stderr, strings.TrimSpace(r.Summary))
	}
	return o.exit(r)
}

// printAll writes the reports of several testbeds, of which missing have none.
func (o *output) printAll(c Command, reports []*gate.Report, missing int, elapsed time.Duration) error {
	to, buf := c.Stdout, bytes.Buffer{}
	if o.file != "" {
		to = &buf
	}
	opts := render.Options{Color: colorful(to), Width: width(to), Elapsed: elapsed, Until: waiverEnd()}
	var err error
	switch o.format {
	case "json":
		err = render.JSONs(to, reports, missing)
	case "markdown":
		err = render.Suite(to, worstFirst(reports), render.SuiteOptions{MarkdownOptions: render.MarkdownOptions{Until: waiverEnd()}})
	default:
		err = render.Texts(to, reports, missing, opts)
	}
	if err == nil && o.file != "" {
		err = os.WriteFile(o.file, buf.Bytes(), 0o644)
	}
	if err != nil {
		return &exitError{code: exitUnmeasured, err: fmt.Errorf("write the report: %w", err)}
	}
	if o.file != "" {
		_, summary := gate.Overall(reports, missing)
		fmt.Fprintln(c.Stderr, summary)
	}
	return nil
}

// worstFirst is the order in which a comment tells of testbeds.
func worstFirst(reports []*gate.Report) []*gate.Report {
	out := slices.Clone(reports)
	slices.SortStableFunc(out, func(a, b *gate.Report) int { return gate.Severity(b) - gate.Severity(a) })
	return out
}

// waiverEnd is the last day of a waiver that is offered today: long enough to mend what
// it accepts, short enough not to forget it.
func waiverEnd() time.Time { return time.Now().AddDate(0, 0, 90) }

// exit is the code of a verdict.
func (o *output) exit(r *gate.Report) error {
	switch r.Verdict {
	case gate.Regressed:
		return verdictError{exitRegressed}
	case gate.Pass, gate.Improved, gate.Added:
		return nil
	}
	if !r.Asked {
		return nil // nothing was asked to be judged
	}
	for _, s := range r.Skipped {
		if s.Required {
			return verdictError{exitUnmeasured}
		}
	}
	switch o.onInconclusive {
	case "pass":
		return nil
	case "fail":
		return verdictError{exitRegressed}
	}
	return verdictError{exitInconclusive}
}
