//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/bpf/programs"
	"github.com/org/ebpf-bench-gate/internal/agent"
	"github.com/org/ebpf-bench-gate/internal/work"
)

// agents is the lane of programs that an agent loads itself. In each round base's and
// head's take turns: started, at work, and ended.
//
// Note: both at once, started in random order and counted at the same events, was
// tried and is no better: the second to see an event finds its data in the cache, which
// made rounds differ more (opensnoop against itself, 20 rounds on a busy host: intervals
// of -9…+12% and -11…+10% in turns, -31…+7% and -8…+13% at once). And a port, a pin or an
// XDP hook is there once.
type agents struct {
	*scene
	ctx      context.Context
	rng      *rand.Rand
	net      *os.File // that the agents run in
	sides    []*agentSide
	warnings []string
}

// An agentSide is one revision's agent.
type agentSide struct {
	name  string // of the revision
	at    int    // its index in the plan
	where agent.Where
	rows  []agentRow
	// What the kernel says of the programs that were found.
	programs []bench.ProgramResult
	static   []bench.Result
}

// An agentRow is a program of an agent that is measured.
type agentRow struct {
	program string
	typ     string
	// asked tells that the config names it, so that it has to run.
	asked bool
}

// agentMeasures are those of each program.
var agentMeasures = []string{bench.Latency, bench.Runs, bench.RecursionMisses}

// prepareAgent readies a benchmark of an agent: each side's is started once, to see
// what it loads, and what of that runs.
func (r *run) prepareAgent(ctx context.Context, b bench.Benchmark) error {
	l, err := r.openAgents(ctx, b)
	if err != nil {
		return err
	}
	c := &benchCase{Benchmark: b, lane: l, results: make([][]*bench.Result, len(r.Sides))}
	for _, s := range l.sides {
		r.runs[s.at].Programs = append(r.runs[s.at].Programs, s.programs...)
		r.runs[s.at].Results = append(r.runs[s.at].Results, s.static...)
		for _, row := range s.rows {
			for _, m := range agentMeasures {
				c.results[s.at] = append(c.results[s.at], &bench.Result{
					Benchmark: b.Name + "/" + row.program, Program: row.program, Measure: m, Kind: bench.Macro, Path: "agent, " + row.typ,
				})
			}
		}
		for _, f := range b.Work.Figures {
			c.results[s.at] = append(c.results[s.at], &bench.Result{
				Benchmark: b.Name, Program: b.Program, Measure: bench.Member(bench.Figures, f.Name), Kind: bench.Macro, Path: "agent",
				Unit: f.Unit, Better: f.Better,
			})
		}
	}
	r.cases = append(r.cases, c)
	return nil
}

func (r *run) openAgents(ctx context.Context, b bench.Benchmark) (_ *agents, err error) {
	if b.Agent.Run == "" && len(r.Sides) > 1 {
		return nil, &bench.Diagnostic{
			Pos: b.Agent.Pos, Message: fmt.Sprintf("agent %s runs already: there is no other of it that it could be compared with", b.Agent.Name),
			Hint: "leave --base out, or say how each side's is started: run: COMMAND",
		}
	}
	scene, err := r.openScene(ctx, b, work.Options{Host: b.Agent.Run == ""})
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(b.Name))
	l := &agents{scene: scene, ctx: ctx, rng: rand.New(rand.NewPCG(r.Seed, h.Sum64())), net: scene.net}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	in := ""
	if b.Agent.Run != "" {
		if in = b.Agent.In; in == "" {
			in = l.home()
		}
		if l.net, err = l.place.Namespace(in); err != nil {
			return nil, &bench.Diagnostic{Pos: b.Agent.Pos, Message: "in: " + err.Error()}
		}
	}
	// What the first times do is cold; whether the work can be done is told before an
	// agent is started.
	if b.Work.Run != "" {
		for range max(1, b.Warm) {
			if err := l.rehearse(); err != nil {
				return nil, err
			}
		}
	}
	for i, side := range r.Sides {
		if b.Agent.Run != "" && side.Dir == "" {
			return nil, &bench.Diagnostic{Pos: b.Agent.Pos, Message: fmt.Sprintf("%s is not a directory that agent %s could be started in", side.Name, b.Agent.Name), Hint: "--base takes a git ref or a directory"}
		}
		s := &agentSide{name: side.Name, at: i, where: agent.Where{Dir: side.Dir, Net: l.net, Env: l.place.Env(in, -1)}}
		if err := l.discover(s); err != nil {
			return nil, err
		}
		l.sides = append(l.sides, s)
	}
	return l, nil
}

// rehearse does the work, and counts nothing.
func (l *agents) rehearse() error {
	t, err := l.worker.Ready(0)
	if err != nil {
		return err
	}
	_, err = t.Do()
	return errors.Join(err, t.Close())
}

// home is the namespace of b.At, in which programs of the network hang.
func (l *agents) home() string {
	if space, _, _ := strings.Cut(l.b.At, "/"); space != "" {
		return space
	}
	links := l.b.Net
	if len(links) == 0 {
		links = bench.DefaultLinks()
	}
	return links[0].Ends[1].Namespace
}

// discover starts a side's agent, and finds the programs that run when the work is
// done. What does not run as often as it must is an error where the config names it,
// and else told.
func (l *agents) discover(s *agentSide) error {
	var dull, dispatched []string
	t, err := l.turn(s, 0, func(a *agent.Agent) error {
		found, _ := a.Programs()
		for _, p := range found {
			l.known(s, p)
			if p.Uncounted {
				dispatched = append(dispatched, p.Name)
				continue
			}
			if len(p.IDs) > 1 {
				l.warn("agent %s of %s has %d programs called %s: they are counted together", l.b.Agent.Name, s.name, len(p.IDs), p.Name)
			}
			s.rows = append(s.rows, agentRow{program: p.Name, typ: p.Type, asked: len(l.b.Agent.Programs) > 0})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(dispatched) > 0 {
		l.warn("agent %s of %s: the kernel counts no runs of %s, which replaces a function of another program: its cost is in that one's", l.b.Agent.Name, s.name, strings.Join(dispatched, ", "))
	}
	s.rows = slices.DeleteFunc(s.rows, func(row agentRow) bool {
		n := t.counts[row.program].Runs
		if n >= l.least() {
			return false
		}
		if row.asked {
			err = errors.Join(err, l.tooFew(s, row, n))
			return false
		}
		dull = append(dull, row.program)
		return true
	})
	if err != nil {
		return err
	}
	if len(dull) > 0 {
		l.warn("agent %s of %s: not measured, since they run less than %d times while the work is done: %s", l.b.Agent.Name, s.name, l.least(), names(dull))
	}
	if len(s.rows) == 0 {
		return &bench.Diagnostic{
			Pos: l.b.Pos, Message: fmt.Sprintf("%s: no program of agent %s of %s ran %d times while the work was done; found %s", l.b.Name, l.b.Agent.Name, s.name, l.least(), names(append(dull, dispatched...))),
			Hint: notCountedHint,
		}
	}
	return nil
}

const notCountedHint = "does the work set them off? The kernel counts no tail-called programs, programs that replace a function, and timer callbacks: their cost shows on the program that is entered first"

// known notes what the kernel says of a program: that it is there, and its static
// measures.
func (l *agents) known(s *agentSide, p agent.Program) {
	if slices.ContainsFunc(l.run.runs[s.at].Programs, func(o bench.ProgramResult) bool { return o.Program == p.Name }) {
		return // of an object, or of another benchmark
	}
	s.programs = append(s.programs, bench.ProgramResult{Program: p.Name, Object: "agent " + l.b.Agent.Name, Type: p.Type, Outcome: bench.Accepted})
	if len(p.IDs) > 1 {
		return // of two programs of one name, whose?
	}
	results, err := programs.StaticByID(p.IDs[0])
	if err != nil {
		return // it has gone meanwhile, and its row will tell
	}
	for i := range results {
		results[i].Benchmark, results[i].Program = p.Name, p.Name
	}
	s.static = append(s.static, results...)
}

// least is how often a program has to run in a round.
func (l *agents) least() uint64 { return uint64(max(1, l.b.MinRuns)) }

func (l *agents) tooFew(s *agentSide, row agentRow, n uint64) error {
	d := &bench.Diagnostic{Pos: l.b.Pos, Message: fmt.Sprintf("%s: %s of %s ran %d times while the work was done, and min_runs is %d", l.b.Name, row.program, s.name, n, l.least())}
	if d.Hint = "lower min_runs, or let the work do more"; n == 0 {
		d.Hint = notCountedHint
	}
	return d
}

// names lists names, not too many.
func names(all []string) string {
	const most = 20
	if len(all) == 0 {
		return "none"
	}
	if len(all) > most {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(all, ", ")
}

func (l *agents) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(l.warnings, text) {
		l.warnings = append(l.warnings, text)
	}
}

// A counted turn is what one side's agent did in a round.
type agentTurn struct {
	counts  map[string]programs.Count // by name, programs of one name together
	offsets map[string]int
	floor   float64 // ns a run of an empty program
	figures []float64
}

// turn starts a side's agent, has the work done, and ends the agent. Look, if not
// nil, sees it before the work.
func (l *agents) turn(s *agentSide, round int, look func(*agent.Agent) error) (_ *agentTurn, err error) {
	a, err := agent.Start(l.ctx, *l.b.Agent, s.where)
	if err != nil {
		return nil, l.placed(s, err)
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = a.Kill()
		}
	}()
	if look != nil {
		if err := look(a); err != nil {
			return nil, err
		}
	}
	ended := l.watch(a)
	t, err := l.count(a, round)
	ended()
	// Work may fail because the agent has.
	if err := a.Check(); err != nil {
		return nil, l.placed(s, err)
	}
	if err != nil {
		return nil, err
	}
	late, err := a.Late()
	if err != nil {
		return nil, l.placed(s, err)
	}
	var anew, more []string
	for _, p := range late {
		if _, measured := t.counts[p.Name]; measured {
			anew = append(anew, p.Name)
		} else {
			more = append(more, p.Name)
		}
	}
	if len(anew) > 0 {
		l.warn("agent %s of %s loaded %s anew while the work was done: what the new one ran is not counted", l.b.Agent.Name, s.name, names(anew))
	}
	if len(more) > 0 && len(l.b.Agent.Programs) == 0 {
		l.warn("agent %s of %s loaded %s after it was ready: raise ready: {stable: …}, or name its programs", l.b.Agent.Name, s.name, names(more))
	}
	stopped = true
	warning, err := a.Stop()
	if err != nil {
		return nil, l.placed(s, err)
	}
	if warning != "" {
		l.warn("%s: %s", s.name, warning)
	}
	return t, nil
}

// watch ends the work when the agent does, until the returned function is called.
func (l *agents) watch(a *agent.Agent) (end func()) {
	ctx, cancel := context.WithCancelCause(l.ctx)
	l.worker.ctx = ctx
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				if err := a.Check(); err != nil {
					cancel(err)
				}
			}
		}
	}()
	return func() {
		cancel(nil)
		<-done
	}
}

// placed is an error of an agent, at its place in the config.
func (l *agents) placed(s *agentSide, err error) error {
	if stopped := l.ctx.Err(); stopped != nil {
		return stopped
	}
	d := &bench.Diagnostic{Pos: l.b.Agent.Pos, Message: fmt.Sprintf("%s: %v", s.name, err)}
	var e *agent.Error
	if errors.As(err, &e) {
		d.Hint = e.Advice
	}
	return d
}

// count has the work done, and counts what the agent's programs do meanwhile.
func (l *agents) count(a *agent.Agent, round int) (_ *agentTurn, err error) {
	c := &programs.Counter{}
	defer c.Close()
	found, _ := a.Programs()
	t := &agentTurn{counts: map[string]programs.Count{}, offsets: map[string]int{}}
	var owner []string
	for _, p := range found {
		for _, id := range p.IDs {
			if _, err := c.Add(ebpf.ProgramID(id)); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			owner = append(owner, p.Name)
			t.offsets[p.Name] = programs.OffsetByID(id)
		}
	}
	floor, err := bpf.NewFloor()
	if err != nil {
		return nil, err
	}
	defer floor.Close()
	if _, err := c.AddProgram(floor.Program()); err != nil {
		return nil, err
	}
	work, err := l.worker.Ready(round)
	if err != nil {
		return nil, err
	}
	counts, err := c.Round(func() (err error) {
		if t.figures, err = work.Do(); err == nil {
			err = floor.Run()
		}
		return err
	})
	if err = errors.Join(err, work.Close()); err != nil {
		return nil, err
	}
	for i, name := range owner {
		sum := t.counts[name]
		sum.Runs, sum.Time, sum.Misses = sum.Runs+counts[i].Runs, sum.Time+counts[i].Time, sum.Misses+counts[i].Misses
		t.counts[name] = sum
	}
	t.floor = counts[len(counts)-1].PerRun()
	return t, nil
}

// round implements [lane].
func (l *agents) round(n int) ([][]bench.Sample, error) {
	out := make([][]bench.Sample, len(l.sides))
	for _, i := range l.rng.Perm(len(l.sides)) {
		s := l.sides[i]
		t, err := l.turn(s, n, nil)
		if err != nil {
			return nil, err
		}
		for _, row := range s.rows {
			samples, err := l.samples(s, row, t, n)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], samples...)
		}
		for _, f := range t.figures {
			out[i] = append(out[i], bench.Sample{Round: n, Value: f, Offset: -1})
		}
	}
	return out, nil
}

// samples are those of one program. One that nobody named and that ran too rarely has
// none of its time in this round; how often it ran is a number all the same.
func (l *agents) samples(s *agentSide, row agentRow, t *agentTurn, round int) ([]bench.Sample, error) {
	count, there := t.counts[row.program]
	if !there {
		return nil, &bench.Diagnostic{Pos: l.b.Agent.Pos, Message: fmt.Sprintf("agent %s of %s has loaded %s before, and not in round %d", l.b.Agent.Name, s.name, row.program, round), Hint: "name it: programs: [" + row.program + "] waits for it, ready: {stable: …} longer for all"}
	}
	if count.Runs < l.least() && row.asked {
		return nil, l.tooFew(s, row, count.Runs)
	}
	base := bench.Sample{Round: round, Offset: t.offsets[row.program]}
	latency, runs, misses := base, base, base
	latency.Value, runs.Value, misses.Value = count.PerRun(), float64(count.Runs), float64(count.Misses)
	if bpf.CountedLikeFloor(row.typ) {
		latency.Floor = t.floor
	}
	if count.Runs < l.least() {
		latency.Round = -1
	}
	return []bench.Sample{latency, runs, misses}, nil
}

// measures implements [lane]; the results of agents are made by prepareAgent.
func (l *agents) measures() []string { return nil }

func (l *agents) describe() (bench.Kind, string, string, []string) {
	return bench.Macro, "agent", "", l.warnings
}
