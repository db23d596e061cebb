//go:build linux

// Command record makes, with the real lane, the data that docs/statistics.md
// rests on:
//
//	record noise -out DIR     samples of identical programs, in order
//	record layout             what edits of code that is never executed do
//	record effect             how often planted slowdowns are found
//	record aa                 what becomes of programs compared with themselves
//
// It needs what gate run needs, and measures as that does: one comparison after the
// other, alone on the host. The first writes runs that internal/statistics reads; the
// others print a table when they are done, for
//
//	record layout | statistics -put layout -out docs/statistics.md
//
// In the order of reading: lab.go is what they share, and a file each.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/org/ebpf-bench-gate/bpf"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

var commands = map[string]func(*lab) error{"noise": noise, "layout": layout, "effect": effect, "aa": identical}

func run(ctx context.Context, args []string) error {
	name := strings.Join(args[:min(1, len(args))], "")
	command, ok := commands[name]
	if !ok {
		return fmt.Errorf("unknown command %q: expected noise, layout, effect or aa", name)
	}
	l := &lab{ctx: ctx}
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.StringVar(&l.example, "example", "examples/fun-xdp", "the example's `DIR`")
	f.Uint64Var(&l.seed, "seed", 1, "of every random order")
	f.StringVar(&l.only, "only", "", "only the program of this `NAME`: straight or loop")
	switch name {
	case "noise":
		f.StringVar(&l.out, "out", ".", "write runs to `DIR`")
		f.IntVar(&l.rounds, "rounds", 2000, "rounds of each recording")
		f.BoolVar(&l.busy, "busy", false, "with a busy loop on every CPU")
	case "effect":
		f.IntVar(&l.rounds, "rounds", 640, "rounds in which the true effect is measured, in sixteen layouts")
		f.IntVar(&l.trials, "trials", 100, "comparisons of each program and host")
		f.IntVar(&l.plant, "plant", 0, "plant `N` instructions, on both hosts (default: the slowdowns of the table)")
		f.Float64Var(&l.limit, "limit", 0.01, "and judge them by this `RATIO` of net time")
	case "aa":
		f.IntVar(&l.trials, "trials", 250, "comparisons of each program and host")
	case "layout":
		f.IntVar(&l.trials, "trials", 20, "times that each edit is measured")
	}
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if f.NArg() > 0 || l.trials < 0 || l.rounds < 0 {
		return fmt.Errorf("%s takes flags alone, and no negative numbers", name)
	}
	release, err := bpf.LockHost(ctx, func(owner string) {
		fmt.Fprintf(os.Stderr, "waiting for %s, which measures on this host\n", owner)
	})
	if err != nil {
		return err
	}
	defer release()
	if err := l.open(); err != nil {
		return err
	}
	defer l.close()
	return command(l)
}
