//go:build linux

package bpf

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
)

// A scope holds what the variables of a value stand for.
type scope struct {
	key uint64 // $key
	cpu int    // $cpu
}

// encode turns a value into the bytes that a map key, a map value or a global
// variable of the type has in memory. A nil type (maps without BTF) fits sized
// values only: u32(1), be(80) in 1, 2, 4 or 8 bytes, addresses, hex(…).
// Misfits are told where the value was written.
func encode(v bench.Value, t btf.Type, size int, order binary.ByteOrder, sc scope) ([]byte, error) {
	e := encoder{order: order, scope: sc}
	out := make([]byte, size)
	if err := e.value(v, t, out); err != nil {
		return nil, err
	}
	return out, nil
}

type encoder struct {
	order binary.ByteOrder
	scope scope
}

func misfit(v bench.Value, hint, format string, args ...any) error {
	return &bench.Diagnostic{Pos: v.Pos, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// value writes v over the whole of out, which is as long as the type.
func (e encoder) value(v bench.Value, t btf.Type, out []byte) error {
	if t != nil {
		t = btf.UnderlyingType(t)
		if d, ok := t.(*btf.Var); ok {
			t = btf.UnderlyingType(d.Type)
		}
	}
	switch x := v.Expr.(type) {
	case bench.Int:
		return e.number(v, x, t, out, e.order)
	case bench.Bytes:
		return e.bytes(v, x, t, out)
	case bench.Text:
		return e.text(v, string(x), t, out)
	case bench.Variable:
		w, err := e.substitute(v, x)
		if err != nil {
			return err
		}
		return e.value(w, t, out)
	case bench.Call:
		return e.call(v, x, t, out)
	case bench.Struct:
		return e.fields(v, x, t, out)
	case bench.List:
		a, ok := t.(*btf.Array)
		if !ok {
			return misfit(v, "", "a list fits an array only, this is %s", describe(t, len(out)))
		}
		if len(x) > int(a.Nelems) {
			return misfit(v, "", "%d elements, the array has %d", len(x), a.Nelems)
		}
		n := len(out) / max(1, int(a.Nelems))
		for i, el := range x {
			if err := e.value(el, a.Type, out[i*n:(i+1)*n]); err != nil {
				return err
			}
		}
		return nil
	case bench.Range:
		return misfit(v, "", "a range is a whole key: it cannot stand here")
	}
	return misfit(v, "", "a value is missing")
}

func (e encoder) number(v bench.Value, x bench.Int, t btf.Type, out []byte, order binary.ByteOrder) error {
	switch t := t.(type) {
	case *btf.Struct, *btf.Union:
		return misfit(v, "write its fields: {name: value, …}", "a number does not fit %s", describe(t, len(out)))
	case *btf.Array:
		return misfit(v, "write a list: [1, 2, …]", "a number does not fit %s", describe(t, len(out)))
	case *btf.Float:
		return misfit(v, "", "eBPF has no floating point")
	}
	n := len(out)
	if n != 1 && n != 2 && n != 4 && n != 8 {
		return misfit(v, "write its bytes: hex(…)", "a number does not fit %s", describe(t, n))
	}
	bits := x.Abs
	if x.Neg {
		if x.Abs > 1<<(8*n-1) {
			return misfit(v, "", "-%d does not fit %d bytes", x.Abs, n)
		}
		bits = -x.Abs
	} else if n < 8 && x.Abs>>(8*n) != 0 {
		return misfit(v, "", "%d does not fit %d bytes", x.Abs, n)
	}
	var b [8]byte
	if order == binary.ByteOrder(binary.BigEndian) {
		binary.BigEndian.PutUint64(b[:], bits)
		copy(out, b[8-n:])
	} else {
		binary.LittleEndian.PutUint64(b[:], bits)
		copy(out, b[:n])
	}
	return nil
}

func (e encoder) bytes(v bench.Value, x bench.Bytes, t btf.Type, out []byte) error {
	if len(x) == len(out) {
		copy(out, x)
		return nil
	}
	if _, ok := t.(*btf.Array); ok && len(x) < len(out) {
		copy(out, x)
		return nil
	}
	return misfit(v, "", "%d bytes do not fit %s", len(x), describe(t, len(out)))
}

func (e encoder) text(v bench.Value, s string, t btf.Type, out []byte) error {
	switch t := t.(type) {
	case *btf.Enum:
		var names []string
		for _, ev := range t.Values {
			if ev.Name == s {
				return e.number(v, bench.Int{Abs: truncate(ev.Value, len(out))}, nil, out, e.order)
			}
			names = append(names, ev.Name)
		}
		return misfit(v, "expected one of "+strings.Join(names, ", "), "%q is not in %s", s, describe(t, len(out)))
	case *btf.Array:
		if n, err := btf.Sizeof(t.Type); err != nil || n != 1 {
			return misfit(v, "write a list: [1, 2, …]", "%q fits an array of char only, this is %s", s, describe(t, len(out)))
		}
		if len(s) >= len(out) {
			return misfit(v, "", "%d characters and the final zero do not fit %d bytes", len(s), len(out))
		}
		copy(out, s)
		return nil
	}
	return misfit(v, "expected a number, an address, be(…), u32(…) or hex(…)", "%q does not fit %s", s, describe(t, len(out)))
}

func truncate(x uint64, n int) uint64 {
	if n >= 8 {
		return x
	}
	return x & (1<<(8*n) - 1)
}

func (e encoder) call(v bench.Value, x bench.Call, t btf.Type, out []byte) error {
	width := map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8}
	switch {
	case x.Func == "be" && len(x.Args) == 1:
		arg, err := e.constant(x.Args[0])
		if err != nil {
			return err
		}
		return e.number(arg, arg.Expr.(bench.Int), t, out, binary.BigEndian)
	case width[x.Func] != 0 && len(x.Args) == 1:
		if w := width[x.Func]; w != len(out) {
			return misfit(v, "", "%s has %d bytes, this is %s", x.Func, w, describe(t, len(out)))
		}
		return e.value(x.Args[0], nil, out)
	}
	return misfit(v, "", "%s cannot stand here", x.Func)
}

// constant resolves variables until a number is left.
func (e encoder) constant(v bench.Value) (bench.Value, error) {
	if x, ok := v.Expr.(bench.Variable); ok {
		w, err := e.substitute(v, x)
		if err != nil {
			return v, err
		}
		v = w
	}
	if _, ok := v.Expr.(bench.Int); !ok {
		return v, misfit(v, "", "expected a number")
	}
	return v, nil
}

func (e encoder) substitute(v bench.Value, x bench.Variable) (bench.Value, error) {
	var n uint64
	switch x.Name {
	case "key":
		n = e.scope.key
	case "cpu":
		n = uint64(e.scope.cpu)
	default:
		return v, misfit(v, "expected $key or $cpu", "unknown variable $%s", x.Name)
	}
	if x.Prefix == "" && x.Suffix == "" {
		return bench.Value{Pos: v.Pos, Expr: bench.Int{Abs: n}}, nil
	}
	s := fmt.Sprintf("%s%d%s", x.Prefix, n, x.Suffix)
	if a, err := netip.ParseAddr(s); err == nil {
		return bench.Value{Pos: v.Pos, Expr: bench.Bytes(a.AsSlice())}, nil
	}
	return bench.Value{Pos: v.Pos, Expr: bench.Text(s)}, nil
}

func (e encoder) fields(v bench.Value, x bench.Struct, t btf.Type, out []byte) error {
	members := membersOf(t)
	if members == nil {
		return misfit(v, "", "fields do not fit %s", describe(t, len(out)))
	}
	for _, f := range x {
		m, off, ok := findMember(members, f.Name)
		if !ok {
			return &bench.Diagnostic{
				Pos: f.Pos, Message: fmt.Sprintf("no field %q in %s", f.Name, describe(t, len(out))),
				Hint: "it has " + strings.Join(memberNames(members), ", "),
			}
		}
		if m.BitfieldSize != 0 {
			return misfit(f.Value, "write the whole struct: hex(…)", "field %q is a bitfield", f.Name)
		}
		n, err := btf.Sizeof(m.Type)
		if err != nil || off+n > len(out) {
			return misfit(f.Value, "", "field %q has no size", f.Name)
		}
		if err := e.value(f.Value, m.Type, out[off:off+n]); err != nil {
			return err
		}
	}
	return nil
}

func membersOf(t btf.Type) []btf.Member {
	switch t := t.(type) {
	case *btf.Struct:
		return t.Members
	case *btf.Union:
		return t.Members
	}
	return nil
}

// findMember looks through anonymous structs and unions, as C does.
func findMember(members []btf.Member, name string) (m btf.Member, offset int, ok bool) {
	for _, m := range members {
		if m.Name == name {
			return m, int(m.Offset.Bytes()), true
		}
		if m.Name == "" {
			if in, off, ok := findMember(membersOf(btf.UnderlyingType(m.Type)), name); ok {
				return in, int(m.Offset.Bytes()) + off, true
			}
		}
	}
	return btf.Member{}, 0, false
}

func memberNames(members []btf.Member) []string {
	var names []string
	for _, m := range members {
		if m.Name == "" {
			names = append(names, memberNames(membersOf(btf.UnderlyingType(m.Type)))...)
			continue
		}
		names = append(names, m.Name)
	}
	return names
}

// describe names a type for people.
func describe(t btf.Type, size int) string {
	switch t := t.(type) {
	case nil:
		return fmt.Sprintf("%d bytes without BTF", size)
	case *btf.Struct:
		return fmt.Sprintf("struct %s (%d bytes)", t.Name, size)
	case *btf.Union:
		return fmt.Sprintf("union %s (%d bytes)", t.Name, size)
	case *btf.Enum:
		return fmt.Sprintf("enum %s (%d bytes)", t.Name, size)
	case *btf.Int:
		return fmt.Sprintf("%s (%d bytes)", t.Name, size)
	case *btf.Array:
		return fmt.Sprintf("an array of %d (%d bytes)", t.Nelems, size)
	}
	return fmt.Sprintf("%d bytes", size)
}
