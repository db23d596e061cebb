package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// bigSuite is five testbeds of n benchmarks with names that a pull request could
// choose.
func bigSuite(n int, name func(int) string) []*gate.Report {
	var all []*gate.Report
	for t := range 5 {
		r := &gate.Report{Asked: true, Verdict: gate.Regressed, Summary: "it is slower.", Testbed: bench.Testbed{Name: fmt.Sprint("t", t)}, Base: &bench.Revision{Commit: strings.Repeat("a", 40)}}
		for i := range n {
			x, y, c := 100.0, 120.0, 0.2
			r.Comparisons = append(r.Comparisons, gate.Comparison{
				Benchmark: name(i), Measure: "latency", Unit: "ns", Judged: true, Verdict: gate.Regressed, Base: &x, Head: &y, Change: &c,
				Interval: &gate.Interval{Low: .1, High: .3, Level: .99}, Reason: "because", Warnings: []string{"doubt"},
			})
		}
		all = append(all, r)
	}
	return all
}

func suiteText(t *testing.T, r []*gate.Report, o SuiteOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := Suite(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSuiteLimits(t *testing.T) {
	hostile := func(i int) string {
		return fmt.Sprintf("%d](javascript:x)|`<b>@everyone ", i) + strings.Repeat("|<>", 100)
	}
	for name, r := range map[string][]*gate.Report{
		"plain":   bigSuite(500, func(i int) string { return fmt.Sprint("p/", i) }),
		"hostile": bigSuite(500, hostile),
	} {
		start := time.Now()
		out := suiteText(t, r, SuiteOptions{})
		if took := time.Since(start); took > 2*time.Second { // the benchmark holds the target; this only a blunder
			t.Errorf("%s: took %v", name, took)
		}
		if len(out) > MaxComment {
			t.Errorf("%s: %d bytes", name, len(out))
		}
		for i := range 5 {
			if !strings.Contains(out, fmt.Sprintf("<b>t%d</b>", i)) {
				t.Errorf("%s: testbed %d is not in it", name, i)
			}
		}
		if !strings.Contains(out, "Left out because of the length") || !strings.HasPrefix(out, Marker("")+"\n### ❌ ") {
			t.Errorf("%s: %.300s", name, out)
		}
		for _, bad := range []string{"](javascript", "<b>@", "@everyone", "`<"} {
			if strings.Contains(out, bad) {
				t.Errorf("%s: holds %q", name, bad)
			}
		}
		if summary := suiteText(t, r, SuiteOptions{MarkdownOptions: MarkdownOptions{MaxBytes: 1 << 20}}); len(summary) > 1<<20 || len(summary) <= len(out) {
			t.Errorf("%s: summary of %d bytes", name, len(summary))
		}
	}
}

func TestSuiteNothing(t *testing.T) {
	out := suiteText(t, nil, SuiteOptions{Notes: []string{"a job failed | <script>"}})
	if !strings.Contains(out, "Inconclusive: nothing was measured") || strings.Contains(out, "<script>") || !strings.Contains(out, "a job failed") {
		t.Errorf("%s", out)
	}
}

func TestSuiteTitle(t *testing.T) {
	r := bigSuite(1, func(int) string { return "p/c" })
	for _, x := range r {
		x.Verdict = gate.Pass
	}
	out := suiteText(t, r, SuiteOptions{Title: "a testbed is missing.", Verdict: gate.Inconclusive})
	if !strings.Contains(out, "### ⚠️ Inconclusive: a testbed is missing.") {
		t.Errorf("%.200s", out)
	}
}

func TestSuiteManyTestbeds(t *testing.T) {
	var r []*gate.Report
	for range 40 {
		r = append(r, bigSuite(20, func(i int) string { return strings.Repeat("<|>", 100) + fmt.Sprint(i) })...)
	}
	for _, x := range r {
		x.Testbed.Name = strings.Repeat("<|>", 300)
	}
	if out := suiteText(t, r, SuiteOptions{}); len(out) > 2*MaxComment {
		t.Errorf("%d bytes", len(out))
	}
}

func BenchmarkSuite500x5(b *testing.B) {
	r := bigSuite(500, func(i int) string { return fmt.Sprint("program/case-", i) })
	for b.Loop() {
		if err := Suite(&bytes.Buffer{}, r, SuiteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
