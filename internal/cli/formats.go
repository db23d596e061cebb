package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/adapter"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/render"
)

// reportFormats are those of --format, and runFormats those that a run is written in.
// The last two of a report tell of head alone.
var (
	reportFormats = []string{"text", "markdown", "json", "html", "junit", "sarif", "openmetrics", "csv", "bmf", "benchfmt"}
	runFormats    = []string{"benchfmt", "bmf", "csv", "json", "openmetrics"}
)

// encodeRun writes a run in one of runFormats.
func encodeRun(w io.Writer, format string, run *bench.Run) error {
	write, ok := map[string]func(io.Writer, *bench.Run) error{
		"benchfmt": adapter.WriteBenchfmt, "bmf": adapter.WriteBMF, "csv": adapter.WriteCSV,
		"json": bench.Encode, "openmetrics": adapter.WriteOpenMetrics,
	}[format]
	if !ok {
		return fmt.Errorf("no format %q", format)
	}
	return write(w, run)
}

// A judged is a report with the runs that it is about. Base may be nil, and history
// are stored runs of the same branch and testbed, where some were looked at.
type judged struct {
	report     *gate.Report
	base, head *bench.Run
	history    []*bench.Run
}

func reportsOf(all []judged) []*gate.Report {
	reports := make([]*gate.Report, len(all))
	for i, j := range all {
		reports[i] = j.report
	}
	return reports
}

// write writes the reports of some testbeds in the format that was asked for.
func (o *output) write(w io.Writer, all []judged, missing int, elapsed time.Duration) error {
	reports := reportsOf(all)
	one := len(reports) == 1 && missing == 0
	switch o.format {
	case "json":
		if one {
			return render.JSON(w, reports[0])
		}
		return render.JSONs(w, reports, missing)
	case "markdown":
		options := render.MarkdownOptions{Until: waiverEnd(), Config: filepath.ToSlash(o.configFlag), ConfigOf: o.configOf}
		if one {
			return render.Markdown(w, reports[0], options)
		}
		return render.Suite(w, worstFirst(reports), render.SuiteOptions{MarkdownOptions: options})
	case "html":
		return o.page(w, all, missing)
	case "junit":
		return render.JUnit(w, reports, missing)
	case "sarif":
		return render.SARIF(w, reports, missing, render.SARIFOptions{Version: version(), File: o.source, ConfigOf: o.configOf})
	case "openmetrics":
		return render.OpenMetrics(w, reports, missing)
	case "csv":
		return render.CSV(w, reports)
	case "bmf", "benchfmt":
		for _, j := range all {
			if err := encodeRun(w, o.format, j.head); err != nil {
				return err
			}
		}
		return nil
	}
	options := render.Options{Color: colorful(w), Width: width(w), Elapsed: elapsed, Until: waiverEnd(), ConfigOf: o.configOf}
	if one {
		return render.Text(w, reports[0], options)
	}
	return render.Texts(w, reports, missing, options)
}

// page writes the reports as a page.
func (o *output) page(w io.Writer, all []judged, missing int) error {
	reports := make([]render.PageReport, len(all))
	for i, j := range all {
		reports[i] = render.PageReport{Report: j.report, Base: j.base, Head: j.head, Past: j.history}
	}
	return render.HTML(w, reports, missing, render.PageOptions{Version: version(), Summary: o.summary, Verdict: o.verdict})
}

// source is the file, from here, that a compiler meant, which ran where the config of
// the suite is.
func (o *output) source(suite, name string) string {
	name = filepath.FromSlash(name)
	if filepath.IsAbs(name) {
		if here, err := filepath.Abs("."); err == nil {
			if rel, err := filepath.Rel(here, name); err == nil && filepath.IsLocal(rel) {
				return filepath.ToSlash(rel)
			}
		}
		return filepath.ToSlash(name)
	}
	file := config.FileName
	if o.configOf != nil {
		file = o.configOf(suite)
	}
	if near := filepath.Join(filepath.Dir(filepath.FromSlash(file)), name); isFile(near) {
		return filepath.ToSlash(near)
	}
	return filepath.ToSlash(name)
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
