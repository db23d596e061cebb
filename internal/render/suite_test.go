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
				Lines: []bench.LineCount{{File: "a.bpf.c", Line: i + 1, Text: name(i), Executions: 3, Decides: 19, Time: 1000, Share: 0.9}},
			})
		}
		all = append(all, r)
	}
	return all
}

// everything has all that a comment can show.
func everything() SuiteOptions {
	o := SuiteOptions{MarkdownOptions: MarkdownOptions{
		Link: func(l bench.LineCount) string {
			return fmt.Sprintf("https://github.example/o/r/blob/%040d/a.bpf.c#L%d", 0, l.Line)
		},
		Until: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC), Label: "perf-accepted", Policy: "main 81d04ba",
		History: &Series{Benchmark: "p/1", Measure: "latency", Unit: "ns", Branch: "main"},
	}, Notes: []string{"a note"}}
	for i := range 200 {
		o.History.Values = append(o.History.Values, 100+float64(i%7)/3)
	}
	return o
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
		out := suiteText(t, r, everything())
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
		o := everything()
		o.MaxBytes = 1 << 20
		if summary := suiteText(t, r, o); len(summary) > 1<<20 || len(summary) <= len(out) {
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
		if err := Suite(&bytes.Buffer{}, r, everything()); err != nil {
			b.Fatal(err)
		}
	}
}

// Detail is left out in one order, whatever the limit; only what was there is named,
// and each part is whole or gone.
func TestSuiteDropsInOrder(t *testing.T) {
	r := bigSuite(40, func(i int) string { return fmt.Sprint("p/", i) })
	for _, x := range r {
		x.Skipped = []bench.Skip{{Name: "probe", Reason: "no test run"}}
		x.Programs = []bench.ProgramResult{{Program: "big", Outcome: bench.Rejected, LogTail: []string{strings.Repeat("r1 = r2 ", 18)}}}
	}
	parts := []struct{ name, sign string }{
		{partChart, "```mermaid"}, {partLogs, "<pre>"}, {partSkipped, "not measured</summary>"},
		{partAll, "<summary>All comparisons"}, {partWarnings, "doubt"}, {partAccept, "```yaml"},
	}
	seen := map[int]bool{}
	for limit := 100 << 10; limit >= MinComment; limit -= 1024 {
		o := everything()
		o.MaxBytes = limit
		out := suiteText(t, r, o)
		if len(out) > limit {
			t.Fatalf("%d bytes, at most %d", len(out), limit)
		}
		gone := 0
		for gone < len(parts) && !strings.Contains(out, parts[gone].sign) {
			gone++
		}
		seen[gone] = true
		want := "Left out because of the length: "
		for i, p := range parts {
			if (i < gone) == strings.Contains(out, p.sign) {
				t.Errorf("limit %d: %s: out of order", limit, p.name)
			}
			if i < gone {
				want += p.name + ", "
			}
		}
		if want = strings.TrimSuffix(want, ", ") + ". The"; gone > 0 && !strings.Contains(out, want) {
			t.Errorf("limit %d: does not say %q", limit, want)
		}
		for _, tag := range []string{"details", "pre", "sub", "code"} {
			if a, b := strings.Count(out, "<"+tag+">"), strings.Count(out, "</"+tag+">"); a != b {
				t.Errorf("limit %d: %d <%s>, %d closed", limit, a, tag, b)
			}
		}
		if strings.Count(out, "```")%2 != 0 {
			t.Errorf("limit %d: a fence is open", limit)
		}
	}
	if len(seen) < 5 {
		t.Errorf("only saw %v parts left out", seen)
	}
}

// Only what is plain to a shell, to YAML and to Mermaid stands in what people copy, and
// only a plain address is linked to.
func TestSuiteCopiesNothingHostile(t *testing.T) {
	for _, bad := range append(hostile, "p/$(reboot)", "p/a;b", "p/a b", "p/-x' y", "-p/x", "p/\"", "p/a,b}", "p/x\nuntil: 2999-01-01") {
		r := bigSuite(1, func(int) string { return bad })
		for _, x := range r {
			x.Base.Commit = bad
			x.Comparisons[0].Measure = bad
		}
		o := everything()
		o.ConfigOf = func(string) string { return bad }
		o.Config, o.Label, o.Policy, o.History.Benchmark, o.History.Measure, o.History.Unit, o.History.Branch = bad, bad, bad, bad, bad, bad, bad
		o.Link = func(bench.LineCount) string { return bad }
		if strings.HasPrefix(bad, "https://") { // that would be what the caller wants
			o.Link = nil
		}
		out := suiteText(t, r, o)
		for _, not := range []string{"](", "gate run", "```yaml"} {
			if strings.Contains(out, not) {
				t.Errorf("%.40q: %q in\n%.2000s", bad, not, out)
			}
		}
		_, drawn, ok := strings.Cut(out, "```mermaid\n")
		drawn, _, _ = strings.Cut(drawn, "```")
		if !ok || strings.Count(drawn, "\n") != 5 || strings.Trim(drawn, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+=@- \"[],>\n") != "" {
			t.Errorf("%.40q: drawn as %q", bad, drawn)
		}
	}
	r := bigSuite(1, func(int) string { return "p/a:b" })
	r[0].Base.Commit = "81d04ba"
	out := suiteText(t, r, everything())
	for _, want := range []string{
		"[<code>a.bpf.c:1</code>](https://github.example/o/r/blob/0000000000000000000000000000000000000000/a.bpf.c#L1) <code>p/a:b</code>: 3 times a run",
		"**Reproduce** <code>gate run --base 81d04ba --only p/a:b</code>",
		`  - {benchmark: "p/a:b", max: {latency: 35%}, until: 2027-01-31, reason: ""}`,
		"sets the label <code>perf-accepted</code>", "policy from main 81d04ba", "1 --> 64\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// The comment and the terminal as a reader of a regression meets them.
func TestAdvice(t *testing.T) {
	insns := exact("fun_xdp/worst", bench.Insns, gate.Regressed, 58, 1972)
	insns.Judged = true
	insns.Lines = []bench.LineCount{{File: "./v3_fibonacci.bpf.c", Line: 12, Text: "while (b < n)", Executions: 381, Decides: 1362, New: true}}
	veth := noisy("fun_xdp/veth", gate.Inconclusive, 181, 188, .022, .056)
	veth.Seconds, veth.Needs, veth.Detectable = 6.1, p(18.3), p(.034)
	r := &gate.Report{
		Verdict: gate.Regressed, Asked: true, Base: base, Head: head, Testbed: host, Seed: 7291,
		Comparisons: []gate.Comparison{noisy("fun_xdp/worst", gate.Regressed, 98.6, 236.9, 1.381, 1.426), insns, veth},
		Summary:     "fun_xdp/worst is 2.40× slower (limit +5%); 2 regressed, 1 inconclusive.",
	}
	o := everything().MarkdownOptions
	o.History = &Series{Benchmark: "fun_xdp/worst", Measure: "latency", Unit: "ns", Branch: "main", Values: []float64{98.1, 99.4, 98.6, 98.9, 236.9}}
	golden(t, "advice.md", markdown(t, r, o))
	golden(t, "advice.txt", text(t, r, Options{Until: o.Until}))
}

// Of several suites each waiver goes into the file of its own, under its own name.
func TestSuiteWaiversOfSeveral(t *testing.T) {
	r := bigSuite(3, func(i int) string { return []string{"fw:p/x", "a/lb:p/x", "fw:p/y"}[i] })
	for _, x := range r {
		x.Suites = []string{"fw", "a/lb"}
		x.Comparisons[1].Measure = "calls[bpf_redirect_map]"
	}
	o := everything()
	o.Config, o.ConfigOf = "*/ebpf-bench.yml", func(suite string) string { return suite + "/ebpf-bench.yml" }
	out := suiteText(t, r, o)
	want := `in these files, with a reason:

` + "```" + `yaml
# fw/ebpf-bench.yml
waivers:
  - {benchmark: p/x, max: {latency: 35%}, until: 2027-01-31, reason: ""}
  - {benchmark: p/y, max: {latency: 35%}, until: 2027-01-31, reason: ""}
# a/lb/ebpf-bench.yml
waivers:
  - {benchmark: p/x, max: {"calls[bpf_redirect_map]": 35%}, until: 2027-01-31, reason: ""}
` + "```"
	if !strings.Contains(out, want) {
		t.Errorf("no %s in\n%s", want, out)
	}
	if want := "--config '*/ebpf-bench.yml' --only fw:p/x --only a/lb:p/x --only fw:p/y</code>"; !strings.Contains(out, want) {
		t.Errorf("no %s in\n%s", want, out)
	}
}
