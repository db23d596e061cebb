package profile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/org/ebpf-bench-gate/internal/symbol"
)

// A node of a flame graph is a function under all those that called it.
type node struct {
	frame symbol.Frame
	value int64 // ns, of the profile that is drawn
	base  int64 // ns, of the one that it is compared with
	under map[nodeKey]*node
}

type nodeKey struct {
	name string
	kind symbol.Kind
}

// graft adds the stacks of a profile to a tree, whose root is everything, whose first level is
// names of threads, and whose others are functions.
func (n *node) graft(p *Profile, add func(*node, int64)) {
	for _, s := range p.Stacks {
		add(n, s.Value)
		at := n.child(symbol.Frame{Function: s.Comm})
		add(at, s.Value)
		for _, l := range slices.Backward(s.Locations) {
			for _, f := range slices.Backward(l.Frames) {
				at = at.child(f)
				add(at, s.Value)
			}
		}
	}
}

func (n *node) child(f symbol.Frame) *node {
	key := nodeKey{name(f), f.Kind}
	c := n.under[key]
	if c == nil {
		c = &node{frame: f}
		if n.under == nil {
			n.under = map[nodeKey]*node{}
		}
		n.under[key] = c
	}
	return c
}

// children are in the order of their names, so that graphs of similar profiles look similar.
func (n *node) children() []*node {
	keys := slices.SortedFunc(maps.Keys(n.under), func(a, b nodeKey) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
	out := make([]*node, len(keys))
	for i, k := range keys {
		out[i] = n.under[k]
	}
	return out
}

func toValue(n *node, v int64) { n.value += v }
func toBase(n *node, v int64)  { n.base += v }

// scale multiplies what a tree has of the base, so that profiles of different lengths compare.
func (n *node) scale(by float64) {
	n.base = int64(float64(n.base) * by)
	for _, c := range n.under {
		c.scale(by)
	}
}

// walk visits the nodes that are at least so wide, from the root, each with where it begins and
// how deep it lies.
func (n *node) walk(least int64, visit func(n *node, at int64, depth int)) {
	var from func(n *node, at int64, depth int)
	from = func(n *node, at int64, depth int) {
		visit(n, at, depth)
		for _, c := range n.children() {
			if c.value >= least && c.value > 0 {
				from(c, at, depth+1)
			}
			at += c.value
		}
	}
	from(n, 0, 0)
}
