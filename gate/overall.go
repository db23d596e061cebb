package gate

import (
	"fmt"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// Severity orders reports: what is surely worse before what is not known, and that
// before what is well. It is 0 for a report that nobody asked a verdict of.
func Severity(r *Report) int {
	switch {
	case r.Verdict == Regressed:
		return 3
	case r.Verdict == Inconclusive && r.Asked, r.Verdict == Missing:
		return 2
	case r.Verdict == Improved:
		return 1
	}
	return 0
}

// Overall is the verdict of several testbeds, and the sentence that says so: one
// regression is enough to fail; then one that is not known, or one of the missing that
// have no report at all, is enough not to pass. A suite that improved somewhere and is
// nowhere worse improved.
func Overall(reports []*Report, missing int) (Verdict, string) {
	var worst *Report
	for _, r := range reports {
		if worst == nil || Severity(r) > Severity(worst) {
			worst = r
		}
	}
	switch {
	case worst == nil:
		return Inconclusive, "nothing was measured."
	case missing > 0 && worst.Verdict != Regressed:
		return Inconclusive, fmt.Sprintf("%s could not be measured.", testbeds(missing))
	}
	same := 0
	for _, r := range reports {
		if Severity(r) == Severity(worst) {
			same++
		}
	}
	summary := strings.TrimSuffix(worst.Summary, ".")
	if Severity(worst) > 1 || same < len(reports) {
		return worst.Verdict, fmt.Sprintf("%s: %s (%d of %s).", name(worst.Testbed), summary, same, testbeds(len(reports)+missing))
	}
	return worst.Verdict, fmt.Sprintf("%s, on %s.", summary, testbeds(len(reports)))
}

func testbeds(n int) string {
	if n == 1 {
		return "1 testbed"
	}
	return fmt.Sprintf("%d testbeds", n)
}

// name is what a testbed is called in a sentence.
func name(t bench.Testbed) string {
	if t.Name != "" {
		return t.Name
	}
	return "Linux " + t.Kernel
}
