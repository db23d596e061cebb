//go:build linux

package bpf

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
)

// at is a value that stands in line 7.
func at(col int, e bench.Expr) bench.Value {
	return bench.Value{Pos: bench.Pos{File: "t.yml", Line: 7, Col: col}, Expr: e}
}

func num(n uint64) bench.Int       { return bench.Int{Abs: n} }
func neg(n uint64) bench.Int       { return bench.Int{Abs: n, Neg: true} }
func val(e bench.Expr) bench.Value { return at(3, e) }
func call(f string, args ...bench.Expr) bench.Call {
	c := bench.Call{Func: f}
	for _, a := range args {
		c.Args = append(c.Args, at(9, a))
	}
	return c
}
func fieldsOf(pairs ...any) bench.Struct {
	var s bench.Struct
	for i := 0; i < len(pairs); i += 2 {
		s = append(s, bench.Field{Name: pairs[i].(string), Pos: bench.Pos{File: "t.yml", Line: 8, Col: i}, Value: at(5, pairs[i+1].(bench.Expr))})
	}
	return s
}

// The types of the tests, as a compiler would write them.
var (
	tU8   = &btf.Int{Name: "unsigned char", Size: 1}
	tChar = &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	tU16  = &btf.Typedef{Name: "__u16", Type: &btf.Int{Name: "unsigned short", Size: 2}}
	tU32  = &btf.Typedef{Name: "__u32", Type: &btf.Int{Name: "unsigned int", Size: 4}}
	tS32  = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	tU64  = &btf.Const{Type: &btf.Int{Name: "unsigned long long", Size: 8}}
	tF32  = &btf.Float{Name: "float", Size: 4}
	tEnum = &btf.Enum{Name: "color", Size: 4, Signed: true, Values: []btf.EnumValue{{Name: "RED", Value: 1}, {Name: "NONE", Value: ^uint64(0)}}}
	tE64  = &btf.Enum{Name: "big", Size: 8, Values: []btf.EnumValue{{Name: "HUGE", Value: 1 << 40}}}
	// struct key { __u32 addr; union { __u16 port; struct { u8 lo, hi; }; }; u8 bits : 3; }
	tKey = &btf.Struct{Name: "key", Size: 8, Members: []btf.Member{
		{Name: "addr", Type: tU32},
		{Type: &btf.Union{Size: 2, Members: []btf.Member{
			{Name: "port", Type: tU16},
			{Type: &btf.Struct{Size: 2, Members: []btf.Member{{Name: "lo", Type: tU8}, {Name: "hi", Type: tU8, Offset: 8}}}},
		}}, Offset: 32},
		{Name: "bits", Type: tU8, Offset: 48, BitfieldSize: 3},
	}}
	tPair = &btf.Struct{Name: "pair", Size: 16, Members: []btf.Member{{Name: "a", Type: tKey}, {Name: "b", Type: tKey, Offset: 64}}}
)

func array(t btf.Type, n uint32) *btf.Array { return &btf.Array{Index: tS32, Type: t, Nelems: n} }

func TestEncode(t *testing.T) {
	for _, tt := range []struct {
		name string
		expr bench.Expr
		typ  btf.Type
		size int
		want string // hex, little endian
	}{
		{"u8", num(255), tU8, 1, "ff"},
		{"typedef", num(0x1234), tU16, 2, "3412"},
		{"u32", num(1 << 31), tU32, 4, "00000080"},
		{"const u64, all bits", num(1<<64 - 1), tU64, 8, "ffffffffffffffff"},
		{"least s32", neg(1 << 31), tS32, 4, "00000080"},
		{"minus one", neg(1), tS32, 4, "ffffffff"},
		{"least s64", neg(1 << 63), tU64, 8, "0000000000000080"},
		{"without BTF", num(5), nil, 2, "0500"},
		{"be", call("be", num(80)), tU16, 2, "0050"},
		{"be of 4", call("be", num(0x01020304)), tU32, 4, "01020304"},
		{"be without BTF", call("be", num(1)), nil, 8, "0000000000000001"},
		{"sized", call("u32", num(7)), nil, 4, "07000000"},
		{"sized to the type", call("u8", num(7)), tU8, 1, "07"},
		{"address", bench.Bytes{10, 0, 0, 1}, tU32, 4, "0a000001"},
		{"hex over a struct", bench.Bytes{1, 2, 3, 4, 5, 6, 7, 8}, tKey, 8, "0102030405060708"},
		{"bytes at the start of an array", bench.Bytes{1, 2}, array(tU8, 4), 4, "01020000"},
		{"enumerator", bench.Text("RED"), tEnum, 4, "01000000"},
		{"negative enumerator", bench.Text("NONE"), tEnum, 4, "ffffffff"},
		{"enum of 64 bits", bench.Text("HUGE"), tE64, 8, "0000000000010000"},
		{"enum by number", num(9), tEnum, 4, "09000000"},
		{"string", bench.Text("abc"), array(tChar, 4), 4, "61626300"},
		{"list", bench.List{val(num(1)), val(call("be", num(2)))}, array(tU16, 3), 6, "010000020000"},
		{"list of lists", bench.List{val(bench.List{val(num(1))}), val(bench.List{val(num(2)), val(num(3))})}, array(array(tU8, 2), 2), 4, "01000203"},
		{"fields", fieldsOf("addr", bench.Bytes{1, 2, 3, 4}), tKey, 8, "0102030400000000"},
		{"field of an anonymous union", fieldsOf("port", call("be", num(443))), tKey, 8, "0000000001bb0000"},
		{"and of the struct in it", fieldsOf("hi", num(9), "addr", num(1)), tKey, 8, "0100000000090000"},
		{"struct in a struct", fieldsOf("b", fieldsOf("lo", num(3))), tPair, 16, "00000000000000000000000003000000"},
		{"no fields", bench.Struct{}, tKey, 8, "0000000000000000"},
		{"a global variable", num(6), &btf.Var{Name: "v", Type: tU32}, 4, "06000000"},
		{"$key", bench.Variable{Name: "key"}, tU32, 4, "2a000000"},
		{"$cpu", bench.Variable{Name: "cpu"}, tU16, 2, "0300"},
		{"be($key)", call("be", bench.Variable{Name: "key"}), tU16, 2, "002a"},
		{"address of $key", bench.Variable{Prefix: "10.0.0.", Name: "key"}, tU32, 4, "0a00002a"},
		{"text with $cpu", bench.Variable{Prefix: "eth", Name: "cpu", Suffix: "x"}, array(tChar, 8), 8, "6574683378000000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := encode(val(tt.expr), tt.typ, tt.size, binary.LittleEndian, scope{key: 42, cpu: 3})
			if err != nil || hex.EncodeToString(got) != tt.want {
				t.Errorf("%x, %v, want %s", got, err, tt.want)
			}
		})
	}
	if got, err := encode(val(num(0x0102)), tU32, 4, binary.BigEndian, scope{}); err != nil || hex.EncodeToString(got) != "00000102" {
		t.Errorf("big endian: %x, %v", got, err)
	}
	if got, err := encode(val(neg(2)), tU16, 2, binary.BigEndian, scope{}); err != nil || hex.EncodeToString(got) != "fffe" {
		t.Errorf("big endian, negative: %x, %v", got, err)
	}
}

// TestMisfits is that what does not fit is told where it was written.
func TestMisfits(t *testing.T) {
	for _, tt := range []struct {
		name string
		expr bench.Expr
		typ  btf.Type
		size int
		pos  string
		want string // in message or hint
	}{
		{"too big", num(256), tU8, 1, "7:3", "256 does not fit 1 bytes"},
		{"too small", neg(1<<31 + 1), tS32, 4, "7:3", "-2147483649 does not fit 4 bytes"},
		{"be too big", call("be", num(1<<16)), tU16, 2, "7:9", "65536 does not fit 2 bytes"},
		{"be of text", call("be", bench.Text("x")), tU16, 2, "7:9", "expected a number"},
		{"wrong width", call("u16", num(1)), tU32, 4, "7:3", "u16 has 2 bytes"},
		{"unknown function", call("be", num(1), num(2)), tU32, 4, "7:3", "be cannot stand here"},
		{"new in a value", call("new"), tU32, 4, "7:3", "new cannot stand here"},
		{"number for a struct", num(1), tKey, 8, "7:3", "struct key (8 bytes)"},
		{"number for an array", num(1), array(tU8, 4), 4, "7:3", "write a list"},
		{"float", num(1), tF32, 4, "7:3", "floating point"},
		{"odd size without BTF", num(1), nil, 3, "7:3", "hex(…)"},
		{"address of the wrong family", bench.Bytes(make([]byte, 16)), tU32, 4, "7:3", "16 bytes do not fit"},
		{"enumerator that is none", bench.Text("BLUE"), tEnum, 4, "7:3", "expected one of RED, NONE"},
		{"text for a number", bench.Text("x"), tU32, 4, "7:3", `"x" does not fit`},
		{"text without its zero", bench.Text("abcd"), array(tChar, 4), 4, "7:3", "final zero"},
		{"text for numbers", bench.Text("ab"), array(tU32, 4), 16, "7:3", "array of char only"},
		{"list for a number", bench.List{val(num(1))}, tU32, 4, "7:3", "a list fits an array only"},
		{"long list", bench.List{val(num(1)), val(num(2)), val(num(3))}, array(tU8, 2), 2, "7:3", "3 elements, the array has 2"},
		{"misfit in a list", bench.List{val(num(1)), at(6, num(300))}, array(tU8, 2), 2, "7:6", "300 does not fit"},
		{"no such field", fieldsOf("addr", num(1), "prot", num(2)), tKey, 8, "8:2", "it has addr, port, lo, hi, bits"},
		{"misfit in a field", fieldsOf("port", num(1<<16)), tKey, 8, "7:5", "65536 does not fit 2 bytes"},
		{"bitfield", fieldsOf("bits", num(1)), tKey, 8, "7:5", "bitfield"},
		{"fields for a number", fieldsOf("a", num(1)), tU32, 4, "7:3", "fields do not fit unsigned int"},
		{"fields without BTF", fieldsOf("a", num(1)), nil, 4, "7:3", "4 bytes without BTF"},
		{"range", bench.Range{First: 1, Last: 2}, tU32, 4, "7:3", "a whole key"},
		{"unknown variable", bench.Variable{Name: "slot"}, tU32, 4, "7:3", "$key or $cpu"},
		{"$key too big", bench.Variable{Name: "key"}, tU8, 1, "7:3", "300 does not fit"},
		{"nothing", nil, tU32, 4, "7:3", "a value is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := encode(val(tt.expr), tt.typ, tt.size, binary.LittleEndian, scope{key: 300})
			var d *bench.Diagnostic
			if !errors.As(err, &d) {
				t.Fatalf("%x, %v: want a diagnostic", got, err)
			}
			if d.Pos.String() != "t.yml:"+tt.pos || !strings.Contains(d.Message+" "+d.Hint, tt.want) {
				t.Errorf("%v (%s), want %s and %q", d, d.Hint, tt.pos, tt.want)
			}
		})
	}
}
