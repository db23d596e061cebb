package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReportFormats holds that the report is also written as what --format names, with
// the verdict that the comment has.
func TestReportFormats(t *testing.T) {
	s := newScene(t)
	s.flags.formats = []string{"html", "junit", "sarif", "openmetrics", "csv"}
	s.runs(500, "feat/x", measured("a", "lab", "fun_xdp/worst", 100, 150))
	if code := s.report(); code != exitRegressed {
		t.Fatalf("exit code %d: %s", code, s.log.String())
	}
	dir := s.outputs()["report-dir"]
	if dir != filepath.Join(s.env["RUNNER_TEMP"], "ebpf-bench-report") {
		t.Errorf("report-dir is %q", dir)
	}
	for name, want := range map[string]string{
		"report.html": "<title>FAIL: ", "report.junit.xml": `<testcase classname="fun_xdp/worst" name="latency">`, "report.sarif": `"ruleId": "latency"`,
		"report.openmetrics.txt": `ebpf_bench_report{testbed="lab",ebpf_bench_report="regressed"} 1`, "report.csv": "lab,fun_xdp/worst,fun_xdp,latency,ns,micro,regressed,",
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), want) {
			t.Errorf("%s has no %s", name, want)
		}
	}
	// Where a job of the measuring failed nothing is green.
	s.flags.needs = "failure"
	s.runs(500, "feat/x", measured("a", "lab", "fun_xdp/worst", 100, 100))
	s.server.Artifacts = s.server.Artifacts[1:]
	if code := s.report(); code != exitUnmeasured {
		t.Fatalf("exit code %d: %s", code, s.log.String())
	}
	for name, want := range map[string]string{"report.html": "INCONCLUSIVE: ", "report.junit.xml": `errors="1"`, "report.sarif": `"executionSuccessful": false`} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), want) {
			t.Errorf("%s has no %s", name, want)
		}
	}
	s.flags.formats = []string{"pdf"}
	if err := s.flags.check(); err == nil || !strings.Contains(err.Error(), "expected one of csv, html, junit, openmetrics, sarif") {
		t.Errorf("--format pdf: %v", err)
	}
}
