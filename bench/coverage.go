package bench

// A Coverage is what benchmarks executed of the programs of one object: sums over
// their inputs, not averages. It is made by `gate cover` and is no part of a [Run].
type Coverage struct {
	Object     string   `json:"object"`
	Benchmarks []string `json:"benchmarks"`
	// Runs is how often a program was entered.
	Runs     uint64            `json:"runs"`
	Programs []ProgramCoverage `json:"programs"`
}

// A ProgramCoverage is what was executed of one program, whether it was entered or
// tail-called.
type ProgramCoverage struct {
	Program   string             `json:"program"`
	Functions []FunctionCoverage `json:"functions"` // the program's own first
}

// A FunctionCoverage is what was executed of a program's entry, a subprogram or a
// callback.
type FunctionCoverage struct {
	Name string `json:"name"`
	// File and Line are where its code begins; empty and 0 without line information.
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
	Calls uint64 `json:"calls"`
	Insns uint64 `json:"insns"` // executed, without those of functions that it calls
	// Size is its instructions, Reached those that were executed at all; Blocks and
	// BlocksReached the same of basic blocks.
	Size          int `json:"size"`
	Reached       int `json:"reached"`
	Blocks        int `json:"blocks"`
	BlocksReached int `json:"blocks_reached"`
	// Background tells of a callback that runs by itself, of a timer or a work
	// queue: what it executes is part of no run.
	Background bool             `json:"background,omitempty"`
	Lines      []LineCoverage   `json:"lines,omitempty"`
	Branches   []BranchCoverage `json:"branches,omitempty"`
}

// A LineCoverage is what a function executed of one line of source.
type LineCoverage struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text,omitempty"` // as the compiler found it, with its indentation
	// Executions is how often the line was reached, see [LineCount].
	Executions uint64 `json:"executions"`
	Insns      uint64 `json:"insns"` // executed
	Size       int    `json:"size"`  // its instructions
	Reached    int    `json:"reached"`
}

// A BranchCoverage is which way a conditional jump went. The counts of blocks tell
// it of almost every jump; where they do not, Known is false.
type BranchCoverage struct {
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
	Insn  int    `json:"insn"` // its index in the program
	Taken uint64 `json:"taken"`
	Not   uint64 `json:"not"` // not taken
	Known bool   `json:"known"`
}

// A Change is what of a program's instructions differs between base and head, and
// whether the inputs of any benchmark execute it.
type Change struct {
	Program string `json:"program"`
	// Reached tells that a line that differs was executed, on either side. Executed
	// tells that the two executed different instructions, or one of them oftener:
	// without Reached, the compiler's doing. Only both together are a change that is
	// measured.
	Reached  bool `json:"reached"`
	Executed bool `json:"executed"`
	// NotRun tells that no benchmark runs the program at all.
	NotRun bool `json:"not_run,omitempty"`
	// Lines are lines that differ and were not executed, at most [MaxLines]; More is
	// how many there are besides.
	Lines []ChangedLine `json:"lines,omitempty"`
	More  int           `json:"more,omitempty"`
}

// A ChangedLine is a line of source that a change touches.
type ChangedLine struct {
	File     string `json:"file,omitempty"` // empty without line information
	Line     int    `json:"line,omitempty"`
	Text     string `json:"text,omitempty"`
	Function string `json:"function"`
	// Removed tells that it is a line of base.
	Removed bool `json:"removed,omitempty"`
}

// MaxChanges is how many changes a run tells.
const MaxChanges = 1000
