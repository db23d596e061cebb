package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// What no benchmark executes is told where it was changed, and only there.
func TestChanges(t *testing.T) {
	line := func(n int, removed bool) bench.ChangedLine {
		return bench.ChangedLine{File: "./src/p.bpf.c", Line: n, Text: fmt.Sprintf("x += %d;", n), Function: "p", Removed: removed}
	}
	for _, tt := range []struct {
		changes []bench.Change
		want    []string
	}{
		{nil, nil},
		{[]bench.Change{{Program: "p", Reached: true, Executed: true, Lines: []bench.ChangedLine{line(1, false)}}}, nil},
		{[]bench.Change{{Program: "p", Lines: []bench.ChangedLine{line(1, false), line(2, true)}}}, []string{
			"p: this change is not measured: no benchmark executes p.bpf.c:1 x += 1;; p.bpf.c:2 x += 2; (removed)"}},
		{[]bench.Change{{Program: "p", Executed: true, Lines: []bench.ChangedLine{line(1, false), line(2, false), line(3, false), line(4, false)}, More: 2}}, []string{
			"p: this change is not measured: no benchmark executes p.bpf.c:1 x += 1;; p.bpf.c:2 x += 2;; p.bpf.c:3 x += 3;; and 3 lines more. The rows are about other code, which the compiler made anew"}},
		{[]bench.Change{{Program: "p", Lines: []bench.ChangedLine{{Function: "rare"}}}}, []string{"p: this change is not measured: no benchmark executes code of rare"}},
		{[]bench.Change{{Program: "p"}}, []string{"p: this change is not measured: no benchmark executes what differs"}},
		{[]bench.Change{{Program: "a", NotRun: true}}, []string{"a: this change is not measured: no benchmark runs it"}},
		{[]bench.Change{{Program: "a", NotRun: true}, {Program: "b", NotRun: true}}, []string{"a, b: this change is not measured: no benchmark runs them"}},
	} {
		base, head := newRun("a", "s", counted(bench.Insns, 1)), newRun("b", "s", counted(bench.Insns, 1))
		head.Changes = tt.changes
		r := gate.Compare(base, head, gate.DefaultPolicy())
		if !slices.Equal(r.Warnings, tt.want) || len(r.Changes) != len(tt.changes) || r.Verdict != gate.Pass {
			t.Errorf("%+v: %v, warnings\n%s\nwant\n%s", tt.changes, r.Verdict, strings.Join(r.Warnings, "\n"), strings.Join(tt.want, "\n"))
		}
		// Beside another base, nobody knows.
		base.Session = "other"
		if r := gate.Compare(base, head, gate.DefaultPolicy()); len(r.Changes) != 0 {
			t.Errorf("of another session: %+v", r.Changes)
		}
	}
}
