package verifier

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// A Stat is something that is known of a program: a column.
type Stat struct {
	// Names are veristat's, where it has the statistic; the first one heads CSV.
	// gate's name of the measure is among them.
	Names  []string
	Header string
	// Measure is the measure of package bench; empty for what is none.
	Measure string
	text    bool // not a number; "verdict" counts as one when it is filtered
	left    bool // stands left in tables
	asc     bool // is sorted upwards unless somebody says otherwise
}

// Name is what CSV and JSON call the statistic.
func (s *Stat) Name() string { return s.Names[0] }

// The statistics that code refers to.
const (
	statFile    = "file_name"
	statProgram = "prog_name"
	statVerdict = "verdict"
	statType    = "prog_type"
	statAttach  = "attach_type"
	statReason  = "reason"
	statUsed    = "limit_used"
	statMemPeak = "mem_peak"
)

// stats is the one table of statistics. Those of veristat come first, in the order
// of its CSV.
var stats = []Stat{
	{Names: []string{statFile, "filename", "file"}, Header: "File", text: true, left: true, asc: true},
	{Names: []string{statProgram, "progname", "prog"}, Header: "Program", text: true, left: true, asc: true},
	{Names: []string{statVerdict}, Header: "Verdict", left: true, asc: true},
	{Names: []string{"duration", "dur", bench.VerificationUS}, Header: "Duration (us)", Measure: bench.VerificationUS},
	{Names: []string{"total_insns", "insns", bench.VerifiedInsns}, Header: "Insns", Measure: bench.VerifiedInsns},
	{Names: []string{bench.TotalStates, "states"}, Header: "States", Measure: bench.TotalStates},
	{Names: []string{bench.PeakStates}, Header: "Peak states", Measure: bench.PeakStates},
	{Names: []string{bench.MaxStatesPerInsn}, Header: "Max states per insn", Measure: bench.MaxStatesPerInsn},
	{Names: []string{bench.MaxMarkReadLen, "mark_read"}, Header: "Max mark read length", Measure: bench.MaxMarkReadLen},
	{Names: []string{bench.ProgSize}, Header: "Program size", Measure: bench.ProgSize},
	{Names: []string{"prog_size_jited", bench.JitedBytes}, Header: "Jited size", Measure: bench.JitedBytes},
	{Names: []string{statType}, Header: "Program type", text: true, left: true},
	{Names: []string{statAttach}, Header: "Attach type", text: true, left: true},
	{Names: []string{bench.StackDepth, "stack"}, Header: "Stack depth", Measure: bench.StackDepth},
	{Names: []string{bench.MaxStackDepth}, Header: "Max stack depth", Measure: bench.MaxStackDepth},
	{Names: []string{statMemPeak}, Header: "Peak memory (MiB)"},

	{Names: []string{bench.TailCallStack}, Header: "Tail call stack", Measure: bench.TailCallStack},
	{Names: []string{bench.TailCallDepth}, Header: "Tail calls", Measure: bench.TailCallDepth},
	{Names: []string{bench.UsedMaps, "maps"}, Header: "Maps", Measure: bench.UsedMaps},
	{Names: []string{bench.XlatedInsns, "xlated"}, Header: "Xlated insns", Measure: bench.XlatedInsns},
	{Names: []string{bench.Memlock}, Header: "Memlock", Measure: bench.Memlock},
	{Names: []string{statUsed, "used"}, Header: "Limit used", left: true},
	{Names: []string{statReason}, Header: "Reason", text: true, left: true},
}

// lookup finds a statistic by one of its names.
func lookup(name string) *Stat {
	for i := range stats {
		if slices.Contains(stats[i].Names, name) {
			return &stats[i]
		}
	}
	return nil
}

// Names are the first names of all statistics.
func Names() []string {
	var names []string
	for i := range stats {
		names = append(names, stats[i].Name())
	}
	return names
}

// A Row is what is known of one program.
type Row struct {
	File, Program string
	// Accepted is the verifier's verdict. A program that did not reach the verifier is
	// not accepted, either: its Outcome tells them apart.
	Accepted         bool
	Outcome          bench.Outcome // empty where the row was read from veristat's CSV
	Type, AttachType string
	Reason           string   // why it was not accepted, in one line
	Log              []string // the end of the verifier's log
	// Values are the statistics by their first names; what is unknown is not there.
	Values    map[string]float64
	Functions []bench.Function
	// Passed are the lines that the verifier went over most often, where asked for.
	Passed []PassedLine
}

// A PassedLine is a line of source, and how often the verifier went over it.
type PassedLine struct {
	Times int    `json:"times"`
	File  string `json:"file,omitempty"` // empty where the kernel does not say
	Line  int    `json:"line,omitempty"`
	Text  string `json:"text"`
}

// number is the value of a statistic; NaN: unknown, or not a number.
func (r *Row) number(s *Stat) float64 {
	switch s.Name() {
	case statVerdict:
		if r.Accepted {
			return 1
		}
		return 0
	case statUsed:
		used, _ := r.used()
		return used
	}
	if v, ok := r.Values[s.Name()]; ok && !s.text {
		return v
	}
	return math.NaN()
}

// used is the largest share of a limit of the kernel's, in per cent, and whose it is;
// NaN: nothing is known of any, or nothing used.
func (r *Row) used() (float64, *Stat) {
	most, of := math.NaN(), (*Stat)(nil)
	for i := range stats {
		m, ok := bench.LookupMeasure(stats[i].Measure)
		if limit := m.KernelLimit(); ok && limit > 0 {
			if v := r.Values[stats[i].Name()]; v > 0 && !(100*v/limit <= most) {
				most, of = 100*v/limit, &stats[i]
			}
		}
	}
	return most, of
}

// text is the value of a statistic for people; empty: unknown.
func (r *Row) text(s *Stat) string {
	switch s.Name() {
	case statFile:
		return r.File
	case statProgram:
		return r.Program
	case statType:
		return r.Type
	case statAttach:
		return r.AttachType
	case statReason:
		return r.Reason
	case statVerdict:
		if r.Accepted {
			return "success"
		}
		return "failure"
	case statUsed:
		if used, of := r.used(); of != nil {
			return fmt.Sprintf("%.1f%% %s", used, of.Name())
		}
		return ""
	}
	v := r.number(s)
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// set gives a statistic the value that a file has for it.
func (r *Row) set(s *Stat, value string) error {
	switch s.Name() {
	case statFile:
		r.File = value
	case statProgram:
		r.Program = value
	case statType:
		r.Type = value
	case statAttach:
		r.AttachType = value
	case statReason:
		r.Reason = value
	case statUsed: // follows from the others
	case statVerdict:
		switch value {
		case "success", "failure":
			r.Accepted = value == "success"
		default:
			return fmt.Errorf("verdict %.40q is neither success nor failure", value)
		}
	default:
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n > 1<<53 || n < -1<<53 {
			return fmt.Errorf("%s %.40q is not a whole number", s.Name(), value)
		}
		if n < 0 {
			return nil // veristat's -1: unknown
		}
		if r.Values == nil {
			r.Values = map[string]float64{}
		}
		r.Values[s.Name()] = float64(n)
	}
	return nil
}
