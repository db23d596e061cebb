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

// TestWhyInTime tells the line that takes the time that was added, once.
func TestWhyInTime(t *testing.T) {
	base, head, few, many := 60.0, 360.0, 58.0, 1972.0
	loop := bench.LineCount{File: "v3.bpf.c", Line: 12, Text: "while (b < n)", Executions: 381, Decides: 1900, New: true, Time: 250, Share: 0.71}
	slow := bench.LineCount{File: "v3.bpf.c", Line: 40, Text: "bpf_map_update_elem(&m, &k, &v, 0)", Time: 90, BaseTime: 20, Share: 0.25}
	latency := gate.Comparison{
		Benchmark: "fun_xdp/worst", Measure: bench.Latency, Unit: "ns", Judged: true, Verdict: gate.Regressed, Base: &base, Head: &head,
		Lines: []bench.LineCount{loop, slow, {File: "v3.bpf.c", Line: 50, Text: "never shown", Time: 30, BaseTime: 10, Share: 0.08}},
	}
	insns := gate.Comparison{
		Benchmark: "fun_xdp/worst", Measure: bench.Insns, Unit: "insns", Exact: true, Judged: true, Verdict: gate.Regressed, Base: &few, Head: &many,
		Lines: []bench.LineCount{loop},
	}
	for name, tt := range map[string]struct {
		rows []gate.Comparison
		want []string
	}{
		"with instructions": {[]gate.Comparison{latency, insns}, []string{
			"v3.bpf.c:12  while (b < n)  381 times a run, 99% of the added instructions, 71% of head's time; not in base",
			"v3.bpf.c:40  bpf_map_update_elem(&m, &k, &v, 0)  25% of head's time; 90.0 ns a run, in base 20.0 ns",
		}},
		"without": {[]gate.Comparison{latency}, []string{
			"v3.bpf.c:12  while (b < n)  381 times a run, 71% of head's time; not in base",
			"v3.bpf.c:40  bpf_map_update_elem(&m, &k, &v, 0)  25% of head's time; 90.0 ns a run, in base 20.0 ns",
		}},
	} {
		var text bytes.Buffer
		if err := Text(&text, &gate.Report{Asked: true, Verdict: gate.Regressed, Comparisons: tt.rows, Summary: "s"}, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if strings.Count(text.String(), want) != 1 {
				t.Errorf("%s: no %q in\n%s", name, want, &text)
			}
		}
		if strings.Index(text.String(), tt.want[0]) > strings.Index(text.String(), tt.want[1]) {
			t.Errorf("%s: the smaller cause comes first in\n%s", name, &text)
		}
		if n := strings.Count(text.String(), "v3.bpf.c:"); n != len(tt.want) {
			t.Errorf("%s: %d lines are told in\n%s", name, n, &text)
		}
	}
}
