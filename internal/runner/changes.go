//go:build linux

package runner

import (
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
)

// changes tells head which of its programs differ from base's, and whether any
// benchmark executes what differs. Nothing is told of a program that a benchmark may
// execute without its being seen, where counters were not taken.
func (r *run) changes() {
	if len(r.Sides) < 2 {
		return
	}
	for _, c := range r.cases {
		r.countReal(c)
	}
	type objects struct{ base, head *bpf.Object }
	type counts struct {
		base, head *bpf.Executions
		noisy      bool
	}
	seen := map[objects]*counts{}
	var order []objects
	ran, unknown := map[string]bool{}, map[string]bool{}
	for _, c := range r.cases {
		if len(c.objects) < len(r.Sides) {
			continue
		}
		pair := objects{c.objects[0], c.objects[1]}
		for _, entry := range append([]string{c.Program}, c.With...) {
			for _, p := range append(pair.base.Reaches(entry), pair.head.Reaches(entry)...) {
				ran[p] = true
				unknown[p] = unknown[p] || c.executed == nil
			}
		}
		if c.executed == nil {
			continue
		}
		n := seen[pair]
		if n == nil {
			n = &counts{base: &bpf.Executions{}, head: &bpf.Executions{}}
			seen[pair], order = n, append(order, pair)
		}
		n.base.Add(c.executed[0])
		n.head.Add(c.executed[1])
		n.noisy = n.noisy || c.noisy
	}
	var all []bench.Change
	for _, pair := range order {
		n := seen[pair]
		for _, c := range bpf.Changes(n.base, n.head, n.noisy) {
			if c.Executed && c.Reached || !unknown[c.Program] {
				all = append(all, c)
			}
		}
	}
	if !r.Partial {
		all = append(all, r.neverRun(ran)...)
	}
	head := r.runs[len(r.runs)-1]
	head.Changes = all[:min(len(all), bench.MaxChanges)]
}

// countReal counts what real packets execute, by test runs of the same packets:
// attached programs are not loaded with counters. Where the kernel cannot test-run
// the type, it is not known.
func (r *run) countReal(c *benchCase) {
	if c.Veth == nil || len(c.objects) < len(r.Sides) {
		return
	}
	b := c.Benchmark
	b.Veth = nil
	for i, o := range c.objects {
		e, err := r.session.Executions(b, bpf.Side{Name: r.Sides[i].Name, Object: o})
		if err != nil {
			c.executed = nil
			return
		}
		c.executed = append(c.executed, e)
	}
}

// neverRun are the programs that differ and that no benchmark runs.
func (r *run) neverRun(ran map[string]bool) []bench.Change {
	var out []bench.Change
	base, head := &r.Sides[0], &r.Sides[len(r.Sides)-1]
	for _, o := range head.Objects {
		for _, p := range o.Programs() {
			was, ok := base.find(p)
			if !ok || ran[p] || was.SameInstructions(o.Object, p) || slices.ContainsFunc(r.Benchmarks, func(b bench.Benchmark) bool { return b.Program == p }) {
				continue
			}
			out = append(out, bench.Change{Program: p, NotRun: true})
		}
	}
	return out
}
