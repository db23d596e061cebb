package render

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// written is what a format makes of reports.
func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// explainedReport is the mixed one, whose first row has a line of the source.
func explainedReport() *gate.Report {
	r := reports()["mixed"]
	r.Comparisons[1].Lines = []bench.LineCount{
		{File: "src/v3 fib.bpf.c", Line: 28, Text: "while (b < n) {", Function: "fun_xdp", Executions: 382, Insns: 1910, Decides: 1910, New: true},
	}
	return r
}

func TestJUnit(t *testing.T) {
	golden(t, "mixed.junit.xml", written(t, func(w io.Writer) error { return JUnit(w, []*gate.Report{explainedReport()}, 0) }))
}

func TestSARIF(t *testing.T) {
	o := SARIFOptions{Version: "v1.2.3", ConfigOf: func(string) string { return "ebpf-bench.yml" }}
	golden(t, "mixed.sarif", written(t, func(w io.Writer) error { return SARIF(w, []*gate.Report{explainedReport()}, 0, o) }))
}

func TestOpenMetrics(t *testing.T) {
	golden(t, "mixed.openmetrics", written(t, func(w io.Writer) error { return OpenMetrics(w, []*gate.Report{explainedReport()}, 0) }))
}

func TestCSV(t *testing.T) {
	golden(t, "mixed.csv", written(t, func(w io.Writer) error { return CSV(w, []*gate.Report{explainedReport()}) }))
}

// junit is what a reader of the XML sees.
type junit struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Suites   []struct {
		Name  string `xml:"name,attr"`
		Tests int    `xml:"tests,attr"`
		Cases []struct {
			Class   string    `xml:"classname,attr"`
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func readJUnit(t *testing.T, reports []*gate.Report, missing int) (out junit) {
	t.Helper()
	text := written(t, func(w io.Writer) error { return JUnit(w, reports, missing) })
	if err := xml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// run makes a run of one benchmark and one program.
func run(id string, outcome bench.Outcome, latency ...float64) *bench.Run {
	r := &bench.Run{
		Schema: 1, ID: id, Session: "s", Revision: bench.Revision{Name: id}, Testbed: host,
		Programs: []bench.ProgramResult{{Program: "p", Object: "p.o", Outcome: outcome, Digest: id, Reason: "too complex"}},
	}
	if len(latency) > 0 {
		res := bench.Result{Benchmark: "p/case", Program: "p", Measure: bench.Latency, Kind: bench.Micro, Seconds: 1.5}
		for i := range 40 {
			res.Samples = append(res.Samples, bench.Sample{Round: i, Value: latency[i%len(latency)] + float64(i)/100})
		}
		res.Looks, res.Final = []int{40}, true
		r.Results = []bench.Result{res}
	}
	return r
}

// rejectedToo adds a program that the verifier does not accept.
func rejectedToo(r *bench.Run) *bench.Run {
	r.Programs = append(r.Programs, bench.ProgramResult{Program: "q", Outcome: bench.Rejected, Reason: "too complex"})
	return r
}

// reread is what JSON has of reports.
func reread(t *testing.T, reports []*gate.Report) []*gate.Report {
	t.Helper()
	for i, r := range reports {
		text := written(t, func(w io.Writer) error { return JSON(w, r) })
		reports[i] = &gate.Report{}
		if err := json.Unmarshal([]byte(text), reports[i]); err != nil {
			t.Fatal(err)
		}
	}
	return reports
}

// TestJUnitIsNoBetterThanTheVerdict holds that whoever sees only whether test cases
// failed sees what the exit code says.
func TestJUnitIsNoBetterThanTheVerdict(t *testing.T) {
	compare := func(base, head *bench.Run) []*gate.Report {
		return []*gate.Report{gate.Compare(base, head, gate.DefaultPolicy())}
	}
	skipped := run("h", bench.Accepted, 100)
	skipped.Skipped = []bench.Skip{{Name: "p/other", Reason: "no", Required: true}}
	optional := run("h", bench.Accepted, 100)
	optional.Skipped = []bench.Skip{{Name: "p/other", Reason: "no"}}
	base := run("b", bench.Accepted, 100, 101)
	few := func(r *bench.Run) *bench.Run {
		r.Results[0].Samples, r.Results[0].Looks = r.Results[0].Samples[:4], []int{4}
		return r
	}
	for _, tt := range []struct {
		name             string
		reports          []*gate.Report
		missing          int
		failures, errors bool
	}{
		{"pass", compare(base, run("h", bench.Accepted, 100, 101)), 0, false, false},
		{"skipped, not asked for", compare(base, optional), 0, false, false},
		{"regressed", compare(base, run("h", bench.Accepted, 200, 201)), 0, true, false},
		{"undecided", compare(few(run("b", bench.Accepted, 100)), few(run("h", bench.Accepted, 90, 120))), 0, false, true},
		{"no results", compare(run("b", bench.Accepted), run("h", bench.Accepted)), 0, false, true},
		{"rejected", compare(run("b", bench.Accepted), run("h", bench.Rejected)), 0, true, false},
		{"new and rejected", compare(&bench.Run{ID: "b", Testbed: host, Session: "s"}, run("h", bench.Rejected)), 0, false, true},
		{"rejected on both sides", compare(rejectedToo(run("b", bench.Accepted, 100, 101)), rejectedToo(run("h", bench.Accepted, 100, 101))), 0, false, false},
		{"rejected, read from JSON", reread(t, compare(run("b", bench.Accepted, 100), run("h", bench.Rejected))), 0, true, true},
		{"required", compare(base, skipped), 0, false, true},
		{"a testbed is missing", compare(base, run("h", bench.Accepted, 100, 101)), 1, false, true},
		{"nothing at all", nil, 0, false, true},
		{"nothing was asked", []*gate.Report{gate.CompareHistory(run("h", bench.Accepted, 100), nil, gate.DefaultPolicy())}, 0, false, false},
	} {
		got := readJUnit(t, tt.reports, tt.missing)
		if (got.Failures > 0) != tt.failures || (got.Errors > 0) != tt.errors || got.Tests == 0 {
			t.Errorf("%s: %d tests, %d failures, %d errors", tt.name, got.Tests, got.Failures, got.Errors)
		}
		failures, errs, tests := 0, 0, 0
		for _, s := range got.Suites {
			for _, c := range s.Cases {
				tests++
				if c.Failure != nil {
					failures++
				}
				if c.Error != nil {
					errs++
				}
			}
		}
		if failures != got.Failures || errs != got.Errors || tests != got.Tests {
			t.Errorf("%s: %+v does not add up", tt.name, got)
		}
	}
}

// TestSARIFIsValid validates by the schema of OASIS.
func TestSARIFIsValid(t *testing.T) {
	schema := sarifSchema(t)
	all := reports()
	all["explained"] = explainedReport()
	all["rejected"] = gate.Compare(run("b", bench.Accepted), run("h", bench.Rejected), gate.DefaultPolicy())
	for _, s := range hostile {
		all[s] = hostileReport(s)
	}
	for name, r := range all {
		o := SARIFOptions{Version: "1", ConfigOf: func(string) string { return "a b/ebpf-bench.yml" }}
		text := written(t, func(w io.Writer) error { return SARIF(w, []*gate.Report{r}, 1, o) })
		if err := validate(t, schema, text); err != nil {
			t.Errorf("%q: %v in\n%s", name, err, text)
		}
	}
	// The validator can say no.
	for _, bad := range []string{
		`{"version": "2.1.0", "runs": [{"results": []}]}`,
		`{"version": "2.1.0", "runs": [], "more": 1}`,
		`{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}, "results": [{"message": {"text": "x"}, "level": "bad"}]}]}`,
	} {
		if err := validate(t, schema, bad); err == nil {
			t.Errorf("%s is valid", bad)
		}
	}
}

// sarifSchema is the schema that OASIS published with SARIF 2.1.0.
func sarifSchema(t *testing.T) *validator.Schema {
	t.Helper()
	f, err := os.Open("testdata/sarif-2.1.0-rtm.5.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	v, err := validator.UnmarshalJSON(z)
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", v); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSARIFPlaces(t *testing.T) {
	o := SARIFOptions{File: func(suite, name string) string { return suite + "/in/" + name }, ConfigOf: func(suite string) string { return suite + "/bench.yml" }}
	r := explainedReport()
	r.Suites = []string{"lb"}
	for i := range r.Comparisons {
		r.Comparisons[i].Benchmark = "lb:" + r.Comparisons[i].Benchmark
	}
	var log sarifLog
	if err := json.Unmarshal([]byte(written(t, func(w io.Writer) error { return SARIF(w, []*gate.Report{r}, 0, o) })), &log); err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	lines := map[string]int{}
	for _, res := range log.Runs[0].Results {
		at[res.RuleID+" "+res.Level] = res.Locations[0].Physical.Artifact.URI
		lines[res.RuleID] = res.Locations[0].Physical.Region.StartLine
	}
	if at["verified_insns error"] != "lb/in/src/v3%20fib.bpf.c" || lines["verified_insns"] != 28 || at["latency error"] != "lb/bench.yml" && at["latency warning"] != "lb/bench.yml" {
		t.Errorf("results are at %v, lines %v", at, lines)
	}
}

func TestCSVReadsBack(t *testing.T) {
	for _, s := range append(slices.Clone(hostile), "=cmd|' /C calc'!A0", "@SUM(1)", "-1+1", "+1", "a,b", `"`, "a\nb") {
		text := written(t, func(w io.Writer) error { return CSV(w, []*gate.Report{hostileReport(s)}) })
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if want := 1 + len(hostileReport(s).Comparisons); len(rows) != want {
			t.Errorf("%q: %d lines, want %d", s, len(rows), want)
		}
		for _, row := range rows[1:] {
			for i, cell := range row {
				if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) && (cell[0] != '-' || csvHeader[i] == "benchmark") {
					t.Errorf("%q: the cell %s is the formula %q", s, csvHeader[i], cell)
				}
			}
		}
	}
}

func TestOpenMetricsIsRead(t *testing.T) {
	all := reports()
	for _, s := range hostile {
		all[s] = hostileReport(s)
	}
	for name, r := range all {
		text := written(t, func(w io.Writer) error { return OpenMetrics(w, []*gate.Report{r, r}, 1) })
		p := textparse.NewOpenMetricsParser([]byte(text), labels.NewSymbolTable())
		seen := map[string]bool{}
		for {
			entry, err := p.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q: %v in\n%s", name, err, text)
			}
			if entry == textparse.EntrySeries {
				var l labels.Labels
				p.Metric(&l)
				if seen[l.String()] {
					t.Errorf("%q: %s stands twice", name, l)
				}
				seen[l.String()] = true
			}
		}
		if len(seen) < 9 {
			t.Errorf("%q: %d series", name, len(seen))
		}
	}
}

func TestFormatsTellWriteErrors(t *testing.T) {
	r := []*gate.Report{reports()["mixed"]}
	for name, write := range map[string]func(io.Writer) error{
		"junit":       func(w io.Writer) error { return JUnit(w, r, 0) },
		"sarif":       func(w io.Writer) error { return SARIF(w, r, 0, SARIFOptions{}) },
		"openmetrics": func(w io.Writer) error { return OpenMetrics(w, r, 0) },
		"csv":         func(w io.Writer) error { return CSV(w, r) },
	} {
		if err := write(full{}); err == nil {
			t.Errorf("%s: no error of a full disk", name)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
