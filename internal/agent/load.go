//go:build linux

package agent

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// Load has a program loaded by its own loader, a shell command in a mount and a
// network namespace of its own, and returns the program's id. It is found by the
// loader's descriptors, its pins or its interface; a loader may end, or go on until
// unload ends it. The program is gone when unload was called and nobody else holds
// it.
func Load(ctx context.Context, program, command string, at Where) (id uint32, unload func(), err error) {
	at.Alone = true
	const patience = 2 * time.Second
	spec := bench.Agent{Name: program, Run: command, Programs: []string{program}}
	a, err := start(ctx, "the loader of "+program, spec, at)
	if err != nil {
		return 0, nil, err
	}
	found, _ := a.Programs()
	if len(found) != 1 || len(found[0].IDs) != 1 {
		err := a.fail(fmt.Errorf("it has loaded %d programs of that name, and which is meant is not known", len(found[0].IDs)), "")
		_ = a.discard()
		return 0, nil, err
	}
	// What it leaves behind is not looked for: the caller may still have it.
	return found[0].IDs[0], func() { _, _ = a.end(unix.SIGTERM, patience) }, nil
}
