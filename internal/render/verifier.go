package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// detail are measures that change with others and say little by themselves: where
// nobody judges them, JSON has them, and gate verifier shows them.
var detail = map[string]bool{
	bench.MaxStatesPerInsn: true, bench.MaxMarkReadLen: true, bench.ProgSize: true,
	bench.TailCallStack: true, bench.TailCallDepth: true, bench.StackDepth: true,
}

// limits says how much of the kernel's limits is used: the most of each, from a tenth
// on.
func (s *sheet) limits() string {
	const worthTelling = 0.1
	var parts []string
	for _, measure := range slices.SortedFunc(maps.Keys(s.most), bench.MeasureOrder) {
		if c := s.most[measure]; *c.Used >= worthTelling {
			parts = append(parts, fmt.Sprintf("%.0f%% of %s %s (%s)", 100**c.Used, quantity(*c.KernelLimit, c.Unit), clean(c.Measure), name(c.Benchmark)))
		}
	}
	if parts == nil {
		return ""
	}
	return "of the kernel's limits, " + strings.Join(parts, ", ")
}
