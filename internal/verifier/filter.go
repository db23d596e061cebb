package verifier

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// A Filter is a condition on a program: on its names, or on a number of it.
type Filter struct {
	// any is a pattern that the file or the program matches; file and program are
	// patterns for each alone. Empty ones match all.
	any, file, program string

	column *Column // not nil: a condition on a number
	op     string
	value  float64
	source string
}

// operators are tried in this order, so that none is taken for a part of another.
var operators = []string{"==", "!=", "<>", "<=", "<", ">=", ">", "="}

// words are numbers by another name: verdicts, and whether both sides have the same.
var words = map[string]float64{
	"true": 1, "t": 1, "success": 1, "succ": 1, "s": 1, "match": 1, "m": 1,
	"false": 0, "f": 0, "failure": 0, "fail": 0, "mismatch": 0, "mis": 0,
}

// AddFilter adds a filter as veristat writes it: "total_insns>1000", "verdict=failure",
// "insns_pct>5", a pattern of names "xdp*", "file*/prog*", "/prog*" or "file*/"; "!…" for
// what is not wanted; "@file" for a file of such lines.
func (q *Query) AddFilter(s string) error {
	if name, ok := strings.CutPrefix(s, "@"); ok {
		return q.addFile(name)
	}
	list := &q.Allow
	if rest, ok := strings.CutPrefix(s, "!"); ok {
		list, s = &q.Deny, rest
	}
	f, err := ParseFilter(s)
	if err == nil {
		*list = append(*list, f)
	}
	return err
}

func (q *Query) addFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read filters: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '@' {
			return fmt.Errorf("%s:%d: a file of filters names no other file", name, n)
		}
		if err := q.AddFilter(line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read filters: %s: %w", name, err)
	}
	return nil
}

// ParseFilter reads one condition.
func ParseFilter(s string) (Filter, error) {
	for _, op := range operators {
		name, value, ok := strings.Cut(s, op)
		if !ok {
			continue
		}
		c, err := parseColumn(strings.TrimSpace(name))
		if err != nil {
			return Filter{}, fmt.Errorf("filter %q: %w", s, err)
		}
		if c.stat.text {
			return Filter{}, fmt.Errorf("filter %q: %s is not a number; a pattern such as 'xdp*' filters names", s, c.stat.Name())
		}
		value = strings.TrimSpace(value)
		v, ok := words[strings.ToLower(value)]
		if !ok {
			v, err = strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return Filter{}, fmt.Errorf("filter %q: %q is not a number", s, value)
			}
		}
		return Filter{column: &c, op: op, value: v, source: s}, nil
	}
	if s == "" {
		return Filter{}, fmt.Errorf("an empty filter")
	}
	file, program, both := strings.Cut(s, "/")
	if !both {
		return Filter{any: s}, nil
	}
	return Filter{file: file, program: program}, nil
}

// Numeric tells that the filter is a condition on a number.
func (f Filter) Numeric() bool { return f.column != nil }

// String is the condition as it was written.
func (f Filter) String() string { return f.source }

// Say says what number of a pair the condition holds of; empty: it does not.
func (f Filter) Say(p *Pair) string {
	if !f.matches(p) {
		return ""
	}
	if math.IsNaN(f.column.number(p)) {
		return f.source + ": one side has no such program"
	}
	unit, digits := "", -1
	if f.column.variant == percent || f.column.stat.Name() == statUsed {
		unit, digits = "%", 2
	}
	return fmt.Sprintf("%s: it is %s%s", f.source, strconv.FormatFloat(f.column.number(p), 'f', digits, 64), unit)
}

// Unknown tells that the condition cannot be told of a pair although its programs
// were accepted.
func (f Filter) Unknown(p *Pair) bool {
	if p.Head == nil || !p.Head.Accepted || p.compared && (p.Base == nil || !p.Base.Accepted) {
		return false
	}
	return math.IsNaN(f.column.number(p))
}

// names tells whether a filter of names matches. The program may be empty: not yet
// known, so that the file alone decides what it can.
func (f Filter) names(file, program string) bool {
	if f.any != "" {
		return glob(f.any, file) || program == "" || glob(f.any, program)
	}
	return (f.file == "" || glob(f.file, file)) && (f.program == "" || program == "" || glob(f.program, program))
}

// matches tells whether a filter of numbers matches. What is unknown matches none, but
// that a program of one side differs from the other.
func (f Filter) matches(p *Pair) bool {
	const epsilon = 1e-9
	v := f.column.number(p)
	if math.IsNaN(v) {
		return p.compared && (p.Base == nil || p.Head == nil) && (f.op == "!=" || f.op == "<>")
	}
	d := v - f.value
	switch f.op {
	case "==", "=":
		return math.Abs(d) <= epsilon
	case "!=", "<>":
		return math.Abs(d) > epsilon
	case "<":
		return d < -epsilon
	case "<=":
		return d <= epsilon
	case ">":
		return d > epsilon
	}
	return d >= -epsilon
}

// Wants tells whether a program is asked for by its names alone. An empty program
// asks whether the file may have such a one.
func (q *Query) Wants(file, program string) bool {
	for _, f := range q.Deny {
		if f.column == nil && f.denies(file, program) {
			return false
		}
	}
	asked := false
	for _, f := range q.Allow {
		if f.column != nil {
			continue
		}
		if asked = true; f.names(file, program) {
			return true
		}
	}
	return !asked
}

// denies tells whether a filter of names surely matches.
func (f Filter) denies(file, program string) bool {
	switch {
	case program != "":
		return f.names(file, program)
	case f.any != "":
		return glob(f.any, file)
	}
	return f.program == "" && glob(f.file, file)
}

func (q *Query) wants(p *Pair) bool {
	if !q.Wants(p.File, p.Program) {
		return false
	}
	for _, f := range q.Deny {
		if f.column != nil && f.matches(p) {
			return false
		}
	}
	asked := false
	for _, f := range q.Allow {
		if f.column == nil {
			continue
		}
		if asked = true; f.matches(p) {
			return true
		}
	}
	return !asked
}

// glob matches a name against a pattern in which * stands for anything. It takes
// time in proportion to the product of their lengths.
func glob(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], more
	}
}
