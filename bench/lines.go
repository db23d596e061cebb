package bench

import (
	"cmp"
	"slices"
)

// A LineCount is what one line of source executed in one run of the program, on
// average over the benchmark's inputs.
type LineCount struct {
	File string `json:"file"` // as the compiler wrote it
	Line int    `json:"line"`
	// Text is the line itself, as the compiler found it.
	Text     string `json:"text,omitempty"`
	Function string `json:"function"` // the program or subprogram that holds the code
	// Executions is how often the line was reached. Where the compiler spread a
	// line over several places, it is that of the part that was reached most.
	Executions float64 `json:"executions"`
	// Insns is how many instructions of the line were executed.
	Insns float64 `json:"insns"`
	// Decides is how many instructions of the line were executed outside of loops, and in
	// loops, how many in blocks that end with a branch of the line: what runs because of
	// it. Of a loop, it is the line with the condition that has the body's.
	Decides float64 `json:"decides"`
	// BaseExecutions, BaseInsns and BaseDecides are those of the same line in base. They are 0
	// where base did not reach it or, as New tells, does not have it.
	BaseExecutions float64 `json:"base_executions,omitempty"`
	BaseInsns      float64 `json:"base_insns,omitempty"`
	BaseDecides    float64 `json:"base_decides,omitempty"`
	New            bool    `json:"new,omitempty"`
	// Time is how long one run was on the line and in what it calls, in ns, of the condition
	// of a loop in all of it; Share what part that is of the program's time, 0 to 1. They are
	// from samples, where somebody took some.
	Time     float64 `json:"time,omitempty"`
	Share    float64 `json:"share,omitempty"`
	BaseTime float64 `json:"base_time,omitempty"`
}

// MaxLines is how many lines explain a difference.
const MaxLines = 20

// ExplainLines returns the lines of head that differ from base in executed
// instructions, those that decide most more of them first, at most [MaxLines]. Lines are
// matched by [MatchLines]. A line that only base has is there with Executions and Insns 0.
func ExplainLines(base, head []LineCount) []LineCount {
	all := slices.Clone(head)
	kept := make([]bool, len(base))
	for i, was := range MatchLines(base, head) {
		l := &all[i]
		if l.New = was.Base < 0; !l.New {
			o := base[was.Base]
			l.BaseExecutions, l.BaseInsns, l.BaseDecides = o.Executions, o.Insns, o.Decides
			kept[was.Base] = true
		}
	}
	for i, l := range base {
		if !kept[i] {
			l.BaseExecutions, l.BaseInsns, l.BaseDecides = l.Executions, l.Insns, l.Decides
			l.Executions, l.Insns, l.Decides = 0, 0, 0
			all = append(all, l)
		}
	}
	all = slices.DeleteFunc(all, func(l LineCount) bool { return l.Insns == l.BaseInsns })
	slices.SortStableFunc(all, func(a, b LineCount) int {
		return cmp.Or(cmp.Compare(b.Decides-b.BaseDecides, a.Decides-a.BaseDecides), cmp.Compare(b.Insns-b.BaseInsns, a.Insns-a.BaseInsns))
	})
	return all[:min(len(all), MaxLines)]
}

// ExplainTime returns the lines of head that take longer than in base, those that do by most
// first, at most [MaxLines]. Lines are matched by [MatchLines].
func ExplainTime(base, head []LineCount) []LineCount {
	all := slices.Clone(head)
	for i, was := range MatchLines(base, head) {
		if l := &all[i]; was.Base >= 0 {
			l.BaseTime = base[was.Base].Time
		} else {
			l.New = true
		}
	}
	all = slices.DeleteFunc(all, func(l LineCount) bool { return l.Time <= l.BaseTime })
	slices.SortStableFunc(all, func(a, b LineCount) int { return cmp.Compare(b.Time-b.BaseTime, a.Time-a.BaseTime) })
	return all[:min(len(all), MaxLines)]
}

// A FunctionCount is what one function executed in one run of the program.
type FunctionCount struct {
	Name  string  `json:"name"`
	Calls float64 `json:"calls"`
	Insns float64 `json:"insns"` // without those of functions that it calls
}
