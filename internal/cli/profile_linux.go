package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bpf/profiler"
	"github.com/org/ebpf-bench-gate/internal/english"
	"github.com/org/ebpf-bench-gate/internal/profile"
	"github.com/org/ebpf-bench-gate/internal/symbol"
	"github.com/org/ebpf-bench-gate/internal/work"
)

// profileFlags are the flags of gate profile.
type profileFlags struct {
	freq                           int
	software, offCPU               bool
	pids                           []int
	comm                           string
	kernelOnly, userOnly, extended bool
	duration, minWait              time.Duration
	format, file                   string
	rows, buffer                   int
	// Of a benchmark.
	config, base string
	asm          bool
}

func (c Command) profile() *cobra.Command {
	var f profileFlags
	cmd := &cobra.Command{
		Use:   "profile [flags] [BENCHMARK [OBJECT|SOURCE]... | -- COMMAND [ARG]...]",
		Short: "Sample what the CPUs run, or where threads wait, and say which functions",
		Long: `Profile interrupts every CPU many times a second, and has an eBPF program note who
runs and by which calls, in the kernel and in the process. With --off-cpu it notes
where threads go to sleep, and for how long. It goes on until Ctrl-C, until
--duration is over, or until the command has ended.

Formats: list (each sample, as it comes), folded (for flamegraph.pl and others), svg
(a flame graph for browsers), pprof (for go tool pprof), top (a table).

User code is followed by its frame pointers, or its stacks end early. Go has them;
compile C and C++ with -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer, Rust
with -C force-frame-pointers=yes. Without -o, what the command writes goes to
standard error.

Of a benchmark, each line of its eBPF program is shown with its part of the time, and
what it calls; with --base, the lines that explain the difference; with -o, the flame
graph too. The config is found as gate run finds it.`,
		Example: `  gate profile --duration 10s --format top
  gate profile --freq 99 -o cpu.svg -- COMMAND
  gate profile --pid 4711 --off-cpu --duration 30s -o waits.svg
  gate profile --duration 10s -o cpu.pb.gz    # then: go tool pprof -top cpu.pb.gz
  gate profile fun_xdp/worst --base main -o difference.svg
  gate profile fun_xdp/worst --asm`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch at := cmd.ArgsLenAtDash(); {
			case at > 0:
				return &exitError{code: exitUsage, err: fmt.Errorf("gate profile: unexpected argument %q", args[0]), hint: "a benchmark or a command, not both"}
			case at < 0 && len(args) > 0:
				if err := f.checkBenchmark(cmd.Flags().Changed); err != nil {
					return err
				}
				return c.profileBenchmark(cmd.Context(), f, args)
			}
			for _, name := range []string{"base", "asm", "config"} {
				if cmd.Flags().Changed(name) {
					return usage("--%s is for the profile of a benchmark; name one", name)
				}
			}
			if err := f.check(args); err != nil {
				return err
			}
			changed := cmd.Flags().Changed
			switch {
			case changed("min-wait") && !f.offCPU:
				return usage("--min-wait: only --off-cpu takes waits")
			case changed("freq") && f.offCPU:
				return usage("--freq: --off-cpu takes every wait, by no clock")
			case changed("rows") && f.format != "top":
				return usage("--rows: that is for --format top, not %s", f.format)
			}
			return unmeasured(c.sample(cmd.Context(), f, args))
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&f.freq, "freq", 50, "take `N` samples a second of each CPU")
	fl.BoolVar(&f.software, "sw-event", false, "sample by a timer, also where the CPU counts its cycles")
	fl.IntSliceVarP(&f.pids, "pid", "p", nil, "only process `PID` and its children")
	fl.StringVar(&f.comm, "comm", "", "only threads with this `NAME`")
	fl.DurationVar(&f.duration, "duration", 0, "end after this time (default: at Ctrl-C)")
	fl.BoolVar(&f.kernelOnly, "kernel-only", false, "only what the kernel runs")
	fl.BoolVar(&f.userOnly, "user-only", false, "only stacks of processes")
	fl.BoolVar(&f.offCPU, "off-cpu", false, "take the time that threads wait instead")
	fl.DurationVar(&f.minWait, "min-wait", time.Microsecond, "leave out waits that are shorter (--off-cpu)")
	fl.StringVar(&f.format, "format", "", "list, folded, svg, pprof or top (default: list, or by the name of FILE)")
	fl.BoolVarP(&f.extended, "fold-extend", "E", false, "a folded line for each sample: time;comm;pid;tid;cpu;stack")
	fl.StringVarP(&f.file, "output", "o", "", "write to `FILE` instead of standard output")
	fl.IntVar(&f.rows, "rows", 40, "show `N` functions (--format top); 0: all")
	fl.StringVar(&f.base, "base", "", "of a benchmark: compare with a git ref, a directory or an object `REF`")
	fl.BoolVar(&f.asm, "asm", false, "of a benchmark: show each machine instruction")
	fl.StringVar(&f.config, "config", "", "of a benchmark: read `FILE` (default: ebpf-bench.yml here or above)")
	fl.IntVar(&f.buffer, "buffer", profiler.DefaultBuffer>>10, "size of the ring buffer in `KB`, a power of two")
	return cmd
}

// formats of profiles, with the names of files that mean them.
var profileFormats = map[string][]string{
	"list": nil, "folded": {".folded"}, "svg": {".svg"}, "pprof": {".pb.gz", ".pprof"}, "top": nil,
}

func (f *profileFlags) check(command []string) error {
	if f.format == "" {
		f.format = "list"
		for format, ends := range profileFormats {
			for _, end := range ends {
				if strings.HasSuffix(f.file, end) && !f.extended {
					f.format = format
				}
			}
		}
	} else if _, ok := profileFormats[f.format]; !ok {
		return usage("--format %s: expected one of list, folded, svg, pprof, top", f.format)
	}
	most := profiler.MaxSampleRate()
	switch {
	case f.freq < 1:
		return usage("--freq %d: this kernel takes 1 to %d samples a second", f.freq, most)
	case f.freq > most:
		return &exitError{code: exitUsage, err: fmt.Errorf("--freq %d: this kernel takes 1 to %d samples a second", f.freq, most),
			hint: fmt.Sprintf("sysctl kernel.perf_event_max_sample_rate=%d", f.freq)}
	case f.kernelOnly && f.userOnly:
		return usage("--kernel-only and --user-only: nothing is left")
	case f.software && f.offCPU:
		return usage("--sw-event: --off-cpu takes every wait, by no clock")
	case f.extended && f.format != "list" && f.format != "folded":
		return usage("--fold-extend: that is a format of its own, not %s", f.format)
	case f.duration < 0 || f.minWait < 0:
		return usage("--duration and --min-wait: expected a time, such as 10s")
	case f.rows < 0:
		return usage("--rows %d: expected a number of functions", f.rows)
	case f.buffer < os.Getpagesize()>>10 || f.buffer > 1<<20 || f.buffer&(f.buffer-1) != 0:
		return usage("--buffer %d: expected a power of two from %d to 1048576 (KB)", f.buffer, os.Getpagesize()>>10)
	case len(command) > 0 && len(f.pids) > 0:
		return usage("--pid and a command: expected one of them")
	case f.format == "pprof" && f.file == "":
		return &exitError{code: exitUsage, err: errors.New("--format pprof: that is for no terminal"), hint: "-o cpu.pb.gz"}
	}
	if f.file != "" {
		if info, err := os.Stat(filepath.Dir(f.file)); err != nil || !info.IsDir() {
			return usage("--output %s: there is no directory %s", f.file, filepath.Dir(f.file))
		}
	}
	return nil
}

// sample is gate profile.
func (c Command) sample(ctx context.Context, f profileFlags, command []string) (err error) {
	opts := profiler.Options{
		Frequency: f.freq, OffCPU: f.offCPU, MinOff: f.minWait, Comm: f.comm, KernelOnly: f.kernelOnly, UserOnly: f.userOnly,
		Tracked: len(f.pids)+len(command) > 0, Buffer: f.buffer << 10,
	}
	if f.software {
		opts.Event = profiler.EventClock
	}
	p, err := profiler.New(opts)
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, pid := range f.pids {
		if err := p.Track(pid); errors.Is(err, fs.ErrNotExist) {
			return usage("--pid %d: there is no such process", pid)
		} else if err != nil {
			return err
		}
	}
	release := func() {}
	if len(command) > 0 {
		held, err := c.hold(command, f.file == "")
		if err != nil {
			return err
		}
		defer c.ended(held)
		if err := p.Track(held.PID()); err != nil {
			return err
		}
		release = held.Release
		go func() {
			<-held.Done()
			cancel()
		}()
	}
	s, err := c.newSampling(f, p.Event())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.stop = cancel
	if f.duration > 0 {
		timer := time.AfterFunc(f.duration, cancel)
		defer timer.Stop()
	}
	if err := p.Start(); err != nil {
		return err
	}
	release()
	stats, err := p.Run(ctx, profiler.Handler{Sample: s.take, Exec: s.collector.Exec, Exit: s.collector.Exit, Task: s.learn})
	if err != nil {
		return err
	}
	return s.finish(c, stats)
}

// hold starts the command that is profiled, which begins when all is ready.
func (c Command) hold(command []string, toStderr bool) (*work.Held, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	if toStderr {
		cmd.Stdout = c.Stderr
	}
	held, err := work.Hold(cmd)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, usage("there is no command %s", command[0])
	}
	return held, err
}

// ended ends the command, if it goes on, and says so if it failed by itself.
func (c Command) ended(held *work.Held) {
	const patience = 2 * time.Second
	select {
	case <-held.Done():
		if err := held.Err(); err != nil {
			fmt.Fprintf(c.Stderr, "note: the command ended with %v\n", err)
		}
	default:
		held.End(patience)
	}
}

// A sampling is a profile that is being taken.
type sampling struct {
	flags     profileFlags
	collector *profile.Collector
	kernel    *symbol.Kernel
	users     *symbol.Users
	out       *steadyWriter
	file      *os.File
	epoch     time.Time // when CLOCK_MONOTONIC was 0
	sample    profile.Sample
	samples   int
	stop      func()
}

func (c Command) newSampling(f profileFlags, event string) (_ *sampling, err error) {
	// Beside other programs, memory matters more than how fast names are found.
	const forNames, garbage = 256 << 20, 50
	debug.SetGCPercent(garbage)
	s := &sampling{flags: f, users: symbol.NewUsers(symbol.Options{Memory: forNames}), epoch: monotonicEpoch()}
	defer func() {
		if err != nil {
			_ = s.users.Close()
		}
	}()
	o := profile.Options{Event: event, Period: time.Second / time.Duration(f.freq), Start: time.Now(), Addresses: f.format == "pprof"}
	if f.offCPU {
		o.Type, o.Period = profile.OffCPU, 0
	}
	var kernel profile.Kernel // nil where nobody reads it
	if !f.userOnly {
		if s.kernel, err = symbol.ReadKernel(); err != nil {
			fmt.Fprintf(c.Stderr, "warning: functions of the kernel have no names: %v\n", err)
		} else {
			kernel = s.kernel
		}
	}
	s.collector = profile.NewCollector(kernel, s.users, o)
	to := c.Stdout
	if f.file != "" {
		if s.file, err = os.Create(f.file); err != nil {
			return nil, err
		}
		to = s.file
	}
	s.out = newSteadyWriter(to)
	return s, nil
}

// take is called for every sample.
func (s *sampling) take(raw *profiler.Sample) {
	s.samples++
	s.sample = profile.Sample{
		Time: s.epoch.Add(time.Duration(raw.Time)), CPU: raw.CPU, PID: raw.PID, TID: raw.TID, Comm: raw.Comm,
		Kernel: raw.Kernel, User: raw.User, Off: raw.Off,
	}
	var text string
	switch {
	case s.flags.extended:
		text = s.collector.Extended(&s.sample)
	case s.flags.format == "list":
		text = s.collector.List(&s.sample)
	default:
		s.collector.Add(&s.sample)
		return
	}
	if _, err := io.WriteString(s.out, text); err != nil {
		s.stop() // close says why
	}
}

// learn is called for what happens to processes.
func (s *sampling) learn(e *profiler.TaskEvent) {
	pid := int(e.PID)
	switch e.Kind {
	case profiler.TaskForked:
		s.users.Forked(pid, int(e.Parent))
	case profiler.TaskExeced:
		s.users.Execed(pid)
	case profiler.TaskMapped:
		s.users.Mapped(pid, symbol.Mapping{Start: e.Start, End: e.End, Offset: e.Offset, Inode: e.Inode, Path: e.Path})
	}
}

// finish writes what is written at the end, and says what was taken.
func (s *sampling) finish(c Command, stats profiler.Stats) error {
	p := s.collector.Profile()
	p.Took, p.Lost = stats.Took, stats.Lost
	var err error
	switch {
	case s.flags.extended || s.flags.format == "list": // written
	case s.flags.format == "folded":
		err = profile.Folded(s.out, p)
	case s.flags.format == "svg":
		err = profile.SVG(s.out, p)
	case s.flags.format == "pprof":
		err = profile.Pprof(s.out, p)
	case s.flags.format == "top":
		err = profile.Top(s.out, p, s.flags.rows)
	}
	if err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	s.tell(c.Stderr, p, stats)
	return nil
}

// tell says what the numbers rest on.
func (s *sampling) tell(w io.Writer, p *profile.Profile, stats profiler.Stats) {
	what := fmt.Sprintf("%s of %s at %d Hz", english.Count(s.samples, "sample"), p.Event, s.flags.freq)
	if s.flags.offCPU {
		what = english.Count(s.samples, "wait")
	}
	fmt.Fprintf(w, "%s in %.1f s, %d lost\n", what, p.Took.Seconds(), stats.Lost)
	warn := func(format string, args ...any) { fmt.Fprintf(w, "warning: "+format+"\n", args...) }
	if s.samples == 0 && !s.flags.offCPU && stats.Lost == 0 {
		warn("nobody who was asked for was met on a CPU: --freq takes more samples, --off-cpu shows where time is waited")
	}
	if stats.Lost > 0 {
		warn("%d samples found no room in the buffer: --buffer %d", stats.Lost, 2*s.flags.buffer)
	}
	if stats.Unkept > 0 {
		warn("%d waits were not taken: there were too many waiting threads", stats.Unkept)
	}
	if stats.Astray > 0 {
		warn("%d child processes were not followed: there were too many", stats.Astray)
	}
	if p.Coarse > 0 {
		warn("%d samples are there without their stacks: there were too many different ones", p.Coarse)
	}
	if now := profiler.MaxSampleRate(); !s.flags.offCPU && now < s.flags.freq {
		warn("sampling took too long: the kernel lowered its limit to %d a second (kernel.perf_event_max_sample_rate)", now)
	}
	if stats.Expected > 0 && stats.Ticks < stats.Expected*9/10 {
		warn("the clock ticked %d times, not %d: the kernel throttled it, or the CPUs were others' (steal time)", stats.Ticks, stats.Expected)
	}
	doubts := s.users.Doubts()
	if s.kernel != nil {
		doubts = append(doubts, s.kernel.Doubts()...)
	}
	const most = 3
	for i, d := range doubts {
		if i == most {
			warn("%d more", len(doubts)-most)
			break
		}
		warn("%s", d)
	}
}

func (s *sampling) close() error {
	err := s.out.Close()
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	if err != nil {
		err = fmt.Errorf("write the profile: %w", err)
	}
	return errors.Join(err, s.users.Close())
}
