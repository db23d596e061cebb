//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// identical compares programs with themselves, compiled under two licences, so that
// their digests differ and nothing but the measurement can pass them.
func identical(l *lab) error {
	const margin, soon = 0.03, 5 * time.Second
	var rows []string
	all := map[gate.Verdict]int{}
	if err := hosts(func(host string) error {
		for _, sub := range l.subjects {
			o, err := l.outcomes(l.trials, netPolicy(margin), sub, sub.object, sub.same)
			if err != nil {
				return fmt.Errorf("%s %s: %w", host, sub.name, err)
			}
			for v, n := range o.verdicts {
				all[v] += n
			}
			l.progress("%s %s: %v", host, sub.name, o.verdicts)
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %d | %s | %d | %s | %.0f | %s |", host, sub.name,
				count(o.verdicts[gate.Regressed], l.trials), o.verdicts[gate.Improved], count(o.within(gate.Pass, soon), l.trials),
				o.distrust, count(o.differ, l.trials), stats.Median(o.rounds), o.times()))
		}
		return nil
	}); err != nil {
		return err
	}
	fmt.Printf("| host | program | regressed | improved | pass within %v | control failed | differs from 0 at 1%%, %d rounds | after rounds (median) | time: median, longest |\n", soon, firstLook)
	fmt.Println("|-|-|-|-|-|-|-|-|-|")
	fmt.Println(strings.Join(rows, "\n"))
	total := 0
	for _, n := range all {
		total += n
	}
	fmt.Printf("\nIn all %s regressed, %s improved, %s passed.\n", count(all[gate.Regressed], total), count(all[gate.Improved], total), count(all[gate.Pass], total))
	fmt.Printf("\n%s\n", l.about(fmt.Sprintf("limit %g%% of net time", 100*margin)))
	return nil
}
