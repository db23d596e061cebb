//go:build linux

package programs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A Usage is what the kernel has counted of a program since it was loaded.
type Usage struct {
	NS     uint64 // run_time_ns: time inside the program, callees included
	Runs   uint64 // run_cnt
	Misses uint64 // recursion_misses; 0 before Linux 5.12 (9ed9e9ba2337)
}

// Sub is what was counted between an earlier reading and this one.
func (u Usage) Sub(earlier Usage) Usage {
	return Usage{u.NS - earlier.NS, u.Runs - earlier.Runs, u.Misses - earlier.Misses}
}

// Add is what was counted of two.
func (u Usage) Add(o Usage) Usage {
	return Usage{u.NS + o.NS, u.Runs + o.Runs, u.Misses + o.Misses}
}

// PerRun is the time of one run in ns; 0 if there was none.
func (u Usage) PerRun() float64 {
	if u.Runs == 0 {
		return 0
	}
	return float64(u.NS) / float64(u.Runs)
}

// EnableStats has the kernel count run times until the closer is closed, or the
// process ends however that happens. It needs Linux 5.8 (d46edd671a14) and
// CAP_SYS_ADMIN.
//
// Note: the sysctl kernel.bpf_stats_enabled does the same for everybody, and
// nothing resets it after kill -9.
func EnableStats() (io.Closer, error) {
	c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	switch {
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("have the kernel count run times: %w (BPF_ENABLE_STATS needs root or CAP_SYS_ADMIN)", err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, ebpf.ErrNotSupported):
		return nil, fmt.Errorf("have the kernel count run times: %w (BPF_ENABLE_STATS needs Linux 5.8)", err)
	case err != nil:
		return nil, fmt.Errorf("have the kernel count run times: %w", err)
	}
	return c, nil
}

// A Meter reads what the kernel counts of one program.
type Meter struct {
	prog *ebpf.Program
	path string
	buf  [2048]byte
}

// NewMeter is for a program that is open as long as the meter is used.
func NewMeter(p *ebpf.Program) *Meter {
	return &Meter{prog: p, path: "/proc/self/fdinfo/" + strconv.Itoa(p.FD())}
}

// Read reads fdinfo. It is called after every few packets, so it makes three
// system calls and no garbage.
func (m *Meter) Read() (Usage, error) {
	fd, err := unix.Open(m.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Usage{}, fmt.Errorf("read run counts from %s: %w (is /proc mounted?)", m.path, err)
	}
	n, err := unix.Read(fd, m.buf[:])
	_ = unix.Close(fd)
	if err != nil {
		return Usage{}, fmt.Errorf("read run counts from %s: %w", m.path, err)
	}
	u, err := parseUsage(m.buf[:n])
	if err != nil {
		return Usage{}, fmt.Errorf("%s: %w", m.path, err)
	}
	return u, nil
}

// parseUsage reads the fdinfo of a program (bpf_prog_show_fdinfo in
// kernel/bpf/syscall.c), lines of a key, a colon, a tab and a value.
func parseUsage(text []byte) (Usage, error) {
	var u Usage
	found := 0
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		key, value, _ := bytes.Cut(line, []byte(":"))
		var to *uint64
		switch string(key) {
		case "run_time_ns":
			to = &u.NS
		case "run_cnt":
			to = &u.Runs
		case "recursion_misses":
			to = &u.Misses
		default:
			continue
		}
		for _, c := range bytes.TrimSpace(value) {
			if c < '0' || c > '9' {
				return Usage{}, fmt.Errorf("%s is %q, not a number", key, value)
			}
			*to = *to*10 + uint64(c-'0')
		}
		if to != &u.Misses {
			found++
		}
	}
	if found != 2 {
		return Usage{}, errors.New("no run_time_ns and run_cnt: not a program, or a kernel before 5.1")
	}
	return u, nil
}

// Agreed reads struct bpf_prog_info between two readings of fdinfo. Counts only grow,
// and what everybody's work runs (a tracepoint of the whole host) grows meanwhile: so
// the two agree where what is told in the middle lies between.
func (m *Meter) Agreed() (Usage, error) {
	before, err := m.Read()
	if err != nil {
		return Usage{}, err
	}
	st, err := m.prog.Stats()
	if err != nil {
		return Usage{}, fmt.Errorf("read run counts from bpf_prog_info: %w", err)
	}
	after, err := m.Read()
	if err != nil {
		return Usage{}, err
	}
	info := Usage{uint64(st.Runtime), st.RunCount, st.RecursionMisses}
	if !info.between(before, after) {
		return Usage{}, fmt.Errorf("fdinfo counts %d to %d runs in %d to %d ns and bpf_prog_info meanwhile %d in %d ns: this kernel's counts cannot be trusted",
			before.Runs, after.Runs, before.NS, after.NS, info.Runs, info.NS)
	}
	return info, nil
}

// between tells that each number is one of a to b.
func (u Usage) between(a, b Usage) bool {
	return a.NS <= u.NS && u.NS <= b.NS && a.Runs <= u.Runs && u.Runs <= b.Runs && a.Misses <= u.Misses && u.Misses <= b.Misses
}
