package bench

import (
	"fmt"
	"strings"
	"time"
)

// A Program says how one eBPF program of an object is found and loaded.
type Program struct {
	// Name is the BTF function name, the identity of the program in base and
	// head. (The kernel's own names stop at 15 characters.)
	Name   string
	Object string // slash-separated, relative to the config's directory
	Pos    Pos
	// Type overrides what the ELF section says, such as "tc" for a program in
	// a section of the loader's own naming. Section syntax: "xdp", "tc", …
	Type string
	// Attach overrides the attach target, such as "kprobe/tcp_v4_connect" or
	// "perf_event/cpu-clock:997".
	Attach string
	// Loader is a shell command that loads the program in the place of gate.
	// Empty: gate does.
	Loader string
	// Constants are set in .rodata, .data and .bss before loading.
	Constants []Constant
	Maps      []MapSetup
}

// A Constant is a global variable and its value.
type Constant struct {
	Name  string
	Value Value
	Pos   Pos
}

// A MapSetup says what a map holds before each load is measured.
type MapSetup struct {
	Name string
	Pos  Pos
	// MaxEntries overrides the object's size; 0 keeps it.
	MaxEntries uint32
	Entries    []Entry
}

// An Entry is one key and value; a [Range] in the key makes it many.
type Entry struct {
	Key, Value Value
}

// A Benchmark is a program with an input and a way to drive it.
type Benchmark struct {
	// Name is "program/case".
	Name    string
	Program string
	Pos     Pos
	// Packets are the inputs, in the order in which they are given: whole
	// frames from the Ethernet header on. Empty: the built-in set.
	Packets [][]byte
	// Context is the raw context of programs that take one instead of a
	// packet (raw_tp arguments, sk_lookup, syscall).
	Context []byte
	// Expect is the answer of the program, by name ("XDP_PASS") or number.
	// Empty: the first answer of each packet is learned, and a different one
	// later is an error.
	Expect string
	// Repeat is the runs of one reading; 0 means [DefaultRepeat].
	Repeat int
	// Warm is the passes over all packets before the first reading.
	Warm int
	// KeepPacket gives the program its own output as the next input, as a
	// plain repeat does. The default restores the packet before every run.
	KeepPacket bool
	// Drain names the maps that are emptied before each reading: queues,
	// stacks, ring buffers, perf buffers, hash maps. With Work, nil is all of these
	// but hash maps, and what is not nil may be empty.
	Drain []string
	// Veth makes it a macro benchmark: the program is attached to a veth pair
	// and Packets are sent from its peer. Nil: micro.
	Veth *Veth
	// Agent makes it a benchmark of the programs that the agent loads, which Work
	// runs; Program is the agent's name. Nil: gate loads Program itself.
	Agent *Agent
	// Work makes it a macro benchmark: the program is attached where its section
	// or the config says, and Work runs it. Nil: not.
	Work *Work
	// Harness makes it the benchmarks that a command of user space measures itself:
	// Name and Program are the command's name, and the results are called
	// "command/benchmark". No program is loaded. Nil: not.
	Harness *Harness
	// Net are the namespaces that Work happens in; empty: [DefaultLinks].
	Net []Link
	// At is where a program of the network hangs: "namespace", or
	// "namespace/interface" where that has several. Empty: the second end of the
	// first link.
	At string
	// Setup is run once before the first round, Teardown after the last one. What
	// Setup leaves running is ended then.
	Setup, Teardown []Command
	// MinRuns is the number of runs below which a round of Work gives no sample;
	// 0 means 1.
	MinRuns int
	// With are programs of the same object that are attached too, with the same
	// maps, and not measured.
	With []string
	// Alternate gives each side work of its own, even where all could hang at
	// once.
	Alternate bool
	// Budget is the time that measuring may take; 0 is the suite's share.
	Budget time.Duration
}

// Kind is the lane that measures it.
func (b *Benchmark) Kind() Kind {
	switch {
	case b.Harness != nil:
		return User
	case b.Work != nil || b.Veth != nil:
		return Macro
	}
	return Micro
}

// Within tells whether a result's benchmark is the one with the name, or a part of
// it: an agent's has a result for each of its programs, "agent/case/program", a
// command's for each of its benchmarks, "command/benchmark".
func Within(result, benchmark string) bool {
	return result == benchmark || strings.HasPrefix(result, benchmark+"/")
}

// DefaultRepeat is the runs of one reading: about 0.1 ms for a program of
// 100 ns, long against the clock and short against a scheduler tick.
const DefaultRepeat = 1000

// A Veth says how real packets are driven through an attached program.
type Veth struct {
	// Mode is "native" or "generic" for XDP, "ingress" or "egress" for tc.
	Mode string
	// Count is how many packets a round sends; 0 means [DefaultVethCount].
	Count int
	// MinRuns is the number of runs below which a round gives no sample;
	// 0 means 90% of Count.
	MinRuns int
}

// DefaultVethCount is the number of packets of one macro round. At 5000 a round
// spends as long on loading and attaching as on packets (35 ms each); more of
// them take time from further rounds, which tell more.
const DefaultVethCount = 5000

// Pos is a place in a file. Line and Col count from 1; Line 0 is no place.
type Pos struct {
	File      string
	Line, Col int
}

// String is "file:line:col", as compilers write it.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// A Diagnostic is a mistake in something a person wrote, and where it is.
type Diagnostic struct {
	Pos     Pos
	Message string // lower case, no full stop
	Hint    string // what to write instead; may be empty
}

// Error is the position, where there is one, and the message, without the hint.
func (d *Diagnostic) Error() string {
	if p := d.Pos.String(); p != "" {
		return p + ": " + d.Message
	}
	return d.Message
}
