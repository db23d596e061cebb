//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
)

// changedAnswer is that a side answered a packet otherwise than at first.
type changedAnswer struct {
	*bench.Diagnostic
	side int
}

func (e *changedAnswer) Unwrap() error { return e.Diagnostic }

// chanceRuns is how many runs two loads are compared by. What happens once in a
// thousand runs is missed by one comparison in 3,600.
const chanceRuns = 4096

// byChance tells whether a side's answers are not a function of its input: whether
// two fresh loads, given the same packets in the same order, answer differently. A
// program that remembers does not, and it is one that asks for nothing that varies.
func (m *Micro) byChance(side int) (bool, error) {
	if m.whimsical(side) == "" {
		return false, nil
	}
	c := m.seedlessTwin()
	first, err := c.answersOf(side)
	if err != nil {
		return false, err
	}
	second, err := c.answersOf(side)
	return !slices.Equal(first, second), err
}

// answersOf are a fresh load's answers, run by run.
func (m *Micro) answersOf(side int) (answers []uint32, err error) {
	defer m.forget()
	t, err := m.load(side)
	if err != nil {
		return nil, err
	}
	targets := []*target{t}
	defer func() { m.remove(targets) }()
	if err := m.seat(targets); err != nil {
		return nil, err
	}
	m.arm(t, 0)
	for len(answers) < chanceRuns {
		if err := m.s.stopped(); err != nil {
			return nil, err
		}
		for _, s := range t.shots {
			for p := s.first; p < max(s.end, s.first+1); p++ {
				e, err := m.effect(t, s, p)
				if err != nil {
					return nil, err
				}
				answers = append(answers, e.answer)
			}
		}
	}
	return answers, nil
}

// tolerating takes readings, and takes them again where an answer changed that
// chance decides: then any answer is one. Where a program's own memory decides (a
// queue that fills up), that it changed is the error.
func (m *Micro) tolerating(read func() error) error {
	for {
		err := read()
		var changed *changedAnswer
		if !errors.As(err, &changed) || m.chance[changed.side] {
			return err
		}
		chance, failed := m.byChance(changed.side)
		if failed != nil {
			return failed
		}
		if !chance {
			return err
		}
		m.allow(changed.side)
	}
}

// allow takes any answer of a side for one that chance decided.
func (m *Micro) allow(side int) {
	if !slices.Contains(m.chance, true) {
		m.Warnings = append(m.Warnings, fmt.Sprintf("%s does not always give the same answer to the same packets%s: the numbers are averages over what it happens to do",
			m.sides[side].Name, m.whimsical(side)))
	}
	m.chance[side] = true
}
