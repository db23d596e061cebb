package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ebpf-bench-gate/bench"
)

func TestParseConstant(t *testing.T) {
	one := bench.Value{Expr: bench.Int{Abs: 1}}
	for s, want := range map[string]bench.Constant{
		"a=1":          {Name: "a", Value: one},
		"a = -0x10":    {Name: "a", Value: bench.Value{Expr: bench.Int{Abs: 16, Neg: true}}},
		" a = true":    {Name: "a", Value: one},
		"a=XDP_PASS":   {Name: "a", Value: bench.Value{Expr: bench.Text("XDP_PASS")}},
		"a = {f: 1}":   {Name: "a", Value: bench.Value{Expr: bench.Struct{{Name: "f", Value: one}}}},
		"a = [1, 1]":   {Name: "a", Value: bench.Value{Expr: bench.List{one, one}}},
		`a = "x = y"`:  {Name: "a", Value: bench.Value{Expr: bench.Text("x = y")}},
		"a_1=u16(256)": {Name: "a_1", Value: bench.Value{Expr: bench.Call{Func: "u16", Args: []bench.Value{{Expr: bench.Int{Abs: 256}}}}}},
	} {
		got, err := ParseConstant(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if d := cmp.Diff(want, got, noPos); d != "" {
			t.Errorf("%s (-want +got):\n%s", s, d)
		}
	}
	for s, want := range map[string]string{
		"a":          `"a": expected name = value`,
		"a b=1":      `"a b" is not a name of a variable`,
		"a=":         `"a=": a value is missing`,
		"a=1..2":     `"a=1..2": a constant cannot be a range (a range as the key, and $key in the value)`,
		"a=[1":       "",
		"a=$key":     `"a=$key": a constant cannot have $key`,
		"a=\xff":     "",
		"a=1\n---\n": "",
	} {
		if _, err := ParseConstant(s); err == nil || want != "" && err.Error() != want {
			t.Errorf("%q: %v, want %s", s, err, want)
		}
	}
}
