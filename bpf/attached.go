//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// A Worker sets off the runs of attached programs. It is not told which side's they
// are: what knows could do less for one.
type Worker interface {
	// Ready prepares one turn of work. Nothing is counted yet.
	Ready(round int) (Turn, error)
}

// A Turn is work that is done once.
type Turn interface {
	// Do does it, and returns what figures it states, as many each time.
	Do() (figures []float64, err error)
	// Close ends what it left running.
	Close() error
}

// An Attached is a benchmark of programs that hang where the real ones do, while
// real work runs them. The kernel counts and times their runs.
//
// Where a hook is shared, base, head and an empty program hang there at once and are
// measured at the same events, in an order drawn anew for each round, and then once
// more with base and head in the opposite one. Where its
// programs decide something (let a packet through, rewrite an address), the next one
// would see another world: there they take turns, each with work of its own, in an
// order drawn anew, too. So they do where the work states figures.
type Attached struct {
	// Path is where the program hangs: "tracepoint/sched/sched_switch", …
	Path string
	// Warnings tell what to doubt.
	Warnings []string

	s        *Session
	b        bench.Benchmark
	sides    []Side
	hooks    []Hook // by side
	place    Place
	worker   Worker
	together bool
	floor    bool      // an empty program of the type is measured, too
	floors   []float64 // what it took so far
	rng      *rand.Rand
	told     map[string]bool
}

// An AttachedSample is what one round gave of one side.
type AttachedSample struct {
	// Latency is run_time_ns by run_cnt, in ns a run, with what counting costs; its
	// Floor is the empty program's, of this round or, where sides take turns, the
	// median of the rounds so far that it had a turn in.
	Latency bench.Sample
	// Runs is run_cnt, RecursionMisses the runs that the kernel left out since the
	// program was running on that CPU already.
	Runs, RecursionMisses bench.Sample
	// Softirq is the CPU time in µs, of the whole host and as fine as its ticks, that
	// went into soft interrupts while the side had its turn; nil where sides share one.
	Softirq *bench.Sample
	// Figures are those of the work that was done for this side.
	Figures []bench.Sample
}

// Attached prepares a benchmark of attached programs: b.Work is done by w, in a
// place that both know. Each side's hook is its own.
//
// The error says what this kernel cannot attach, or what the config must say. It
// proves every side's hook by attaching to it once, without work.
func (s *Session) Attached(b bench.Benchmark, place Place, w Worker, sides ...Side) (a *Attached, err error) {
	err = s.do(func() error {
		a, err = s.newAttached(b, place, w, sides)
		return err
	})
	return a, err
}

func (s *Session) newAttached(b bench.Benchmark, place Place, w Worker, sides []Side) (*Attached, error) {
	a := &Attached{s: s, b: b, sides: sides, place: place, worker: w, rng: s.rng(b.Name), together: !b.Alternate && len(b.Work.Figures) == 0, told: map[string]bool{}}
	for i, side := range sides {
		h, err := side.Object.Hook(b.Program)
		if err != nil {
			return nil, err
		}
		a.hooks = append(a.hooks, h)
		a.together = a.together && h.Shared()
		if t := side.Object.Type(b.Program); i > 0 && t != sides[0].Object.Type(b.Program) {
			return nil, fmt.Errorf("%s is of type %s in %s and %s in %s: they cannot be compared", b.Program, sides[0].Object.Type(b.Program), sides[0].Name, t, side.Name)
		}
	}
	a.Path = a.hooks[len(a.hooks)-1].String()
	if first := a.hooks[0].String(); first != a.Path {
		a.warn("%s hangs at %s in %s and at %s in %s", b.Program, first, sides[0].Name, a.Path, sides[len(sides)-1].Name)
	}
	for _, name := range b.With {
		for _, side := range sides {
			if !side.Object.Has(name) {
				a.warn("%s of `with:` is not in %s", name, side.Name)
				continue
			}
			h, err := side.Object.Hook(name)
			if err != nil {
				return nil, err
			}
			a.together = a.together && h.Shared()
		}
	}
	if b.Expect != "" {
		a.warn("expect is not checked where real work runs the program: the kernel counts runs and not what they return")
	}
	a.floor = a.sides[0].Object.spec.Programs[b.Program].Type != ebpf.StructOps
	for i := range a.participants() {
		p, err := a.load(i)
		if err == nil {
			err = p.hang(a.place)
			p.close()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
	}
	return a, nil
}

func (a *Attached) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !a.told[text] {
		a.told[text] = true
		a.Warnings = append(a.Warnings, text)
	}
}

// Together tells that all sides are measured in the same turn of work.
func (a *Attached) Together() bool { return a.together }

// participants is how many programs are measured: the sides', and the empty one.
func (a *Attached) participants() int {
	if a.floor {
		return len(a.sides) + 1
	}
	return len(a.sides)
}

// Round loads every side anew, in random order, attaches them, and has the work
// done: twice where the hook is shared, else once for each. It returns one sample a
// side, in the order of the sides.
//
// Fewer runs than b.MinRuns each time are an error that says why.
func (a *Attached) Round(round int) (samples []AttachedSample, err error) {
	err = a.s.do(func() error {
		samples, err = a.round(round)
		return err
	})
	return samples, err
}

func (a *Attached) round(round int) ([]AttachedSample, error) {
	order := a.rng.Perm(a.participants())
	if !a.floorTurn(round) {
		order = slices.DeleteFunc(order, func(i int) bool { return i == len(a.sides) })
	}
	counts := make([]programs.Count, a.participants())
	samples := make([]AttachedSample, len(a.sides))
	turn := func(who []int) error {
		softirq := a.s.softirq()
		got, figures, offsets, err := a.turn(round, who)
		if err != nil {
			return err
		}
		softirq = a.s.softirq() - softirq
		for k, i := range who {
			counts[i] = got[k]
			if i == len(a.sides) {
				continue
			}
			s := bench.Sample{Round: round, Offset: offsets[k]}
			samples[i] = AttachedSample{Latency: s, Runs: s, RecursionMisses: s}
			if !a.together {
				soft := s
				soft.Value = softirq
				samples[i].Softirq = &soft
			}
			for _, f := range figures {
				s.Value = f
				samples[i].Figures = append(samples[i].Figures, s)
			}
		}
		return nil
	}
	steal := a.s.steal()
	if a.together {
		if err := turn(order); err != nil {
			return nil, err
		}
	} else {
		for _, i := range order {
			if err := turn([]int{i}); err != nil {
				return nil, err
			}
		}
	}
	steal = a.s.steal() - steal
	if a.floor && counts[len(a.sides)].Runs > 0 {
		a.floors = append(a.floors, counts[len(a.sides)].PerRun())
	}
	for i := range samples {
		c, s := counts[i], &samples[i]
		times := float64(a.times())
		s.Latency.Value, s.Runs.Value, s.RecursionMisses.Value = c.PerRun(), float64(c.Runs)/times, float64(c.Misses)/times
		switch {
		case a.together && a.floor:
			s.Latency.Floor = counts[len(a.sides)].PerRun()
		case a.floor:
			s.Latency.Floor = median(a.floors)
		}
		s.Latency.Steal, s.Runs.Steal, s.RecursionMisses.Steal = steal, steal, steal
		if c.Misses > 0 {
			a.warn("%s of %s was left out now and then, since it was running on that CPU already (recursion_misses): what it costs there is not in its times", a.b.Program, a.sides[i].Name)
		}
	}
	return samples, nil
}

// floorTurn tells whether the empty program is measured in a round. Where it has a
// turn of its own, that takes as long as a side's, and tells less: it scales margins,
// and is in no difference. Then it has one in the first rounds and now and then.
func (a *Attached) floorTurn(round int) bool {
	const first, every = 3, 8
	return a.together || round < first || round%every == 0
}

// turn has the work done for some of the participants. Several of them have it done
// twice, and the second time those of the sides run in the opposite order: who comes
// first at an event finds the caches cold, which is more than most changes cost.
func (a *Attached) turn(round int, who []int) (counts []programs.Count, figures []float64, offsets []int, err error) {
	all := make([]*participant, 0, len(who))
	defer func() {
		for _, p := range all {
			p.close()
		}
	}()
	counter := &programs.Counter{}
	defer counter.Close()
	for _, i := range who {
		if err := a.s.stopped(); err != nil {
			return nil, nil, nil, err
		}
		p, err := a.load(i)
		if err != nil {
			return nil, nil, nil, err
		}
		all = append(all, p)
		offset := -1
		if p.load != nil {
			offset = p.load.offset()
		}
		offsets = append(offsets, offset)
		if _, err := counter.AddProgram(p.prog); err != nil {
			return nil, nil, nil, err
		}
	}
	order := a.rng.Perm(len(all))
	for range a.times() {
		for _, k := range order {
			if err := all[k].hang(a.place); err != nil {
				return nil, nil, nil, err
			}
		}
		got, stated, err := a.count(round, all, counter)
		if err != nil {
			return nil, nil, nil, err
		}
		for k, c := range got {
			if counts == nil {
				counts = make([]programs.Count, len(got))
			}
			c.Runs, c.Time, c.Misses = c.Runs+counts[k].Runs, c.Time+counts[k].Time, c.Misses+counts[k].Misses
			counts[k] = c
		}
		figures = stated
		for _, p := range all {
			p.release()
		}
		order = mirrored(order, func(k int) bool { return all[k].load != nil })
	}
	return counts, figures, offsets, nil
}

// times is how often the work is done in a turn.
func (a *Attached) times() int {
	if a.together && len(a.sides) > 1 {
		return 2
	}
	return 1
}

// mirrored reverses the order of those that are to be reversed, and leaves the others
// where they are.
func mirrored(order []int, reverse func(int) bool) []int {
	var those []int
	for _, k := range order {
		if reverse(k) {
			those = append(those, k)
		}
	}
	out := slices.Clone(order)
	for i, k := range out {
		if reverse(k) {
			out[i], those = those[len(those)-1], those[:len(those)-1]
		}
	}
	return out
}

// count has the work done once, and counts all that hang.
func (a *Attached) count(round int, all []*participant, counter *programs.Counter) (counts []programs.Count, figures []float64, err error) {
	work, err := a.worker.Ready(round)
	if err != nil {
		return nil, nil, err
	}
	defer work.Close()
	if err := emptyAll(all); err != nil {
		return nil, nil, err
	}
	counts, err = counter.Round(func() error {
		stop := drainWhile(all)
		var err error
		figures, err = work.Do()
		for _, p := range all {
			for _, it := range p.iter {
				if err == nil {
					_, err = it.readAll()
				}
			}
		}
		return errors.Join(err, stop())
	})
	if err != nil {
		return nil, nil, err
	}
	for k, c := range counts {
		if c.Runs < uint64(max(1, a.b.MinRuns)) {
			return nil, nil, a.tooFew(all[k].name, c)
		}
	}
	return counts, figures, nil
}

// tooFew says why there is no sample.
func (a *Attached) tooFew(name string, c programs.Count) error {
	if c.Runs > 0 {
		return fmt.Errorf("%s ran %d times while the work was done, and min_runs is %d: let it do more, or lower min_runs", name, c.Runs, a.b.MinRuns)
	}
	why := "the work did nothing that runs it; " + notCounted
	if c.Misses > 0 {
		why = fmt.Sprintf("the kernel left it out %d times, since something that it hangs on was running on that CPU already (recursion_misses)", c.Misses)
	}
	return fmt.Errorf("%w", errNoRuns(name+", at "+a.Path+",", why))
}

// Close forgets the benchmark. Nothing of it is attached between rounds.
func (a *Attached) Close() {}
