package push

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/adapter"
)

func testRun() *bench.Run {
	return &bench.Run{
		Schema: 1, ID: "r1", Time: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
		Revision: bench.Revision{Commit: strings.Repeat("ab", 20), Branch: "feat/ü \x1b[31m"},
		Testbed:  bench.Testbed{Name: strings.Repeat("lab", 40), Kernel: "6.11"},
		Results: []bench.Result{
			{Benchmark: "p/x", Program: "p", Measure: bench.Latency, Kind: bench.Micro, Seconds: 90, Samples: []bench.Sample{{Value: 10}, {Round: 1, Value: 20}, {Round: 2, Value: 30}}},
			{Benchmark: "p/x", Program: "p", Measure: bench.Insns, Kind: bench.Micro, Seconds: 90, Samples: []bench.Sample{{Value: 58}}},
		},
	}
}

func TestBencher(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"uuid":"u-1","alerts":[{},{}],"more":1}`)
	}))
	defer server.Close()
	a, err := Bencher{URL: server.URL + "/base/", Project: "a/b", Token: "secret"}.Push(t.Context(), testRun())
	if err != nil || a.UUID != "u-1" || len(a.Alerts) != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	if got.Method != http.MethodPost || got.URL.EscapedPath() != "/base/v0/projects/a%2Fb/reports" || got.Header.Get("Authorization") != "Bearer secret" || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s %v", got.Method, got.URL.EscapedPath(), got.Header)
	}
	var report struct {
		Branch, Testbed, Hash string
		Start                 time.Time `json:"start_time"`
		End                   time.Time `json:"end_time"`
		Results               []string
		Settings              struct{ Adapter string }
	}
	if err := json.Unmarshal(body, &report); err != nil {
		t.Fatal(err)
	}
	if report.Branch != "feat/ü \uFFFD[31m" || len([]rune(report.Testbed)) != 64 || report.Hash != strings.Repeat("ab", 20) ||
		report.End.Sub(report.Start) != 90*time.Second || report.Settings.Adapter != "json" || len(report.Results) != 1 {
		t.Errorf("%+v", report)
	}
	// What Bencher's adapter is given, gate reads itself.
	set, format, err := adapter.ReadAny(strings.NewReader(report.Results[0]), "", adapter.Options{File: "x"})
	if err != nil || format.Name != "bmf" || set.Results() != 2 {
		t.Errorf("%v of %s, %v", set, format.Name, err)
	}
}

func TestRefused(t *testing.T) {
	stolen := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = r.Header.Get("Authorization") }))
	defer thief.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "moved") {
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "no\x1b[31m\nway")
	}))
	defer server.Close()
	for project, want := range map[string]string{"moved": "307", "p": "403 Forbidden: no\uFFFD[31m way"} {
		_, err := Bencher{URL: server.URL, Project: project, Token: "secret"}.Push(t.Context(), testRun())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", project, err, want)
		}
	}
	if stolen != "" {
		t.Errorf("the token went elsewhere: %s", stolen)
	}
	for _, bad := range []string{"", "ftp://x", "https://user:s3cr3t@host", "host:80"} {
		_, err := Bencher{URL: bad, Project: "p"}.Push(t.Context(), testRun())
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestGateway(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusOK)
	}))
	defer server.Close()
	if err := (Gateway{URL: server.URL, Job: "gate", User: "u", Password: "p"}).Push(t.Context(), testRun()); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(strings.Trim(got.URL.Path, "/"), "/")
	want := []string{"metrics", "job@base64", "gate", "branch@base64", testRun().Revision.Branch, "testbed@base64", testRun().Testbed.Name}
	if got.Method != http.MethodPut || len(parts) != len(want) {
		t.Fatalf("%s %s", got.Method, got.URL.Path)
	}
	for i, p := range parts {
		if i > 0 && i%2 == 0 {
			text, err := base64.RawURLEncoding.DecodeString(p)
			if err != nil {
				t.Error(err)
			}
			p = string(text)
		}
		if p != want[i] {
			t.Errorf("part %d is %q, want %q", i, p, want[i])
		}
	}
	if user, pass, _ := got.BasicAuth(); user != "u" || pass != "p" {
		t.Errorf("as %s:%s", user, pass)
	}
	// Read by the parser of the gateway.
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	if f := families["ebpf_bench_value"]; f == nil || len(f.Metric) != 2 || f.Metric[0].GetGauge().GetValue() != 20 {
		t.Errorf("%v", families)
	}
	if families["ebpf_bench_run_info"] == nil {
		t.Error("no info")
	}
	if label("") != "@base64/=" {
		t.Error("an empty label would be no part of the path")
	}
}

// Prometheus's own gateway takes what it is sent, shows it with the run's labels, and
// replaces what it had of the same branch and testbed, and of no other.
func TestRealGateway(t *testing.T) {
	program, err := exec.LookPath("prometheus-pushgateway")
	if err != nil {
		t.Skip("no prometheus-pushgateway in PATH; make test-servers fetches it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.CommandContext(t.Context(), program, "--web.listen-address="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	var want []string
	for i, change := range []func(*bench.Run){
		func(*bench.Run) {},
		func(r *bench.Run) { r.Revision.Branch = "" },
		func(r *bench.Run) { r.Testbed.Name = "größe / #1" },
		func(r *bench.Run) { r.Results = r.Results[:1] }, // in place of the first
	} {
		run := testRun()
		change(run)
		if err := (Gateway{URL: "http://" + address, Job: "gate"}).Push(t.Context(), run); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		if i > 0 {
			want = append(want, run.Revision.Branch+" "+run.Testbed.Name)
		}
	}
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]float64{}
	for _, m := range families["ebpf_bench_value"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		of := labels["branch"] + " " + labels["testbed"]
		got[of] = append(got[of], m.GetGauge().GetValue())
	}
	if len(got) != len(want) || len(got[want[0]]) != 2 || len(got[want[1]]) != 2 || len(got[want[2]]) != 1 || got[want[2]][0] != 20 {
		t.Errorf("the gateway has %v of %q", got, want)
	}
}
