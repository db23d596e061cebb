//go:build linux

package bpf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/profiler"
)

// Hotspots is where the time of one side went, by sampling it while it was driven.
//
// A sample falls on the instruction that would have been executed next, so the time of
// one that takes long shows on the one behind it: of lines, mostly the same, and of single
// instructions mostly not. What a program calls counts for the call.
type Hotspots struct {
	Name string // of the side
	// Runs is how often the program ran, in Took: CPU time of the thread that drove it.
	Runs int
	Took time.Duration
	// Samples were taken meanwhile, of the thread that drove; Inside of them were in the
	// program or in what it called. The others were in what drives it.
	Samples, Inside int
	// Frequency is how often a second samples were taken.
	Frequency int
	// Functions are those of the program, of its subprograms, and of programs that it
	// tail-calls.
	Functions []HotFunction
	// Stacks are the samples themselves, innermost first.
	Stacks [][]uint64
}

// A HotFunction is the machine code of one function, and the samples in it.
type HotFunction struct {
	Name string
	Code []byte // empty where the kernel does not show it
	// Lines say where the code of a line of source begins, by offset.
	Lines []HotLine
	// Hits are the instructions that samples fell on, by offset.
	Hits []Hit

	start, end uint64
	blocks     []machineBlock
	loops      []machineLoop
}

// A HotLine is a line of source, from an offset in the code on.
type HotLine struct {
	Offset int
	File   string
	Line   int
	Text   string
}

// A Hit is the samples of one instruction.
type Hit struct {
	Offset int // of a call, anywhere in it
	// Self fell on it, and Calls on what it calls: by an address in the function that is
	// called, which the kernel's symbols name.
	Self  int
	Calls map[uint64]int
}

// Nanos is the time of so many samples in one run, in ns.
func (h *Hotspots) Nanos(samples int) float64 {
	if h.Runs == 0 {
		return 0
	}
	return float64(samples) * 1e9 / float64(h.Frequency) / float64(h.Runs)
}

// A LineSamples is what fell on one line of a function.
type LineSamples struct {
	bench.LineCount // with its Time and Share
	// Own fell on the code of the line, and on what that calls: Calls, by an address in it.
	Own   int
	Calls map[uint64]int
}

// Lines are all lines of the code, by file and line. The Time and Share of a line are those of its own
// code and of what that calls, and of a loop's condition those of the loop's code: samples may be an
// instruction off. Code inlined from another function is of the function that holds it.
func (h *Hotspots) Lines() []LineSamples {
	return h.lines(func(*HotFunction, HotLine) bool { return true })
}

// ExplainTime returns the lines of head that take longer than in base, as [bench.ExplainTime] does. A
// loop whose condition is new or was edited counts for it; of any other, each line for itself.
func ExplainTime(base, head *Hotspots) []bench.LineCount {
	each := func(*HotFunction, HotLine) bool { return false }
	before, after := counts(base.lines(each)), counts(head.lines(each))
	matches := bench.MatchLines(before, after)
	var same [2]map[lineKey]bool // lines of either side that the other has, too
	for i := range same {
		same[i] = map[lineKey]bool{}
	}
	key := func(l bench.LineCount) lineKey { return lineKey{l.File, uint32(l.Line), l.Function} }
	for i, was := range matches {
		if was.Same {
			same[0][key(before[was.Base])], same[1][key(after[i])] = true, true
		}
	}
	changed := func(side int) func(*HotFunction, HotLine) bool {
		return func(f *HotFunction, l HotLine) bool {
			return !same[side][lineKey{clip(l.File), uint32(l.Line), clip(f.Name)}]
		}
	}
	return bench.ExplainTime(counts(base.lines(changed(0))), counts(head.lines(changed(1))))
}

// counts are lines without what fell where.
func counts(lines []LineSamples) []bench.LineCount {
	out := make([]bench.LineCount, len(lines))
	for i := range lines {
		out[i] = lines[i].LineCount
	}
	return out
}

// lines adds up by line; whole tells of which loops all counts for the condition.
func (h *Hotspots) lines(whole func(f *HotFunction, condition HotLine) bool) []LineSamples {
	var out []LineSamples
	at := map[lineKey]int{}
	of := func(f *HotFunction, l HotLine) *LineSamples {
		k := lineKey{l.File, uint32(l.Line), f.Name}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, LineSamples{LineCount: bench.LineCount{
				File: clip(l.File), Line: l.Line, Text: clip(strings.TrimSpace(l.Text)), Function: clip(f.Name),
			}, Calls: map[uint64]int{}})
		}
		return &out[i]
	}
	give := func(l *LineSamples, n int) {
		l.Time += h.Nanos(n)
		l.Share += float64(n) / float64(h.Inside)
	}
	for i := range h.Functions {
		f := &h.Functions[i]
		for _, l := range f.Lines {
			of(f, l) // also those without a sample: the other side may have them too
		}
		for _, hit := range f.Hits {
			l, ok := f.At(hit.Offset)
			if !ok {
				continue
			}
			line := of(f, l)
			line.Own += hit.All()
			for addr, calls := range hit.Calls {
				line.Calls[addr] += calls
			}
			give(line, hit.All()-hit.Self) // the return address is exact
			if condition, ok := f.Loop(hit.Offset); ok && whole(f, condition) {
				line = of(f, condition)
			}
			give(line, hit.Self)
		}
	}
	slices.SortStableFunc(out, func(a, b LineSamples) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return out
}

// All is the samples of the instruction and of what it calls.
func (h *Hit) All() int {
	n := h.Self
	for _, c := range h.Calls {
		n += c
	}
	return n
}

// hotFrequency is how often a second a side is sampled that is driven, and hotSlice how long it
// is driven before the other one is: what disturbs one disturbs the other as well.
const (
	hotFrequency = 10_000
	hotSlice     = 10 * time.Millisecond
	maxHot       = time.Minute
	// hotPatience is how many times longer it may take on a host whose CPUs others use.
	hotPatience = 8
)

// A slice is when a side was driven, in ns of CLOCK_MONOTONIC.
type slice struct {
	from, to uint64
	side     int
}

// Hotspots drives the first sides of the benchmark in turns, each for so long of CPU time, and samples where
// they are. It changes no order of the rounds. It needs what a [Profiler] does, and a kernel that
// shows its JITed code (kptr_restrict 0 or 1, as root).
func (m *Micro) Hotspots(ctx context.Context, sides int, each time.Duration) (out []*Hotspots, err error) {
	if sides < 1 || sides > len(m.sides) || each <= 0 || each > maxHot {
		return nil, fmt.Errorf("hotspots of %d sides for %v each: expected 1 to %d, for up to %v", sides, each, len(m.sides), maxHot)
	}
	err = m.s.do(func() error {
		return m.tolerating(func() error {
			out, err = m.hotspots(ctx, sides, each)
			return err
		})
	})
	return out, err
}

func (m *Micro) hotspots(ctx context.Context, sides int, each time.Duration) (_ []*Hotspots, err error) {
	// Orders of the rounds are drawn as if this had not been.
	rng := m.rng
	m.rng = m.s.rng(m.b.Name + " hotspots")
	defer func() { m.rng = rng }()

	targets := make([]*target, sides)
	defer func() { m.remove(targets) }()
	out := make([]*Hotspots, sides)
	frequency := min(hotFrequency, profiler.MaxSampleRate())
	for i := range targets {
		if targets[i], err = m.load(i); err != nil {
			return nil, err
		}
		functions, err := targets[i].load.hotFunctions()
		if err != nil {
			return nil, err
		}
		out[i] = &Hotspots{Name: m.sides[i].Name, Frequency: frequency, Functions: functions}
	}
	if err := m.seat(targets); err != nil {
		return nil, err
	}
	for _, t := range targets {
		m.arm(t, 0)
		if err := m.warm(t); err != nil {
			return nil, err
		}
	}
	// The timer's samples stand where they fell; the cycle counter's interrupt comes some
	// instructions late.
	p, err := profiler.New(profiler.Options{Frequency: frequency, Event: profiler.EventClock, KernelOnly: true})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := p.Start(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type taken struct {
		time  uint64
		stack []uint64
	}
	var samples []taken
	var stats profiler.Stats
	done := make(chan error, 1)
	me := uint32(unix.Gettid())
	go func() {
		var err error
		stats, err = p.Run(ctx, profiler.Handler{Sample: func(s *profiler.Sample) {
			if s.TID == me {
				samples = append(samples, taken{s.Time, slices.Clone(s.Kernel)})
			}
		}})
		done <- err
	}()
	slicesOf, err := m.driveInTurns(ctx, targets, out, each)
	stop()
	if e := <-done; e != nil || err != nil {
		return nil, errors.Join(err, e)
	}
	if stats.Lost > 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("%d samples of where time goes were lost", stats.Lost))
	}
	for _, s := range samples {
		i := sort.Search(len(slicesOf), func(i int) bool { return slicesOf[i].to >= s.time })
		if i == len(slicesOf) || s.time < slicesOf[i].from {
			continue // between them
		}
		out[slicesOf[i].side].add(s.stack)
	}
	for _, h := range out {
		for i := range h.Functions {
			h.Functions[i].sortHits()
		}
	}
	return out, nil
}

// driveInTurns drives each side for so long, and says when. Time that others had the CPU does not
// count, since it has no samples.
func (m *Micro) driveInTurns(ctx context.Context, targets []*target, out []*Hotspots, each time.Duration) ([]slice, error) {
	var all []slice
	until := profiler.Now() + uint64(hotPatience*each)*uint64(len(targets))
	for number := 0; ; number++ {
		open := false
		for _, i := range m.rng.Perm(len(targets)) {
			if out[i].Took >= each || len(all) >= len(targets) && profiler.Now() > until {
				continue
			}
			open = true
			used := threadTime()
			s := slice{from: profiler.Now(), side: i}
			for s.to = s.from; time.Duration(s.to-s.from) < hotSlice; s.to = profiler.Now() {
				if err := errors.Join(ctx.Err(), m.s.stopped()); err != nil {
					return nil, err
				}
				r, err := m.read(targets[i], number)
				if err != nil {
					return nil, err
				}
				out[i].Runs += r.runs
			}
			out[i].Took += threadTime() - used
			all = append(all, s)
		}
		if !open {
			return all, nil
		}
	}
}

// threadTime is the CPU time that this thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// add counts a sample for the innermost frame in the program.
func (h *Hotspots) add(stack []uint64) {
	h.Samples++
	h.Stacks = append(h.Stacks, stack)
	for depth, addr := range stack {
		if depth > 0 {
			addr-- // a return address: the call is before it
		}
		f := h.function(addr)
		if f == nil {
			continue
		}
		h.Inside++
		hit := f.hit(int(addr - f.start))
		if depth == 0 {
			hit.Self++
			return
		}
		if hit.Calls == nil {
			hit.Calls = map[uint64]int{}
		}
		callee := stack[depth-1]
		if depth > 1 {
			callee--
		}
		hit.Calls[callee]++
		return
	}
}

// Find tells the function of the side that an address is in, and where. The program is unloaded by
// now, so nobody else knows.
func (h *Hotspots) Find(addr uint64) (f *HotFunction, offset int, ok bool) {
	if f = h.function(addr); f == nil {
		return nil, 0, false
	}
	return f, int(addr - f.start), true
}

func (h *Hotspots) function(addr uint64) *HotFunction {
	for i := range h.Functions {
		if f := &h.Functions[i]; f.start <= addr && addr < f.end {
			return f
		}
	}
	return nil
}

func (f *HotFunction) hit(offset int) *Hit {
	for i := range f.Hits {
		if f.Hits[i].Offset == offset {
			return &f.Hits[i]
		}
	}
	f.Hits = append(f.Hits, Hit{Offset: offset})
	return &f.Hits[len(f.Hits)-1]
}

// hotFunctions are the functions of a load, of the program itself first.
func (l *Loaded) hotFunctions() ([]HotFunction, error) {
	out, err := jitedFunctions(l.Program)
	if err != nil {
		return nil, fmt.Errorf("machine code of %s: %w", l.Name, err)
	}
	for _, c := range l.extra {
		if p, ok := c.(*ebpf.Program); ok {
			more, err := jitedFunctions(p)
			if err != nil {
				return nil, fmt.Errorf("machine code behind %s: %w", l.Name, err)
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

func jitedFunctions(p *ebpf.Program) ([]HotFunction, error) {
	info, err := p.Info()
	if err != nil {
		return nil, err
	}
	starts, ok := info.JitedKsymAddrs()
	sizes, sized := info.JitedFuncLens()
	if !ok || !sized || len(starts) != len(sizes) {
		return nil, errors.New("the kernel does not show it: " + thisHost().hidesCode(capabilities()))
	}
	code, _ := info.JitedInsns()
	addrs, _ := info.JitedLineInfos()
	var lines btf.LineOffsets
	if len(addrs) > 0 {
		if lines, err = info.LineInfos(); err != nil || len(lines) != len(addrs) {
			lines = nil // an object without line information has machine code all the same
		}
	}
	functions, _ := info.FuncInfos()
	out := make([]HotFunction, len(starts))
	for i, start := range starts {
		f := &out[i]
		f.start, f.end, f.Name = uint64(start), uint64(start)+uint64(sizes[i]), info.Name
		if len(functions) == len(starts) {
			f.Name = functions[i].Func.Name
		}
		if n := int(sizes[i]); n <= len(code) {
			f.Code, code = code[:n:n], code[n:]
		}
		for j, line := range lines {
			if addr := addrs[j]; addr >= f.start && addr < f.end && line.Line.LineNumber() > 0 {
				f.Lines = append(f.Lines, HotLine{int(addr - f.start), line.Line.FileName(), int(line.Line.LineNumber()), line.Line.Line()})
			}
		}
		slices.SortStableFunc(f.Lines, func(a, b HotLine) int { return a.Offset - b.Offset })
		f.findBlocks()
		f.findLoops()
	}
	return out, nil
}
