package adapter

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/perf/benchfmt"

	"github.com/org/ebpf-bench-gate/bench"
)

// reference reads benchfmt line by line with the library alone.
func reference(text string) (all []string, failed bool) {
	r := benchfmt.NewReader(strings.NewReader(text), "f")
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, true
		case *benchfmt.Result:
			for _, v := range rec.Values {
				value, unit := v.Value, v.Unit
				if v.OrigUnit != "" {
					value, unit = v.OrigValue, v.OrigUnit
				}
				if unit == "sec/op" {
					value, unit = value*1e9, "ns/op"
				}
				if math.IsNaN(value) || math.IsInf(value, 0) {
					return nil, true
				}
				name := string(rec.Name)
				if pkg := rec.GetConfig("pkg"); pkg != "" {
					name = pkg + "." + name
				}
				all = append(all, fmt.Sprintf("%s %s %x", name, unit, math.Float64bits(value)))
			}
		}
	}
	return all, r.Err() != nil
}

// order is what a Set has of the lines, by result.
func order(t *testing.T, r io.Reader) (got map[string][]string, err error) {
	t.Helper()
	f, _ := Lookup("gobench")
	set, err := Read(r, f, Options{File: "f"})
	if err != nil {
		return nil, err
	}
	got = map[string][]string{}
	for i, res := range set.results {
		unit := "ns/op"
		if res.Measure != bench.Latency {
			_, unit, _ = bench.SplitMember(res.Measure)
		}
		key := res.Benchmark + " " + unit
		for _, v := range set.values[i] {
			got[key] = append(got[key], fmt.Sprintf("%x", math.Float64bits(v)))
		}
	}
	return got, nil
}

const benchText = `goos: linux
pkg: a
BenchmarkX-2   	 100	 1.5 ns/op	 16 B/op
BenchmarkX-2	100 2.25 ns/op 17 B/op
BenchmarkX-2 100 123456789012345678 ns/op 0.000000000000000000001 B/op
BenchmarkX-2 100 1e3 ns/op 18 B/op   
BenchmarkX-2 100 3 ns/op
BenchmarkX-2 100 4 ns/op 19 B/op 7 widgets/op
BenchmarkX-2 100 5 B/op 6 ns/op
PASS
ok  	a	1.0s
pkg: b
BenchmarkX-2 100 7 ns/op 20 B/op
BenchmarkX-2 100 8 ns/op 21 B/op
BenchmarkY
BenchmarkX-2 100 0.1 sec/op
BenchmarkX-2 100 0.2 sec/op
note: x
BenchmarkX-2 100 9 ns/op 22 B/op
BenchmarkÄ-2 100 9 ns/op
BenchmarkÄ-2 100 10 ns/op
BenchmarkX-2 100 999999999999999 ns/op 0.3 B/op
BenchmarkX-2 100 123456.789012345 ns/op .5 B/op
BenchmarkX-2 100 11. ns/op 1_000 B/op`

// What is read here is what the library reads, to the bit, however the bytes come.
func TestBenchLines(t *testing.T) {
	text := strings.TrimSuffix(benchText, " 1_000 B/op") // which neither reads
	for _, text := range []string{text, text + "\n", strings.ReplaceAll(text, "\n", "\r\n"), strings.ReplaceAll(text, "pkg: b\n", "")} {
		want, failed := reference(text)
		if failed || len(want) < 20 {
			t.Fatalf("%v, failed %v", want, failed)
		}
		same(t, text, want, strings.NewReader(text))
		same(t, text, want, iotest.OneByteReader(strings.NewReader(text)))
		same(t, text, want, iotest.DataErrReader(strings.NewReader(text)))
	}
}

func same(t *testing.T, text string, want []string, r io.Reader) {
	t.Helper()
	got, err := order(t, r)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	expected := map[string][]string{}
	for _, w := range want {
		i := strings.LastIndexByte(w, ' ')
		expected[w[:i]] = append(expected[w[:i]], w[i+1:])
	}
	if len(got) != len(expected) {
		t.Errorf("%d results, want %d in\n%s", len(got), len(expected), text)
	}
	for key, w := range expected {
		if strings.Join(got[key], " ") != strings.Join(w, " ") {
			t.Errorf("%s: %v, want %v in\n%s", key, got[key], w, text)
		}
	}
}

// Mistakes are told at their line, whoever has read the lines before.
func TestBenchLinesPlace(t *testing.T) {
	text := "pkg: a\n" + strings.Repeat("BenchmarkX 1 2 ns/op\n", 500) + "BenchmarkX 1 2\n"
	_, err := order(t, strings.NewReader(text))
	if err == nil || !strings.HasPrefix(err.Error(), "f:502:1: missing units") {
		t.Errorf("%v", err)
	}
}

// FuzzBenchLines holds that lines are read as the library does.
func FuzzBenchLines(f *testing.F) {
	f.Add(benchText)
	f.Add("BenchmarkA 1 2 ns/op\nBenchmarkA 1 2 ns/op 3 ns/op\nBenchmarkA 1 2 ns/op\n")
	f.Add("BenchmarkX 1 2 ns/op\nBenchmarkX 1 4 ns/op\r1")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 10_000 || strings.Contains(text, "Unit") || strings.ContainsRune(text, '[') {
			return // units may change what measures are called
		}
		want, failed := reference(text)
		got, err := order(t, strings.NewReader(text))
		switch {
		case failed:
			if err == nil {
				t.Fatalf("no error of %q", text)
			}
			return
		case err != nil:
			return // of what a name may be
		}
		n := 0
		for _, v := range got {
			n += len(v)
		}
		if n != len(want) {
			t.Fatalf("%d values, want %d: %v and %v", n, len(want), got, want)
		}
	})
}
