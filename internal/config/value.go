package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/packet"
)

// maxKeys is how many entries the range of one key may make; package bpf has the
// same bound.
const maxKeys = 1 << 22

// functions of the language that take one argument.
var functions = []string{"be", "u8", "u16", "u32", "u64", "hex", "program"}

// value reads what stands for a key, a value or a constant. False: it has a
// mistake, which is noted.
func (r *reader) value(n *yaml.Node) (bench.Value, bool) {
	v := bench.Value{Pos: r.pos(n)}
	before := len(r.found)
	switch n.Kind {
	case yaml.SequenceNode:
		list := bench.List{}
		for _, e := range n.Content {
			item, _ := r.value(e)
			list = append(list, item)
		}
		v.Expr = list
	case yaml.MappingNode:
		v.Expr = r.structure(n)
	default:
		v.Expr = r.scalar(n)
	}
	return v, len(r.found) == before && v.Expr != nil
}

// structure reads the fields of a struct, or {program: name}.
func (r *reader) structure(n *yaml.Node) bench.Expr {
	if len(n.Content) == 2 && n.Content[0].Value == "program" {
		if target := n.Content[1]; target.Kind == yaml.ScalarNode && identifier.MatchString(target.Value) && target.Tag == "!!str" {
			return bench.Call{Func: "program", Args: []bench.Value{{Pos: r.pos(target), Expr: bench.Text(target.Value)}}}
		}
	}
	s := bench.Struct{}
	for key, v := range pairs(n) {
		name, ok := r.name(key, "a struct field")
		if item, good := r.value(v); ok && good {
			s = append(s, bench.Field{Name: name, Pos: r.pos(key), Value: item})
		}
	}
	return s
}

// scalar reads a word. Quotes make it text, but for addresses and variables,
// which YAML often wants quoted.
func (r *reader) scalar(n *yaml.Node) bench.Expr {
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch {
	case n.Tag == "!!null" && !quoted:
		r.fail(n, "", "a value is missing")
		return nil
	case quoted:
		if a, ok := address(n.Value); ok {
			return a
		}
		if v, ok := variable(n.Value); ok && (v.Name == "key" || v.Name == "cpu") {
			return v
		}
		return bench.Text(n.Value)
	}
	expr, err := plain(n.Value, r.pos(n), 0)
	if err != nil {
		r.fail(n, err.hint, "%s", err.message)
		return nil
	}
	return expr
}

// A misread is why a word is no value.
type misread struct{ message, hint string }

var (
	call     = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\((.*)\)$`)
	openCall = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\(`)
	varRef   = regexp.MustCompile(`^([^$]*)\$([A-Za-z_][A-Za-z0-9_]*)([^$]*)$`)
	twoDots  = regexp.MustCompile(`^([^.].*?)\.\.(.+)$`)
	likeANum = regexp.MustCompile(`^[-+.]?[0-9]`)
)

// plain reads a word without quotes.
func plain(s string, pos bench.Pos, depth int) (bench.Expr, *misread) {
	switch s {
	case "true":
		return bench.Int{Abs: 1}, nil
	case "false":
		return bench.Int{}, nil
	case "new":
		return bench.Call{Func: "new"}, nil
	}
	if abs, neg, ok := parseInt(s); ok {
		return bench.Int{Abs: abs, Neg: neg}, nil
	}
	if a, ok := address(s); ok {
		return a, nil
	}
	if m := call.FindStringSubmatch(s); m != nil {
		return function(m[1], strings.TrimSpace(m[2]), pos, depth)
	}
	if openCall.MatchString(s) {
		return nil, &misread{fmt.Sprintf("%s starts as a function and does not end as one", quote(s)), "quote it if it is text"}
	}
	if strings.Contains(s, "$") {
		v, ok := variable(s)
		if !ok {
			return nil, &misread{fmt.Sprintf("%s has a $ that is not one variable", quote(s)), "quote it if it is text"}
		}
		if v.Name != "key" && v.Name != "cpu" {
			return nil, &misread{fmt.Sprintf("unknown variable $%s", v.Name), "expected one of $key, $cpu"}
		}
		return v, nil
	}
	if m := twoDots.FindStringSubmatch(s); m != nil {
		return numberRange(s, m[1], m[2])
	}
	if likeANum.MatchString(s) {
		return nil, &misread{fmt.Sprintf("%s is no number, range or address", quote(s)),
			"whole numbers from -2^63 to 2^64-1, without leading zeros; quote it if it is text"}
	}
	return bench.Text(s), nil
}

// numberRange reads first..last.
func numberRange(s, first, last string) (bench.Expr, *misread) {
	a, negA, okA := parseInt(first)
	b, negB, okB := parseInt(last)
	switch {
	case !okA || !okB || negA || negB:
		return nil, &misread{fmt.Sprintf("%s is not a range of numbers", quote(s)), "two whole numbers that are not negative: 1..3"}
	case b < a:
		return nil, &misread{fmt.Sprintf("the range %s ends before it starts", quote(s)), ""}
	case b-a >= maxKeys:
		return nil, &misread{fmt.Sprintf("the range %s has more than %d numbers", quote(s), maxKeys), ""}
	}
	return bench.Range{First: a, Last: b}, nil
}

// function reads name(arg).
func function(name, arg string, pos bench.Pos, depth int) (bench.Expr, *misread) {
	if depth > 1 { // u16(be(80)) has two
		return nil, &misread{"functions within functions within functions", ""}
	}
	switch name {
	case "hex":
		b, err := packet.DecodeHex(arg)
		if err != nil {
			return nil, &misread{fmt.Sprintf("hex(…): %s", err), "two digits a byte: hex(0a 0b)"}
		}
		return bench.Bytes(b), nil
	case "program":
		if !identifier.MatchString(arg) {
			return nil, &misread{fmt.Sprintf("%s is not the name of a program", quote(arg)), ""}
		}
		return bench.Call{Func: name, Args: []bench.Value{{Pos: pos, Expr: bench.Text(arg)}}}, nil
	case "be", "u8", "u16", "u32", "u64":
	default:
		return nil, &misread{fmt.Sprintf("unknown function %s", quote(name)), expected(name, functions)}
	}
	expr, err := plain(arg, pos, depth+1)
	if err != nil {
		return nil, err
	}
	bad := &misread{fmt.Sprintf("%s cannot take %s", name, quote(arg)), "be(80), u32(1), u32($key), u32(10.0.0.1), u16(be(80))"}
	bits := 64
	if name != "be" {
		bits, _ = strconv.Atoi(name[1:])
	}
	tooWide := &misread{fmt.Sprintf("%s does not fit in %d bits", arg, bits), ""}
	switch e := expr.(type) {
	case bench.Int:
		if !e.Neg && e.Abs>>(bits-1)>>1 != 0 || e.Neg && e.Abs > 1<<(bits-1) {
			return nil, tooWide
		}
	case bench.Bytes: // an address stands in network order already
		if name == "be" {
			return nil, bad
		}
		if len(e)*8 != bits {
			return nil, tooWide
		}
	case bench.Variable:
		if name == "be" && (e.Prefix != "" || e.Suffix != "") {
			return nil, bad
		}
	case bench.Call:
		if e.Func != "be" || name == "be" {
			return nil, bad
		}
	default:
		return nil, bad
	}
	return bench.Call{Func: name, Args: []bench.Value{{Pos: pos, Expr: expr}}}, nil
}

// variable finds the one variable in a text.
func variable(s string) (bench.Variable, bool) {
	m := varRef.FindStringSubmatch(s)
	if m == nil {
		return bench.Variable{}, false
	}
	return bench.Variable{Prefix: m[1], Name: m[2], Suffix: m[3]}, true
}

// address reads an IPv4, IPv6 or MAC address as it stands in memory.
func address(s string) (bench.Bytes, bool) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return a.AsSlice(), true
	}
	if m, err := parseMAC(s); err == nil {
		return bench.Bytes(m), true
	}
	return nil, false
}

func parseMAC(s string) (net.HardwareAddr, error) {
	m, err := net.ParseMAC(s)
	if err == nil && (len(m) != 6 || strings.Contains(s, ".")) {
		return nil, fmt.Errorf("%s is not a MAC address of 6 bytes", quote(s))
	}
	return m, err
}

// walk visits a value and all in it.
func walk(v bench.Value, visit func(bench.Value)) {
	visit(v)
	switch e := v.Expr.(type) {
	case bench.Call:
		for _, a := range e.Args {
			walk(a, visit)
		}
	case bench.Struct:
		for _, f := range e {
			walk(f.Value, visit)
		}
	case bench.List:
		for _, a := range e {
			walk(a, visit)
		}
	}
}
