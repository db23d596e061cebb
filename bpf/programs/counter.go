//go:build linux

package programs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/cilium/ebpf"
)

// A Counter counts the runs of any set of programs while something goes on:
// programs that gate has attached itself, or those of somebody else's process. It
// is what a round of a macro benchmark is made of.
//
// It holds its programs, so that they can be read after whoever loaded them is
// gone; and it has the kernel count only inside of Round.
type Counter struct {
	progs  []*ebpf.Program
	meters []*Meter
	infos  []Count // with no counts
	before []Usage // when the round began, or when the program was added in it
}

// A Count is what the kernel has counted of one program in one round.
type Count struct {
	ID   ebpf.ProgramID
	Name string // the whole BTF name where the kernel has it, else its 15 characters
	Type string // in the words of bpftool
	// Runs is run_cnt, Time run_time_ns: the time inside of the program and what
	// it calls, with what counting costs (45 to 50 ns a run).
	Runs uint64
	Time time.Duration
	// Misses is recursion_misses: runs that the kernel left out, since the
	// program was running on that CPU already. 0 before Linux 5.12.
	Misses uint64
}

// PerRun is the time of one run in ns; 0 if there was none.
func (c Count) PerRun() float64 {
	return Usage{NS: uint64(c.Time), Runs: c.Runs}.PerRun()
}

// Add takes a program by its id and returns its place among the counts. A program
// that is gone is [fs.ErrNotExist]. It needs CAP_SYS_ADMIN.
func (c *Counter) Add(id ebpf.ProgramID) (int, error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("program %d: %w", id, fs.ErrNotExist)
		}
		return 0, fmt.Errorf("program %d: %w (needs root or CAP_SYS_ADMIN)", id, err)
	}
	return c.add(p)
}

// AddProgram takes a program that the caller has and keeps.
func (c *Counter) AddProgram(p *ebpf.Program) (int, error) {
	own, err := p.Clone()
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", p, err)
	}
	return c.add(own)
}

func (c *Counter) add(p *ebpf.Program) (int, error) {
	info, err := p.Info()
	if err != nil {
		p.Close()
		return 0, fmt.Errorf("count %s: %w", p, err)
	}
	id, _ := info.ID()
	what := Count{ID: id, Name: info.Name, Type: TypeName(info.Type)}
	if name := fullName(p); name != "" {
		what.Name = name
	}
	m := NewMeter(p)
	u, err := m.Read()
	if err != nil {
		p.Close()
		return 0, fmt.Errorf("count %s: %w", what.Name, err)
	}
	c.progs, c.meters, c.infos, c.before = append(c.progs, p), append(c.meters, m), append(c.infos, what), append(c.before, u)
	return len(c.progs) - 1, nil
}

// fullName is the program's name in its BTF, or "": the kernel's own stops at 15
// characters.
func fullName(p *ebpf.Program) string {
	info, err := p.Info()
	if err != nil {
		return ""
	}
	funcs, err := info.FuncInfos()
	if err != nil || len(funcs) == 0 || funcs[0].Func == nil {
		return ""
	}
	return funcs[0].Func.Name
}

// Round has the kernel count while work runs and until what it set off has
// settled, and returns a count for each program in the order in which they were
// added. Programs that are added later, by work itself, are counted from then on.
//
// What is read is read while the kernel does not count, and so cannot change
// between the reading of fdinfo and that of bpf_prog_info, which must agree. Work's
// error is returned as it is.
func (c *Counter) Round(work func() error) (counts []Count, err error) {
	for i, m := range c.meters {
		if c.before[i], err = m.Agreed(); err != nil {
			return nil, fmt.Errorf("%s: %w", c.infos[i].Name, err)
		}
	}
	stats, err := EnableStats()
	if err != nil {
		return nil, err
	}
	err = work()
	if err == nil {
		err = c.settle()
	}
	if e := stats.Close(); e != nil && err == nil {
		err = fmt.Errorf("have the kernel stop counting run times: %w", e)
	}
	if err != nil {
		return nil, err
	}
	counts = make([]Count, len(c.meters))
	for i, m := range c.meters {
		now, err := m.Agreed()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.infos[i].Name, err)
		}
		now = now.Sub(c.before[i])
		counts[i] = c.infos[i]
		counts[i].Runs, counts[i].Time, counts[i].Misses = now.Runs, time.Duration(now.NS), now.Misses
	}
	return counts, nil
}

// What work set off (packets in a queue, a deferred call) is over when no program
// has run for a while. What the whole host runs, such as sched_switch, never is.
const (
	settleStill = 5 * time.Millisecond
	settleMost  = 100 * time.Millisecond
)

// settle waits until the programs stand still, or for settleMost.
func (c *Counter) settle() error {
	runs := func() (sum uint64, err error) {
		for _, m := range c.meters {
			u, err := m.Read()
			if err != nil {
				return 0, err
			}
			sum += u.Runs
		}
		return sum, nil
	}
	last, err := runs()
	for end := time.Now().Add(settleMost); err == nil && time.Now().Before(end); {
		time.Sleep(settleStill)
		var now uint64
		if now, err = runs(); now == last {
			break
		}
		last = now
	}
	return err
}

// Close lets the programs go.
func (c *Counter) Close() error {
	var errs []error
	for _, p := range c.progs {
		errs = append(errs, p.Close())
	}
	c.progs, c.meters, c.infos, c.before = nil, nil, nil, nil
	return errors.Join(errs...)
}

var _ io.Closer = (*Counter)(nil)
