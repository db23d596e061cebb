package svg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/plot"
)

func example(rounds, history int) (*gate.Comparison, plot.Figure) {
	rnd := rand.New(rand.NewPCG(1, 2))
	run := func(id string, at int, level float64, n int) *bench.Run {
		r := &bench.Run{ID: id, Session: "s", Time: time.Unix(int64(at)*86400, 0)}
		res := bench.Result{Benchmark: "p/case", Program: "p", Measure: bench.Latency, Looks: []int{n}, Final: true}
		for i := range n {
			res.Samples = append(res.Samples, bench.Sample{Round: i, Value: level * (1 + 0.01*rnd.NormFloat64()), Floor: 10})
		}
		r.Results = []bench.Result{res}
		return r
	}
	base, head := run("b", 1000, 100, rounds), run("h", 1000, 120, rounds)
	var past []*bench.Run
	for i := range history {
		level := 80.0
		if i > history/2 {
			level = 100
		}
		past = append(past, run(fmt.Sprint("p", i), i, level, 1))
	}
	c := gate.Compare(base, head, gate.DefaultPolicy()).Comparisons[0]
	upper := 110.0
	c.Boundary = &gate.Boundary{Test: gate.TTest, Upper: &upper}
	return &c, plot.New(base, head, past).Of(&c)
}

func drawn(t *testing.T, k Kind, c *gate.Comparison, f *plot.Figure, title string) string {
	t.Helper()
	var b bytes.Buffer
	ok, err := Draw(&b, k, c, f, Texts{Title: title, Unit: "ns"})
	if err != nil || !ok {
		t.Fatalf("%s: %v, %v", k, ok, err)
	}
	return b.String()
}

// elements counts the elements of a drawing by name, and finds its text.
func elements(t *testing.T, svg string) (count map[string]int, text string) {
	t.Helper()
	count = map[string]int{}
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count, text
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			count[e.Name.Local]++
		case xml.CharData:
			text += string(e)
		}
	}
}

// TestDraw draws every kind, twice: the bytes are the same, and there is something of
// each value.
func TestDraw(t *testing.T) {
	c, f := example(30, 20)
	for _, k := range Kinds() {
		svg := drawn(t, k, c, &f, "p/case, latency")
		if svg != drawn(t, k, c, &f, "p/case, latency") {
			t.Errorf("%s differs from time to time", k)
		}
		count, text := elements(t, svg)
		if count["svg"] != 1 || !strings.Contains(text, "p/case, latency") || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: %v %q", k, count, text)
		}
		least := map[Kind]int{Samples: 60, Rounds: 90, Interval: 4, History: 22}[k]
		if count["path"] < least {
			t.Errorf("%s has %d paths, want at least %d", k, count["path"], least)
		}
		for _, want := range map[Kind][]string{Samples: {"base", "head", "ns"}, Rounds: {"base", "head", "round"}, Interval: {"98% interval", "limit +"}, History: {"1970-01-01", "this run"}}[k] {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q: %q", k, want, text)
			}
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	c, f := example(30, 0)
	none := plot.Figure{}
	for _, tt := range []struct {
		kind Kind
		c    *gate.Comparison
		f    *plot.Figure
	}{{Samples, c, &none}, {Rounds, c, &none}, {Interval, &gate.Comparison{}, &f}, {History, c, &f}} {
		var b bytes.Buffer
		if ok, err := Draw(&b, tt.kind, tt.c, tt.f, Texts{}); ok || err != nil || b.Len() > 0 {
			t.Errorf("%s: %v, %v, %d bytes", tt.kind, ok, err, b.Len())
		}
	}
	if _, err := Draw(io.Discard, "pie", c, &f, Texts{}); err == nil {
		t.Error("a pie is drawn")
	}
}

// TestHostileTexts holds that a name is text and nothing else.
func TestHostileTexts(t *testing.T) {
	c, f := example(10, 6)
	want, _ := elements(t, drawn(t, Samples, c, &f, "x"))
	for _, s := range []string{`</text><script>alert(1)</script>`, `"><image href="http://evil"/>`, "<!--", "]]>", "&amp;&#60;", "--><svg onload='x'>", strings.Repeat("x", 500), "地址🚀", ""} {
		var b bytes.Buffer
		if _, err := Draw(&b, Samples, c, &f, Texts{Title: s, Unit: s}); err != nil {
			t.Fatal(err)
		}
		got, text := elements(t, b.String())
		for name := range got {
			if want[name] == 0 {
				t.Errorf("%q makes a %s", s, name)
			}
		}
		if !strings.Contains(text, s) {
			t.Errorf("%q is not among the text %q", s, text)
		}
	}
}

// TestExtremes draws what could divide by nothing.
func TestExtremes(t *testing.T) {
	for _, values := range [][]float64{{5, 5, 5}, {0, 0, 0}, {1e-300, 2e-300, 3e-300}, {1e14, 2e14, 3e14}, {1, 1, 1e9}} {
		r := &bench.Run{ID: "h", Session: "s"}
		res := bench.Result{Benchmark: "p/case", Measure: bench.Runs}
		for i, v := range values {
			res.Samples = append(res.Samples, bench.Sample{Round: i, Value: v})
		}
		r.Results = []bench.Result{res}
		zero := 0.0
		c := &gate.Comparison{Benchmark: "p/case", Measure: bench.Runs, Change: &zero, Margin: &zero, Head: &values[0]}
		f := plot.New(r, r, nil).Of(c)
		for _, k := range []Kind{Samples, Rounds, Interval} {
			if svg := drawn(t, k, c, &f, "x"); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Errorf("%s of %v has what is no number", k, values)
			}
		}
	}
}
