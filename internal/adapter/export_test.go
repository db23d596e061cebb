package adapter

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ebpf-bench-gate/bench"
)

// own is a run as gate makes it.
func own() *bench.Run {
	samples := func(x ...float64) []bench.Sample {
		var s []bench.Sample
		for i, v := range x {
			s = append(s, bench.Sample{Round: i, Value: v, Offset: -1})
		}
		return s
	}
	return &bench.Run{
		Schema: 1, ID: "a", Testbed: bench.Testbed{Arch: "arm64", CPU: "Neoverse N1"},
		Results: []bench.Result{
			{Benchmark: "xdp_fw/all pass", Program: "xdp_fw", Measure: bench.Latency, Samples: samples(98.25, 97.5, 1e6, 99)},
			{Benchmark: "xdp_fw/all pass", Program: "xdp_fw", Measure: bench.Insns, Samples: samples(312)},
			{Benchmark: "xdp_fw/all pass", Program: "xdp_fw", Measure: "map_lookup[flows]", Samples: samples(2)},
			{Benchmark: "xdp_fw/all pass", Program: "xdp_fw", Measure: bench.Instructions, Samples: samples(900, 901)},
			{Benchmark: "xdp_fw/all pass", Program: "xdp_fw", Measure: "figure[throughput]", Unit: "req/s", Better: bench.Higher, Samples: samples(5e6, 6e6)},
			{Benchmark: "xdp_fw/all pass", Program: "xdp_fw", Measure: "figure[score]", Unit: "points", Better: bench.Higher, Samples: samples(7)},
			{Benchmark: "xdp_fw/all pass", Program: "xdp_fw", Measure: "figure[MB/s]", Unit: "MB/s", Better: bench.Higher, Samples: samples(1.5, 2.5)},
			{Benchmark: "xdp_fw/all pass", Program: "xdp_fw", Measure: "figure[latency]", Unit: "ns", Better: bench.Lower, Samples: samples(11)},
			{Benchmark: "example.com/a.Fib/n=1-2", Program: "example.com/a", Measure: "count[instructions]", Unit: "count", Better: bench.Lower, Samples: samples(1734)},
			{Benchmark: "example.com/a.Fib/n=1-2", Program: "example.com/a", Measure: "count[odd]", Unit: "count", Better: bench.Lower, Samples: samples(3)},
			{Benchmark: "example.com/a.Fib/n=1-2", Program: "example.com/a", Measure: bench.VerifiedInsns, Samples: samples(0)},
			{Benchmark: bench.Control, Program: "xdp_fw", Measure: bench.Latency, Samples: samples(1)},
		},
	}
}

// back reads what was written, and gives the values and directions by name.
func back(t *testing.T, format string, text []byte) map[string][]float64 {
	t.Helper()
	f, ok := Detect(text)
	if !ok || f.Name != format {
		t.Errorf("detected as %q, not %s", f.Name, format)
	}
	f, _ = Lookup(format)
	set, err := Read(bytes.NewReader(text), f, Options{File: format})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	run, err := set.Run(bench.Revision{}, "", time.Unix(0, 0), "")
	if err != nil {
		t.Fatal(err)
	}
	return valuesOf(run)
}

func valuesOf(run *bench.Run) map[string][]float64 {
	all := map[string][]float64{}
	for i := range run.Results {
		r := &run.Results[i]
		name := r.Program + " | " + r.Benchmark + " | " + r.Measure + " | " + string(r.Better)
		for _, s := range r.Samples {
			all[name] = append(all[name], s.Value)
		}
	}
	return all
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

func TestBenchfmtRoundTrip(t *testing.T) {
	var out bytes.Buffer
	if err := WriteBenchfmt(&out, own()); err != nil {
		t.Fatal(err)
	}
	want := map[string][]float64{}
	for name, v := range valuesOf(own()) {
		if !strings.Contains(name, bench.Control) {
			want[strings.ReplaceAll(name, "all pass", "all_pass")] = v
		}
	}
	if d := cmp.Diff(want, back(t, "gobench", out.Bytes()), cmp.Comparer(near)); d != "" {
		t.Errorf("-want +got:\n%s\nof\n%s", d, out.String())
	}
}

func TestBMFRoundTrip(t *testing.T) {
	var out bytes.Buffer
	if err := WriteBMF(&out, own()); err != nil {
		t.Fatal(err)
	}
	want := map[string][]float64{ // the medians; directions are guessed from names
		"xdp_fw | xdp_fw/all pass | latency | ":                               {98.625},
		"xdp_fw | xdp_fw/all pass | insns | ":                                 {312},
		"xdp_fw | xdp_fw/all pass | map_lookup[flows] | ":                     {2},
		"xdp_fw | xdp_fw/all pass | instructions | ":                          {900.5},
		"xdp_fw | xdp_fw/all pass | figure[throughput] | higher":              {5.5e6},
		"xdp_fw | xdp_fw/all pass | figure[score] | lower":                    {7},
		"xdp_fw | xdp_fw/all pass | figure[MB/s] | higher":                    {2},
		"xdp_fw | xdp_fw/all pass | figure[latency] | lower":                  {11},
		"example.com | example.com/a.Fib/n=1-2 | count[instructions] | lower": {1734},
		"example.com | example.com/a.Fib/n=1-2 | count[odd] | lower":          {3},
		"example.com | example.com/a.Fib/n=1-2 | verified_insns | ":           {0},
	}
	if d := cmp.Diff(want, back(t, "bmf", out.Bytes())); d != "" {
		t.Errorf("-want +got:\n%s\nof\n%s", d, out.String())
	}
	if !strings.Contains(out.String(), `"lower_value": 98.0625`) {
		t.Errorf("no quartile of the latency in\n%s", out.String())
	}
}

// TestFilesRoundTrip writes every file's run as benchfmt and has it back.
func TestFilesRoundTrip(t *testing.T) {
	for _, file := range files {
		set, _, err := ReadFile("testdata/"+file.name, "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := set.Run(bench.Revision{}, "", time.Unix(0, 0), "")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := WriteBenchfmt(&out, run); err != nil {
			t.Fatal(err)
		}
		got := back(t, "gobench", out.Bytes())
		n := 0
		for _, v := range got {
			n += len(v)
		}
		if len(got) != len(run.Results) || n != set.Samples() {
			t.Errorf("%s: %d results and %d samples came back of %d and %d:\n%s", file.name, len(got), n, len(run.Results), set.Samples(), out.String())
		}
	}
}

// TestThin holds that of too many samples an even choice is kept.
func TestThin(t *testing.T) {
	s := newSet()
	const n = maxSamples + 10
	for i := range n {
		if err := s.add(bench.Result{Benchmark: "a"}, latency, float64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.add(bench.Result{Benchmark: "b"}, latency, 1); err != nil {
		t.Fatal(err)
	}
	run, err := s.Run(bench.Revision{}, "", time.Unix(0, 0), "")
	if err != nil {
		t.Fatal(err)
	}
	x := run.Results[0].Samples
	if len(x) != n/2 || x[1].Value != 2 || x[len(x)-1].Value != n-2 || len(run.Results[1].Samples) != 1 || len(run.Warnings) != 1 {
		t.Errorf("%d samples, then %v and last %v; %d of the other; %q", len(x), x[1], x[len(x)-1], len(run.Results[1].Samples), run.Warnings)
	}
}
