package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// Bounds of a policy.
const (
	maxPercent  = 1_000_000
	maxEffectNS = 1e9
	maxSamples  = 10_000
	maxPattern  = 256
)

// policy reads how runs are judged, over the defaults. A measure that is named
// has only the limits that stand there.
func (r *reader) policy(n *yaml.Node) gate.Policy {
	p := r.preset(n)
	var overrides *yaml.Node
	effects := 0 // how many of the two names of one thing
	once := func(k *yaml.Node) {
		if effects++; effects > 1 {
			r.fail(k, "leave one of them out", "both min_effect and min_effect_ns")
		}
	}
	limits := map[string]*yaml.Node{}
	known := fields{
		"preset": func(_, _ *yaml.Node) {},
		"alpha":  func(_, v *yaml.Node) { p.Alpha = r.ratio(v, "alpha", 0, 1) },
		"test": func(_, v *yaml.Node) {
			w, _ := r.choice(v, "test", string(gate.SignedRank), string(gate.PairedT))
			p.Test = gate.PairedTest(w)
		},
		"budget": func(_, v *yaml.Node) { p.Budget, _ = r.duration(v, "budget") },
		"min_effect_ns": func(k, v *yaml.Node) {
			once(k)
			p.MinEffectNS = r.nanoseconds(v, "min_effect_ns", parseDecimal)
		},
		"min_effect": func(k, v *yaml.Node) {
			once(k)
			p.MinEffectNS = r.nanoseconds(v, "min_effect", parseNS)
		},
		"threshold": func(_, v *yaml.Node) { p.Threshold = r.threshold(v, nil, p.Threshold) },
		"overrides": func(_, v *yaml.Node) { overrides = v },
		"waivers":   func(_, v *yaml.Node) { p.Waivers = r.waivers(v) },
	}
	for _, m := range measuresIn(n) {
		known[m.Name] = func(_, v *yaml.Node) { limits[m.Name] = v }
	}
	r.mapping(n, "policy", known)
	// What has defaults in other parts of the policy is read after these.
	for name, v := range limits {
		m, _ := bench.LookupMeasure(name)
		p.Limits[name] = r.limit(v, m, p.Threshold)
	}
	if overrides != nil {
		p.Overrides = r.overrides(overrides, p.Threshold)
	}
	return p
}

// preset is the policy that the other keys of one are written over.
func (r *reader) preset(n *yaml.Node) gate.Policy {
	all := gate.Presets()
	for key, v := range pairs(n) {
		if key.Value != "preset" {
			continue
		}
		w, _ := r.choice(v, "preset", presetWords()...)
		for _, p := range all {
			if p.Name == w {
				return p.Policy()
			}
		}
	}
	return all[0].Policy()
}

func presetWords() []string {
	var words []string
	for _, p := range gate.Presets() {
		words = append(words, p.Name)
	}
	return words
}

// presetNames says what each preset is.
func presetNames() string {
	var all []string
	for _, p := range gate.Presets() {
		all = append(all, "`"+p.Name+"` ("+p.Help+")")
	}
	return strings.Join(all, ", ")
}

// measuresIn are all measures, and the members of families that the keys of a
// mapping name: calls[bpf_redirect].
func measuresIn(n *yaml.Node) []bench.Measure {
	all := bench.Measures()
	for key := range pairs(n) {
		if _, _, member := bench.SplitMember(key.Value); !member {
			continue
		}
		if m, ok := bench.LookupMeasure(key.Value); ok {
			all = append(all, m)
		}
	}
	return all
}

// overrides reads the limits of some benchmarks.
func (r *reader) overrides(n *yaml.Node, t gate.Threshold) []gate.Override {
	var all []gate.Override
	for _, e := range r.list(n, "overrides") {
		o := gate.Override{Limits: map[string]gate.Limit{}}
		known := fields{
			"benchmark": func(_, v *yaml.Node) { o.Benchmark = r.benchmarkPattern(v) },
			"kernel":    func(_, v *yaml.Node) { o.Kernel = r.kernelPattern(v) },
		}
		for _, m := range measuresIn(e) {
			known[m.Name] = func(_, v *yaml.Node) { o.Limits[m.Name] = r.limit(v, m, t) }
		}
		before := len(r.found)
		r.mapping(e, "an override", known)
		switch {
		case len(r.found) > before:
		case o.Benchmark == "" && o.Kernel == "":
			r.fail(e, "benchmark: program/*", "an override needs the benchmark or the kernel that it is for")
		case len(o.Limits) == 0:
			r.fail(e, "latency: {fail: 5%}", "an override without a measure changes nothing")
		}
		all = append(all, o)
	}
	return all
}

// waivers reads the regressions that are accepted, and until when.
func (r *reader) waivers(n *yaml.Node) []gate.Waiver {
	var all []gate.Waiver
	for _, e := range r.list(n, "waivers") {
		v := gate.Waiver{Max: map[string]gate.Margin{}}
		before := len(r.found)
		missing := map[string]string{"benchmark": "benchmark: program/case", "max": "max: {latency: 6%}", "until": "until: 2027-01-31", "reason": `reason: "why it is worth it, #412"`}
		known := fields{
			"benchmark": func(_, c *yaml.Node) { v.Benchmark = r.benchmarkPattern(c) },
			"reason":    func(_, c *yaml.Node) { v.Reason, _ = r.word(c, "reason", "a sentence") },
			"since":     func(_, c *yaml.Node) { v.Since = r.date(c, "since") },
			"until":     func(_, c *yaml.Node) { v.Until = r.date(c, "until") },
			"max": func(_, c *yaml.Node) {
				measures := fields{}
				for _, m := range measuresIn(c) {
					measures[m.Name] = func(_, c *yaml.Node) {
						if margin := r.margin(c, "max", m); margin != nil {
							v.Max[m.Name] = *margin
						}
					}
				}
				if r.mapping(c, "max", measures) && len(c.Content) == 0 {
					r.fail(c, missing["max"], "max names no measure")
				}
			},
		}
		r.mapping(e, "a waiver", known)
		for key := range pairs(e) {
			delete(missing, key.Value)
		}
		switch {
		case len(r.found) > before:
		case len(missing) > 0:
			key := slices.Sorted(maps.Keys(missing))[0]
			r.fail(e, missing[key], "a waiver needs %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
		case v.Since.After(v.Until):
			r.fail(e, "", "the waiver ends before it starts")
		}
		all = append(all, v)
	}
	return all
}

// date reads a day.
func (r *reader) date(n *yaml.Node, what string) time.Time {
	w, ok := r.word(n, what, "a day such as 2027-01-31")
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.DateOnly, w)
	if err != nil || t.IsZero() {
		r.fail(n, "year, month and day: 2027-01-31", "%s is not a day: %s", what, quote(w))
	}
	return t
}

// benchmarkPattern is the name of a benchmark, or a pattern of several.
func (r *reader) benchmarkPattern(n *yaml.Node) string {
	w, ok := r.word(n, "benchmark", "a name of a benchmark, or a pattern such as program/*")
	if !ok {
		return ""
	}
	if _, err := path.Match(w, ""); err != nil || len(w) > maxPattern {
		r.fail(n, "*, ? and [a-z] stand for characters of a name", "%s is not a pattern", quote(w))
		return ""
	}
	return w
}

// kernelPattern is a version of the kernel, or a pattern of several.
func (r *reader) kernelPattern(n *yaml.Node) string {
	w, ok := r.word(n, "kernel", "a version such as 6.1, or a pattern such as 5.*")
	if !ok {
		return ""
	}
	if _, err := path.Match(w, ""); err != nil || len(w) > maxPattern {
		r.fail(n, "6.1, 5.* or 6.8.0-*-azure", "%s is not a pattern", quote(w))
		return ""
	}
	return w
}

// limit reads what may happen to one measure.
func (r *reader) limit(n *yaml.Node, m bench.Measure, t gate.Threshold) gate.Limit {
	var l gate.Limit
	r.mapping(n, m.Name, fields{
		"warn": func(_, v *yaml.Node) { l.Warn = r.margin(v, "warn", m) },
		"fail": func(_, v *yaml.Node) { l.Fail = r.margin(v, "fail", m) },
		"max":  func(_, v *yaml.Node) { l.Max, l.MaxWarn = r.most(v, m) },
		"threshold": func(_, v *yaml.Node) {
			own := r.threshold(v, &m, t)
			l.Threshold = &own
		},
	})
	if w, f := l.Warn, l.Fail; w != nil && f != nil &&
		(w.Ratio > f.Ratio && f.Absolute == 0 || w.Absolute > f.Absolute && f.Ratio == 0) {
		r.fail(n, "warn is the smaller one: it tells before fail does", "warn of %s is above fail", m.Name)
	}
	return l
}

// most reads what head may not exceed: one value, which fails, or one to warn of and
// one to fail at.
func (r *reader) most(n *yaml.Node, m bench.Measure) (fail, warn *float64) {
	if n.Kind != yaml.MappingNode {
		return r.share(n, "max", m), nil
	}
	before := len(r.found)
	r.mapping(n, "max", fields{
		"warn": func(_, v *yaml.Node) { warn = r.share(v, "max", m) },
		"fail": func(_, v *yaml.Node) { fail = r.share(v, "max", m) },
	})
	switch {
	case len(r.found) > before:
	case fail == nil && warn == nil:
		r.fail(n, "max: {warn: 80%, fail: 95%}", "max of %s has neither warn nor fail", m.Name)
	case fail != nil && warn != nil && *warn > *fail:
		r.fail(n, "warn is the smaller one: it tells before fail does", "warn of %s is above fail", m.Name)
	}
	return fail, warn
}

// share reads a number of a measure's unit, or a percentage of what the kernel allows
// of it.
func (r *reader) share(n *yaml.Node, what string, m bench.Measure) *float64 {
	if ratio, ok := parsePercent(n.Value); ok && n.Kind == yaml.ScalarNode {
		most := m.KernelLimit()
		switch {
		case most == 0:
			r.fail(n, "write a number of "+m.Unit, "the kernel has no limit of %s that %s could be of", m.Name, quote(n.Value))
			return nil
		case ratio > 1:
			r.fail(n, "", "%s of %s is above the kernel's own limit", what, m.Name)
			return nil
		}
		q := ratio * most
		return &q
	}
	return r.quantity(n, what, m)
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

// quantity reads a number of a measure's unit; a time may have its own.
func (r *reader) quantity(n *yaml.Node, what string, m bench.Measure) *float64 {
	must := "a number of " + m.Unit
	if timed(m) {
		must += ", or a time such as 200ns"
	}
	w, ok := r.word(n, what, must)
	if !ok {
		return nil
	}
	q, ok := parseDecimal(w)
	if !ok && timed(m) {
		if q, ok = parseNS(w); m.Unit == "us" {
			q /= 1e3
		}
	}
	if !ok {
		r.wrong(n, what+" of "+m.Name, must)
		return nil
	}
	return &q
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
