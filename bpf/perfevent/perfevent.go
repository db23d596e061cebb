//go:build linux

// Package perfevent opens perf events that run eBPF programs, on CPUs rather than of
// processes: the clock of package profiler, and what programs of type perf_event hang on.
// It needs root or CAP_PERFMON; man perf_event_open tells the rest.
package perfevent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Named are the events that every machine may have.
var Named = map[string]unix.PerfEventAttr{
	"cpu-clock":        {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK},
	"task-clock":       {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK},
	"page-faults":      {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_PAGE_FAULTS},
	"context-switches": {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
	"cpu-migrations":   {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_MIGRATIONS},
	"cycles":           {Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES},
	"instructions":     {Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS},
	"cache-misses":     {Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CACHE_MISSES},
	"branch-misses":    {Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_BRANCH_MISSES},
}

// Attach opens a perf event of all processes on a CPU, and has it run a program,
// which goes with it.
func Attach(p *ebpf.Program, attr unix.PerfEventAttr, cpu int) (io.Closer, error) {
	attr.Size = unix.PERF_ATTR_SIZE_VER1
	attr.Wakeup = 1
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
		return nil, fmt.Errorf("this machine has no such event: %w", err)
	case err != nil:
		return nil, fmt.Errorf("open a perf event: %w (needs root or CAP_PERFMON)", err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, p.FD()); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("set the program of a perf event: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("enable a perf event: %w", err)
	}
	return event(fd), nil
}

// An event is the descriptor of an open one.
type event int

func (e event) Close() error { return unix.Close(int(e)) }

// OnlineCPUs reads the CPUs that are online, a list such as "0-3,5".
func OnlineCPUs() ([]int, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil, fmt.Errorf("read the CPUs that are online: %w", err)
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return nil, fmt.Errorf("read the CPUs that are online: %w", err)
		}
		for c := from; c <= to; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}
