package bench

// A Value is what somebody wrote for a map key, a map value or a constant. Only
// the map's BTF type can turn it into bytes, so package bpf does that; a value
// keeps its place in the file so that a misfit is told where it was written.
type Value struct {
	Pos  Pos
	Expr Expr
}

// Expr is one of [Int], [Range], [Bytes], [Text], [Variable], [Call], [Struct]
// and [List].
type Expr interface{ expr() }

type (
	// Int is a whole number from -2⁶³ to 2⁶⁴-1: Neg tells that Abs is negated.
	// Bool true and false are 1 and 0.
	Int struct {
		Abs uint64
		Neg bool
	}
	// Range is First to Last, both included; in a key it makes one entry for
	// each number.
	Range struct{ First, Last uint64 }
	// Bytes stand in memory as they are: an IPv4 address (4), IPv6 (16), MAC
	// (6), or hex(…).
	Bytes []byte
	// Text is a name that is not any of the others: an enumerator, a string
	// for a char array, a program.
	Text string
	// Variable is "$key" (the number of the entry's key) or "$cpu" (one entry
	// for every possible CPU). Prefix and Suffix hold text around it, so that
	// 10.0.0.$key is Text once the number is put in.
	Variable struct{ Prefix, Name, Suffix string }
	// Call is a function of the language on arguments: be(80), u32(1), new.
	Call struct {
		Func string // "be", "u8", "u16", "u32", "u64", "new", "program"
		Args []Value
	}
	// Struct sets fields by their BTF names; the others are zero.
	Struct []Field
	// List fills an array from its start; the rest is zero. For a per-CPU map
	// it is the value of each CPU.
	List []Value
)

// A Field is one member of a [Struct].
type Field struct {
	Name  string
	Pos   Pos
	Value Value
}

func (Int) expr()      {}
func (Range) expr()    {}
func (Bytes) expr()    {}
func (Text) expr()     {}
func (Variable) expr() {}
func (Call) expr()     {}
func (Struct) expr()   {}
func (List) expr()     {}
