package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// topFlags are the flags of gate top.
type topFlags struct {
	sort, format string
	names, types []string
	pids         []int
	interval     time.Duration
	once         bool
}

func (c Command) top() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what all loaded eBPF programs cost right now",
		Long: `Top shows how often each program in the kernel runs, how long one run takes, and
its share of a CPU, whoever loaded it and whatever its type. On a terminal it
goes on in place until Ctrl-C; elsewhere it writes a table every interval.

The kernel counts only while top runs (BPF_ENABLE_STATS), which slows each run by
some 50 ns; kill -9 ends that too. It counts no tail-called programs, programs
that replace functions (freplace), and timer callbacks: their cost shows on the
program that was entered first. A gate that measures waits until top ends.`,
		Example: `  gate top
  gate top --once --format json
  gate top --type xdp --name 'xdp_*' -s runs
  gate top --pid 4711`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return unmeasured(c.watch(cmd.Context(), f))
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.sort, "sort", "s", "cpu", "sort by cpu, runs, ns (a run), name, type or id")
	fl.StringVar(&f.format, "format", "text", "text, or json: an object a line")
	fl.StringSliceVar(&f.names, "name", nil, "show only programs whose name matches `GLOB`")
	fl.StringSliceVar(&f.types, "type", nil, "show only programs of `TYPE`, such as xdp")
	fl.IntSliceVar(&f.pids, "pid", nil, "show only programs that process `PID` holds")
	fl.DurationVar(&f.interval, "interval", time.Second, "time between two readings")
	fl.BoolVar(&f.once, "once", false, "show one interval, and end")
	return cmd
}

func (f topFlags) check() error {
	if topOrders[f.sort] == nil {
		return usage("--sort %s: expected one of cpu, runs, ns, name, type, id", f.sort)
	}
	if f.format != "text" && f.format != "json" {
		return usage("--format %s: expected one of text, json", f.format)
	}
	if f.interval < 100*time.Millisecond || f.interval > time.Hour {
		return usage("--interval %v: expected 100ms to 1h", f.interval)
	}
	for _, g := range f.names {
		if _, err := path.Match(g, ""); err != nil {
			return usage("--name %s: not a pattern: *, ? and [a-z] stand for characters", g)
		}
	}
	for _, pid := range f.pids {
		if err := unix.Kill(pid, 0); pid <= 0 || errors.Is(err, unix.ESRCH) {
			return usage("--pid %d: there is no such process", pid)
		}
	}
	return nil
}

// shows tells whether the filters let a program through.
func (f topFlags) shows(p programs.Info) bool {
	named := len(f.names) == 0 || slices.ContainsFunc(f.names, func(g string) bool {
		ok, _ := path.Match(g, p.Name)
		return ok
	})
	return named && (len(f.types) == 0 || slices.Contains(f.types, p.Type))
}

// topOrders are the orders of the table, by name; ties are broken by id.
var topOrders = map[string]func(a, b topProgram) int{
	"cpu":  func(a, b topProgram) int { return cmp.Compare(b.CPU, a.CPU) },
	"runs": func(a, b topProgram) int { return cmp.Compare(b.Runs, a.Runs) },
	"ns":   func(a, b topProgram) int { return cmp.Compare(b.perRun(), a.perRun()) },
	"name": func(a, b topProgram) int { return strings.Compare(a.Name, b.Name) },
	"type": func(a, b topProgram) int { return strings.Compare(a.Type, b.Type) },
	"id":   func(topProgram, topProgram) int { return 0 },
}

// watch is gate top.
func (c Command) watch(ctx context.Context, f topFlags) error {
	release, _, err := c.lockHost(ctx)
	if err != nil {
		return err
	}
	defer release()
	w, err := programs.NewWatch(f.pids...)
	if err != nil {
		return err
	}
	defer w.Close()
	inPlace := f.format == "text" && !f.once && isTerminal(c.Stdout) && os.Getenv("TERM") != "dumb"
	if _, err := w.Read(); err != nil {
		return err
	}
	if inPlace {
		fmt.Fprint(c.Stdout, "\x1b[H\x1b[2J")
	}
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for used, at := cpuTime(), time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil // how one ends it
		case <-tick.C:
		}
		costs, err := w.Read()
		if err != nil {
			return err
		}
		now := time.Now()
		t := newTopTable(f, costs, now, now.Sub(at))
		t.Partly = w.Partly()
		nowUsed := cpuTime()
		t.Own = 100 * float64(nowUsed-used) / float64(now.Sub(at))
		used, at = nowUsed, now
		switch {
		case f.format == "json":
			err = t.json(c.Stdout)
		case inPlace:
			err = c.frame(t)
		default:
			err = t.text(c.Stdout, 0, 0)
		}
		if err != nil || f.once {
			return err
		}
		if !inPlace && f.format == "text" {
			fmt.Fprintln(c.Stdout)
		}
	}
}

// frame draws the table over the last one. Neither the cursor is hidden nor the
// screen exchanged: a terminal must be usable after kill -9.
func (c Command) frame(t *topTable) error {
	wide, high := 80, 24
	if f, ok := c.Stdout.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			wide, high = w, h
		}
	}
	var b strings.Builder
	if err := t.text(&b, wide, high-1); err != nil {
		return err
	}
	_, err := fmt.Fprint(c.Stdout, "\x1b[H"+strings.ReplaceAll(b.String(), "\n", "\x1b[K\n")+"\x1b[J")
	return err
}

// cpuTime is the time that this process has spent on CPUs.
func cpuTime() time.Duration {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
