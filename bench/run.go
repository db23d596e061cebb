package bench

import "time"

// A Run is all results of one revision on one testbed. It holds the raw
// samples, never only their summary.
type Run struct {
	// Schema is the version of this structure; see [SchemaVersion].
	Schema int `json:"schema"`
	// ID names the run: unique, made of lower-case letters, digits and '-'.
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	// Session is shared by the runs that were measured side by side, in the
	// same rounds; only those may be compared in pairs. Empty: alone.
	Session  string   `json:"session,omitempty"`
	Revision Revision `json:"revision"`
	Testbed  Testbed  `json:"testbed"`
	// Seed made every random order of the session.
	Seed uint64 `json:"seed"`
	Tool string `json:"tool,omitempty"` // version of gate that made the run

	// Suites are the suites that the run holds, where it holds several; see
	// [JoinSuites]. Empty: one, that has no name.
	Suites   []string        `json:"suites,omitempty"`
	Programs []ProgramResult `json:"programs,omitempty"`
	Results  []Result        `json:"results,omitempty"`
	Skipped  []Skip          `json:"skipped,omitempty"`
	// Changes are the programs that differ from the base of the same session; only
	// head has them, at most [MaxChanges].
	Changes []Change `json:"changes,omitempty"`
	// Warnings doubt the whole run: a noisy host, an old kernel.
	Warnings []string `json:"warnings,omitempty"`
}

// Revision says what was built.
type Revision struct {
	// Name is what the user wrote or what stands for it: a ref, a file.
	Name string `json:"name"`
	// Commit is the full object name; empty outside git.
	Commit string `json:"commit,omitempty"`
	Branch string `json:"branch,omitempty"`
	// Dirty tells that tracked files differed from Commit.
	Dirty bool `json:"dirty,omitempty"`
}

// Short is the revision's name for people: at most 12 digits of a commit.
func (r Revision) Short() string {
	const digits = 7
	switch {
	case r.Commit == "":
		return r.Name
	case r.Dirty:
		return r.Commit[:min(digits, len(r.Commit))] + "+dirty"
	case r.Name != "" && r.Name != r.Commit && r.Name != "HEAD":
		return r.Name + " " + r.Commit[:min(digits, len(r.Commit))]
	default:
		return r.Commit[:min(digits, len(r.Commit))]
	}
}

// Testbed is what else a noisy number depends on.
type Testbed struct {
	// Name is given by the user; empty means that [Testbed.Slug] speaks.
	Name   string `json:"name,omitempty"`
	Kernel string `json:"kernel"` // uname -r
	Arch   string `json:"arch"`   // GOARCH
	CPU    string `json:"cpu"`    // model name
	CPUs   int    `json:"cpus"`   // online
	// JIT is false where programs are interpreted.
	JIT bool `json:"jit"`
	// Hardened tells that programs are loaded with Spectre mitigations
	// (no CAP_PERFMON, or net.core.bpf_jit_harden).
	Hardened       bool   `json:"hardened,omitempty"`
	Clang          string `json:"clang,omitempty"` // version; empty when nothing was compiled here
	Virtualization string `json:"virtualization,omitempty"`
}

// ProgramResult is what the verifier said of one program.
type ProgramResult struct {
	Program string  `json:"program"`
	Object  string  `json:"object"` // file, relative to its tree
	Type    string  `json:"type,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Reason is why the program was not accepted, in one line.
	Reason string `json:"reason,omitempty"`
	// LogTail is the end of the verifier's log of a rejected program.
	LogTail []string `json:"log_tail,omitempty"`
	// LogPath is where the full log was saved.
	LogPath string `json:"log_path,omitempty"`
	// Digest identifies the program and all that its result can depend on:
	// relocated instructions, flags, attach type, initial map contents, and
	// the same of everything reachable by tail call. Empty: unknown.
	Digest string `json:"digest,omitempty"`
	// Functions are those of an accepted program that has subprograms, the program
	// itself first, in the order of the kernel.
	Functions []Function `json:"functions,omitempty"`
}

// A Function is what the verifier and the JIT made of a program or of one of its
// subprograms by itself. What this kernel does not tell is nil.
type Function struct {
	Name string `json:"name"`
	// Kind is "main", "global" (verified by itself, whoever calls it) or "static"
	// (verified anew for each call); empty: unknown.
	Kind string `json:"kind,omitempty"`
	// InsnsSelf are the instructions that the verifier processed in the function,
	// InsnsTotal those with what it calls. Linux 7.3 or so tells them.
	InsnsSelf  *int `json:"insns_self,omitempty"`
	InsnsTotal *int `json:"insns_total,omitempty"`
	Stack      *int `json:"stack_depth,omitempty"`  // bytes, without those of callees
	Xlated     *int `json:"xlated_insns,omitempty"` // after the verifier's rewriting
	Jited      *int `json:"jited_bytes,omitempty"`  // machine code
}

// Outcome is the kernel verifier's answer.
type Outcome string

// The answers. NotLoaded is that the program never reached the verifier.
const (
	Accepted  Outcome = "accepted"
	Rejected  Outcome = "rejected"
	NotLoaded Outcome = "not loaded"
)

// A Result is one measure of one benchmark (or, when static, of one program).
type Result struct {
	// Benchmark is "program/case", or the program alone for static measures.
	Benchmark string   `json:"benchmark"`
	Program   string   `json:"program"`
	Measure   string   `json:"measure"`
	Kind      Kind     `json:"kind"`
	Samples   []Sample `json:"samples"`
	// Looks are the numbers of rounds at which the session looked at this
	// result, increasing; the last one is where it stopped.
	Looks []int `json:"looks,omitempty"`
	// Final tells that the last look was the last that the budget allowed,
	// and so spent what was left of alpha.
	Final bool `json:"final,omitempty"`
	// With are the programs that ran beside it and share its maps: it is unchanged
	// only where they are, too.
	With []string `json:"with,omitempty"`
	// Path is how the program was driven: "driver", "attached", "repeat",
	// "veth native", …
	Path string `json:"path,omitempty"`
	// Answer is what the program returned, such as "XDP_PASS".
	Answer   string   `json:"answer,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Unit and Better are those of a declared measure (see [IsDeclared]); empty for
	// all others, of which the table of measures says both.
	Unit   string `json:"unit,omitempty"`
	Better Better `json:"better,omitempty"`
	// Noisy is why a measure that is exact elsewhere is not here: what differs from
	// run to run, and what made it so. Its samples are then judged like those of
	// any noisy measure. Empty: it is what the table of measures says.
	Noisy string `json:"noisy,omitempty"`
	// Seconds is the time that measuring the benchmark took, all sides together;
	// 0: unknown.
	Seconds float64 `json:"seconds,omitempty"`
	// Worst is the value of the packet that costs most, for measures that are
	// an average over packets and known for each; 0 where it is not known.
	Worst float64 `json:"worst,omitempty"`
	// Lines are where head differs from base, those that cost most more first,
	// at most [MaxLines]; see [ExplainLines] and [ExplainTime]. Only head has them.
	Lines []LineCount `json:"lines,omitempty"`
	// Sites are where profiles show that head spends or allocates more than base,
	// those with most more first, at most [MaxSites]. Only head has them.
	Sites []Site `json:"sites,omitempty"`
}

// Exact tells that the samples of a result are the same number whenever and
// wherever they are taken.
func (r *Result) Exact() bool {
	m, _ := LookupMeasure(r.Measure)
	return m.Exact && r.Noisy == ""
}

// Control names the result of a session's control: in base's run the base of one
// benchmark, in head's run the same base, loaded once more. It is no benchmark of
// anybody's.
const Control = "control"

// A Sample is one number of one round, that is of one load: for a noisy measure
// it stands for several readings taken inside that load.
type Sample struct {
	// Round counts from 0. Equal rounds of two runs of a session are a pair.
	Round int     `json:"round"`
	Value float64 `json:"value"` // in the measure's unit
	// Floor is the same reading of an empty program in the same round, or the median
	// of some rounds before, where it takes as long as the program's; 0 where there is
	// none. It is shown, and scales margins; it is never subtracted
	// before judging.
	Floor float64 `json:"floor,omitempty"`
	// Twin is the reading of the same program with its code moved, as an edit of
	// code that is never executed moves it, in the same round; only base has it.
	// 0: there is none.
	Twin float64 `json:"twin,omitempty"`
	// Offset is where the program's machine code starts within its 64-byte
	// line, 0 to 63; -1 where unknown.
	Offset int `json:"offset"`
	// Switches counts context switches of the measuring thread, Migrations its
	// moves to another CPU, Faults its page faults, and Steal the hundredths of a
	// second that the hypervisor took from its CPU.
	Switches   int64 `json:"switches,omitempty"`
	Migrations int64 `json:"migrations,omitempty"`
	Faults     int64 `json:"faults,omitempty"`
	Steal      int64 `json:"steal,omitempty"`
	// Counted is the share of the time for which a hardware counter counted, where
	// it had to share the CPU's counters with others: Value is scaled up by it. 0:
	// all of the time.
	Counted float64 `json:"counted,omitempty"`
}

// A Skip is something that was not measured, and why.
type Skip struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Hint is what to do about it, where there is something.
	Hint string `json:"hint,omitempty"`
	// Required tells that somebody asked for it by name: a suite in which it is
	// missing cannot pass.
	Required bool `json:"required,omitempty"`
}
