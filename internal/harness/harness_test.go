package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// run runs a command once in an empty directory.
func run(t *testing.T, h bench.Harness) (*Output, error) {
	t.Helper()
	dir := t.TempDir()
	p, err := New(h, dir)
	if err != nil {
		t.Fatal(err)
	}
	scratch := filepath.Dir(must(t, p))
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(scratch); err == nil {
			t.Errorf("%s is left", scratch)
		}
	})
	return p.Run(t.Context())
}

// must is a directory of the process's scratch.
func must(t *testing.T, p *Process) string {
	dir, done, err := p.scratch.Dir()
	if err != nil {
		t.Fatal(err)
	}
	done()
	return dir
}

func TestRun(t *testing.T) {
	out, err := run(t, bench.Harness{Run: `echo "BenchmarkA 1 3 ns/op 2 widgets"; echo "BenchmarkA 1 9 ns/op"; echo "BenchmarkA 1 5 ns/op"; echo $X >&2`, Env: []string{"X=noise"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Results) != 2 || out.Format != "gobench" {
		t.Fatalf("%+v", out)
	}
	if r := out.Results[0]; r.Measure != bench.Latency || r.Samples[0].Value != 5 {
		t.Errorf("three times in one process: %+v, want their median", r)
	}
	if r := out.Results[1]; r.Measure != "figure[widgets]" || r.Unit != "widgets" || r.Samples[0].Value != 2 {
		t.Errorf("%+v", r)
	}
}

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		name       string
		h          bench.Harness
		want, hint string
	}{
		{"nothing", bench.Harness{Run: "true"}, `"true": it says nothing that gate reads`, "results: FILE"},
		{"another format", bench.Harness{Run: "echo BenchmarkA 1 2 ns/op", Adapter: "hyperfine"}, "standard output:1:1", ""},
		{"no file", bench.Harness{Run: "true", Results: "out.json"}, "out.json: no such file or directory", ""},
		{"a link out of it", bench.Harness{Run: "ln -s /etc $GATE_TMP/x", Results: "x/passwd"}, "escapes from parent", ""},
		{"a pipe", bench.Harness{Run: "mkfifo $GATE_TMP/x", Results: "x"}, "$GATE_TMP/x is not a regular file", ""},
		{"an empty directory", bench.Harness{Run: "mkdir $GATE_TMP/x", Results: "x"}, "no results of Criterion", ""},
		{"code", bench.Harness{Run: "echo last words >&2; exit 3"}, "exit status 3\n  last words", ""},
		{"not found", bench.Harness{Run: "nosuchcommand"}, "exit status 127", "is it installed"},
		{"a signal", bench.Harness{Run: "kill -9 $$"}, "signal: killed", ""},
		{"late", bench.Harness{Run: "trap '' TERM; sleep 100", Within: 20 * time.Millisecond}, "took too long: not done within 20ms", "raise within"},
		{"a flood", bench.Harness{Run: "head -c 64000000 /dev/zero"}, "it says more than 32 MB", "$GATE_TMP"},
		{"too many", bench.Harness{Run: `i=0; while [ $i -le 1000 ]; do i=$((i+1)); echo "BenchmarkA$i 1 2 ns/op"; done`}, "1001 results, at most 1000", "fewer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := run(t, tt.h)
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(e.Hint(), tt.hint) {
				t.Errorf("got %v, hint %v\nwant %s", err, e, tt.want)
			}
		})
	}
}

// What a command leaves running ends with it, and a cancelled one says why.
func TestEnds(t *testing.T) {
	left := filepath.Join(t.TempDir(), "left")
	if _, err := run(t, bench.Harness{Run: "sleep 100 >/dev/null 2>&1 & echo $! >" + left + "; echo BenchmarkA 1 2 ns/op"}); err != nil {
		t.Fatal(err)
	}
	pid, err := os.ReadFile(left)
	if err != nil {
		t.Fatal(err)
	}
	stat := "/proc/" + strings.TrimSpace(string(pid)) + "/stat"
	for range 1500 {
		text, err := os.ReadFile(stat)
		if err != nil || strings.Contains(string(text), ") Z ") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if text, err := os.ReadFile(stat); err == nil && !strings.Contains(string(text), ") Z ") {
		t.Errorf("it goes on: %s", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := New(bench.Harness{Run: "sleep 100"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := p.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestDir(t *testing.T) {
	tree := t.TempDir()
	if err := os.Symlink("/", filepath.Join(tree, "out")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"out", "nothere"} {
		if p, err := New(bench.Harness{Run: "true", Dir: dir}, tree); err == nil {
			p.Close()
			t.Errorf("runs in %s", dir)
		}
	}
}

func TestShort(t *testing.T) {
	of := func(names ...string) (all []bench.Result) {
		for _, n := range names {
			pkg, _, _ := strings.Cut(n, ".B")
			all = append(all, bench.Result{Benchmark: strings.Replace(n, ".B", ".", 1), Program: pkg})
		}
		return all
	}
	for _, tt := range []struct {
		base, head []bench.Result
		want       string
	}{
		{of("ex.com/a.BFib-2"), of("ex.com/a.BFib-2", "ex.com/a.BOther/n=1-2"), "[[Fib] [Fib Other/n=1]]"},
		{of("ex.com/v1.BFib-2"), of("ex.com/v2.BFib-2"), "[[Fib] [Fib]]"},
		{of("ex.com/a.BFib-2"), of("ex.com/a.BFib-2", "ex.com/b.BFib-2"), "[[ex.com/a.Fib] [ex.com/a.Fib ex.com/b.Fib]]"},
		{of("ex.com/a.BFib-2"), of("ex.com/a.BFib-4"), "[[Fib-2] [Fib-4]]"},
		{of("ex.com/a.BFib"), of("ex.com/a.BFib-4"), "[[Fib] [Fib-4]]"},
		{of("ex.com/a.BFib/x-y"), nil, "[[Fib/x-y] []]"},
	} {
		if got := fmt.Sprint(Short([][]bench.Result{tt.base, tt.head}, "gobench")); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
	if got := fmt.Sprint(Short([][]bench.Result{of("ex.com/a.BFib-2")}, "criterion")); got != "[[ex.com/a.Fib-2]]" {
		t.Errorf("another tool's name became %s", got)
	}
}
