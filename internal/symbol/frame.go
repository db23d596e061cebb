package symbol

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Frame is one function of a stack at one of its instructions.
type Frame struct {
	// Function is demangled, without control characters, and empty where nothing names it.
	Function string
	// Module is where the function lives: a path as the process saw it, "[kernel]", a kernel
	// module as "[nf_tables]", the kernel's own name of an eBPF program
	// ("bpf_prog_6deef7357e7b4530_fun_xdp"), "[vdso]", or "[anon]" for code that no file holds.
	Module string
	// File is the source as the compiler wrote it down, and Line counts from 1. Both are zero
	// where it wrote nothing down.
	File string
	Line int
	// Offset is the distance in bytes from the start of the function that the machine executed:
	// an inlined frame has that of the function it was inlined into. Where Function is empty, it is
	// the distance from the start of the module, as the file counts addresses.
	Offset uint64
	// Inlined is set for a function that exists only inside of the next frame.
	Inlined bool
	Kind    Kind
}

// A Kind is what sort of code an address belongs to.
type Kind uint8

// The kinds of code.
const (
	KindUnknown Kind = iota // no mapping and no symbol holds the address
	KindUser
	KindKernel
	KindBPF  // JITed code of an eBPF program
	KindVDSO // code that the kernel maps into processes
)

// String is the word for the kind in outputs.
func (k Kind) String() string {
	switch k {
	case KindUser:
		return "user"
	case KindKernel:
		return "kernel"
	case KindBPF:
		return "bpf"
	case KindVDSO:
		return "vdso"
	}
	return "unknown"
}

// maxName is how much of a name is kept, in bytes. C++ and Rust have names of some kilobytes;
// what is longer serves nobody.
const maxName = 1024

// clean makes a string of a foreign file safe to show: valid UTF-8 without control
// characters, of bounded length.
func clean(s string) string {
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "…" // a rune that was cut is invalid
	}
	ok := utf8.ValidString(s)
	for i := 0; ok && i < len(s); i++ {
		ok = s[i] >= ' ' && s[i] < 0x7f
	}
	if ok {
		return s
	}
	return strings.Map(func(r rune) rune {
		// Directions and joiners change what a reader sees around them.
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
