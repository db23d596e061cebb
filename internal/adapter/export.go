package adapter

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/stats"
)

// WriteBMF writes a run in Bencher Metric Format: of each measure the median, and for
// noisy ones the quartiles as its bounds. The format holds neither samples nor units
// nor directions; [Read] knows measures by their names again.
func WriteBMF(w io.Writer, run *bench.Run) error {
	type metric struct {
		Value float64  `json:"value"`
		Lower *float64 `json:"lower_value,omitempty"`
		Upper *float64 `json:"upper_value,omitempty"`
	}
	all := map[string]map[string]metric{}
	for i := range run.Results {
		r := &run.Results[i]
		if len(r.Samples) == 0 || r.Benchmark == bench.Control {
			continue
		}
		x := make([]float64, len(r.Samples))
		for j, s := range r.Samples {
			x[j] = s.Value
		}
		m := metric{Value: stats.Median(x)}
		if !r.Exact() {
			low, high := stats.Quantile(x, 0.25), stats.Quantile(x, 0.75)
			m.Lower, m.Upper = &low, &high
		}
		if all[r.Benchmark] == nil {
			all[r.Benchmark] = map[string]metric{}
		}
		all[r.Benchmark][bmfName(r)] = m
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(all)
}

// bmfName is the name under which readBMF finds the measure again, in Bencher's words
// where it has some.
func bmfName(r *bench.Result) string {
	family, member, _ := bench.SplitMember(r.Measure)
	switch {
	case family == bench.Counts && slices.Contains(bencherCounts, member):
		return member
	case family == bench.Figures && named(member).name == r.Measure && !slices.Contains(bencherCounts, member):
		return member
	}
	return r.Measure
}

// WriteBenchfmt writes a run in the format of Go benchmarks, a line for each round of a
// benchmark, so that benchstat reads it. How often the tool repeated within a sample is
// not known: every line says once.
func WriteBenchfmt(w io.Writer, run *bench.Run) error {
	buf := bufio.NewWriter(w)
	out := benchfmt.NewWriter(buf)
	said := map[string]bool{}
	for i := range run.Results {
		r := &run.Results[i]
		unit := benchfmtUnit(r.Measure)
		if said[unit] || r.Measure == bench.Latency || r.Benchmark == bench.Control {
			continue
		}
		said[unit] = true
		meta := func(key, value string) error {
			return out.Write(&benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: unit, Key: key}, OrigUnit: unit, Value: value})
		}
		m, _ := bench.LookupMeasure(r.Measure)
		better := m.Better
		if bench.IsDeclared(r.Measure) && r.Better != "" {
			better = r.Better
		}
		if better != "" {
			if err := meta("better", string(better)); err != nil {
				return err
			}
		}
		if r.Exact() {
			if err := meta("assume", "exact"); err != nil {
				return err
			}
		}
	}
	for _, of := range byBenchmark(run) {
		if err := writeLines(out, run, of); err != nil {
			return err
		}
	}
	return buf.Flush()
}

// byBenchmark are the results that have samples, those of one benchmark together, in
// the order of the run.
func byBenchmark(run *bench.Run) [][]*bench.Result {
	var all [][]*bench.Result
	at := map[string]int{}
	for i := range run.Results {
		r := &run.Results[i]
		if len(r.Samples) == 0 || r.Benchmark == bench.Control {
			continue
		}
		j, ok := at[r.Benchmark]
		if !ok {
			j = len(all)
			at[r.Benchmark] = j
			all = append(all, nil)
		}
		all[j] = append(all[j], r)
	}
	return all
}

// writeLines writes the samples of one benchmark, the n-th of every measure in one line.
func writeLines(out *benchfmt.Writer, run *bench.Run, of []*bench.Result) error {
	// Nothing that tells base from head: benchstat would put them in two tables.
	res := &benchfmt.Result{Iters: 1}
	name := of[0].Benchmark
	config := func(key, value string) {
		if value = clean(value); value != "" {
			res.Config = append(res.Config, benchfmt.Config{Key: key, Value: []byte(value), File: true})
		}
	}
	config("goarch", run.Testbed.Arch)
	if rest, ok := strings.CutPrefix(name, of[0].Program+"."); ok && rest != "" && one(of[0].Program) == of[0].Program {
		name = rest
		config("pkg", of[0].Program)
	}
	config("cpu", run.Testbed.CPU)
	res.Name = benchfmt.Name(one(name))
	longest := 0
	for _, r := range of {
		longest = max(longest, len(r.Samples))
	}
	for i := range longest {
		res.Values = res.Values[:0]
		for _, r := range of {
			if i < len(r.Samples) {
				res.Values = append(res.Values, benchfmt.Value{Value: r.Samples[i].Value, Unit: benchfmtUnit(r.Measure)})
			}
		}
		if err := out.Write(res); err != nil {
			return err
		}
	}
	return nil
}

// benchfmtUnit is the unit that readGobench makes the measure of again: that of a figure
// or of Go's counts is its own name, where it is no other measure's.
func benchfmtUnit(measure string) string {
	if measure == bench.Latency {
		return "ns/op"
	}
	family, member, _ := bench.SplitMember(measure)
	if (family == bench.Figures || family == bench.Counts) && unitMeasure(one(member)).name == measure && member != "sec/op" {
		return member
	}
	return one(measure)
}

// one makes one field of a name, as package testing does.
func one(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return '_'
		}
		return r
	}, clean(name))
}
