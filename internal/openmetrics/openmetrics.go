// Package openmetrics writes the text format of OpenMetrics 1.0, which Prometheus and
// whatever reads its formats scrape and import.
//
// It knows the format and nothing of the project: what is told with it is said by
// packages render (of a report) and adapter (of a run).
//
// Note: github.com/prometheus/common/expfmt writes it, too, but neither state sets nor
// infos, and for the price of protocol buffers in every gate. What is written here is
// read by Prometheus's own parser in the test.
package openmetrics

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A Type is what a family's samples are.
type Type string

// The types that are written.
const (
	Gauge    Type = "gauge"
	Info     Type = "info"     // samples are 1, their labels are what is told
	StateSet Type = "stateset" // samples are 0 or 1, for each state one
)

// A Label is a name, of letters, digits and underscores, and a value, which may be
// anything.
type Label struct{ Name, Value string }

// A Writer writes families one after the other. Its first error is returned by Close.
type Writer struct {
	b     *bufio.Writer
	name  string // of the family, with the suffix of its samples
	state string // the label of a state set
	seen  map[string]int
}

// New writes to w.
func New(w io.Writer) *Writer { return &Writer{b: bufio.NewWriter(w)} }

// Family begins a family. The unit, which may be empty, ends its name.
func (w *Writer) Family(name string, t Type, unit, help string) {
	fmt.Fprintf(w.b, "# TYPE %s %s\n", name, t)
	if unit != "" {
		fmt.Fprintf(w.b, "# UNIT %s %s\n", name, unit)
	}
	fmt.Fprintf(w.b, "# HELP %s %s\n", name, escape(help))
	w.name, w.state, w.seen = name, "", map[string]int{}
	switch t {
	case Info:
		w.name += "_info"
	case StateSet:
		w.state = name
	}
}

// Sample writes a number of the family.
func (w *Writer) Sample(value float64, labels ...Label) {
	w.line(w.unique(labels), value)
}

// State writes a sample of each state, of which one holds.
func (w *Writer) State(holds string, states []string, labels ...Label) {
	of := w.unique(labels)
	if of != "" {
		of += ","
	}
	for _, s := range states {
		value := 0.0
		if s == holds {
			value = 1
		}
		w.line(of+text(Label{w.state, s}), value)
	}
}

func (w *Writer) line(labels string, value float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(w.b, "%s%s %s\n", w.name, labels, number(value))
}

// unique writes labels. Those that the family had before get a number behind their last
// value: the format allows each once, and names of strangers may look alike.
func (w *Writer) unique(labels []Label) string {
	s := text(labels...)
	if w.seen[s]++; w.seen[s] > 1 && len(labels) > 0 {
		again := slices.Clone(labels)
		again[len(again)-1].Value += fmt.Sprintf(" #%d", w.seen[s])
		return text(again...)
	}
	return s
}

// Close ends the text.
func (w *Writer) Close() error {
	_, _ = w.b.WriteString("# EOF\n")
	return w.b.Flush()
}

func text(labels ...Label) string {
	var b strings.Builder
	for i, l := range labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.Name + `="` + escape(l.Value) + `"`)
	}
	return b.String()
}

func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "+Inf"
	case math.IsInf(x, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// escape is what the format escapes, and what would act on a terminal.
func escape(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == '"':
			b.WriteString(`\"`)
		case r == '\n':
			b.WriteString(`\n`)
		case unicode.In(r, unicode.Cc, unicode.Cf):
			fmt.Fprintf(&b, `\\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
