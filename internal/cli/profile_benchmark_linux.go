package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/bpf/profiler"
	"github.com/org/ebpf-bench-gate/internal/profile"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/internal/symbol"
)

// hotDuration is how long each side of a benchmark is driven while it is sampled, unless somebody
// says otherwise.
const hotDuration = time.Second

// A hotBenchmark is one benchmark whose time was sampled.
type hotBenchmark struct {
	name  string
	sides []*bpf.Hotspots // base, if there is one, and head
	lines [][]bench.LineCount
	names *symbol.Kernel // nil: helpers have no names
}

// profileBenchmark is gate profile of a benchmark: where the time of its program goes, by line of its
// source, and against base why it is more.
func (c Command) profileBenchmark(ctx context.Context, f profileFlags, args []string) (err error) {
	if info, err := os.Stat(args[0]); err == nil && !info.IsDir() {
		return &exitError{code: exitUsage, err: fmt.Errorf("gate profile: unexpected argument %q", args[0]), hint: "write -- before a command, and the name of a benchmark before its objects"}
	}
	w := &workspace{args: args[1:]}
	if w.suite, err = findSuite(f.config, w.args); err != nil {
		return err
	}
	defer func() {
		if e := w.close(); e != nil && err == nil {
			err = unmeasured(e)
		}
	}()
	head, tree, err := w.head(ctx)
	if err != nil {
		return unmeasured(err)
	}
	sides := []runner.Side{head}
	if f.base != "" {
		base, _, err := w.base(ctx, f.base, tree)
		if err != nil {
			return unmeasured(err)
		}
		sides = []runner.Side{base, head}
	}
	w.distinct(sides)
	benchmarks, _, err := w.benchmarks(sides, args[:1])
	if err != nil {
		return usage("%w", err)
	}
	if len(benchmarks) == 0 {
		return usage("there is no benchmark %s", args[0])
	}
	if f.file != "" && len(benchmarks) > 1 {
		return usage("--output %s: %s is %d benchmarks; name one", f.file, args[0], len(benchmarks))
	}
	release, _, err := c.lockHost(ctx)
	if err != nil {
		return unmeasured(err)
	}
	defer release()
	s, err := bpf.NewSession(newSeed())
	if err != nil {
		return unmeasured(err)
	}
	defer s.Close()
	s.Stop = ctx.Err
	for _, b := range benchmarks {
		hot, err := c.hot(ctx, s, sides, b, cmp.Or(f.duration, hotDuration))
		if err != nil {
			return unmeasured(fmt.Errorf("%s: %w", b.Name, err))
		}
		if err := hot.write(c.Stdout, f); err != nil {
			return &exitError{code: exitUnmeasured, err: fmt.Errorf("write the profile: %w", err)}
		}
	}
	return nil
}

// hot samples one benchmark.
func (c Command) hot(ctx context.Context, s *bpf.Session, sides []runner.Side, b bench.Benchmark, each time.Duration) (*hotBenchmark, error) {
	if b.Work != nil || b.Agent != nil || b.Harness != nil {
		return nil, errors.New("only what a test run drives is sampled by line; profile its command: gate profile -- COMMAND")
	}
	b.Veth = nil // its packets are run as test runs
	var programs []bpf.Side
	for _, side := range sides {
		i := slices.IndexFunc(side.Objects, func(o runner.Object) bool { return o.Has(b.Program) })
		if i < 0 {
			return nil, fmt.Errorf("%s has no program %s", side.Name, b.Program)
		}
		programs = append(programs, bpf.Side{Name: side.Name, Object: side.Objects[i].Object})
	}
	m, err := s.Micro(b, programs...)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	hot := &hotBenchmark{name: b.Name}
	if hot.sides, err = m.Hotspots(ctx, len(programs), each); err != nil {
		return nil, err
	}
	for _, h := range hot.sides {
		if h.Inside == 0 {
			return nil, fmt.Errorf("none of %d samples fell into %s of %s: it may be too short, or the kernel does not walk its stacks", h.Samples, b.Program, h.Name)
		}
	}
	hot.lines = make([][]bench.LineCount, len(programs))
	if counted, err := m.Insns(); err == nil {
		for i, side := range counted.Sides {
			hot.lines[i] = side.Lines
		}
	} else {
		fmt.Fprintf(c.Stderr, "warning: how often lines run is not known: %v\n", err)
	}
	// While what drives the program is loaded, so that it has names, too.
	if hot.names, err = symbol.ReadKernel(); err != nil {
		hot.names = nil
		fmt.Fprintf(c.Stderr, "warning: functions of the kernel have no names: %v\n", err)
	}
	for _, w := range m.Warnings {
		fmt.Fprintf(c.Stderr, "warning: %s: %s\n", b.Name, w)
	}
	return hot, nil
}

// write writes the listing, and the flame graph where a file is asked for.
func (h *hotBenchmark) write(out io.Writer, f profileFlags) error {
	if f.file != "" {
		if err := toFile(f.file, func(w io.Writer) error { return h.graph(w, f.format) }); err != nil {
			return err
		}
	}
	var b strings.Builder
	last := len(h.sides) - 1
	if f.asm {
		h.machine(&b, h.sides[last])
	} else {
		h.source(&b, last)
	}
	if last > 0 {
		h.compare(&b)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// about says what the numbers rest on.
func (h *hotBenchmark) about(s *bpf.Hotspots) string {
	return fmt.Sprintf("%s of %s: %.1f ns a run in the program, by %d of %d samples at %d Hz, %d runs",
		h.name, s.Name, s.Nanos(s.Inside), s.Inside, s.Samples, s.Frequency, s.Runs)
}

// source writes the lines of the program with their time, where a loop's is its condition's, the time on
// their own code, and how often they run.
func (h *hotBenchmark) source(b *strings.Builder, side int) {
	s := h.sides[side]
	fmt.Fprintf(b, "%s\n\n", h.about(s))
	file, function := "", ""
	runs := func(l bench.LineCount) string {
		for _, c := range h.lines[side] {
			if c.File == l.File && c.Line == l.Line && c.Function == l.Function {
				return count(c.Executions)
			}
		}
		return ""
	}
	fmt.Fprintf(b, "  time    own   times  line\n")
	for _, l := range s.Lines() {
		if l.File != file || l.Function != function {
			file, function = l.File, l.Function
			fmt.Fprintf(b, "%23s  %s (%s)\n", "", plain(path.Base(file)), plain(function))
		}
		fmt.Fprintf(b, "%6s %6s %7s  %4d  %s\n", part(l.Share), part(float64(l.Own)/float64(s.Inside)), runs(l.LineCount), l.Line, plain(strings.ReplaceAll(l.Text, "\t", " ")))
		for _, called := range h.callees(l.Calls) {
			fmt.Fprintf(b, "%6s %6s %7s        → %s\n", "", part(float64(called.samples)/float64(s.Inside)), "", called.name)
		}
	}
	fmt.Fprintf(b, "\ntime: of a loop, all for its condition; own: of the line's own code, an instruction more or less\n")
}

// A callee is a function of the kernel that a line calls.
type callee struct {
	name    string
	samples int
}

// callees are the functions behind addresses, those with most samples first.
func (h *hotBenchmark) callees(calls map[uint64]int) []callee {
	all := map[string]int{}
	for addr, n := range calls {
		name := "a helper"
		if h.names != nil {
			if f := h.names.Frames(addr)[0]; f.Function != "" {
				name = f.Function
			}
		}
		all[name] += n
	}
	out := make([]callee, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, callee{name, all[name]})
	}
	slices.SortStableFunc(out, func(a, b callee) int { return cmp.Compare(b.samples, a.samples) })
	return out
}

// machine writes the machine code with the samples of each instruction, under its lines.
func (h *hotBenchmark) machine(b *strings.Builder, s *bpf.Hotspots) {
	fmt.Fprintf(b, "%s\n", h.about(s))
	for i := range s.Functions {
		f := &s.Functions[i]
		insns := f.Instructions()
		fmt.Fprintf(b, "\n%s:\n", plain(f.Name))
		if len(insns) == 0 {
			fmt.Fprintf(b, "  its machine code cannot be shown here (x86-64 alone is known)\n")
			continue
		}
		var at bpf.HotLine
		for _, in := range insns {
			if l, ok := f.At(in.Offset); ok && (l.File != at.File || l.Line != at.Line) {
				at = l
				fmt.Fprintf(b, "%22s  ; %s:%d  %s\n", "", plain(path.Base(l.File)), l.Line, plain(strings.ReplaceAll(strings.TrimSpace(l.Text), "\t", " ")))
			}
			fmt.Fprintf(b, "%6s %6s %6x:  %s\n", part(float64(in.Self)/float64(s.Inside)), part(float64(in.Called)/float64(s.Inside)), in.Offset, in.Text)
		}
	}
	fmt.Fprintf(b, "\nof the time: on the instruction, and in what it calls; what takes long shows one instruction late\n")
}

// compare writes what head takes longer, and which lines explain it.
func (h *hotBenchmark) compare(b *strings.Builder) {
	base, head := h.sides[0], h.sides[1]
	from, to := base.Nanos(base.Inside), head.Nanos(head.Inside)
	fmt.Fprintf(b, "\n%s\nagainst base: %+.1f ns a run, %.1f → %.1f\n", h.about(base), to-from, from, to)
	lines := bpf.ExplainTime(base, head)
	const most = 5
	told := 0
	for _, l := range lines {
		// Less than a twentieth of the change, or what so many samples cannot tell.
		if told == most || l.Time-l.BaseTime < 0.05*(to-from) || l.Time-l.BaseTime < head.Nanos(3) {
			break
		}
		told++
		was := "not in base"
		if !l.New {
			was = fmt.Sprintf("in base %.1f ns", l.BaseTime)
		}
		ran := ""
		for _, c := range h.lines[1] {
			if c.File == l.File && c.Line == l.Line && c.Function == l.Function {
				ran = times(c.Executions) + ", "
			}
		}
		fmt.Fprintf(b, "  %s:%d  %s  %s%.1f ns, %s of head's time; %s\n", plain(path.Base(l.File)), l.Line, plain(strings.ReplaceAll(l.Text, "\t", " ")), ran, l.Time, part(l.Share), was)
	}
	if told == 0 {
		fmt.Fprintf(b, "  no line takes longer by more than the samples can tell\n")
	}
}

// graph writes a flame graph, or pprof's format, of head, or of what differs from base.
func (h *hotBenchmark) graph(w io.Writer, format string) error {
	var all []*profile.Profile
	for _, s := range h.sides {
		period := time.Second / time.Duration(s.Frequency)
		c := profile.NewCollector(hotNames{s, h.names}, nil, profile.Options{Event: profiler.EventClock, Period: period, Start: time.Now()})
		for _, stack := range s.Stacks {
			c.Add(&profile.Sample{Comm: h.name, Kernel: stack})
		}
		p := c.Profile()
		p.Took = s.Took
		all = append(all, p)
	}
	head := all[len(all)-1]
	switch {
	case format == "folded":
		return profile.Folded(w, head)
	case format == "pprof":
		return profile.Pprof(w, head)
	case len(all) > 1:
		return profile.DiffSVG(w, all[0], head)
	}
	return profile.SVG(w, head)
}

// hotNames name addresses in the kernel and in programs that are gone by now.
type hotNames struct {
	side  *bpf.Hotspots
	names *symbol.Kernel
}

func (n hotNames) Frames(addr uint64) []symbol.Frame {
	if f, offset, ok := n.side.Find(addr); ok {
		frame := symbol.Frame{Function: f.Name, Module: "[bpf]", Offset: uint64(offset), Kind: symbol.KindBPF}
		if l, ok := f.At(offset); ok {
			frame.File, frame.Line = l.File, l.Line
		}
		return []symbol.Frame{frame}
	}
	if n.names == nil {
		return []symbol.Frame{{Module: "[kernel]", Offset: addr}}
	}
	return n.names.Frames(addr)
}

func part(of float64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*of)
}

// count is a number of executions, with a digit behind the point where it has one.
func count(n float64) string {
	if n == float64(int64(n)) {
		return fmt.Sprint(int64(n))
	}
	return fmt.Sprintf("%.1f", n)
}

// times says how often a line runs, as reports do.
func times(n float64) string {
	if n == 1 {
		return "once a run"
	}
	return count(n) + " times a run"
}

// checkBenchmark is check for the profile of a benchmark.
func (f *profileFlags) checkBenchmark(changed func(string) bool) error {
	for _, name := range []string{"freq", "sw-event", "pid", "comm", "kernel-only", "user-only", "off-cpu", "min-wait", "fold-extend", "rows", "buffer"} {
		if changed(name) {
			return usage("--%s: a benchmark is sampled by the timer, while it is driven", name)
		}
	}
	switch f.format {
	case "":
		f.format = "svg"
		for _, format := range []string{"folded", "pprof"} {
			if slices.ContainsFunc(profileFormats[format], func(end string) bool { return strings.HasSuffix(f.file, end) }) {
				f.format = format
			}
		}
	case "svg", "folded", "pprof":
		if f.file == "" {
			return usage("--format %s: the listing goes to standard output; write -o FILE", f.format)
		}
	default:
		return usage("--format %s: of a benchmark, expected one of svg, folded, pprof", f.format)
	}
	if f.file != "" {
		if info, err := os.Stat(path.Dir(f.file)); err != nil || !info.IsDir() {
			return usage("--output %s: there is no directory %s", f.file, path.Dir(f.file))
		}
	}
	if f.duration < 0 || f.duration > time.Minute {
		return usage("--duration %v: a side of a benchmark is sampled for up to a minute", f.duration)
	}
	return nil
}
