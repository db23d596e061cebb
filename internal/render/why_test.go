package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// A regressed row of executed instructions names the lines that decide most of
// them, and no others.
func TestCulprits(t *testing.T) {
	base, head := 58.0, 1972.0
	row := gate.Comparison{
		Benchmark: "fun_xdp/worst", Measure: bench.Insns, Unit: "insns", Exact: true, Judged: true,
		Verdict: gate.Regressed, Base: &base, Head: &head,
		Lines: []bench.LineCount{
			{File: "./v3.bpf.c", Line: 12, Text: "while (b < n)", Executions: 381, Decides: 1500, New: true},
			{File: "v3.bpf.c", Line: 20, Text: "if (x)", Executions: 1, Decides: 450, BaseExecutions: 2.5, BaseDecides: 10},
			{File: "v3.bpf.c", Line: 30, Text: "never shown", Executions: 9, Decides: 9},
		},
	}
	r := &gate.Report{Asked: true, Verdict: gate.Regressed, Comparisons: []gate.Comparison{row}, Summary: "s"}
	var text, markdown bytes.Buffer
	if err := Text(&text, r, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Markdown(&markdown, r, MarkdownOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"v3.bpf.c:12  while (b < n)  381 times a run, 78% of the added instructions; not in base",
		"v3.bpf.c:20  if (x)  once a run, 23% of the added instructions; in base 2.5 times a run",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if !strings.Contains(markdown.String(), "381 times a run") {
		t.Errorf("no line in\n%s", markdown.String())
	}
	if strings.Contains(text.String()+markdown.String(), "never shown") {
		t.Error("a line that decides nothing is named")
	}
	row.Verdict = gate.Improved
	if r.Comparisons[0] = row; len(culprits(&row)) == 0 {
		t.Error("culprits depend on the verdict")
	}
	text.Reset()
	if err := Text(&text, r, Options{}); err != nil || strings.Contains(text.String(), "while") {
		t.Errorf("an improved row is explained (%v)\n%s", err, text.String())
	}
}
