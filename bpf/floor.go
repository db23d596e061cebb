//go:build linux

package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// A Floor is an empty program that can be run at will, for the counting's own cost
// beside programs whose hooks are their loader's business. What the kernel's clock
// reads around an empty program does not depend on its type, as long as it is entered
// in the same way; see [CountedLikeFloor].
type Floor struct {
	prog *ebpf.Program
	run  *testRun
}

// floorRuns is how often [Floor.Run] runs the program: each is one system call, of
// about a microsecond.
const floorRuns = 256

// NewFloor loads the program. It needs Linux 5.10 (1b4d60ec162f).
func NewFloor() (*Floor, error) {
	p, err := ebpf.NewProgram(emptyLike(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint}))
	if err != nil {
		return nil, fmt.Errorf("load the empty program: %w", err)
	}
	return &Floor{p, newTestRun(p.FD(), nil, make([]byte, 8), 0)}, nil
}

// Program is the empty program.
func (f *Floor) Program() *ebpf.Program { return f.prog }

// Run runs it some 256 times.
func (f *Floor) Run() error {
	for range floorRuns {
		if _, err := again(func() error {
			_, _, err := f.run.call(0)
			return err
		}); err != nil {
			return fmt.Errorf("run the empty program: %w", err)
		}
	}
	return nil
}

// Close unloads it.
func (f *Floor) Close() error { return f.prog.Close() }

// CountedLikeFloor tells that the kernel times programs of the type (in bpftool's
// words) as it does the floor: in bpf_prog_run (include/linux/filter.h), and not in a
// trampoline, which has more to do around them.
func CountedLikeFloor(typ string) bool {
	switch typ {
	case "tracing", "lsm", "struct_ops", "ext":
		return false
	}
	return true
}
