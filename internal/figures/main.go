//go:build linux

// Command figures measures the measuring: how fast the lanes are beside the
// usual ways, how steady, how often equal programs are called different. It is
// what `make bench` runs.
//
// Every number is measured in the run that prints it, beside what it is compared
// with, and the two take turns where the host's mood matters. Nothing here is a
// test: a figure that misses its target on a slow or busy host is printed as
// missed, and the command still exits 0.
//
// In the order of reading: figures.go is the table of figures, lab.go what they
// share, table.go how they are printed; the rest is one file a figure or two.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/org/ebpf-bench-gate/bpf"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == spinArg {
		spin()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work := run
	args := os.Args[1:]
	if len(args) > 2 && args[0] == verifyArg {
		work, args = verify, args[1:]
	}
	if err := work(ctx, args, os.Stdout); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("figures", flag.ExitOnError)
	only := flags.String("only", "", "measure the figures whose name this regular expression matches")
	markdown := flags.String("markdown", "", "also write the figures to this file")
	examples := flags.String("C", ".", "top of the checkout, where the programs are")
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()), "of every random order")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	lab, err := newLab(ctx, *examples, *seed)
	if err != nil {
		return err
	}
	defer lab.close()

	about := lab.about()
	fmt.Fprintln(out, about)
	var done []outcome
	for _, f := range figures {
		if !match.MatchString(f.name) {
			continue
		}
		o, err := lab.measure(f)
		if err != nil {
			return err
		}
		o.text(out)
		done = append(done, o)
	}
	if *markdown == "" {
		return nil
	}
	return writeMarkdown(*markdown, about, done)
}

// measure takes one figure, alone on the host. A figure that cannot be measured
// says why and hides no other; only an interrupt ends all.
func (l *lab) measure(f figure) (outcome, error) {
	release, err := bpf.LockHost(l.ctx, func(owner string) {
		fmt.Fprintf(os.Stderr, "waiting for %s, which measures on this host\n", owner)
	})
	if err != nil {
		return outcome{}, err
	}
	defer release()
	if f.itself {
		release()
	}
	start := time.Now()
	rows, err := f.measure(l)
	if l.ctx.Err() != nil {
		return outcome{}, context.Cause(l.ctx)
	}
	return outcome{figure: f, rows: rows, err: err, took: time.Since(start)}, nil
}
