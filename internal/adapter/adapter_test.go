package adapter

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ebpf-bench-gate/bench"
)

var update = flag.Bool("update", false, "write testdata/want.txt anew")

// files are the real results of real tools, and the format that each has.
var files = []struct{ name, format string }{
	{"bmf.json", "bmf"},
	{"callgrind.out", "callgrind"},
	{"catch2.txt", "catch2"},
	{"catch2-plain.txt", "catch2"},
	{"catch2.xml", "catch2"},
	{"criterion", "criterion"},
	{"criterion.txt", "criterion"},
	{"criterion/fib 10/new/estimates.json", "criterion"},
	{"criterion/fib 10/new/sample.json", "criterion"},
	{"dhat.json", "dhat"},
	{"dhat.txt", "dhat"},
	{"gobench.txt", "gobench"},
	{"gobench.json", "gobench"},
	{"google.json", "google"},
	{"gungraun.json", "gungraun"},
	{"gungraun.txt", "gungraun"},
	{"gungraun-0.20.txt", "gungraun"},
	{"hyperfine.json", "hyperfine"},
	{"iai.txt", "gungraun"},
	{"jmh.json", "jmh"},
	{"katran.txt", "katran"},
	{"libtest.json", "libtest"},
	{"libtest.txt", "libtest"},
	{"progprofile.json", "bpftool"},
	{"progprofile.txt", "bpftool"},
	{"progrun.json", "bpftool"},
	{"progrun.txt", "bpftool"},
	{"progshow.json", "bpftool"},
	{"pytest.json", "pytest"},
	{"veristat.csv", "veristat"},
	{"xdpbench-drop.txt", "xdp-bench"},
	{"xdpbench-extended.txt", "xdp-bench"},
	{"xdpbench.txt", "xdp-bench"},
}

// TestFiles reads every file, detected by itself, and holds what became of it.
func TestFiles(t *testing.T) {
	var got strings.Builder
	for _, file := range files {
		set, f, err := ReadFile(filepath.Join("testdata", file.name), "", Options{})
		if err != nil {
			t.Errorf("%s: %v", file.name, err)
			continue
		}
		if f.Name != file.format {
			t.Errorf("%s: detected as %s, not %s", file.name, f.Name, file.format)
		}
		run, err := set.Run(bench.Revision{}, "lab", time.Unix(0, 0), "")
		if err != nil {
			t.Errorf("%s: %v", file.name, err)
			continue
		}
		fmt.Fprintf(&got, "%s:\n", file.name)
		describeRun(&got, run)
	}
	const golden = "testdata/want.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func describeRun(w *strings.Builder, run *bench.Run) {
	b := run.Testbed
	fmt.Fprintf(w, "  on %q %q %q %d", b.Arch, b.CPU, b.Kernel, b.CPUs)
	if run.Revision != (bench.Revision{}) {
		fmt.Fprintf(w, " at %+v", run.Revision)
	}
	w.WriteByte('\n')
	for _, p := range run.Programs {
		fmt.Fprintf(w, "  program %s %s %s\n", p.Program, p.Type, p.Outcome)
	}
	for _, s := range run.Skipped {
		fmt.Fprintf(w, "  skip %s: %s\n", s.Name, s.Reason)
	}
	for i := range run.Results {
		r := &run.Results[i]
		exact := "noisy"
		if r.Exact() {
			exact = "exact"
		}
		fmt.Fprintf(w, "  %s | %s | %s | %s | %s %s %s |", r.Program, r.Benchmark, r.Measure, exact, r.Unit, r.Better, r.Answer)
		for j, s := range r.Samples {
			if j == 3 {
				fmt.Fprintf(w, " … %d", len(r.Samples))
				break
			}
			fmt.Fprintf(w, " %.6g", s.Value)
		}
		w.WriteByte('\n')
	}
}

// TestDetectNothing holds that a run of gate is none of the formats, nor is what is nothing.
func TestDetectNothing(t *testing.T) {
	var run bytes.Buffer
	err := bench.Encode(&run, &bench.Run{Schema: 1, ID: "a", Results: []bench.Result{{Benchmark: "p/c", Measure: "latency", Samples: []bench.Sample{{Value: 1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{run.String(), "", " ", "hello\n", "{", "[", "[1,2]", `{"a":1}`, "\x00\x01", "<html>"} {
		if f, ok := Detect([]byte(text)); ok {
			t.Errorf("%.40q is detected as %s", text, f.Name)
		}
	}
}

// TestStreams reads what other systems and broken transfers make of files.
func TestStreams(t *testing.T) {
	packed := func(text string, lost int) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.String()[:b.Len()-lost]
	}
	const gobench, bmf = "goos: linux\nBenchmarkA 1 5 ns/op\n", `{"a": {"latency": {"value": 5}}}`
	for _, tt := range []struct{ text, want string }{
		{"\ufeff" + gobench, ""},
		{"\ufeff" + bmf, ""},
		{packed("\ufeff"+bmf, 0), ""},
		{strings.ReplaceAll(gobench, "\n", "\r\n"), ""},
		{"", "no format that gate reads: it is empty"},
		{packed("", 0), "no format that gate reads: it is empty"},
		// Not what the last line lacks, which is there in the whole file.
		{packed(gobench+"BenchmarkA 1", 8), "f:3:1: the file is cut off"},
		{packed("running 1 test\ntest a ... bench: 5 ns/iter (+/- 1)\ntest b ... bench: x", 8), "f:3:1: the file is cut off"},
	} {
		set, _, err := ReadAny(strings.NewReader(tt.text), "", Options{File: "f"})
		if tt.want == "" && (err != nil || set.Results() != 1) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%.60q: %v, want %s", tt.text, err, tt.want)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ format, text, want string }{
		{"bmf", "{\n \"a\": {\"latency\": {\"value\": \"x\"}}}", "f:2:29: value: expected a number, not a text"},
		{"bmf", "{\"a\": {\"latency\": {\"value\": NaN}}}", "f:1:29: invalid character 'N' looking for beginning of value"},
		{"bmf", "{\"a\": {\"latency\": {\"value\": 1e999}}}", "f:1:29: value: 1e999 is no number that can be held"},
		{"bmf", "{\"a\": {\"latency\": {}}}", "f:1:20: \"latency\" of \"a\" has no value"},
		{"bmf", "{\"a\": {\"latency\": {\"value\": 1}", "f:1:31: the file is cut off"},
		{"bmf", "{\"\": {\"latency\": {\"value\": 1}}}", "f:1:29: a benchmark without a name"},
		{"bmf", "{} 1", "f:1:4: there is more after the end"},
		{"bmf", "{}", "f: no results of bmf in it"},
		{"bmf", "{\"a\": " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}", "f:1:7: benchmark: expected an object, not a list"},
		{"pytest", "{\"x\": " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}", "f:1:1006: nested more than 1000 deep"},
		{"pytest", "{\"x\": \"" + strings.Repeat("a", 2<<20) + "\"}", "a value of more than 1048576 bytes"},
		{"gobench", "goos: linux\nBenchmarkA 1 2", "f:2:1: missing units"},
		{"gobench", "BenchmarkA 1 NaN ns/op", "f:1:1: ns/op of \"A\" is not a finite number"},
		{"gobench", strings.Repeat("a", 1<<20), "f:1:1: the line is too long"},
		{"gobench", `{"Action":"output","Package":"p","Output":"BenchmarkA 1 "}` + "\n" +
			`{"Action":"output","Package":"p","Output":"NaN ns/op\n"}`, "f:2:1: ns/op of \"p.A\" is not a finite number"},
		{"gobench", `{"Action":"start"}` + "\n" + `{"Action":"output","Out`, "f:2:24: the file is cut off"},
		{"gobench", `{"Action":"start"}` + "\n" + `{"Action":output}` + "\n\n", "f:2:11: invalid character 'o'"},
		{"gobench", `{"Action":"output","Package":"p","Output":"BenchmarkA 1 2 ns/op"}`, "no results of gobench in it"},
		{"libtest", "running 1 test\ntest a ... bench:   x ns/iter (+/- 1)", "f:2:1: expected a time"},
		{"libtest", "{\"type\":\"bench\",\"name\":\"a\"}", "f:1:27: \"a\" has no median"},
		{"libtest", "{\"type\":\"suite\"}\n]", "f:2:1: "},
		{"libtest", "{\"type\":\"test\",\"event\":\"failed\",\"name\":\"a\"}\n", "f: no results: \"a\": failed"},
		{"libtest", "test a ... FAILED\n", "f: no results: \"a\": FAILED"},
		{"criterion", " time:   [1.0 ns 2.0 ns 3.0 ns]", "f:1:1: a time that stands under no benchmark"},
		{"criterion", `{"sampling_mode":"Flat","iters":[1,2],"times":[1]}`, "2 iters and 1 times"},
		{"criterion", `{"sampling_mode":"Flat","iters":[0],"times":[1]}`, "measurement 1 is of 0 iterations"},
		{"gungraun", "  Instructions: 12", "f:1:1: Instructions stands under no benchmark"},
		{"dhat", "==1== Total:   many", "f:1:1: Total: expected bytes"},
		{"callgrind", "version: 1\nevents: Ir\nsummary: 1 2\n", "f:3:1: 2 costs of 1 events"},
		{"callgrind", "version: 1\nevents: Ir\nfn=a\n", "the file is cut off"},
		{"callgrind", "version: 1\nevents: Ir\ntotals: x\n", "\"x\" is not a finite number"},
		{"google", `{"benchmarks":[{"name":"a","real_time":1,"time_unit":"fortnight"}]}`, "unknown time_unit \"fortnight\""},
		{"google", `{"benchmarks":[{"name":"a"}]}`, "\"a\" has no real_time"},
		{"google", `{"benchmarks":[{"name":"a","error_message":"no device"}]}`, "f: no results: \"a\": no device"},
		{"jmh", `[{"benchmark":"a","mode":"avgt","primaryMetric":{"score":1,"scoreUnit":"m/s"}}]`, "unknown scoreUnit \"m/s\""},
		{"jmh", `[{"benchmark":"a","mode":"avgt"}]`, "\"a\" has no primaryMetric"},
		{"hyperfine", `{"results":[{"command":"a"}]}`, "\"a\" has neither times nor a median"},
		{"catch2", "<Catch>\n<BenchmarkResults name=\"a\">\n<mean value=\"\"/>", "f:3:17: \"\" is not a finite number"},
		{"catch2", "<Catch>\n<BenchmarkResults name=\"a\"><mean value=\"1\"/>", "the file is cut off"},
		{"veristat", "file_name,prog_name,verdict_base\na,b,success\n", "f:1:1: no column of veristat"},
		{"veristat", "prog_name,total_insns\na,12x\n", "f:2:3: \"12x\" is not a finite number"},
		{"veristat", "prog_name,total_insns\na\n", "f:2:1: wrong number of fields"},
	} {
		f, _ := Lookup(tt.format)
		_, err := Read(strings.NewReader(tt.text), f, Options{File: "f"})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %.60q:\n got %v\nwant %s", tt.format, tt.text, err, tt.want)
		}
	}
}

// Packages that are tested side by side write by turns, in the middle of lines, too.
func TestGoTestByTurns(t *testing.T) {
	var stream strings.Builder
	say := func(pkg, text string) {
		fmt.Fprintf(&stream, `{"Action":"output","Package":%q,"Output":%q}`+"\n", pkg, text)
	}
	say("a", "goos: linux\npkg: a\nBenchmarkX \t")
	say("b", "pkg: b\nBenchmarkX \t")
	say("a", "10 1 ns/op\nBenchmarkX \t")
	say("b", "10 2 ns/op\nBench")
	say("a", "10 3 ns/op\n")
	say("b", "markX 10 4 ns/op\n")
	f, _ := Detect([]byte(stream.String()))
	if f.Name != "gobench" {
		t.Fatalf("detected %q", f.Name)
	}
	set, err := Read(strings.NewReader(stream.String()), f, Options{File: "f"})
	if err != nil {
		t.Fatal(err)
	}
	run, err := set.Run(bench.Revision{}, "", time.Unix(0, 0), "")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]float64{"a.X": {1, 3}, "b.X": {2, 4}}
	got := map[string][]float64{}
	for _, r := range run.Results {
		for _, sample := range r.Samples {
			got[r.Benchmark] = append(got[r.Benchmark], sample.Value)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
