package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// A Setting is one thing that holds for a benchmark, and who says so: a line of the
// config, a preset, or nobody.
type Setting struct {
	Key, Value, From string
}

// Explain says how a benchmark is driven and judged by a config: every key that is
// written or has a default, and every limit and waiver. The error is [Diagnostics]
// where the config has mistakes, and has a Hint where there is no such benchmark.
func Explain(file string, src []byte, benchmark string) ([]Setting, error) {
	s, err := Parse(file, src)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, b := range s.Benchmarks {
		names = append(names, b.Name)
	}
	if !slices.Contains(names, benchmark) {
		return nil, &unknownKey{fmt.Errorf("%s has no benchmark %s", file, quote(benchmark)), expected(benchmark, names)}
	}
	r := &reader{source: file}
	root := r.tree(src)
	e := explainer{file: file, policy: child(root, "policy"), suite: s, benchmark: benchmark}
	e.driven(child(child(root, "benchmarks"), benchmark))
	e.judged()
	return e.settings, nil
}

type explainer struct {
	file, benchmark string
	suite           *Suite
	policy          *yaml.Node
	settings        []Setting
}

// child is what a key of a mapping has; nil: nothing.
func child(n *yaml.Node, name string) *yaml.Node {
	if n == nil {
		return nil
	}
	for k, v := range pairs(n) {
		if k.Value == name {
			return v
		}
	}
	return nil
}

func (e *explainer) add(key, value, from string) {
	e.settings = append(e.settings, Setting{key, value, from})
}

func (e *explainer) at(n *yaml.Node) string { return e.file + ":" + strconv.Itoa(n.Line) }

// driven adds the keys of the benchmark.
func (e *explainer) driven(n *yaml.Node) {
	all, _ := Lookup("benchmarks")
	atWork := child(n, "work") != nil
	for _, k := range all.Shape.All() {
		switch v := child(n, k.Name); {
		case v != nil:
			e.add(k.Name, inline(v), e.at(v))
		case k.Default == "" || atWork && slices.Contains([]string{"packets", "context", "expect", "repeat", "restore", "veth"}, k.Name),
			!atWork && (k.Name == "work" || slices.Contains(needWork, k.Name)):
		default:
			e.add(k.Name, strings.ReplaceAll(k.Default, "`", ""), "default")
		}
	}
}

// inline is a node in one line.
func inline(n *yaml.Node) string {
	const most = 100
	var flow func(n yaml.Node) *yaml.Node
	flow = func(n yaml.Node) *yaml.Node {
		n.HeadComment, n.LineComment, n.FootComment = "", "", ""
		if n.Kind != yaml.ScalarNode {
			n.Style = yaml.FlowStyle
		}
		n.Content = slices.Clone(n.Content)
		for i, c := range n.Content {
			n.Content[i] = flow(*c)
		}
		return &n
	}
	text, err := yaml.Marshal(flow(*n))
	if err != nil {
		return kind(n)
	}
	words := []rune(strings.Join(strings.Fields(string(text)), " "))
	if len(words) > most {
		words = append(words[:most:most], '…')
	}
	return string(words)
}

// judged adds what may happen to each measure, and what is waived.
func (e *explainer) judged() {
	p := e.suite.Policy
	source := func(keys ...string) string {
		for _, key := range keys {
			if v := child(e.policy, key); v != nil {
				return e.at(v)
			}
		}
		return "default"
	}
	preset := source("preset")
	if preset != "default" {
		preset = "preset " + child(e.policy, "preset").Value + ", " + preset
	}
	e.add("policy.alpha", strconv.FormatFloat(p.Alpha, 'g', -1, 64), source("alpha"))
	e.add("policy.test", string(cmp.Or(p.Test, gate.SignedRank)), source("test"))
	e.add("policy.min_effect", strconv.FormatFloat(p.MinEffectNS, 'g', -1, 64)+"ns", source("min_effect", "min_effect_ns"))
	names := map[string]bool{}
	for name := range p.Limits {
		names[name] = true
	}
	for _, o := range p.Overrides {
		for name := range o.Limits {
			names[name] = names[name] || o.For(e.benchmark)
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(names), bench.MeasureOrder) {
		m, _ := bench.LookupMeasure(name)
		if !names[name] || m.Static {
			continue
		}
		from := preset
		if v := child(e.policy, name); v != nil {
			from = e.at(v)
		}
		for i, o := range p.Overrides {
			if _, ok := o.Limits[name]; ok && o.For(e.benchmark) {
				v := child(e.policy, "overrides").Content[i]
				if from = "override, " + e.at(v); o.Kernel != "" {
					from = "override for kernel " + o.Kernel + ", " + e.at(v)
				}
			}
		}
		e.add("policy."+name, limitText(p.Limit(e.benchmark, name), m), from)
	}
	for i, w := range p.Waivers {
		if !w.For(e.benchmark) {
			continue
		}
		v := child(e.policy, "waivers").Content[i]
		e.add("waiver", inline(child(v, "max"))+" until "+w.Until.Format("2006-01-02")+": "+w.Reason, e.at(v))
	}
}

// limitText is a limit as it would be written.
func limitText(l gate.Limit, m bench.Measure) string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	margin := func(m *gate.Margin) string {
		switch {
		case m.Ratio != 0:
			return number(100*m.Ratio) + "%"
		default:
			return number(m.Absolute)
		}
	}
	var parts []string
	if l.Warn != nil {
		parts = append(parts, "warn: "+margin(l.Warn))
	}
	if l.Fail != nil {
		parts = append(parts, "fail: "+margin(l.Fail))
	}
	if l.MaxWarn != nil {
		parts = append(parts, "max.warn: "+number(*l.MaxWarn)+" "+m.Unit)
	}
	if l.Max != nil {
		parts = append(parts, "max.fail: "+number(*l.Max)+" "+m.Unit)
	}
	if l.Threshold != nil {
		parts = append(parts, "threshold: "+string(l.Threshold.Test))
	}
	if parts == nil {
		return "told, not judged"
	}
	return strings.Join(parts, ", ")
}
