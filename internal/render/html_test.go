package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// PageOf is a page of many comparisons with everything that a page can show: half of
// them noisy with samples, a history with a change in it, lines of the source.
func pageOf(n, rounds, history int) PageReport {
	rnd := rand.New(rand.NewPCG(3, 4))
	make := func(id, session string, at int, shift func(i int) float64, rounds int) *bench.Run {
		r := &bench.Run{
			Schema: 1, ID: id, Session: session, Time: time.Date(2026, 5, 1, 0, at, 0, 0, time.UTC), Testbed: host, Seed: 7291,
			Revision: bench.Revision{Name: "main", Commit: fmt.Sprintf("%040x", 0x81d04ba+at), Branch: "main"},
			Programs: []bench.ProgramResult{{Program: "lb", Object: "lb.o", Outcome: bench.Accepted, Digest: id}},
		}
		for i := range n {
			res := bench.Result{Benchmark: fmt.Sprintf("lb/case-%03d", i/2), Program: "lb", Measure: bench.Latency, Kind: bench.Micro, Path: "driver"}
			if i%2 == 1 {
				res.Measure = bench.Insns
				res.Samples = []bench.Sample{{Value: float64(100 + i + int(shift(i)*50))}}
				res.Lines = []bench.LineCount{{File: "lb.bpf.c", Line: 12, Text: "for (i = 0; i < n; i++)", Function: "lb", Executions: 9, Insns: 90, Decides: 40, BaseExecutions: 1}}
				res.Sites = []bench.Site{{Stack: []string{"parse", "main"}, File: "lb.go", Line: 7, Text: "x := make([]byte, n)", Value: 10, Base: 1}}
				r.Results = append(r.Results, res)
				continue
			}
			level := 80 + float64(i%97)
			for k := range rounds {
				v := level * (1 + shift(i)) * (1 + 0.01*rnd.NormFloat64())
				if rnd.IntN(40) == 0 {
					v *= 1.3
				}
				res.Samples = append(res.Samples, bench.Sample{Round: k, Value: v, Floor: 20, Offset: -1})
			}
			res.Looks, res.Final = []int{len(res.Samples)}, true
			r.Results = append(r.Results, res)
		}
		return r
	}
	none := func(int) float64 { return 0 }
	base := make("base", "s", 1000, none, rounds)
	head := make("head", "s", 1000, func(i int) float64 {
		switch i % 20 {
		case 0, 1:
			return 0.2
		case 2:
			return -0.1
		case 4:
			return 0.045
		}
		return 0
	}, rounds)
	head.Revision = bench.Revision{Name: "HEAD", Commit: fmt.Sprintf("%040x", 0x3f9c2e1), Branch: "change"}
	head.Programs[0].Digest = "other"
	var past []*bench.Run
	for k := range history {
		past = append(past, make(fmt.Sprintf("past-%d", k), "", k, func(int) float64 {
			if k < history/2 {
				return -0.15
			}
			return 0
		}, 1))
	}
	return PageReport{Report: gate.Compare(base, head, gate.DefaultPolicy()), Base: base, Head: head, Past: past}
}

func writePage(t testing.TB, reports []PageReport, missing int) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, reports, missing, PageOptions{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPageForTheEye writes pages to look at into the directory that GATE_PAGES names.
func TestPageForTheEye(t *testing.T) {
	dir := os.Getenv("GATE_PAGES")
	if dir == "" {
		t.Skip("GATE_PAGES names no directory")
	}
	for name, page := range map[string]string{
		"few":   writePage(t, []PageReport{pageOf(24, 30, 40)}, 0),
		"many":  writePage(t, []PageReport{pageOf(1000, 60, 0)}, 0),
		"mixed": writePage(t, []PageReport{{Report: reports()["mixed"]}}, 0),
		"beds":  writePage(t, []PageReport{{Report: reports()["mixed"]}, {Report: reports()["budget"]}}, 1),
		"alone": writePage(t, []PageReport{{Report: reports()["single"]}}, 0),
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".html"), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// dataOf is what a page's script is given.
func dataOf(t *testing.T, page string) (data pageData) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("no data")
	}
	if err := json.Unmarshal([]byte(m[1]), &data); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestPageHoldsEverything holds that each comparison of each report is a row, with its
// samples.
func TestPageHoldsEverything(t *testing.T) {
	all := []PageReport{pageOf(24, 30, 12)}
	for _, r := range reports() {
		all = append(all, PageReport{Report: r})
	}
	page := writePage(t, all, 0)
	want := 0
	for _, r := range all {
		want += len(r.Report.Comparisons)
	}
	data := dataOf(t, page)
	if len(data.Rows) != want || strings.Count(page, `<tr id="c`) != want {
		t.Errorf("%d rows of data, %d of the table, want %d", len(data.Rows), strings.Count(page, `<tr id="c`), want)
	}
	for i, c := range all[0].Report.Comparisons {
		d := data.Rows[i]
		switch {
		case d.Name != c.Benchmark || d.Measure != c.Measure:
			t.Errorf("row %d is %s %s, want %s %s", i, d.Name, d.Measure, c.Benchmark, c.Measure)
		case c.Exact && (d.Base != nil || d.Lines == nil):
			t.Errorf("row %d: exact, with the samples %v and the lines %v", i, d.Base, d.Lines)
		case !c.Exact && (len(d.Base) != 30 || len(d.Head) != 30 || !d.Paired || d.BaseDensity == nil):
			t.Errorf("row %d: %d and %d samples", i, len(d.Base), len(d.Head))
		case d.History == nil || len(d.History.Values) != 12 || len(d.History.Changes) != 1 || len(data.Pasts) != 1 || len(data.Pasts[d.History.Past]) != 12:
			t.Errorf("row %d has the history %+v", i, d.History)
		}
	}
}

// TestPageIsSelfContained holds that a page asks for nothing, and that its policy
// allows what is in it and no more.
func TestPageIsSelfContained(t *testing.T) {
	page := writePage(t, []PageReport{pageOf(24, 30, 12)}, 0)
	for _, bad := range []string{"http://", "https://", "src=", "<link", "@import", "url(", "javascript:", " style=", " onclick"} {
		rest := strings.ReplaceAll(page, "http://www.w3.org/2000/svg", "")
		if i := strings.Index(rest, bad); i >= 0 {
			t.Errorf("the page has %q: %q", bad, rest[max(0, i-60):i+60])
		}
	}
	page = strings.ReplaceAll(page, "&#43;", "+")
	for _, block := range []struct{ directive, text string }{{"script-src", pageScript}, {"style-src", pageStyle}} {
		if !strings.Contains(page, ">"+block.text+"</") || !strings.Contains(page, template.HTMLEscapeString(block.directive+" '"+digest(block.text)+"'")) {
			t.Errorf("the %s of the policy is not that of the page", block.directive)
		}
	}
}

// TestPageHostile holds that names stay names: nothing of them is markup or script.
func TestPageHostile(t *testing.T) {
	shape := func(s string) string {
		page := writePage(t, []PageReport{{Report: hostileReport(s)}}, 0)
		tags := regexp.MustCompile(`<(/?[a-z0-9]+|!--)[^>]*>`).FindAllString(page, -1)
		for i := range tags { // values differ, names of tags and attributes do not
			tags[i] = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tags[i], `""`)
		}
		return strings.Join(tags, "\n")
	}
	want := shape("x")
	for _, s := range append(hostile, `"><img src=x onerror=alert(1)>`, `</script><script>alert(1)</script>`, `';alert(1)//`, "{{.}}", "</title><b>") {
		if got := shape(s); got != want && clean(s) != "" { // what shows nothing is left out
			t.Errorf("%q changes the page's markup", s)
		}
		page := writePage(t, []PageReport{{Report: hostileReport(s)}}, 0)
		dataOf(t, page)
		if i := strings.IndexFunc(page, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == '\u202e' || r == '\u2066' }); i >= 0 {
			t.Errorf("%q: a control character: %q", s, page[max(0, i-20):i+20])
		}
	}
}

// TestPageIsSmall holds the size of a page, whatever is measured: samples are thinned
// evenly, and the page says so.
func TestPageIsSmall(t *testing.T) {
	const most = 5 << 20
	r := pageOf(1000, 40, 0)
	small := writePage(t, []PageReport{r}, 0)
	for _, run := range []*bench.Run{r.Base, r.Head} { // the report stays: a page judges nothing
		for i := range run.Results {
			res := &run.Results[i]
			for k := len(res.Samples); res.Measure == bench.Latency && k < 1000; k++ {
				res.Samples = append(res.Samples, bench.Sample{Round: k, Value: res.Samples[k%40].Value})
			}
		}
	}
	large := writePage(t, []PageReport{r}, 0)
	if len(small) > most || len(large) > most {
		t.Errorf("%d and %d bytes, at most %d", len(small), len(large), most)
	}
	if strings.Contains(small, "some are drawn") || !strings.Contains(large, "samples some are drawn") {
		t.Error("a page says that samples are left out where none are, or the other way round")
	}
	for _, d := range dataOf(t, large).Rows[:50] {
		if n := len(d.Base); n > 0 && (n < 100 || n > 400 || d.BaseRounds[1]-d.BaseRounds[0] < 2) {
			t.Errorf("%d of 1000 samples are drawn, of the rounds %v…", n, d.BaseRounds[:2])
		}
	}
}

func BenchmarkPage(b *testing.B) {
	r := pageOf(1000, 60, 0)
	for b.Loop() {
		page := writePage(b, []PageReport{r}, 0)
		b.ReportMetric(float64(len(page)), "bytes")
	}
}
