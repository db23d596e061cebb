package profile

import (
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/org/ebpf-bench-gate/internal/symbol"
)

// A Type is what a profile's samples are of.
type Type uint8

// The types of profiles.
const (
	CPU    Type = iota // what ran: a sample stands for a period
	OffCPU             // what waited, from going to sleep to running again
)

// A Profile is samples, added up by stack.
type Profile struct {
	Type   Type
	Event  string        // what was sampled, as package bpf calls it
	Period time.Duration // of one CPU, between two samples; 0 for OffCPU
	Start  time.Time
	Took   time.Duration
	// Stacks are in order of their value, largest first.
	Stacks []*Stack
	// Lost is how many samples the kernel had no room for; they are nowhere in Stacks.
	Lost uint64
	// Coarse is how many samples are there by the name of their thread alone, since
	// there were too many different stacks to keep.
	Coarse uint64
}

// A Stack is where threads of one name were, however often.
type Stack struct {
	PID       uint32 // 0: of several processes
	Comm      string
	Locations []*Location // innermost first, the kernel's before the user's
	Count     uint64      // of samples
	Value     int64       // ns: on a CPU, or off it
}

// A Location is a place in machine code. Places on the same lines of the same functions are one, unless
// their addresses were asked for.
type Location struct {
	id     uint32
	Frames []symbol.Frame // innermost first: all but the last are inlined
	place
}

// A place is an address: of a file's code as the file counts, of the kernel's as it is. Zero: it was
// not asked for, or nobody knows.
type place struct {
	addr    uint64
	segment *symbol.Segment // of a file
}

// Value is the sum of all stacks, in ns.
func (p *Profile) Value() (sum int64) {
	for _, s := range p.Stacks {
		sum += s.Value
	}
	return sum
}

// Count is the number of all samples that are kept.
func (p *Profile) Count() (sum uint64) {
	for _, s := range p.Stacks {
		sum += s.Count
	}
	return sum
}

// notKept is the frame of samples whose stack there was no room for.
var notKept = symbol.Frame{Function: "[stack not kept]"}

// name is what a frame is called where there is room for one word.
func name(f symbol.Frame) string {
	switch {
	case f.Function != "":
		return f.Function
	case f.Module == "":
		return "[unknown]"
	case strings.HasPrefix(f.Module, "["):
		return f.Module
	}
	return "[" + path.Base(f.Module) + "]"
}

// visible makes a name of a stranger fit for a line of text: what is invisible, ends lines or
// turns directions is shown as a question mark.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
