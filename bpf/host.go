package bpf

// A State is what a check of the host found.
type State string

// The states. CheckWarn is that measuring works, and its numbers may be noisy,
// biased or fewer; CheckMissing is that something cannot be measured at all.
const (
	CheckOK      State = "ok"
	CheckWarn    State = "warn"
	CheckMissing State = "missing"
)

// A Check is one thing that measuring depends on, and how this host stands.
type Check struct {
	// Group is "measures" (what can be measured, found out by doing it),
	// "counters", "programs" (what can be attached), "tools", "kernel" or
	// "noise". Checks of a group follow each other.
	Group string
	// Name is short and the same on every host: "XDP test run", "JIT", "load".
	Name  string
	State State
	// Detail is what was found: one line, lower case, no full stop.
	Detail string
	// Hint is what to do; never empty unless State is [CheckOK].
	Hint string
}
