package bench

import "time"

// An Agent is user space that loads eBPF programs itself: it is started, watched
// and stopped, and what its programs cost meanwhile is measured.
type Agent struct {
	Name string
	Pos  Pos
	// Run is a shell command that is the agent, run as root in its revision's
	// tree. Empty: it runs already, and Find says where its programs are.
	Run string
	// In is the network namespace of the benchmark that it runs in; empty is that
	// of [Benchmark.At].
	In string
	// Env are further variables, as KEY=VALUE.
	Env   []string
	Ready Ready
	// Programs are the names of those that must be there, and are measured.
	// Empty: whatever is found.
	Programs []string
	Find     Find
	Stop     Stop
}

// Ready says when an agent is at work: when all that is set holds, its programs are
// there, and for a while no other has come.
type Ready struct {
	Log     string        // a regular expression that a line of its output matches
	Command string        // a shell command that ends with 0
	Port    int           // of TCP, on the loopback interface of its namespace
	Stable  time.Duration // 0 is [DefaultStable]
	Within  time.Duration // 0 is [DefaultReady]
}

// Defaults of a [Ready]. Programs are loaded first and attached then, one by one.
const (
	DefaultStable = 500 * time.Millisecond
	DefaultReady  = time.Minute
)

// Find says where programs are, beside those that the agent's processes hold, that
// are pinned in its bpffs, or that hang on an interface of its network namespace.
type Find struct {
	Names      []string // globs; of programs that were loaded since it was started
	Pins       []string // files or directories of the host's bpffs
	Cgroups    []string // directories of control groups
	Interfaces []string // of the host's network namespace
	PIDs       []int    // of processes, with all below them
}

// Anywhere tells that Find says something.
func (f Find) Anywhere() bool {
	return len(f.Names)+len(f.Pins)+len(f.Cgroups)+len(f.Interfaces)+len(f.PIDs) > 0
}

// Stop says how an agent is ended.
type Stop struct {
	Signal string        // such as SIGINT; empty is SIGTERM
	Within time.Duration // until it is killed; 0 is [DefaultStop]
}

// DefaultStop is the time that an agent has for its end.
const DefaultStop = 10 * time.Second
