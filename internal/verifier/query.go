package verifier

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Query is which programs are shown, in which order, and what of them.
type Query struct {
	// Columns are the statistics; nil are the usual ones of a format.
	Columns []Column
	// Sort is the order; ties, and nil, are by file and program.
	Sort []Column
	// Allow are the filters of which one must match, those of names and those of
	// numbers apart; Deny those of which none may.
	Allow, Deny []Filter
	Top         int // rows; 0: all
}

// A Column is a statistic, and of a comparison one side of it.
type Column struct {
	stat    *Stat
	variant variant
	abs     bool // regardless of the sign
	asc     bool
}

// A variant is which number of a comparison is meant.
type variant int

const (
	head variant = iota // veristat's B, and what is meant where nothing is said
	base
	difference
	percent
)

var suffixes = map[string]variant{"_a": base, "_b": head, "_diff": difference, "_pct": percent}

// parseColumn reads "insns", "|insns_pct|" or "insns_a".
func parseColumn(s string) (Column, error) {
	name, c := s, Column{}
	if len(name) > 2 && name[0] == '|' && name[len(name)-1] == '|' {
		c.abs, name = true, name[1:len(name)-1]
	}
	if c.stat = lookup(name); c.stat == nil {
		for suffix, v := range suffixes {
			if bare, ok := strings.CutSuffix(name, suffix); ok {
				if c.stat = lookup(bare); c.stat != nil {
					c.variant = v
					break
				}
			}
		}
	}
	if c.stat == nil {
		return c, fmt.Errorf("unknown statistic %q: expected one of %s", s, strings.Join(Names(), ", "))
	}
	c.asc = c.stat.asc
	return c, nil
}

// ParseColumns reads a list such as "file,prog,insns".
func ParseColumns(s string) ([]Column, error) {
	var out []Column
	for name := range strings.SplitSeq(s, ",") {
		c, err := parseColumn(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// ParseSort reads an order such as "verdict,insns_diff^": ^ upwards, v downwards, by
// themselves as veristat has it.
func ParseSort(s string) ([]Column, error) {
	var out []Column
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		order := ""
		if n := len(name); n > 1 && strings.ContainsRune("^vV.!_", rune(name[n-1])) {
			order, name = name[n-1:], name[:n-1]
		}
		c, err := parseColumn(name)
		if err != nil {
			return nil, err
		}
		if order != "" {
			c.asc = order == "^"
		}
		out = append(out, c)
	}
	return out, nil
}

// columns are the names of statistics that are known to exist.
func columns(names ...string) []Column {
	var out []Column
	for _, n := range names {
		s := lookup(n)
		out = append(out, Column{stat: s, asc: s.asc})
	}
	return out
}

// number is what a column says of a pair; NaN: it does not.
func (c Column) number(p *Pair) float64 {
	v := c.signed(p)
	if c.abs {
		v = math.Abs(v)
	}
	return v
}

func (c Column) signed(p *Pair) float64 {
	side := func(r *Row) float64 {
		if r == nil {
			return math.NaN()
		}
		return r.number(c.stat)
	}
	if !p.compared {
		return side(p.Head) // there is one side, whichever was meant
	}
	a, b := side(p.Base), side(p.Head)
	switch c.variant {
	case base:
		return a
	case head:
		return b
	}
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return math.NaN()
	case c.stat.Name() == statVerdict && c.variant == difference:
		if a == b { // veristat's MATCH
			return 1
		}
		return 0
	case c.variant == difference:
		return b - a
	}
	return change(a, b)
}

// change is b against a in per cent; what was 0 and is not any more is 100%.
func change(a, b float64) float64 {
	switch {
	case a != 0:
		return (b - a) * 100 / a
	case b == a:
		return 0
	case b < a:
		return -100
	}
	return 100
}

func (c Column) text(p *Pair) string {
	r := p.Head
	if r == nil || p.compared && c.variant == base && p.Base != nil {
		r = p.Base
	}
	return r.text(c.stat)
}

// compare orders two pairs by a column; what is unknown is the least.
func (c Column) compare(a, b *Pair) int {
	if !c.asc {
		a, b = b, a
	}
	if c.stat.text {
		return strings.Compare(c.text(a), c.text(b))
	}
	return cmp.Compare(c.number(a), c.number(b)) // NaN is less than any number
}

// Select returns the pairs that the query asks for, in its order.
func (q *Query) Select(pairs []Pair) []Pair {
	var out []Pair
	for i := range pairs {
		if q.wants(&pairs[i]) {
			out = append(out, pairs[i])
		}
	}
	order := append(slices.Clone(q.Sort), columns(statFile, statProgram)...)
	slices.SortStableFunc(out, func(a, b Pair) int {
		for _, c := range order {
			if d := c.compare(&a, &b); d != 0 {
				return d
			}
		}
		return 0
	})
	if q.Top > 0 && len(out) > q.Top {
		out = out[:q.Top]
	}
	return out
}
