//go:build linux

package profiler

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
)

// Track has a process sampled, with all of its threads, the children that it has and those
// that it will have. A process that is gone is [fs.ErrNotExist].
func (p *Profiler) Track(pid int) error {
	if p.tracked == nil {
		return errors.New("all processes are sampled: Tracked was not asked for")
	}
	if err := hostProcesses(); err != nil {
		return err
	}
	root, err := processOf(pid)
	if err != nil {
		return err
	}
	known := map[uint32]bool{}
	// From when a parent is in the map, the kernel adds its children. Those that it had
	// before are looked for until there are no new ones.
	for fresh := []uint32{root}; len(fresh) > 0; {
		for _, id := range fresh {
			known[id] = true
			if err := p.tracked.Put(id, id); err != nil {
				return fmt.Errorf("track process %d: %w", id, err)
			}
		}
		if fresh, err = childrenOf(known); err != nil {
			return err
		}
	}
	return nil
}

// deserted tells that of those who were tracked nobody is left: who ends is taken out of the
// map by the kernel.
func (p *Profiler) deserted() bool {
	if p.tracked == nil {
		return false
	}
	var any uint32
	return errors.Is(p.tracked.NextKey(nil, &any), ebpf.ErrKeyNotExist)
}

// hostProcesses says that the programs see other process numbers than this process does.
func hostProcesses() error {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO of linux/proc_ns.h
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil && ns != first {
		return errors.New("this is a container with process numbers of its own: docker run --pid=host")
	}
	return nil
}

// processOf is the process that a thread belongs to.
func processOf(tid int) (uint32, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", tid, fs.ErrNotExist)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Tgid:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			return uint32(n), err
		}
	}
	return 0, fmt.Errorf("process %d: %w", tid, fs.ErrNotExist)
}

// childrenOf lists processes whose parent is known and that are not.
func childrenOf(known map[uint32]bool) (fresh []uint32, err error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || known[uint32(pid)] {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // gone
		}
		// "1 (name) S 0 …": the name may have anything in it.
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(f) < 2 {
			continue
		}
		if parent, err := strconv.ParseUint(f[1], 10, 32); err == nil && known[uint32(parent)] {
			fresh = append(fresh, uint32(pid))
		}
	}
	return fresh, nil
}
