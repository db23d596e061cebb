package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/github/githubtest"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// explained adds executed instructions to a measurement, and the line that made them.
func explained(b *store.Bundle, l bench.LineCount) *store.Bundle {
	for i, r := range []*bench.Run{b.Base, b.Head} {
		res := bench.Result{Benchmark: r.Results[0].Benchmark, Program: "fun_xdp", Measure: bench.Insns, Kind: bench.Micro, Samples: []bench.Sample{{Value: float64(58 + 1900*i)}}}
		if i == 1 {
			l.Executions, l.Decides, l.New = 381, 1500, true
			res.Lines = []bench.LineCount{l}
		}
		r.Results = append(r.Results, res)
	}
	return b
}

const fibonacci = "#include \"fun_xdp.h\"\n\nint fibonacci(int n)\n{\n\twhile (b < n)\n\t\tstep();\n}\n"

// withSources puts the sources into head's commit; the line of the loop is the fifth.
func (s *scene) withSources(names ...string) {
	for _, n := range names {
		s.server.Files[sha(20)+":"+n] = fibonacci
	}
}

func TestReportLinksTheLine(t *testing.T) {
	loop := bench.LineCount{File: "./v3.bpf.c", Line: 5, Text: "\twhile (b < n)"}
	at := func(file string, line int) string {
		return fmt.Sprintf("](https://github.example/o/r/blob/%s/%s#L%d) <code>while (b &#60; n)</code>", sha(20), file, line)
	}
	for name, tt := range map[string]struct {
		files []string
		line  bench.LineCount
		want  string // empty: no link
	}{
		"at the top":          {[]string{"v3.bpf.c"}, loop, at("v3.bpf.c", 5)},
		"beside the config":   {[]string{"x/v3.bpf.c", "bpf/v3.bpf.c"}, loop, at("bpf/v3.bpf.c", 5)},
		"the only one":        {[]string{"a b/ü/v3.bpf.c", "y/av3.bpf.c"}, loop, at("a%20b/%C3%BC/v3.bpf.c", 5)},
		"one of two":          {[]string{"x/v3.bpf.c", "y/v3.bpf.c"}, loop, ""},
		"of the runner":       {[]string{"c", "src/v3.bpf.c", "rc/v3.bpf.c"}, bench.LineCount{File: "/home/runner/work/r/r/src/v3.bpf.c", Line: 5, Text: "while (b < n)"}, at("src/v3.bpf.c", 5)},
		"above":               {[]string{"include/v3.h"}, bench.LineCount{File: "../../include/v3.h", Line: 5, Text: "while (b < n)"}, at("include/v3.h", 5)},
		"shifted by a merge":  {[]string{"v3.bpf.c"}, bench.LineCount{File: "v3.bpf.c", Line: 9, Text: "while (b < n)"}, at("v3.bpf.c", 5)},
		"another text":        {[]string{"v3.bpf.c"}, bench.LineCount{File: "v3.bpf.c", Line: 5, Text: "while (b <  n) // evil"}, ""},
		"no text":             {[]string{"v3.bpf.c"}, bench.LineCount{File: "v3.bpf.c", Line: 5}, ""},
		"not in head":         {nil, loop, ""},
		"out of it":           {[]string{"v3.bpf.c"}, bench.LineCount{File: "../../../etc/passwd", Line: 5, Text: "while (b < n)"}, ""},
		"another repository":  {[]string{"v3.bpf.c"}, bench.LineCount{File: "https://evil.example/](x", Line: 5, Text: "while (b < n)"}, ""},
		"no line":             {[]string{"v3.bpf.c"}, bench.LineCount{File: "v3.bpf.c", Line: -5, Text: "while (b < n)"}, ""},
		"nothing but slashes": {[]string{"v3.bpf.c"}, bench.LineCount{File: "//", Line: 5, Text: "while (b < n)"}, ""},
	} {
		s := newScene(t)
		s.flags.config = "bpf/ebpf-bench.yml"
		s.server.Files[sha(10)+":bpf/ebpf-bench.yml"] = "version: 1\npolicy: {latency: {fail: 5%}, insns: {fail: 5%}}\n"
		s.withSources(tt.files...)
		s.runs(500, "feat/x", explained(measured("a", "t1", "fun_xdp/worst", 100, 150), tt.line))
		if code := s.report(); code != exitRegressed {
			t.Fatalf("%s: exit %d\n%s", name, code, &s.log)
		}
		body := s.server.Comments[0].Body
		if tt.want == "" && strings.Contains(body, "](") || !strings.Contains(body, tt.want) {
			t.Errorf("%s: want %q in\n%.1200s", name, tt.want, body)
		}
	}
}

// An annotation stands at the line of the diff that made it slower; else where that
// line is, else where the config asks for the benchmark, else nowhere.
func TestReportAnnotatesTheChange(t *testing.T) {
	const config = "version: 1\nbenchmarks:\n  fun_xdp/best: {}\n  fun_xdp/worst: {}\npolicy: {latency: {fail: 5%}, insns: {fail: 5%}}\n"
	for name, tt := range map[string]struct {
		patch, text, want string
	}{
		"in the diff":     {"@@ -3,2 +3,3 @@\n int fibonacci(int n)\n {\n+\twhile (b < n)\n", "while (b < n)", "because of: while (b < n) (89%25 of head's time)\n"},
		"in its place":    {"@@ -3,2 +3,3 @@\n int fibonacci(int n)\n {\n+\twhile (b < n)\n", "while (b < n)", "::error file=v3.bpf.c,line=5,title=fun_xdp/worst regressed::"},
		"beside the diff": {"@@ -1 +1 @@\n+#include \"fun_xdp.h\"\n", "while (b < n)", "::error file=v3.bpf.c,line=5,"},
		"unknown line":    {"", "while (true)", "::error file=ebpf-bench.yml,line=4,"},
	} {
		s := newScene(t)
		s.server.Files[sha(10)+":ebpf-bench.yml"] = strings.Replace(config, "  fun_xdp/best: {}\n", "", 1)
		s.server.Files[sha(20)+":ebpf-bench.yml"] = config
		s.withSources("v3.bpf.c")
		s.server.Pulls[0].Files = map[string]string{"v3.bpf.c": tt.patch}
		for _, testbed := range []string{"t1", "t2"} {
			s.runs(500, "feat/x", explained(measured(testbed, testbed, "fun_xdp/worst", 100, 150), bench.LineCount{File: "v3.bpf.c", Line: 6, Text: tt.text, Share: 0.89}))
		}
		if code := s.report(); code != exitRegressed {
			t.Fatalf("%s: exit %d\n%s", name, code, &s.log)
		}
		out := s.out.String()
		if strings.Count(out, "::error") != 1 || !strings.Contains(out, tt.want) || !strings.Contains(out, " on t1; ") || !strings.Contains(out, " on t2") {
			t.Errorf("%s: want %q in\n%s", name, tt.want, out)
		}
	}
	s := newScene(t)
	s.server.Files[sha(10)+":ebpf-bench.yml"] = "version: 1\npolicy: {latency: {fail: 5%}}\n"
	for i := range 14 {
		s.runs(500, "feat/x", measured(fmt.Sprint("t", i), fmt.Sprint("t", i), fmt.Sprintf("fun_xdp/%d", i), 100, 150))
	}
	if s.report(); strings.Count(s.out.String(), "::error") != 10 || !strings.Contains(s.out.String(), "5 more") {
		t.Errorf("many:\n%s", &s.out)
	}
}

// The waiver that a comment offers is what the gate takes, once it has a reason and
// somebody who may write has set the label.
func TestReportOffersWaivers(t *testing.T) {
	s := newScene(t)
	s.server.Files[sha(10)+":ebpf-bench.yml"] = "version: 1\npolicy: {latency: {fail: 5%}, insns: {fail: 5%}}\n"
	s.server.Files[sha(20)+":ebpf-bench.yml"] = s.server.Files[sha(10)+":ebpf-bench.yml"]
	for _, testbed := range []string{"t1", "t2"} {
		s.runs(500, "feat/x", explained(measured(testbed, testbed, "fun_xdp/worst", 100, 150), bench.LineCount{}))
	}
	if code := s.report(); code != exitRegressed {
		t.Fatalf("exit %d\n%s", code, &s.log)
	}
	body := s.server.Comments[0].Body
	yaml := regexp.MustCompile("(?s)```yaml\nwaivers:\n(.*?)```").FindStringSubmatch(body)
	if yaml == nil || strings.Count(yaml[1], "\n") != 1 || !strings.Contains(body, "perf-accepted") ||
		!strings.Contains(yaml[1], "until: "+time.Now().AddDate(0, 0, 90).UTC().Format(time.DateOnly)) {
		t.Fatalf("%q in\n%s", yaml, body)
	}
	accept := func(reason string) {
		waivers := strings.ReplaceAll(yaml[1], `reason: ""`, "reason: \""+reason+"\"")
		s.server.Files[sha(20)+":ebpf-bench.yml"] = "version: 1\npolicy:\n  latency: {fail: 5%}\n  insns: {fail: 5%}\n  waivers:\n" + strings.ReplaceAll(waivers, "  - ", "    - ")
	}
	s.server.Permissions = map[string]string{"boss": "write"}
	s.server.Events = []githubtest.IssueEvent{{Pull: 7, Event: "labeled", Label: "perf-accepted", Actor: "boss", Created: time.Now()}}
	if accept(""); s.report() != exitRegressed {
		t.Errorf("accepted without a reason:\n%s", s.server.Comments[0].Body)
	}
	if accept("worth it, #412"); s.report() != exitPass {
		t.Errorf("not accepted:\n%s", s.server.Comments[0].Body)
	}
	s.server.Events = nil
	if s.report() != exitRegressed {
		t.Errorf("accepted without the label:\n%s", s.server.Comments[0].Body)
	}
}

// The chart is of the deciding measure, on its testbed, with this run last.
func TestReportDrawsTheHistory(t *testing.T) {
	s := newScene(t)
	s.server.Runs = append(s.server.Runs, githubtest.Run{ID: 9, Event: "push", Path: reportWorkflow, Branch: "main", SHA: sha(10), HeadRepo: 1, Repo: 1})
	var past []*bench.Run
	for i := range 4 {
		for _, testbed := range []string{"t1", "t2"} {
			b := measured(fmt.Sprint(testbed, i), testbed, "fun_xdp/worst", 1, float64(90+i))
			b.Head.Time = time.Now().Add(time.Duration(i-100) * time.Hour)
			past = append(past, b.Head)
		}
	}
	data, err := store.RollUp(past, 64).Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.upload(9, github.Name{Kind: github.KindHistory, Branch: "main", Attempt: 1}, data)
	s.runs(500, "feat/x", measured("a", "t1", "fun_xdp/worst", 100, 150))
	s.runs(500, "feat/x", measured("b", "t2", "fun_xdp/worst", 100, 100))
	if code := s.report(); code != exitRegressed {
		t.Fatalf("exit %d\n%s", code, &s.log)
	}
	body := s.server.Comments[0].Body
	if !regexp.MustCompile(`(?s)History of <code>fun&#95;xdp/worst</code> on <code>main</code>.*` +
		"```mermaid\nxychart-beta\n.*1 --> 5\n.*line \\[90\\.50, 91\\.50, 92\\.50, 93\\.50, 1(4|5)[0-9.]+\\]\n```").MatchString(body) {
		t.Errorf("%s", body)
	}
}
