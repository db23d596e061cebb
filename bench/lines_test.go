package bench

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestExplainLines(t *testing.T) {
	line := func(n int, function, text string, executions, insns float64) LineCount {
		return LineCount{File: "f.c", Line: n, Function: function, Text: text, Executions: executions, Insns: insns}
	}
	base := []LineCount{
		line(1, "f", "same", 1, 3),
		line(2, "f", "cheaper", 1, 9),
		line(3, "f", "gone", 2, 4),
		line(4, "f", "twice", 1, 1),
		line(5, "f", "twice", 1, 1),
		line(6, "g", "moved", 1, 1),
	}
	head := []LineCount{
		line(11, "f", "same", 1, 3),
		line(12, "f", "cheaper", 1, 2),
		line(13, "f", "while (b < n) {", 381, 1143),
		line(14, "f", " twice ", 1, 1),
		line(15, "f", "twice", 1, 3),
		line(16, "f", "moved", 1, 1),
	}
	got := ExplainLines(base, head)
	var lines []string
	sum := 0.0
	for _, l := range got {
		lines = append(lines, l.Function+":"+strings.TrimSpace(l.Text))
		sum += l.Insns - l.BaseInsns
	}
	want := "f:while (b < n) {, f:twice, f:gone, f:cheaper"
	if s := strings.Join(lines, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	if first := got[0]; !first.New || first.BaseInsns != 0 || first.Line != 13 {
		t.Errorf("%+v, want a new line", first)
	}
	if twice := got[1]; twice.Insns != 3 || twice.BaseInsns != 1 || twice.Line != 15 || twice.New {
		t.Errorf("%+v, want the second of them", twice)
	}
	if gone := got[2]; gone.Executions != 0 || gone.Insns != 0 || gone.BaseInsns != 4 || gone.Line != 3 {
		t.Errorf("%+v, want base's line", gone)
	}
	if total := func(ls []LineCount) (n float64) {
		for _, l := range ls {
			n += l.Insns
		}
		return n
	}; sum != total(head)-total(base) {
		t.Errorf("lines differ by %v, the programs by %v", sum, total(head)-total(base))
	}

	var many []LineCount
	for i := range 3 * MaxLines {
		many = append(many, line(i, "f", strings.Repeat("x", i+1), 1, float64(i+1)))
	}
	if got := ExplainLines(nil, many); len(got) != MaxLines || got[0].Insns != 3*MaxLines {
		t.Errorf("%d lines, first %+v", len(got), got[0])
	}
	if got := ExplainLines(head, head); len(got) != 0 {
		t.Errorf("a program explains its difference from itself: %v", got)
	}
}

func TestLinesInRuns(t *testing.T) {
	run := &Run{Schema: SchemaVersion, ID: "x", Time: time.Unix(1, 0).UTC(), Results: []Result{{
		Benchmark: "a/b", Program: "a", Measure: Insns, Kind: Micro, Worst: 7,
		Samples: []Sample{{Value: 3.5, Offset: -1}},
		Lines:   make([]LineCount, MaxLines),
	}}}
	var buf bytes.Buffer
	if err := Encode(&buf, run); err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(&buf); err != nil || len(got.Results[0].Lines) != MaxLines || got.Results[0].Worst != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	run.Results[0].Lines = make([]LineCount, MaxLines+1)
	if err := Encode(&buf, run); err == nil || !strings.Contains(err.Error(), "21 lines, at most 20") {
		t.Errorf("too many lines: %v", err)
	}
}

// TestExplainTime finds what takes longer, by text within a function, those first that do by most.
func TestExplainTime(t *testing.T) {
	line := func(n int, text string, time, share float64) LineCount {
		return LineCount{File: "f.c", Line: n, Function: "f", Text: text, Time: time, Share: share}
	}
	base := []LineCount{line(1, "a();", 10, 0.5), line(2, "b();", 10, 0.5), line(3, "never();", 0, 0)}
	head := []LineCount{line(1, "a();", 11, 0.1), line(5, "while (x)", 60, 0.6), line(6, "\tb();", 4, 0.1), line(8, "never();", 30, 0.3)}
	got := ExplainTime(base, head)
	want := []LineCount{line(5, "while (x)", 60, 0.6), line(8, "never();", 30, 0.3), line(1, "a();", 11, 0.1)}
	want[0].New, want[2].BaseTime = true, 10
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := ExplainTime(head, head); len(got) != 0 {
		t.Errorf("the same explains itself: %+v", got)
	}
}
