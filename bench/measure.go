package bench

import (
	"slices"
	"strings"
)

// Better is the direction in which a measure improves.
type Better string

// The two directions.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Kind is the lane that takes a measure.
type Kind string

// The lanes.
const (
	Static Kind = "static" // from loading a program
	Micro  Kind = "micro"  // from BPF_PROG_TEST_RUN
	Macro  Kind = "macro"  // from run_time_ns and run_cnt of an attached program
	User   Kind = "user"   // from the output of a command of user space, run by gate
	// Imported is no lane: another tool measured, and package internal/adapter read it.
	Imported Kind = "imported"
)

// A Measure is something that is counted about a program or benchmark.
type Measure struct {
	Name string
	// Unit is "ns", "insns", "bytes", "states", "us" or "count". A unit
	// is that of one sample, so latency is ns for one run of the program.
	Unit   string
	Better Better
	// Exact tells that the same inputs give the same number: one sample says
	// all, and any difference is real. Otherwise the measure is noisy, and
	// only statistics over many rounds can tell a difference.
	Exact bool
	// Static tells that loading is enough; nothing is run.
	Static bool
	Help   string
}

// Names of the measures that code refers to.
const (
	Latency          = "latency"
	Insns            = "insns"
	KernelInsns      = "kernel_insns"
	Calls            = "calls"
	MapLookup        = "map_lookup"
	MapUpdate        = "map_update"
	MapDelete        = "map_delete"
	MapOutput        = "map_output"
	Cycles           = "cycles"
	Instructions     = "instructions"
	BranchMisses     = "branch_misses"
	L1DMisses        = "l1d_misses"
	LLCMisses        = "llc_misses"
	ITLBMisses       = "itlb_misses"
	DTLBMisses       = "dtlb_misses"
	Runs             = "runs"
	RecursionMisses  = "recursion_misses"
	Figures          = "figure"
	Softirq          = "softirq"
	Counts           = "count"
	VerifiedInsns    = "verified_insns"
	PeakStates       = "peak_states"
	TotalStates      = "total_states"
	MaxStatesPerInsn = "max_states_per_insn"
	MaxMarkReadLen   = "max_mark_read_len"
	StackDepth       = "stack_depth"
	MaxStackDepth    = "max_stack_depth"
	TailCallStack    = "tail_call_stack"
	TailCallDepth    = "tail_call_depth"
	UsedMaps         = "used_maps"
	VerificationUS   = "verification_time"
	ProgSize         = "prog_size"
	XlatedInsns      = "xlated_insns"
	JitedBytes       = "jited_bytes"
	Memlock          = "memlock"
)

// measures is the one table of measures. The static ones are named as veristat
// names them, where it has them.
var measures = []Measure{
	{Latency, "ns", Lower, false, false, "time of one run of the program"},
	{Insns, "insns", Lower, true, false, "BPF instructions executed in one run, on average over the packets; a 64-bit constant is one, and helpers count as their call"},
	{KernelInsns, "insns", Lower, true, false, "instructions the CPU executes in one run, helpers and what calls the program included, counted in a virtual machine; see --kernel"},
	{Calls, "count", Lower, true, false, "calls of a helper or kfunc in one run: calls[bpf_redirect] are those of one, a limit of calls is one for each"},
	{MapLookup, "count", Lower, true, false, "lookups in a map in one run, peeks and local storage included: map_lookup[flows]"},
	{MapUpdate, "count", Lower, true, false, "updates of a map in one run, pushes included"},
	{MapDelete, "count", Lower, true, false, "deletions from a map in one run, pops included"},
	{MapOutput, "count", Lower, true, false, "records that one run writes to a ring or perf buffer"},
	{Cycles, "count", Lower, false, false, "cycles of the CPU in one run, the driver's included, where the CPU's counters can be read"},
	{Instructions, "count", Lower, false, false, "machine instructions of one run, helpers and the driver included"},
	{BranchMisses, "count", Lower, false, false, "mispredicted branches of one run"},
	{L1DMisses, "count", Lower, false, false, "reads of one run that missed the first data cache"},
	{LLCMisses, "count", Lower, false, false, "reads of one run that missed the last cache"},
	{ITLBMisses, "count", Lower, false, false, "missed translations of instruction addresses in one run"},
	{DTLBMisses, "count", Lower, false, false, "missed translations of data addresses in one run"},
	{Runs, "count", Lower, false, false, "runs of the program during one round of work"},
	{RecursionMisses, "count", Lower, false, false, "runs the kernel skipped because the program was already running on that CPU"},
	{Softirq, "us", Lower, false, false, "CPU time in soft interrupts, of the whole host, while the work of one side is done: packets in and out, timers"},
	{Figures, "declared", Lower, false, false, "what the work says of itself: figure[throughput], in the unit and with the direction that the config declares"},
	{Counts, "declared", Lower, true, false, "what another tool counts, alike each time: count[instructions], in the unit and with the direction that its results declare"},
	{VerifiedInsns, "insns", Lower, true, true, "instructions the verifier processed, of at most 1,000,000"},
	{PeakStates, "states", Lower, true, true, "verifier states held at once"},
	{TotalStates, "states", Lower, true, true, "verifier states created"},
	{MaxStatesPerInsn, "states", Lower, true, true, "verifier states held at one instruction"},
	{MaxMarkReadLen, "states", Lower, true, true, "longest chain of states through which the verifier followed a read"},
	{StackDepth, "bytes", Lower, true, true, "stack of the program and its subprograms as the verifier adds it up, whoever calls whom"},
	{MaxStackDepth, "bytes", Lower, true, true, "stack of the deepest chain of calls as the kernel rounds it, of at most 512"},
	{TailCallStack, "bytes", Lower, true, true, "stack of the callers of a subprogram that makes tail calls, which must stay below 256"},
	{TailCallDepth, "count", Lower, true, true, "tail calls in a row that the known contents of program arrays allow, of at most 33"},
	{UsedMaps, "count", Lower, true, true, "maps the program uses, of at most 64"},
	{VerificationUS, "us", Lower, false, true, "time the verifier took"},
	{ProgSize, "insns", Lower, true, true, "instructions before the verifier's rewriting"},
	{XlatedInsns, "insns", Lower, true, true, "instructions after the verifier's rewriting"},
	{JitedBytes, "bytes", Lower, true, true, "machine code of the program and its subprograms"},
	{Memlock, "bytes", Lower, true, true, "locked memory charged to the program"},
}

// kernelLimits are the most that the kernel allows, in the measure's unit. They are
// the same on every kernel from 5.8 on (include/linux/bpf.h and bpf_verifier.h).
var kernelLimits = map[string]float64{
	VerifiedInsns: 1_000_000, // BPF_COMPLEXITY_LIMIT_INSNS since 5.2, c04c0d2b968a
	MaxStackDepth: 512,       // MAX_BPF_STACK
	TailCallStack: 256,       // since 5.10, 7f6e4312e15a; 256 itself is refused
	TailCallDepth: 33,        // MAX_TAIL_CALL_CNT; one more fails when it is made
	UsedMaps:      64,        // MAX_USED_MAPS
}

// KernelLimit is the most that the kernel allows of the measure, in its unit; 0: it
// has no limit. A program that is accepted is within all of them, but for
// tail_call_depth, which counts when programs run.
func (m Measure) KernelLimit() float64 { return kernelLimits[m.Name] }

// Measures returns every measure, static ones last, in the order of reports.
func Measures() []Measure { return slices.Clone(measures) }

// LookupMeasure finds a measure by name, or that of a member of a family, which
// is as its family but for the name.
func LookupMeasure(name string) (Measure, bool) {
	family, _, member := SplitMember(name)
	i := slices.IndexFunc(measures, func(m Measure) bool { return m.Name == family })
	if i < 0 || member && !IsFamily(family) {
		return Measure{}, false
	}
	m := measures[i]
	m.Name = name
	return m, true
}

// MeasureOrder compares two measure names by their place in the table;
// unknown names come last, by name.
func MeasureOrder(a, b string) int {
	at := func(name string) int {
		family, _, _ := SplitMember(name)
		if i := slices.IndexFunc(measures, func(m Measure) bool { return m.Name == family }); i >= 0 {
			return i
		}
		return len(measures)
	}
	if d := at(a) - at(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}
