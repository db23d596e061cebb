//go:build linux

package programs

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A Watch reads what all programs in the kernel cost, whoever loaded them. While
// it is open the kernel counts run times, which slows each run of a program by
// some 50 ns; that ends with Close or with the process, however that ends.
//
// It holds no program: what others unload goes.
type Watch struct {
	stats   io.Closer
	known   map[uint32]watched
	info    *progInfo
	holders map[uint32][]Holder
	partly  bool
	next    time.Time // of looking for holders
	started bool
	pids    []int
}

// A watched program is one that the last reading saw.
type watched struct {
	Info
	at   time.Time
	last Usage
	seen bool // by the reading that goes on
}

// A Cost is what a program cost since the reading before.
type Cost struct {
	Info
	// Over is the time that the numbers are of; for a program that was loaded
	// meanwhile, too.
	Over time.Duration
	Runs uint64
	// Time is that of its runs, on all CPUs together, with what the counting
	// adds.
	Time time.Duration
	// Misses are runs that the kernel skipped because the program was running on
	// that CPU already; 0 before Linux 5.12.
	Misses uint64
	// Uncounted tells that the kernel counts no runs of such a program: those of
	// one that replaces a function of another are in the other's.
	Uncounted bool
	// Holders are the processes that keep it loaded, as found by the last
	// search; see [Watch.Read].
	Holders []Holder
}

// NewWatch has the kernel count. With pids, it is about the programs that these
// processes hold, else about all. It needs Linux 5.8 and CAP_SYS_ADMIN.
func NewWatch(pids ...int) (*Watch, error) {
	stats, err := EnableStats()
	if err != nil {
		return nil, err
	}
	return &Watch{stats: stats, known: map[uint32]watched{}, info: new(progInfo), pids: pids}, nil
}

// Close has the kernel count no longer, as far as this process is concerned.
func (w *Watch) Close() error { return w.stats.Close() }

// holdersShare bounds the time that the search for holders takes, to one part of
// so many: with thousands of processes it is rarer, not dearer.
const holdersShare = 200

// Read tells what each program cost since the reading before, by id. The first
// reading has nothing before it: its costs are 0.
//
// It makes four system calls a program, and every now and then looks for the
// holders. A program that is unloaded between two readings is not in the second.
func (w *Watch) Read() ([]Cost, error) {
	w.look()
	costs := make([]Cost, 0, len(w.known))
	for id := uint32(0); ; {
		var err error
		if id, err = nextProgram(id); err != nil {
			return nil, explainIDs(err)
		}
		if id == 0 {
			break
		}
		if len(w.pids) > 0 && w.holders[id] == nil {
			continue
		}
		c, err := w.readOne(id)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, explainIDs(err)
		}
		costs = append(costs, c)
	}
	for id, k := range w.known {
		if !k.seen {
			delete(w.known, id)
			continue
		}
		k.seen = false
		w.known[id] = k
	}
	w.started = true
	return costs, nil
}

func (w *Watch) readOne(id uint32) (Cost, error) {
	fd, err := programFD(id)
	if err != nil {
		return Cost{}, err
	}
	defer unix.Close(fd)
	now := time.Now()
	if err := w.info.read(fd); err != nil {
		return Cost{}, fmt.Errorf("program %d: %w", id, err)
	}
	k, old := w.known[id]
	u := w.info.usage()
	d := u.Sub(k.last)
	if !old {
		k.Info = w.info.describe(fd)
		// What it ran before it was seen for the first time, it ran since it
		// was loaded.
		k.at = now
		if since := sinceBoot() - k.Loaded; w.started && since > 0 {
			k.at = now.Add(-since)
		} else {
			d = Usage{}
		}
	}
	c := Cost{
		Info: k.Info, Over: now.Sub(k.at), Runs: d.Runs, Time: time.Duration(d.NS), Misses: d.Misses,
		Uncounted: ebpf.ProgramType(w.info.typ) == ebpf.Extension, Holders: w.holders[id],
	}
	k.at, k.last, k.seen = now, u, true
	w.known[id] = k
	return c, nil
}

// look searches for holders, if it is time.
func (w *Watch) look() {
	start := time.Now()
	if start.Before(w.next) {
		return
	}
	held, complete := Holders(w.pids...)
	w.holders, w.partly = held, !complete
	w.next = start.Add(holdersShare * time.Since(start))
}

// Partly tells that the last search for holders did not get to its end.
func (w *Watch) Partly() bool { return w.partly }

// sinceBoot is the time by the clock of [Info.Loaded].
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// explainIDs says what looking at programs by id needs.
func explainIDs(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w (looking at programs of others needs root or CAP_SYS_ADMIN)", err)
	}
	return err
}
