package site

import (
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// A state is how a series stands; the greatest of several is that of all.
type state int

const (
	fewRuns state = iota
	steady
	regressed
)

func (s state) String() string { return [...]string{"few runs", "pass", "regressed"}[s] }

// Class is its class in the style.
func (s state) Class() string { return [...]string{"few", "pass", "bad"}[s] }

// recent is for how many runs a change for the worse is news: after them it is how
// things are.
const recent = 10

// boundary is where the default policy's threshold would alarm, by the runs since the
// last change but the newest; nil where they are too few.
func boundary(s *gate.Series) *float64 {
	from := 0
	if n := len(s.Changes); n > 0 {
		from = s.Changes[n-1].At
	}
	sign := 1.0
	if s.Better == bench.Higher {
		sign = -1
	}
	var x []float64 // newest first, bad above
	for i := len(s.Points) - 2; i >= from; i-- {
		x = append(x, sign*s.Points[i].Value)
	}
	t := gate.DefaultPolicy().Threshold
	if s.Exact || len(x) < t.MinSamples || slices.Max(x) == slices.Min(x) {
		return nil
	}
	b := t.Boundary(x)
	if b.Upper == nil {
		return nil
	}
	at := sign * *b.Upper
	return &at
}

// stateOf is regressed where the newest run lies beyond the boundary, or the series
// changed for the worse in the newest runs.
func stateOf(s *gate.Series, limit *float64) state {
	newest := s.Points[len(s.Points)-1].Value
	if limit != nil && (newest > *limit) == (s.Better != bench.Higher) && newest != *limit {
		return regressed
	}
	for _, c := range s.Changes {
		if c.Worse && c.At >= len(s.Points)-recent {
			return regressed
		}
	}
	if limit == nil && !s.Exact && len(s.Points) <= gate.DefaultPolicy().Threshold.MinSamples || len(s.Points) < 2 {
		return fewRuns
	}
	return steady
}
