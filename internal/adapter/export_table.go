package adapter

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/openmetrics"
	"github.com/org/ebpf-bench-gate/stats"
)

// WriteCSV writes the samples of a run, a line each, those of a result together. A name
// that a spreadsheet would take for a formula begins with an apostrophe.
func WriteCSV(w io.Writer, run *bench.Run) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"benchmark", "program", "measure", "unit", "kind", "round", "value", "floor"}); err != nil {
		return err
	}
	for i := range run.Results {
		r := &run.Results[i]
		if r.Benchmark == bench.Control {
			continue
		}
		line := []string{cell(r.Benchmark), cell(r.Program), cell(r.Measure), cell(unitOf(r)), cell(string(r.Kind)), "", "", ""}
		for _, s := range r.Samples {
			line[5], line[6], line[7] = strconv.Itoa(s.Round), strconv.FormatFloat(s.Value, 'g', -1, 64), ""
			if s.Floor != 0 {
				line[7] = strconv.FormatFloat(s.Floor, 'g', -1, 64)
			}
			if err := out.Write(line); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// cell is a text in a spreadsheet.
func cell(s string) string {
	s = clean(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		s = "'" + s
	}
	return s
}

// unitOf is the unit of a result's samples.
func unitOf(r *bench.Result) string {
	if m, ok := bench.LookupMeasure(r.Measure); ok && !bench.IsDeclared(r.Measure) {
		return m.Unit
	}
	return r.Unit
}

// WriteOpenMetrics writes a run in the text format of OpenMetrics 1.0: of each measure
// the median, of noisy ones the quartiles, too, and how many samples there are.
func WriteOpenMetrics(w io.Writer, run *bench.Run) error {
	out := openmetrics.New(w)
	label := func(name, value string) openmetrics.Label { return openmetrics.Label{Name: name, Value: value} }
	bed := run.Testbed.Slug()
	out.Family("ebpf_bench_run", openmetrics.Info, "", "What was measured.")
	out.Sample(1, label("testbed", bed), label("run", run.ID), label("revision", run.Revision.Short()), label("commit", run.Revision.Commit),
		label("branch", run.Revision.Branch), label("kernel", run.Testbed.Kernel), label("arch", run.Testbed.Arch), label("cpu", run.Testbed.CPU))
	out.Family("ebpf_bench_run_time_seconds", openmetrics.Gauge, "seconds", "When it was measured, since 1970.")
	out.Sample(float64(run.Time.Unix()), label("testbed", bed))
	for _, f := range []struct {
		name, help string
		exact      bool // of exact measures, too
		of         func([]float64) float64
	}{
		{"value", "Median of a measure, in the unit that the label says.", true, stats.Median},
		{"value_low", "Lower quartile of a noisy measure.", false, func(x []float64) float64 { return stats.Quantile(x, 0.25) }},
		{"value_high", "Upper quartile of a noisy measure.", false, func(x []float64) float64 { return stats.Quantile(x, 0.75) }},
		{"samples", "Number of samples of a measure.", true, func(x []float64) float64 { return float64(len(x)) }},
	} {
		out.Family("ebpf_bench_"+f.name, openmetrics.Gauge, "", f.help)
		for i := range run.Results {
			r := &run.Results[i]
			if len(r.Samples) == 0 || r.Benchmark == bench.Control || r.Exact() && !f.exact {
				continue
			}
			x := make([]float64, len(r.Samples))
			for j, s := range r.Samples {
				x[j] = s.Value
			}
			out.Sample(f.of(x), label("testbed", bed), label("benchmark", r.Benchmark), label("measure", r.Measure), label("unit", unitOf(r)))
		}
	}
	return out.Close()
}
