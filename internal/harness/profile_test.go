package harness

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/org/ebpf-bench-gate/bench"
)

// heap is a profile of stacks, leaf first, each frame "function file:line".
func heap(t *testing.T, dir string, objects map[string]int64) *Profile {
	t.Helper()
	raw := &profile.Profile{SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}}}
	for text, n := range objects {
		s := &profile.Sample{Value: []int64{n, 16 * n}}
		for _, call := range strings.Split(text, " < ") {
			name, file, _ := strings.Cut(call, " ")
			f := &profile.Function{ID: uint64(len(raw.Function) + 1), Name: name, Filename: strings.Replace(file, "$", dir, 1)}
			raw.Function = append(raw.Function, f)
			l := &profile.Location{ID: uint64(len(raw.Location) + 1), Line: []profile.Line{{Function: f, Line: int64(len(name))}}}
			raw.Location = append(raw.Location, l)
			s.Location = append(s.Location, l)
		}
		raw.Sample = append(raw.Sample, s)
	}
	var b bytes.Buffer
	if err := raw.Write(&b); err != nil {
		t.Fatal(err)
	}
	p, err := parseProfile(&b, dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestExplain(t *testing.T) {
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "a.go"), []byte("1\n2\n3\n4\n\tfive() // \x1b[31m\n6\n7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := heap(t, tree, map[string]int64{
		"ex/p.One $/a.go < ex/p.BenchmarkFib $/a_test.go < testing.run /go/t.go":   100,
		"ex/p.One $/a.go < ex/p.BenchmarkOther $/a_test.go < testing.run /go/t.go": 1000,
	})
	head := heap(t, tree, map[string]int64{
		// Run twice as often as base was.
		"ex/p.One $/a.go < ex/p.BenchmarkFib $/a_test.go < testing.run /go/t.go":                            200,
		"fmt.Sprintf /go/f.go < ex/p.F $/a.go < ex/p.BenchmarkFib.func1 $/a_test.go < testing.run /go/t.go": 400,
		"ex/p.One $/a.go < ex/p.BenchmarkFibs $/a_test.go":                                                  5000,
	})
	r := bench.Result{Benchmark: "ex/p.Fib/n=5-2", Program: "ex/p", Measure: "count[allocs/op]"}
	sites := Explain(base, head, r, 1, 3)
	if len(sites) != 1 {
		t.Fatalf("%+v, want one site", sites)
	}
	s := sites[0]
	if s.File != "a.go" || s.Line != len("ex/p.F") || s.Value != 2 || s.Base != 0 || strings.Join(s.Stack, " ") != "fmt.Sprintf p.F p.BenchmarkFib.func1" {
		t.Errorf("%+v", s)
	}
	r.Measure = bench.Latency
	if got := Explain(base, head, r, 1, 3); got != nil {
		t.Errorf("a heap profile explains times: %+v", got)
	}
	r.Measure, r.Benchmark = "count[B/op]", "ex/p.Nothing-2"
	if got := Explain(base, head, r, 1, 3); got != nil {
		t.Errorf("of a benchmark that is not in it: %+v", got)
	}
	if got := base.text("a.go", 5); got != "five() // [31m" {
		t.Errorf("%q", got)
	}
	if got := base.text("../a.go", 1) + base.text("a.go", 99) + base.text("nothere", 1); got != "" {
		t.Errorf("%q", got)
	}
}

func TestHostileProfiles(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 65 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	z.Close()
	for name, data := range map[string]string{"bomb": bomb.String(), "text": "hello", "cut off": bomb.String()[:100], "empty": ""} {
		if p, err := parseProfile(strings.NewReader(data), "/"); err == nil && len(p.stacks) > 0 {
			t.Errorf("%s: %+v", name, p)
		} else if name != "empty" && err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzProfile(f *testing.F) {
	raw := &profile.Profile{SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}}}
	fn := &profile.Function{ID: 1, Name: "p.BenchmarkA", Filename: "/a.go"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: fn, Line: 1}}}
	raw.Function, raw.Location = []*profile.Function{fn}, []*profile.Location{l}
	raw.Sample = []*profile.Sample{{Value: []int64{1}, Location: []*profile.Location{l}}}
	var b bytes.Buffer
	if err := raw.WriteUncompressed(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parseProfile(bytes.NewReader(data), t.TempDir())
		if err != nil {
			return
		}
		r := bench.Result{Benchmark: "A", Program: "p", Measure: "count[allocs/op]"}
		other := &Profile{dir: "/", types: p.types, stacks: map[string]*stack{}, lines: map[string][]string{}}
		other.Merge(p)
		for _, s := range Explain(other, p, r, 1, 2) {
			if len(s.Stack) == 0 || s.Value != s.Value {
				t.Errorf("%+v", s)
			}
		}
	})
}
