//go:build linux

package bpf

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// Gauges are what is counted of a session's thread beside its readings: what spoils
// a reading, by the kernel's software events, and what it costs the CPU, where the
// host has hardware counters. They are read before and after a reading, never within.
type gauges struct {
	soft, hard []*perfGroup
	// names of hard's events; reason is why there are not all, or none.
	names  []string
	reason string
}

// newGauges opens the counters of the calling thread. What there is not is told by
// reason; without software events, the thread's resource usage has all but
// migrations.
func newGauges(open perfOpener) *gauges {
	g := &gauges{}
	g.soft, _, _ = openGroups(softwareEvents, open)
	if len(g.soft) > 0 && (len(g.soft) > 1 || len(g.soft[0].events) < len(softwareEvents)) {
		closeAll(g.soft)
		g.soft = nil
	}
	var missing []string
	var err error
	g.hard, missing, err = openGroups(hardwareEvents, open)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		g.reason = "the kernel refuses them (sysctl kernel.perf_event_paranoid, or a seccomp profile)"
	case errors.Is(err, unix.ENOSYS):
		g.reason = "this kernel is built without CONFIG_PERF_EVENTS"
	case err != nil:
		g.reason = "this host has none, as most virtual machines"
	case len(missing) > 0:
		g.reason = "this CPU does not count " + strings.Join(missing, ", ")
	}
	for _, group := range g.hard {
		for _, e := range group.events {
			g.names = append(g.names, e.name)
		}
	}
	return g
}

// events are those of the CPU's counters, in the order of names.
func (g *gauges) events() (all []perfEvent) {
	for _, group := range g.hard {
		all = append(all, group.events...)
	}
	return all
}

func (g *gauges) close() {
	closeAll(g.soft)
	closeAll(g.hard)
}

func closeAll(groups []*perfGroup) {
	for _, g := range groups {
		g.close()
	}
}

// A moment is what had been counted at some time.
type moment struct {
	switches, migrations, faults int64
	hard                         []perfReading
}

// now reads all of them: one system call for what the scheduler and memory did, as
// resource usage takes, and one for each group of the CPU's.
func (g *gauges) now() moment {
	var m moment
	if len(g.soft) > 0 {
		if r, err := g.soft[0].read(); err == nil {
			m.switches, m.migrations, m.faults = int64(r.values[0]), int64(r.values[1]), int64(r.values[2])
		}
	} else {
		var ru unix.Rusage
		if unix.Getrusage(unix.RUSAGE_THREAD, &ru) == nil {
			m.switches, m.faults = ru.Nvcsw+ru.Nivcsw, ru.Minflt+ru.Majflt
		}
	}
	for _, group := range g.hard {
		r, err := group.read()
		if err != nil { // as if nothing had been counted
			r = perfReading{values: make([]uint64, len(group.events))}
		}
		m.hard = append(m.hard, r)
	}
	return m
}

// disturb adds to a sample what disturbed the reading.
func (r reading) disturb(s *bench.Sample) {
	s.Switches += r.after.switches - r.before.switches + int64(r.restarts)
	s.Migrations += r.after.migrations - r.before.migrations
	s.Faults += r.after.faults - r.before.faults
}

// hardware is what the CPU counted between two moments, in the order of the gauges'
// names, and the least share of the time for which any of it was counted. It is nil
// where something was not counted at all.
func (m moment) hardware(before moment) (values []float64, share float64) {
	if len(m.hard) == 0 {
		return nil, 0
	}
	share = 1
	for i, r := range m.hard {
		v, s := r.since(before.hard[i])
		if s == 0 {
			return nil, 0
		}
		values, share = append(values, v...), min(share, s)
	}
	return values, share
}

// Hardware are the measures that the CPU's counters give in this session, and why
// there are no more; "" where there are all.
func (s *Session) Hardware() (measures []string, reason string) { return s.gauge.names, s.gauge.reason }

// A tallying collects what the CPU counted over the readings of one load.
type tallying struct {
	perRun [][]float64 // by event, by reading
	share  float64     // the least of all
}

func (t *tallying) add(r reading) {
	values, share := r.after.hardware(r.before)
	if values == nil {
		return
	}
	if t.perRun == nil {
		t.perRun, t.share = make([][]float64, len(values)), 1
	}
	for i, v := range values {
		t.perRun[i] = append(t.perRun[i], v/float64(r.runs))
	}
	t.share = min(t.share, share)
}

// Counters are what the CPU counted of one run in the last round, in the order of
// the sides and of [Session.Hardware]: like the times, the lower quartile over the
// readings, with the empty program's as the floor. A side has none where the
// CPU's counters were with others all the time.
func (m *Micro) Counters() [][]bench.Sample { return m.counters }

// countersOf makes the samples of a round from what was collected of each target,
// the last of which is the empty program.
func (m *Micro) countersOf(round int, all []tallying) [][]bench.Sample {
	if len(m.s.gauge.names) == 0 {
		return nil
	}
	sides, floor := all[:len(all)-1], all[len(all)-1]
	out := make([][]bench.Sample, len(sides))
	for i, t := range sides {
		for e := range t.perRun {
			s := bench.Sample{Round: round, Value: m.typical(t.perRun[e]), Offset: -1}
			if floor.perRun != nil {
				s.Floor = m.typical(floor.perRun[e])
			}
			if t.share < 1 {
				s.Counted = t.share
			}
			out[i] = append(out[i], s)
		}
	}
	return out
}
