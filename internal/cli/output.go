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
	// summary and verdict are those of the whole where they are more than the reports
	// say; an empty summary: they are not.
	summary string
	verdict gate.Verdict
}

func (o *output) flags(f *pflag.FlagSet) {
	f.StringVar(&o.format, "format", "text", strings.Join(reportFormats[:len(reportFormats)-1], ", ")+" or "+reportFormats[len(reportFormats)-1])
	f.StringVarP(&o.file, "output", "o", "", "write the report to `FILE` instead of standard output")
	f.StringVar(&o.onInconclusive, "on-inconclusive", "", "exit as `pass|fail` where nothing could be decided (default: exit 4)")
}

func (o *output) check() error {
	if !slices.Contains(reportFormats, o.format) {
		return usage("--format %s: expected one of %s", o.format, strings.Join(reportFormats, ", "))
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
func (o *output) print(c Command, j judged, elapsed time.Duration) error {
	if err := o.put(c, []judged{j}, 0, elapsed); err != nil {
		return err
	}
	return o.exit(j.report)
}

// put writes the reports of some testbeds, of which missing have none.
func (o *output) put(c Command, all []judged, missing int, elapsed time.Duration) error {
	to, buf := c.Stdout, bytes.Buffer{}
	if o.file != "" {
		to = &buf
	}
	err := o.write(to, all, missing, elapsed)
	if err == nil && o.file != "" {
		err = os.WriteFile(o.file, buf.Bytes(), 0o644)
	}
	if err != nil {
		return &exitError{code: exitUnmeasured, err: fmt.Errorf("write the report: %w", err)}
	}
	if o.file != "" {
		var summary string
		if len(all) == 1 && missing == 0 {
			summary = all[0].report.Summary
		} else {
			_, summary = gate.Overall(reportsOf(all), missing)
		}
		fmt.Fprintln(c.Stderr, strings.TrimSpace(summary))
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
