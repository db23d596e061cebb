package bench_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
)

func suiteRun(n int) *bench.Run {
	return &bench.Run{
		Schema: 1, ID: fmt.Sprint("r", n), Session: fmt.Sprint("s", n), Testbed: bench.Testbed{Name: "t"},
		Programs: []bench.ProgramResult{{Program: "p", Object: "o", Outcome: bench.Accepted}},
		Results: []bench.Result{
			{Benchmark: "p/a:b", Program: "p", Measure: bench.Latency, Samples: []bench.Sample{{Value: float64(n)}}},
			{Benchmark: bench.Control, Program: "p", Measure: bench.Latency},
		},
		Changes:  []bench.Change{{Program: "p", Executed: true}},
		Skipped:  []bench.Skip{{Name: "q", Reason: "no test run"}},
		Warnings: []string{"the host is noisy", fmt.Sprint("only here: ", n)},
	}
}

// What is joined comes apart again as it was, and survives a file.
func TestJoinSuites(t *testing.T) {
	parts := []*bench.Run{suiteRun(1), suiteRun(2)}
	joined := bench.JoinSuites([]string{"lb", "a b/ü"}, parts)
	var file bytes.Buffer
	if err := bench.Encode(&file, joined); err != nil {
		t.Fatal(err)
	}
	back, err := bench.Decode(&file)
	if err != nil {
		t.Fatal(err)
	}
	if back.ID != "r1" || back.Session != "s1" || back.Results[2].Benchmark != "a b/ü:p/a:b" {
		t.Errorf("%+v", back)
	}
	if want := []string{"the host is noisy", "lb: only here: 1", "a b/ü: only here: 2"}; !slices.Equal(back.Warnings, want) {
		t.Errorf("warnings %q, want %q", back.Warnings, want)
	}
	for i, name := range joined.Suites {
		got, want := back.Suite(name), parts[i]
		if !reflect.DeepEqual(got.Results, want.Results) || !reflect.DeepEqual(got.Programs, want.Programs) || !reflect.DeepEqual(got.Skipped, want.Skipped) || !reflect.DeepEqual(got.Changes, want.Changes) || got.Check() != nil {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for _, name := range []string{"", "l", "lb:p", "other"} {
		if s := back.Suite(name); len(s.Results)+len(s.Programs)+len(s.Skipped) != 0 {
			t.Errorf("%q: %+v", name, s)
		}
	}
	if alone := suiteRun(3); alone.Suite("") != alone || len(alone.Suite("p/a").Results) != 0 {
		t.Error("a run of one suite")
	}
	if len(parts[0].Results) != 2 || parts[0].Results[0].Benchmark != "p/a:b" {
		t.Error("joining changed what was joined")
	}
}

func TestCheckSuites(t *testing.T) {
	for want, change := range map[string]func(*bench.Run){
		"is of no suite":             func(r *bench.Run) { r.Results[0].Benchmark = "p/x" },
		`"lb:" is of no suite`:       func(r *bench.Run) { r.Results[0].Program = "lb:" },
		"of another suite":           func(r *bench.Run) { r.Results[0].Program = "fw:p" },
		`"xx:p" is of no suite`:      func(r *bench.Run) { r.Programs[0].Program = "xx:p" },
		`"r" is of no suite`:         func(r *bench.Run) { r.Changes[0].Program = "r" },
		`"q" is of no suite`:         func(r *bench.Run) { r.Skipped[0].Name = "q" },
		"stands twice":               func(r *bench.Run) { r.Suites = append(r.Suites, "lb") },
		"neither colons nor":         func(r *bench.Run) { r.Suites[1] = "a:b" },
		"has 1 to":                   func(r *bench.Run) { r.Suites = append(r.Suites, "") },
		"65 suites":                  func(r *bench.Run) { r.Suites = make([]string, 65) },
		"neither colons nor control": func(r *bench.Run) { r.Suites[0] = "a\nb" },
	} {
		r := bench.JoinSuites([]string{"lb", "fw"}, []*bench.Run{suiteRun(1), suiteRun(2)})
		change(r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
