//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
)

// Readings inside one load. Those of one load agree within 0.5%, loads differ by
// 0.7 to 2%, so more of them would cost time and add nothing. [Micro.typical] is
// what is made of them.
const (
	readings      = 11
	floorReadings = 3
)

// reuseMaps is the size in bytes from which a program's maps are kept over the
// rounds instead of being made and filled anew.
const reuseMaps = 8 << 20

// A target is one load of one side (or the empty program), ready to be called.
type target struct {
	name  string
	side  int // -1: the floor
	load  *Loaded
	prog  *ebpf.Program
	drain []drainer
	slot  int
	shots []shot
	pad   int
	// counters of an instrumented load; nil: nothing is counted.
	counters *counters
}

// A shot is a prepared call on one span of packets.
type shot struct {
	span
	run *testRun
}

// arm makes the calls of a target.
func (m *Micro) arm(t *target, outSize int) {
	fd := t.prog.FD()
	if m.driver != nil {
		fd = m.driver.prog.FD()
	}
	t.shots = make([]shot, len(m.groups))
	for i, g := range m.groups {
		var in []byte
		if len(m.packets) > 0 {
			in = m.packets[g.first]
		}
		t.shots[i] = shot{g, newTestRun(fd, in, m.b.Context, outSize)}
	}
}

// fire makes one call and returns the program's last answer and the time of the
// whole call in ns.
func (m *Micro) fire(t *target, s shot, first, repeat int) (answer uint32, ns float64, err error) {
	if m.driver != nil {
		m.driver.aim(t.slot, m.first+first, m.first+max(s.end, first+1))
	}
	if m.Path == "single" {
		for range repeat {
			v, d, err := s.run.call(0)
			if err != nil {
				return 0, 0, err
			}
			answer, ns = v, ns+float64(d)
		}
		return answer, ns, nil
	}
	v, d, err := s.run.call(repeat)
	if err == nil && m.driver != nil {
		err = m.driver.check()
	}
	return v, float64(d), err
}

// load loads one side, wherever the JIT puts it, ready to be seated.
func (m *Micro) load(side int) (*target, error) {
	t, err := m.loadAt(side, nil)
	if err != nil {
		return nil, err
	}
	if err := m.addDrains(t); err != nil {
		return nil, err
	}
	return t, nil
}

// loadAt loads one side without the drainers of its maps, which take as long to
// make as half a load; a nil layout leaves its place to the JIT.
func (m *Micro) loadAt(side int, y *layout) (*target, error) {
	s := m.sides[side]
	l, err := s.Object.Load(m.b.Program, LoadOptions{Cache: m.s.cache, Reuse: m.kept[side], layout: y})
	if err != nil {
		return nil, fmt.Errorf("load %s of %s: %w", m.b.Program, s.Name, err)
	}
	if m.kept[side] == nil && l.memory() > reuseMaps && !m.byLoader() {
		if m.kept[side], err = cloneMaps(l); err != nil {
			l.Close()
			return nil, err
		}
	}
	return &target{name: s.Name, side: side, load: l, prog: l.Program, slot: -1, pad: -1}, nil
}

// addDrains makes the drainers of a load. It closes a load that it fails on.
func (m *Micro) addDrains(t *target) error {
	for _, name := range m.b.Drain {
		d, err := t.load.drainerAmong(name, m.sides)
		if err != nil {
			t.close()
			return &bench.Diagnostic{Pos: m.b.Pos, Message: fmt.Sprintf("drain: %v", err)}
		}
		t.drain = append(t.drain, d)
	}
	return nil
}

func (t *target) close() {
	t.counters.close()
	for _, d := range t.drain {
		d.close()
	}
	if t.load != nil {
		t.load.Close()
	} else if t.prog != nil {
		t.prog.Close()
	}
}

// empty loads the program that measures the floor: same type, nothing done.
func (m *Micro) empty() (*target, error) {
	p, err := ebpf.NewProgram(emptyLike(m.sides[0].Object.spec.Programs[m.b.Program]))
	if err != nil {
		return nil, fmt.Errorf("load the empty program: %w", err)
	}
	return &target{name: "floor", side: -1, prog: p, slot: -1, pad: -1}, nil
}

// seat puts targets where calls reach them, in random order and places.
func (m *Micro) seat(targets []*target) error {
	if m.driver == nil && m.Path != "attached" {
		return nil
	}
	slots := m.rng.Perm(driverSlots)
	for i, j := range m.rng.Perm(len(targets)) {
		t := targets[j]
		if m.driver != nil {
			t.slot = slots[i]
			if err := m.driver.slots.Put(uint32(t.slot), t.prog); err != nil {
				return fmt.Errorf("seat %s: %w", t.name, err)
			}
			continue
		}
		if m.pads == nil {
			m.pads = &attachments{}
		}
		if err := m.pads.attach(t.prog); err != nil {
			return fmt.Errorf("attach %s: %w", t.name, err)
		}
	}
	return nil
}

// remove undoes seat and unloads the targets.
func (m *Micro) remove(targets []*target) {
	if m.driver == nil && m.pads != nil {
		m.pads.close()
		m.pads = nil
	}
	for _, t := range targets {
		if t == nil {
			continue
		}
		if t.slot >= 0 {
			_ = m.driver.slots.Delete(uint32(t.slot))
		}
		t.close()
	}
}

// Round loads every side anew, in random order, and measures them side by side.
// It returns one sample a side, in the order of the sides.
func (m *Micro) Round(round int) (samples []bench.Sample, err error) {
	err = m.s.do(func() error {
		return m.tolerating(func() error {
			samples, err = m.round(round)
			return err
		})
	})
	return samples, err
}

func (m *Micro) round(round int) ([]bench.Sample, error) {
	defer m.s.hurry()()
	targets := make([]*target, len(m.sides)+1)
	defer func() { m.remove(targets) }()
	var err error
	phase, start := m.phase(), -1
	for _, i := range m.rng.Perm(len(targets)) {
		if i == len(m.sides) {
			targets[i], err = m.empty()
		} else {
			targets[i], start, err = m.place(i, phase, start)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := m.seat(targets); err != nil {
		return nil, err
	}
	for _, i := range m.rng.Perm(len(targets)) {
		m.arm(targets[i], 0)
		if err := m.warm(targets[i]); err != nil {
			return nil, err
		}
	}
	got, hard := make([][]float64, len(targets)), make([]tallying, len(targets))
	samples := make([]bench.Sample, len(m.sides))
	steal := m.s.steal()
	for r := range readings {
		for _, i := range m.rng.Perm(len(targets)) {
			if i == len(m.sides) && r >= floorReadings {
				continue
			}
			if err := m.s.stopped(); err != nil {
				return nil, err
			}
			one, err := m.read(targets[i], r)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", targets[i].name, err)
			}
			got[i] = append(got[i], one.ns)
			hard[i].add(one)
			if i < len(m.sides) {
				one.disturb(&samples[i])
			}
		}
	}
	steal = m.s.steal() - steal
	floor := m.typical(got[len(m.sides)])
	for i := range samples {
		samples[i].Round, samples[i].Value, samples[i].Floor = round, m.typical(got[i]), floor
		samples[i].Offset, samples[i].Steal = targets[i].load.offset(), steal
		if samples[i].Value <= 0 {
			return nil, fmt.Errorf("%d runs took no time at all: this host's clock is too coarse (clocksource %s); raise repeat, or boot with clocksource=tsc", m.b.Repeat, clocksource())
		}
	}
	m.counters = m.countersOf(round, hard)
	return samples, nil
}

// clocksource is the kernel's clock.
func clocksource() string {
	b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// typical is the number that stands for the readings of one load: their lower
// quartile.
//
// What disturbs a reading (an interrupt, a neighbour on the same core or cache)
// only ever adds to it, so the low side is the clean one. Over the same readings
// of 4000 A/A rounds, nine in ten sides agreed within 1.6% on a quiet host and
// 3.5% on a noisy one; medians, within 2.5% and 8%. The minimum was no better on
// the whole, and follows a clock that was fast for a moment.
//
// Readings that do not cover the same packets differ for another reason: their
// middle is taken.
func (m *Micro) typical(readings []float64) float64 {
	if len(m.groups) > maxCalls {
		return median(readings)
	}
	return slices.Sorted(slices.Values(readings))[(len(readings)-1)/4]
}

// maxCalls is how many spans of packets one reading covers; the next reading
// goes on behind them.
const maxCalls = 16

// A leg is one call of a reading: on one span of packets, so many runs.
type leg struct{ shot, repeat int }

// legs splits a reading of about repeat runs into calls. Each makes as many whole
// passes over its packets as the others, so that every packet counts the same:
// of 256 packets 3 passes instead of 1000 runs, and of 5000 packets one.
func legs(groups []span, reading, repeat int) []leg {
	calls := min(len(groups), maxCalls)
	out := make([]leg, calls)
	packets := 0
	for i := range out {
		at := (reading*calls + i) % len(groups)
		out[i] = leg{at, groups[at].runs()}
		packets += out[i].repeat
	}
	for i := range out {
		out[i].repeat *= max(1, repeat/packets)
	}
	return out
}

// runs is how many runs one pass takes: one where there are no packets.
func (s span) runs() int { return max(1, s.end-s.first) }

// warm runs the benchmark's warm-up passes, and one short call so that code and
// data are where every later reading finds them.
func (m *Micro) warm(t *target) error {
	for range m.b.Warm {
		for _, s := range t.shots {
			if err := m.pass(t, s); err != nil {
				return err
			}
		}
	}
	_, err := m.read(t, 0)
	return err
}

// A reading is the time of one run in ns, over so many runs, with what was counted
// before and after them.
type reading struct {
	ns            float64
	runs          int
	restarts      int // because of signals
	before, after moment
}

// read takes one reading, over about m.b.Repeat runs.
func (m *Micro) read(t *target, number int) (r reading, err error) {
	restarts, err := again(func() error {
		r, err = m.readOnce(t, number)
		return err
	})
	r.restarts = restarts
	return r, err
}

// pass runs the program once on every packet of a span.
func (m *Micro) pass(t *target, s shot) error {
	_, err := again(func() error {
		_, _, err := m.fire(t, s, s.first, s.runs())
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

func (m *Micro) readOnce(t *target, number int) (r reading, err error) {
	for _, d := range t.drain {
		if err := d.empty(nil); err != nil {
			return r, fmt.Errorf("drain: %w", err)
		}
	}
	repeat := m.b.Repeat
	if m.Path == "single" {
		repeat /= 10
	}
	r.before = m.s.gauge.now()
	for _, leg := range legs(m.groups, number, repeat) {
		s := t.shots[leg.shot]
		v, d, err := m.fire(t, s, s.first, leg.repeat)
		if err != nil {
			return r, err
		}
		r.ns, r.runs = r.ns+d, r.runs+leg.repeat
		if t.side < 0 {
			continue
		}
		last := s.first + s.runs() - 1
		if want := m.answers[t.side][last]; v != want && !m.chance[t.side] {
			return r, m.changedAnswer(t, last, leg.repeat, want, v)
		}
	}
	r.after = m.s.gauge.now()
	r.ns /= float64(r.runs)
	return r, nil
}

func (m *Micro) changedAnswer(t *target, packet, repeat int, want, got uint32) error {
	return &changedAnswer{&bench.Diagnostic{
		Pos: m.b.Pos,
		Message: fmt.Sprintf("%s answered %s for packet %d at first and %s after %d runs: two paths were measured",
			t.name, answerName(m.typ, want), packet, answerName(m.typ, got), repeat),
		Hint: "its maps fill up or run dry: write drain: [MAP], warm: 1, or a larger max_entries" + m.whimsical(t.side),
	}, t.side}
}

func cloneMaps(l *Loaded) (map[string]*ebpf.Map, error) {
	out := make(map[string]*ebpf.Map)
	for name, m := range l.coll.Maps {
		if m.Type() == ebpf.ProgramArray || m.IsPinned() {
			continue
		}
		c, err := m.Clone()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("keep map %s", name), err)
		}
		out[name] = c
	}
	return out, nil
}

func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	switch n := len(s); {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}
