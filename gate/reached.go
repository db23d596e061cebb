package gate

import (
	"fmt"
	"path"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// changes warns of programs that differ from base in code that no benchmark
// executes: whatever the rows say, it is not about that. What head knows of its
// changes is about the base that it was measured beside, and no other.
func (r *Report) changes(base, head *bench.Run) {
	if head.Session == "" || base.Session != head.Session {
		return
	}
	r.Changes = head.Changes
	var notRun []string
	for i := range head.Changes {
		c := &head.Changes[i]
		switch {
		case c.Executed && c.Reached:
		case c.NotRun:
			notRun = append(notRun, c.Program)
		case c.Executed:
			r.warn("%s: this change is not measured: no benchmark executes %s. The rows are about other code, which the compiler made anew", c.Program, changedLines(c))
		default:
			r.warn("%s: this change is not measured: no benchmark executes %s", c.Program, changedLines(c))
		}
	}
	if len(notRun) > 0 {
		const most = 6
		names := strings.Join(notRun[:min(len(notRun), most)], ", ")
		if n := len(notRun) - most; n > 0 {
			names += fmt.Sprintf(" and %d more", n)
		}
		r.warn("%s: this change is not measured: no benchmark runs %s", names, map[bool]string{true: "it", false: "them"}[len(notRun) == 1])
	}
}

// changedLines names the lines of a change that were not executed.
func changedLines(c *bench.Change) string {
	const most = 3
	var parts []string
	left := c.More
	for _, l := range c.Lines {
		switch {
		case len(parts) == most:
			left++
		case l.File == "":
			parts = append(parts, "code of "+l.Function)
		default:
			s := fmt.Sprintf("%s:%d %s", path.Base(l.File), l.Line, l.Text)
			if l.Removed {
				s += " (removed)"
			}
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return "what differs"
	}
	if left > 0 {
		parts = append(parts, fmt.Sprintf("and %d lines more", left))
	}
	return strings.Join(parts, "; ")
}
