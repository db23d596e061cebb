package bench

import (
	"cmp"
	"slices"
	"strings"
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
	// Decides is how many instructions were executed in blocks that end with a
	// branch of the line, and in its own blocks without one: what runs because of
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
// matched by their text within a function, since their numbers shift. A line that
// only base has is there with Executions and Insns 0.
func ExplainLines(base, head []LineCount) []LineCount {
	of := func(l LineCount) textKey { return l.key() }
	old := map[textKey]LineCount{}
	for _, l := range base {
		o, ok := old[of(l)]
		if !ok {
			old[of(l)] = l
			continue
		}
		o.Executions, o.Insns, o.Decides = o.Executions+l.Executions, o.Insns+l.Insns, o.Decides+l.Decides
		old[of(l)] = o
	}
	at := map[textKey]int{}
	var all []LineCount
	for _, l := range head {
		k := of(l)
		if i, ok := at[k]; ok { // a text that stands there twice
			all[i].Executions, all[i].Insns, all[i].Decides = all[i].Executions+l.Executions, all[i].Insns+l.Insns, all[i].Decides+l.Decides
			continue
		}
		at[k] = len(all)
		o, ok := old[k]
		l.BaseExecutions, l.BaseInsns, l.BaseDecides, l.New = o.Executions, o.Insns, o.Decides, !ok
		all = append(all, l)
	}
	for _, l := range base {
		if k := of(l); !has(at, k) {
			o := old[k]
			at[k] = len(all)
			o.BaseExecutions, o.BaseInsns, o.BaseDecides = o.Executions, o.Insns, o.Decides
			o.Executions, o.Insns, o.Decides = 0, 0, 0
			all = append(all, o)
		}
	}
	all = slices.DeleteFunc(all, func(l LineCount) bool { return l.Insns == l.BaseInsns })
	slices.SortStableFunc(all, func(a, b LineCount) int {
		return cmp.Or(cmp.Compare(b.Decides-b.BaseDecides, a.Decides-a.BaseDecides), cmp.Compare(b.Insns-b.BaseInsns, a.Insns-a.BaseInsns))
	})
	if len(all) > MaxLines {
		all = all[:MaxLines]
	}
	return all
}

// ExplainTime returns the lines of head that take longer than in base, those that do by most
// first, at most [MaxLines]. Lines are matched as [ExplainLines] does.
func ExplainTime(base, head []LineCount) []LineCount {
	old := map[textKey]float64{}
	for _, l := range base {
		old[l.key()] += l.Time
	}
	at := map[textKey]int{}
	var all []LineCount
	for _, l := range head {
		k := l.key()
		if i, ok := at[k]; ok {
			all[i].Time, all[i].Share = all[i].Time+l.Time, all[i].Share+l.Share
			continue
		}
		at[k] = len(all)
		was, ok := old[k]
		l.BaseTime, l.New = was, !ok
		all = append(all, l)
	}
	all = slices.DeleteFunc(all, func(l LineCount) bool { return l.Time <= l.BaseTime })
	slices.SortStableFunc(all, func(a, b LineCount) int { return cmp.Compare(b.Time-b.BaseTime, a.Time-a.BaseTime) })
	return all[:min(len(all), MaxLines)]
}

// A textKey is what a line is known by in another revision, where numbers have shifted.
type textKey struct{ function, text string }

func (l *LineCount) key() textKey {
	return textKey{l.Function, strings.Join(strings.Fields(l.Text), " ")}
}

func has[K comparable, V any](m map[K]V, k K) bool {
	_, ok := m[k]
	return ok
}

// A FunctionCount is what one function executed in one run of the program.
type FunctionCount struct {
	Name  string  `json:"name"`
	Calls float64 `json:"calls"`
	Insns float64 `json:"insns"` // without those of functions that it calls
}
