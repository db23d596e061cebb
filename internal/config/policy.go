package config

import (
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// Bounds of a policy.
const (
	maxPercent  = 1_000_000
	maxEffectNS = 1e9
	maxSamples  = 10_000
)

// policy reads how runs are judged, over the defaults. A measure that is named
// has only the limits that stand there.
func (r *reader) policy(n *yaml.Node) gate.Policy {
	p := gate.DefaultPolicy()
	p.Limits = maps.Clone(p.Limits)
	effects := 0 // how many of the two names of one thing
	once := func(k *yaml.Node) {
		if effects++; effects > 1 {
			r.fail(k, "leave one of them out", "both min_effect and min_effect_ns")
		}
	}
	known := fields{
		"alpha":  func(_, v *yaml.Node) { p.Alpha = r.ratio(v, "alpha", 0, 1) },
		"budget": func(_, v *yaml.Node) { p.Budget, _ = r.duration(v, "budget") },
		"min_effect_ns": func(k, v *yaml.Node) {
			once(k)
			p.MinEffectNS = r.nanoseconds(v, "min_effect_ns", parseDecimal)
		},
		"min_effect": func(k, v *yaml.Node) {
			once(k)
			p.MinEffectNS = r.nanoseconds(v, "min_effect", parseNS)
		},
		"threshold": func(_, v *yaml.Node) { p.Threshold = r.threshold(v, p.Threshold) },
	}
	for _, m := range bench.Measures() {
		known[m.Name] = func(_, v *yaml.Node) { p.Limits[m.Name] = r.limit(v, m) }
	}
	r.mapping(n, "policy", known)
	return p
}

// limit reads what may happen to one measure.
func (r *reader) limit(n *yaml.Node, m bench.Measure) gate.Limit {
	var l gate.Limit
	r.mapping(n, m.Name, fields{
		"warn": func(_, v *yaml.Node) { l.Warn = r.margin(v, "warn", m) },
		"fail": func(_, v *yaml.Node) { l.Fail = r.margin(v, "fail", m) },
		"max":  func(_, v *yaml.Node) { l.Max = r.max(v, m) },
	})
	if w, f := l.Warn, l.Fail; w != nil && f != nil &&
		(w.Ratio > f.Ratio && f.Absolute == 0 || w.Absolute > f.Absolute && f.Ratio == 0) {
		r.fail(n, "warn is the smaller one: it tells before fail does", "warn of %s is above fail", m.Name)
	}
	return l
}

// timed tells that a measure is a time, for which a number alone says nothing.
func timed(m bench.Measure) bool { return m.Unit == "ns" || m.Unit == "us" }

// margin reads a change: "3%", or a number for counts.
func (r *reader) margin(n *yaml.Node, what string, m bench.Measure) *gate.Margin {
	must := "a percentage such as 3%, or a number of " + m.Unit
	if timed(m) {
		must = "a percentage such as 3%, or 0"
	}
	w, ok := r.word(n, what, must)
	if !ok {
		return nil
	}
	if ratio, ok := parsePercent(w); ok && ratio*100 <= maxPercent {
		return &gate.Margin{Ratio: ratio}
	}
	if abs, ok := parseDecimal(w); ok && (abs == 0 || !timed(m)) {
		return &gate.Margin{Absolute: abs}
	}
	r.wrong(n, what+" of "+m.Name, must)
	return nil
}

// max reads the most that a measure may be, in its unit; a time may have its own.
func (r *reader) max(n *yaml.Node, m bench.Measure) *float64 {
	must := "a number of " + m.Unit
	if timed(m) {
		must += ", or a time such as 200ns"
	}
	w, ok := r.word(n, "max", must)
	if !ok {
		return nil
	}
	most, ok := parseDecimal(w)
	if !ok && timed(m) {
		if most, ok = parseNS(w); m.Unit == "us" {
			most /= 1e3
		}
	}
	if !ok {
		r.wrong(n, "max of "+m.Name, must)
		return nil
	}
	return &most
}

// ratio reads a fraction or a percentage between two bounds, both excluded.
func (r *reader) ratio(n *yaml.Node, what string, least, most float64) float64 {
	must := fmt.Sprintf("a number above %v and below %v, or a percentage", least, most)
	w, ok := r.word(n, what, must)
	if !ok {
		return 0
	}
	f, ok := parseDecimal(w)
	if !ok {
		f, ok = parsePercent(w)
	}
	if !ok || f <= least || f >= most {
		r.wrong(n, what, must)
	}
	return f
}

func (r *reader) nanoseconds(n *yaml.Node, what string, parse func(string) (float64, bool)) float64 {
	must := "a number of ns from 0 to 1e9"
	if strings.HasSuffix(what, "effect") {
		must = "a time such as 1ns, at most 1s"
	}
	w, ok := r.word(n, what, must)
	if !ok {
		return 0
	}
	ns, ok := parse(w)
	if !ok || ns > maxEffectNS {
		r.wrong(n, what, must)
	}
	return ns
}

// threshold reads the rule against history, over its defaults.
func (r *reader) threshold(n *yaml.Node, t gate.Threshold) gate.Threshold {
	side := func(v *yaml.Node, what string) float64 {
		if v.Kind == yaml.ScalarNode && v.Value == "none" {
			return 0
		}
		return r.ratio(v, what, 0.5, 1)
	}
	r.mapping(n, "threshold", fields{
		"test": func(_, v *yaml.Node) {
			test, _ := r.choice(v, "test", string(gate.TTest))
			t.Test = gate.Test(test)
		},
		"upper":           func(_, v *yaml.Node) { t.Upper = side(v, "upper") },
		"lower":           func(_, v *yaml.Node) { t.Lower = side(v, "lower") },
		"min_sample_size": func(_, v *yaml.Node) { t.MinSamples = r.count(v, "min_sample_size", 2, maxSamples) },
		"max_sample_size": func(_, v *yaml.Node) { t.MaxSamples = r.count(v, "max_sample_size", 2, maxSamples) },
	})
	if t.MaxSamples < t.MinSamples {
		r.fail(n, "", "max_sample_size is %d, below the min_sample_size of %d", t.MaxSamples, t.MinSamples)
	}
	if t.Upper == 0 && t.Lower == 0 {
		r.fail(n, "upper: 0.99", "a threshold with neither upper nor lower judges nothing")
	}
	return t
}
