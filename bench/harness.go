package bench

import "time"

// A Harness is a command of user space that measures benchmarks itself and says what
// it measured: go test -bench, cargo bench, a test binary that a build has made.
type Harness struct {
	Pos Pos
	// Run is a shell command, run as the build commands are, in the tree of each side.
	Run string
	// Dir is where: slash-separated, relative to the config's directory. Empty is that
	// directory.
	Dir string
	// Adapter is the format of what it says; empty: that is found out.
	Adapter string
	// Results is the file or directory below $GATE_TMP that the command writes its
	// results to. Empty: standard output.
	Results string
	// Profiles are files below $GATE_TMP, in the format of pprof, that the command may
	// write: what they say explains measures that got worse.
	Profiles []string
	// Env are further variables, as KEY=VALUE.
	Env []string
	// Within ends each run of the command with an error; 0 is [DefaultHarnessWithin].
	Within time.Duration
}

const (
	// DefaultHarnessWithin is the time that one run of a [Harness] may take. The first
	// one of each side may compile first.
	DefaultHarnessWithin = 5 * time.Minute
	// DefaultHarnessBudget is the measuring time of a [Harness]: a process takes
	// seconds where a test run takes milliseconds.
	DefaultHarnessBudget = 2 * time.Minute
)

// A Site is a place in the source to which a profile of a process gives a part of a
// measure.
type Site struct {
	// Stack are the functions of the heaviest stack through the place, callers last, at
	// most [MaxSiteFrames]. The place may be in a caller of the first: where the author's
	// own code called it.
	Stack []string `json:"stack"`
	File  string   `json:"file,omitempty"` // of the place, relative to the config's directory where it lies below that
	Line  int      `json:"line,omitempty"`
	Text  string   `json:"text,omitempty"` // of the line
	// Value is the part of head's measure, Base that of base's, in the measure's unit;
	// 0 where the place has none.
	Value float64 `json:"value"`
	Base  float64 `json:"base,omitempty"`
}

// Limits of the sites of a [Result].
const (
	MaxSites      = 10
	MaxSiteFrames = 32
)
