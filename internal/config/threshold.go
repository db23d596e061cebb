package config

import (
	"fmt"
	"math"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// maxWindow is the longest window of a threshold: ten years.
const maxWindow = 10 * 365 * 24 * time.Hour

// threshold reads a rule against history: the policy's (m is nil) over its
// defaults, or the one of a measure, which takes the numbers of samples from the
// policy's where it has none.
func (r *reader) threshold(n *yaml.Node, m *bench.Measure, t gate.Threshold) gate.Threshold {
	names := make([]string, 0, 7)
	for _, test := range gate.Tests() {
		if test != gate.Static || m != nil { // fixed limits are those of a measure
			names = append(names, string(test))
		}
	}
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "threshold", "a mapping")
		return t
	}
	// The other keys depend on the test.
	named := false
	for key, v := range pairs(n) {
		if key.Value != "test" {
			continue
		}
		w, ok := r.choice(v, "test", names...)
		if !ok {
			return t
		}
		named = true
		if gate.Test(w) != t.Test {
			t.Test, t.Upper, t.Lower = gate.Test(w), nil, nil // other tests, other numbers
			if t.Test == gate.Percentage {
				t.MinSamples = 1
			}
		}
	}
	if m != nil && !named {
		r.fail(n, "test: t_test", "the threshold of %s has no test", m.Name)
		return t
	}
	side := func(v *yaml.Node, what string) *float64 {
		if v.Kind == yaml.ScalarNode && v.Value == "none" {
			return nil
		}
		return r.side(v, what, t.Test, m)
	}
	before := len(r.found)
	least := uint64(2)
	if t.Test == gate.Percentage {
		least = 1
	}
	most, fewest := false, false
	known := fields{
		"test":  func(_, _ *yaml.Node) {},
		"upper": func(_, v *yaml.Node) { t.Upper = side(v, "upper") },
		"lower": func(_, v *yaml.Node) { t.Lower = side(v, "lower") },
	}
	if t.Test != gate.Static { // which regards no history
		known["min_sample_size"] = func(_, v *yaml.Node) {
			fewest = true
			t.MinSamples = r.count(v, "min_sample_size", least, maxSamples)
		}
		known["max_sample_size"] = func(_, v *yaml.Node) {
			most = true
			t.MaxSamples = r.count(v, "max_sample_size", least, maxSamples)
		}
		known["window"] = func(_, v *yaml.Node) { t.Window = r.window(v) }
		known["change_points"] = func(_, v *yaml.Node) {
			w, ok := r.choice(v, "change_points", "restart", "ignore")
			t.KeepChanges = ok && w == "ignore"
		}
	}
	r.mapping(n, "threshold", known)
	switch {
	case len(r.found) > before:
	case t.MaxSamples > 0 && t.MaxSamples < t.MinSamples && (most || fewest):
		r.fail(n, "", "max_sample_size is %d, below the min_sample_size of %d", t.MaxSamples, t.MinSamples)
	case t.Upper == nil && t.Lower == nil:
		r.fail(n, example(t.Test), "a threshold with neither upper nor lower judges nothing")
	case t.Test == gate.Static && t.Upper != nil && t.Lower != nil && *t.Lower > *t.Upper:
		r.fail(n, "", "lower is above upper")
	}
	return t
}

// example is a limit that a test may have.
func example(t gate.Test) string {
	switch t {
	case gate.Static:
		return "upper: 200"
	case gate.Percentage:
		return "upper: 10%"
	case gate.IQR, gate.DeltaIQR:
		return "upper: 1.5"
	default:
		return "upper: 0.99"
	}
}

// side reads what a test takes for one limit.
func (r *reader) side(n *yaml.Node, what string, t gate.Test, m *bench.Measure) *float64 {
	if t == gate.Static {
		return r.quantity(n, what, *m)
	}
	least, most, closed := t.Limits()
	must := fmt.Sprintf("a number from %v and below %v, or a percentage", least, most)
	if closed {
		most = maxPercent
		must = "a number of 0 or more, or a percentage"
	}
	w, ok := r.word(n, what, must)
	if !ok {
		return nil
	}
	f, ok := parseDecimal(w)
	if !ok {
		f, ok = parsePercent(w)
	}
	if !ok || f < least || f > most || f == most && !closed {
		r.wrong(n, what, must)
		return nil
	}
	return &f
}

// window reads how far back history goes: "30d", "2w", or a duration of Go.
func (r *reader) window(n *yaml.Node) time.Duration {
	const must = "a time such as 30d, 8w or 12h"
	w, ok := r.word(n, "window", must)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(w)
	if err != nil {
		unit := map[byte]time.Duration{'d': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[w[len(w)-1]]
		f, ok := parseDecimal(w[:len(w)-1])
		if ns := math.Round(f * float64(unit)); ok && ns <= float64(maxWindow) {
			d = time.Duration(ns)
		}
	}
	if d <= 0 || d > maxWindow {
		r.fail(n, must, "window must be above 0 and up to 3650d, not %s", quote(w))
		return 0
	}
	return d
}
