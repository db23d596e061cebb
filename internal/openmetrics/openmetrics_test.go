package openmetrics

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// parse reads what was written with Prometheus's own parser.
func parse(t *testing.T, text string) (series []string, values []float64) {
	t.Helper()
	p := textparse.NewOpenMetricsParser([]byte(text), labels.NewSymbolTable())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return series, values
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := p.Series()
		var l labels.Labels
		p.Metric(&l)
		series, values = append(series, l.String()), append(values, v)
	}
}

func TestPrometheusReadsIt(t *testing.T) {
	var b strings.Builder
	w := New(&b)
	w.Family("a", Info, "", `what "is" told`)
	w.Sample(1, Label{"x", "y"})
	w.Family("b_ratio", Gauge, "ratio", "A ratio.\nTwo lines.")
	w.Sample(0.1)
	w.Sample(math.Inf(1), Label{"n", "inf"})
	w.Sample(-1e300, Label{"n", "large"})
	w.Family("c", StateSet, "", "States.")
	w.State("on", []string{"on", "off"}, Label{"n", "1"})
	w.State("off", []string{"on", "off"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	series, values := parse(t, b.String())
	want := []string{
		`{__name__="a_info", x="y"}`, `{__name__="b_ratio"}`, `{__name__="b_ratio", n="inf"}`, `{__name__="b_ratio", n="large"}`,
		`{__name__="c", c="on", n="1"}`, `{__name__="c", c="off", n="1"}`, `{__name__="c", c="on"}`, `{__name__="c", c="off"}`,
	}
	if got := strings.Join(series, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("read\n%s", got)
	}
	for i, v := range []float64{1, 0.1, math.Inf(1), -1e300, 1, 0, 0, 1} {
		if values[i] != v {
			t.Errorf("%s is %g, want %g", series[i], values[i], v)
		}
	}
}

// TestHostile holds that no label breaks the format, or out of it, and that none
// stands twice.
func TestHostile(t *testing.T) {
	names := []string{"", `"`, `\`, "a\nb", `x"} 1` + "\n# EOF\n", "\x1b[31m", "\x00", "\xff", "\xfe", "{}", "地址🚀", "\u202e", "# HELP x y"}
	var b strings.Builder
	w := New(&b)
	w.Family("a", Gauge, "", strings.Join(names, " "))
	for _, n := range append(names, names...) {
		w.Sample(1, Label{"n", n})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	series, _ := parse(t, b.String())
	if len(series) != 2*len(names) {
		t.Errorf("%d series of %d names", len(series), 2*len(names))
	}
	seen := map[string]bool{}
	for _, s := range series {
		if seen[s] {
			t.Errorf("%s stands twice", s)
		}
		seen[s] = true
	}
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == '\u202e' }); i >= 0 {
		t.Errorf("a control character at %d of %q", i, b.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestError(t *testing.T) {
	w := New(full{})
	w.Family("a", Gauge, "", "A.")
	w.Sample(1)
	if err := w.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
}
