package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

var update = flag.Bool("update", false, "write the golden files")

func p(x float64) *float64 { return &x }

func noisy(name string, v gate.Verdict, base, head, low, high float64) gate.Comparison {
	return gate.Comparison{
		Benchmark: name, Program: "fun_xdp", Measure: bench.Latency, Unit: "ns", Kind: bench.Micro, Verdict: v, Judged: true,
		Base: p(base), Head: p(head), Floor: p(31), Change: p(head/base - 1),
		Interval: &gate.Interval{Low: low, High: high, Level: 0.99}, Rounds: 40, Limit: "limit +5%", Path: "driver",
	}
}

func exact(name, measure string, v gate.Verdict, base, head float64) gate.Comparison {
	return gate.Comparison{
		Benchmark: name, Program: "fun_xdp", Measure: measure, Unit: "insns", Kind: bench.Static, Verdict: v, Exact: true,
		Base: p(base), Head: p(head), Change: p(head/base - 1), Rounds: 1,
	}
}

var (
	base = &bench.Revision{Name: "main", Commit: "81d04ba0000000000000000000000000000000aa", Branch: "main"}
	head = bench.Revision{Name: "HEAD", Commit: "3f9c2e10000000000000000000000000000000bb"}
	host = bench.Testbed{Kernel: "6.11.0", Arch: "amd64", CPU: "AMD EPYC 7763 64-Core Processor", CPUs: 4, JIT: true, Virtualization: "kvm"}
)

// reports are the cases that golden files show.
func reports() map[string]*gate.Report {
	mixed := &gate.Report{
		Verdict: gate.Regressed, Asked: true, Base: base, Head: head, Testbed: host, Seed: 7291,
		Comparisons: []gate.Comparison{
			noisy("fun_xdp/worst", gate.Regressed, 98.6, 236.9, 1.381, 1.426),
			exact("fun_xdp", bench.VerifiedInsns, gate.Regressed, 58, 1972),
			noisy("fun_xdp/gone", gate.Missing, 97.9, 0, 0, 0),
			noisy("fun_xdp/veth", gate.Inconclusive, 181, 188, .022, .056),
			noisy("fun_xdp/better", gate.Improved, 1234.5, 617.2, -.51, -.49),
			noisy("fun_xdp/warned", gate.Pass, 100, 103, .025, .035),
			noisy("fun_xdp/same", gate.Pass, 97.9, 97.9, -.004, .004),
			noisy("fun_xdp/new", gate.Added, 0, 2.4e6, 0, 0),
			exact("fun_xdp", bench.JitedBytes, gate.Regressed, 400, 512),
			exact("fun_xdp", bench.XlatedInsns, gate.Pass, 80, 80),
			exact("fun_xdp", bench.StackDepth, gate.Pass, 16, 16),
			{Benchmark: "fun_xdp", Measure: bench.VerificationUS, Unit: "us", Kind: bench.Static, Verdict: gate.Pass, Base: p(100), Head: p(140), Change: p(.4)},
			{Benchmark: "fun_xdp/veth", Measure: bench.Runs, Unit: "count", Kind: bench.Macro, Verdict: gate.Pass, Base: p(20000), Head: p(19999.5)},
		},
		Programs: []bench.ProgramResult{{
			Program: "too_big", Object: "a.bpf.o", Outcome: bench.Rejected, Reason: "BPF program is too large",
			LogTail: []string{"12: (0f) r1 += r2", "BPF program is too large. Processed 1000001 insn"}, LogPath: "/tmp/too_big.log",
		}},
		Skipped: []bench.Skip{
			{Name: "probe_a", Reason: "kprobes have no test run", Hint: "attach them: see agents in docs/config.md"},
			{Name: "probe_b", Reason: "kprobes have no test run", Hint: "attach them: see agents in docs/config.md"},
			{Name: "old", Reason: "needs Linux 6.6"},
		},
		Warnings: []string{"the host is noisy: 12% of samples were interrupted"},
		Summary:  "fun_xdp/worst is 2.40× slower (limit +5%); 2 regressed, 1 missing, 1 inconclusive.",
		Hint:     "gate run --budget 30s",
	}
	c := mixed.Comparisons
	c[1].Judged = true
	c[2].Head, c[2].Change, c[2].Interval, c[2].Floor, c[2].Reason = nil, nil, nil, nil, "not measured in head"
	c[3].Floor, c[3].Path, c[3].Kind, c[3].Detectable = p(92.25), "veth native", bench.Macro, p(.034)
	c[3].Warnings = []string{"3 of 40 rounds sent too few packets"}
	c[5].Warn = true
	c[7].Base, c[7].Change, c[7].Interval, c[7].Judged = nil, nil, nil, false

	pass := &gate.Report{
		Verdict: gate.Pass, Asked: true, Base: base, Head: head, Testbed: host, Seed: 1,
		Comparisons: []gate.Comparison{
			noisy("fun_xdp/worst", gate.Pass, 98.6, 98.7, -.008, .01),
			noisy("fun_xdp/地址", gate.Pass, 98.6, 98.7, -.008, .01),
			noisy("fun_xdp/émoji🚀", gate.Pass, 98.6, 98.7, -.008, .01),
		},
		Summary: "nothing is worse than its limit allows; 3 passed.",
	}
	pass.Comparisons[1].Interval.Level = 0.99875
	pass.Comparisons[1].Rounds = 80

	single := &gate.Report{
		Head: bench.Revision{Name: "v3.bpf.c"}, Testbed: host, Seed: 3, Summary: "nothing to compare with: no stored run of this testbed.",
		Comparisons: []gate.Comparison{
			{Benchmark: "fun_xdp/worst", Measure: bench.Latency, Unit: "ns", Kind: bench.Micro, Verdict: gate.Added, Head: p(236.9), Path: "driver"},
		},
	}
	for i, m := range []string{bench.VerifiedInsns, bench.PeakStates, bench.JitedBytes, bench.VerificationUS} {
		for j, program := range []string{"fun_xdp", "other"} {
			if i == 3 && j == 1 {
				continue
			}
			unit := map[bool]string{true: "us", false: "insns"}[m == bench.VerificationUS]
			single.Comparisons = append(single.Comparisons, gate.Comparison{
				Benchmark: program, Program: program, Measure: m, Unit: unit, Kind: bench.Static, Verdict: gate.Added, Exact: i < 3,
				Head: p(float64(1234 * (i + 1) * (j + 1))),
			})
		}
	}

	history := &gate.Report{
		Verdict: gate.Regressed, Asked: true, Head: head, Testbed: host,
		Baseline: &gate.Baseline{Why: "12 stored runs of this testbed", Runs: []string{"a"}},
		Comparisons: []gate.Comparison{
			{Benchmark: "fun_xdp/worst", Measure: bench.Latency, Unit: "ns", Kind: bench.Micro, Verdict: gate.Regressed, Judged: true, Head: p(236.9),
				Boundary: &gate.Boundary{Test: gate.TTest, Upper: p(112.3), Samples: 12}},
			{Benchmark: "fun_xdp/both", Measure: bench.Latency, Unit: "ns", Kind: bench.Micro, Verdict: gate.Pass, Judged: true, Head: p(100),
				Boundary: &gate.Boundary{Test: gate.TTest, Lower: p(90), Upper: p(112.3), Samples: 12}},
			{Benchmark: "fun_xdp/few", Measure: bench.Latency, Unit: "ns", Kind: bench.Micro, Judged: true, Head: p(100),
				Boundary: &gate.Boundary{Test: gate.TTest, Samples: 3}, Reason: "3 stored values, at least 10 are needed"},
		},
		Summary: "fun_xdp/worst latency is 236.9 ns; 1 regressed, 1 inconclusive.",
	}
	budget := &gate.Report{
		Verdict: gate.Pass, Asked: true, Base: base, Head: head, Testbed: host, Seed: 1,
		Comparisons: []gate.Comparison{
			noisy("xdp_lb/worst", gate.Pass, 98.6, 98.7, -.008, .01),
			exact("xdp_lb", bench.VerifiedInsns, gate.Regressed, 700_000, 905_000),
			exact("xdp_lb", bench.MaxStackDepth, gate.Pass, 496, 496),
			exact("other", bench.MaxStackDepth, gate.Pass, 128, 128),
			exact("other", bench.UsedMaps, gate.Pass, 2, 2),
			exact("new", bench.UsedMaps, gate.Added, 0, 60),
			exact("xdp_lb", bench.ProgSize, gate.Regressed, 400, 500),
		},
		Summary: "nothing is worse than its limit allows; 1 passed.",
	}
	for i, most := range []float64{0, 1e6, 512, 512, 64, 64} {
		if c := &budget.Comparisons[i]; most > 0 {
			c.KernelLimit, c.Used, c.Judged = p(most), p(*c.Head/most), false
		}
	}
	b := budget.Comparisons
	b[6].Judged = false
	b[5].Base, b[5].Change = nil, nil
	b[1].Warn, b[5].Warn = true, true
	b[1].Warnings = []string{"verified_insns of 905,000 is 90.5% of the kernel's limit of 1,000,000"}
	b[5].Warnings = []string{"used_maps of 60 is 93.8% of the kernel's limit of 64"}

	return map[string]*gate.Report{
		"mixed": mixed, "budget": budget, "pass": pass, "single": single, "history": history,
		"empty":    {Asked: true, Base: base, Head: head, Summary: "nothing was judged: there are no results."},
		"improved": {Asked: true, Verdict: gate.Improved, Base: base, Head: head, Testbed: host, Comparisons: []gate.Comparison{noisy("fun_xdp/worst", gate.Improved, 236.9, 98.6, -.59, -.57)}, Summary: "fun_xdp/worst is 2.40× faster (limit +5%); 1 improved."},
	}
}

func text(t *testing.T, r *gate.Report, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func markdown(t *testing.T, r *gate.Report, o MarkdownOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := Markdown(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func TestGolden(t *testing.T) {
	for name, r := range reports() {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".txt", text(t, r, Options{Elapsed: 9840 * time.Millisecond}))
			golden(t, name+".md", markdown(t, r, MarkdownOptions{}))
		})
	}
	r := reports()["mixed"]
	golden(t, "color.txt", text(t, r, Options{Color: true, Width: 80}))
	var b bytes.Buffer
	if err := JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "mixed.json", b.String())
}

func TestJSON(t *testing.T) {
	for name, r := range reports() {
		var b bytes.Buffer
		if err := JSON(&b, r); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var back gate.Report
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if back.Verdict != r.Verdict || len(back.Comparisons) != len(r.Comparisons) {
			t.Errorf("%s: came back as %v with %d rows", name, back.Verdict, len(back.Comparisons))
		}
		if strings.Contains(b.String(), `"comparisons": null`) {
			t.Errorf("%s: no list of comparisons", name)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteErrors(t *testing.T) {
	r := reports()["mixed"]
	if Text(brokenPipe{}, r, Options{}) == nil || Markdown(brokenPipe{}, r, MarkdownOptions{}) == nil || JSON(brokenPipe{}, r) == nil {
		t.Error("a failed write is not told")
	}
}

// Every column of a table starts where its title does, whatever stands in it.
func TestTextIsAligned(t *testing.T) {
	out := text(t, reports()["pass"], Options{})
	var at []int
	for line := range strings.Lines(out) {
		for _, word := range []string{"VERDICT", " pass"} {
			if i := strings.Index(line, word); i >= 0 && (strings.HasPrefix(line, "✓") || strings.HasPrefix(line, "  ")) {
				at = append(at, width(line[:i+len(word)])-len(strings.TrimSpace(word)))
			}
		}
	}
	if len(at) != 4 {
		t.Fatalf("%d lines in the table, want 4:\n%s", len(at), out)
	}
	for _, n := range at {
		if n != at[0] {
			t.Errorf("columns at %v:\n%s", at, out)
		}
	}
}

func TestTextFitsWidth(t *testing.T) {
	r := reports()["pass"]
	r.Comparisons[0].Benchmark = strings.Repeat("long_", 60) + "/end"
	for _, w := range []int{0, 100, 120} {
		for line := range strings.Lines(text(t, r, Options{Width: w})) {
			line = strings.TrimRight(line, "\n")
			limit := w
			if w == 0 {
				limit = 160
			}
			if strings.HasPrefix(line, "✓") && width(line) > limit {
				t.Errorf("width %d: %d columns: %s", w, width(line), line)
			}
		}
	}
	if out := text(t, r, Options{Width: 10}); !strings.Contains(out, "…") || !strings.Contains(out, "/end") {
		t.Errorf("a name lost its end:\n%s", out)
	}
}

func TestColor(t *testing.T) {
	for name, r := range reports() {
		plain, colored := text(t, r, Options{}), text(t, r, Options{Color: true})
		if strings.Contains(plain, "\x1b") {
			t.Errorf("%s: colours that nobody wanted", name)
		}
		if stripped := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colored, ""); stripped != plain {
			t.Errorf("%s: colours change the text:\n%s", name, cmp.Diff(plain, stripped))
		}
		if strings.Contains(plain, "INCONCLUSIVE") && !strings.Contains(colored, "\x1b[33m") {
			t.Errorf("%s: no colour", name)
		}
	}
}

var hostile = []string{
	"a|b", "a`b``c", "<script>alert(1)</script>", "@everyone", "see #1 and org/repo#2", "!4, org/repo!5, GH-6 gh-7", "](javascript:alert(1))", "![x](http://evil)",
	"https://evil.example/x", "www.evil.example", "WwW.evil.example", "a@b.example", "line\nbreak", "\r\n\r\n# heading", "<!-- -->", "-->", "</details></pre>",
	"\x1b[31mred\x1b[0m", "\x1b]8;;http://evil\x07x", "\u202egnp.exe", "\u2066x\u2069", "a\u200bb", "\x00\x07\x7f\u0085\u2028", "\xff\xfe",
	"$x^2$", "**bold** _it_ ~~s~~", "&lt;b&gt;", "\\|", "|\n|-|", strings.Repeat("x", 300), "e" + strings.Repeat("\u0301", 5000), "<code>",
}

// hostileReport has a hostile string in every field.
func hostileReport(s string) *gate.Report {
	r := reports()["mixed"]
	r.Base = &bench.Revision{Name: s}
	r.Head.Name, r.Head.Commit = s, ""
	r.Testbed = bench.Testbed{Name: s, Kernel: s, Arch: s, CPU: s, Virtualization: s}
	r.Summary, r.Hint, r.Warnings = s, s, []string{s}
	r.Skipped = []bench.Skip{{Name: s + s, Reason: s, Hint: s}} // no program's name
	r.Programs = []bench.ProgramResult{{Program: s, Object: s, Outcome: bench.Outcome(s), Reason: s, LogTail: []string{s}, LogPath: s}}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		c.Benchmark, c.Program, c.Measure, c.Unit, c.Path, c.Reason, c.Limit, c.Warnings = s, s, s, s, s, s, s, []string{s}
	}
	r.Comparisons = append(r.Comparisons, gate.Comparison{Benchmark: s, Measure: s, Unit: s, Kind: bench.Static, Verdict: gate.Added, Head: p(1)})
	return r
}

func TestHostileText(t *testing.T) {
	for _, s := range hostile {
		out := text(t, hostileReport(s), Options{})
		if !utf8.ValidString(out) {
			t.Errorf("%.40q: no UTF-8", s)
		}
		for _, r := range out {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028') {
				t.Errorf("%.40q: %U reaches the terminal", s, r)
				break
			}
		}
		if strings.Contains(out, strings.Repeat("\u0301", 3)) {
			t.Errorf("%.40q: accents are heaped", s)
		}
		lines := strings.Count(out, "\n")
		if want := strings.Count(text(t, hostileReport("x"), Options{}), "\n"); lines != want {
			t.Errorf("%.40q: %d lines, want %d as for any name", s, lines, want)
		}
	}
}

func TestHostileMarkdown(t *testing.T) {
	ours := regexp.MustCompile(`</?(details|summary|code|pre|sub)>|<!-- ebpf-bench-gate id=[\w.-]+ -->`)
	for _, s := range hostile {
		out := markdown(t, hostileReport(s), MarkdownOptions{ID: s})
		if !strings.HasPrefix(out, "<!-- ebpf-bench-gate id=") || strings.Count(out, "<!--") != 1 {
			t.Errorf("%.40q: the marker is not alone", s)
		}
		// Within <pre> nothing but tags means anything.
		rest := out
		for _, pre := range regexp.MustCompile(`(?s)<pre>\n(.*?)</pre>`).FindAllStringSubmatch(out, -1) {
			if strings.Contains(pre[1], "<") {
				t.Errorf("%.40q: a tag in the log: %q", s, pre[1])
			}
			rest = strings.Replace(rest, pre[0], "", 1)
		}
		rest = ours.ReplaceAllString(rest, "")
		if i := strings.IndexAny(rest, "<`\\[\x1b\u202e\u2066\u200b"); i >= 0 {
			t.Errorf("%.40q: markup of a stranger: %.60q", s, rest[i:])
		}
		for _, tag := range []string{"details", "summary", "code", "pre", "sub"} {
			if a, b := strings.Count(out, "<"+tag+">"), strings.Count(out, "</"+tag+">"); a != b {
				t.Errorf("%.40q: %d <%s>, %d closed", s, a, tag, b)
			}
		}
		for _, link := range []string{"http://", "https://", "www.", "WwW.", "@everyone", "@b", "#1", "#2", "!4", "!5", "GH-6", "gh-7"} {
			// Where code is shown, a page links and notifies nothing.
			visible := unescape(regexp.MustCompile(`(?s)<code>.*?</code>|<pre>.*?</pre>`).ReplaceAllString(strings.TrimPrefix(out, Marker(s)), ""))
			if strings.Contains(visible, link) {
				i := strings.Index(visible, link)
				t.Errorf("%.40q: %q would be linked: %q", s, link, visible[max(0, i-20):i+20])
			}
		}
		wantTables(t, out)
	}
}

func unescape(s string) string {
	return regexp.MustCompile(`&#\d+;`).ReplaceAllStringFunc(s, func(e string) string {
		var n int
		fmt.Sscanf(e, "&#%d;", &n)
		return string(rune(n))
	})
}

// wantTables checks that every row of a table has as many cells as its header.
func wantTables(t *testing.T, out string) (rows int) {
	t.Helper()
	cells := 0
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(line, "|")
		if cells == 0 {
			cells = n
		}
		if n != cells || !strings.HasSuffix(line, "|") {
			t.Errorf("a row of %d cells in a table of %d: %.80q", n, cells, line)
		}
		rows++
	}
	return rows
}

func TestMarkdownIsLimited(t *testing.T) {
	big := func(n int, s string) *gate.Report {
		r := hostileReport(s)
		one := r.Comparisons[0]
		r.Comparisons, r.Warnings, r.Skipped = nil, nil, nil
		program := r.Programs[0]
		program.LogTail = make([]string, 200)
		for i := range program.LogTail {
			program.LogTail[i] = s
		}
		r.Programs = nil
		for i := range n {
			one.Benchmark = fmt.Sprintf("%d%s", i, s)
			one.Reason = one.Benchmark
			one.Warnings = []string{one.Benchmark}
			r.Comparisons = append(r.Comparisons, one)
			r.Warnings = append(r.Warnings, one.Benchmark)
			r.Skipped = append(r.Skipped, bench.Skip{Name: one.Benchmark, Reason: one.Benchmark})
			r.Programs = append(r.Programs, program)
		}
		return r
	}
	for _, n := range []int{1, 120} {
		for _, s := range []string{"fun_xdp/x", strings.Repeat("|", 300), strings.Repeat("@a", 500), strings.Repeat("地", 300)} {
			for _, limit := range []int{0, MinComment} {
				out := markdown(t, big(n, s), MarkdownOptions{MaxBytes: limit})
				want := limit
				if limit == 0 {
					want = MaxComment
				}
				if len(out) > want {
					t.Errorf("%d of %.10q: %d bytes, at most %d", n, s, len(out), want)
				}
				if rows := wantTables(t, out); limit == 0 && n > 1 && rows < 6 {
					t.Errorf("%d of %.10q: %d rows in %d bytes, and there was room", n, s, rows, len(out))
				}
				if !strings.Contains(out, "### ❌ Regressed: ") || !strings.HasSuffix(out, "</sub>\n") {
					t.Errorf("%d of %.10q: verdict or end is missing", n, s)
				}
				if a, b := strings.Count(out, "<details>"), strings.Count(out, "</details>"); a != b {
					t.Errorf("%d of %.10q: %d details, %d closed", n, s, a, b)
				}
			}
		}
	}
	out := markdown(t, big(500, "fun_xdp/x"), MarkdownOptions{})
	if rows := wantTables(t, out); len(out) > MaxComment || rows < maxRows {
		t.Errorf("500 benchmarks: %d bytes, %d rows", len(out), rows)
	}
	if !strings.Contains(out, "Left out because of the length: verifier logs") || !strings.Contains(out, "more rows like these") {
		t.Errorf("what was left out is not told:\n%.3000s", out)
	}
	if small := markdown(t, big(1, "x"), MarkdownOptions{}); strings.Contains(small, "Left out") {
		t.Error("a short comment left something out")
	}
}

// A verdict of Inconclusive must not look like one of Pass anywhere.
func TestNoVerdictLooksLikeAnother(t *testing.T) {
	seen := map[string]gate.Verdict{}
	for v := gate.Inconclusive; v <= gate.Improved; v++ {
		r := &gate.Report{Verdict: v, Asked: true, Head: head, Comparisons: []gate.Comparison{{Benchmark: "x", Measure: "latency", Verdict: v, Judged: true}}}
		for _, out := range []string{text(t, r, Options{}), markdown(t, r, MarkdownOptions{})} {
			if other, ok := seen[out]; ok {
				t.Errorf("%v looks like %v", v, other)
			}
			seen[out] = v
			if pass := strings.Contains(strings.ToLower(out), "pass"); pass != (v == gate.Pass) {
				t.Errorf("%v: says pass: %v\n%s", v, pass, out)
			}
		}
	}
}
