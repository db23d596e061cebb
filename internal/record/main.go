//go:build linux

// Command record makes, with the real lane, the data that docs/statistics.md
// rests on:
//
//	record noise -out DIR     samples of identical programs, in order
//	record layout             what edits of code that is never executed do
//
// It needs what gate run needs. Neither judges: the first writes runs that
// internal/statistics reads, the second prints a table.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("expected noise or layout")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out := f.String("out", ".", "write runs to `DIR`")
	rounds := f.Int("rounds", 2000, "rounds of each recording")
	trials := f.Int("trials", 1, "times that each edit is measured")
	seed := f.Uint64("seed", 1, "of every random order")
	busy := f.Bool("busy", false, "with a busy loop on every CPU")
	example := f.String("example", "examples/fun-xdp", "the example's `DIR`")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	s, err := bpf.NewSession(*seed)
	if err != nil {
		return err
	}
	defer s.Close()
	if *busy {
		stop, err := load()
		if err != nil {
			return err
		}
		defer stop()
	}
	programs, err := subjects(ctx, *example)
	if err != nil {
		return err
	}
	switch args[0] {
	case "noise":
		return noise(ctx, s, programs, *out, *rounds, *seed, *busy)
	case "layout":
		s.Unpadded = false
		return layout(ctx, programs, *seed, *trials)
	}
	return fmt.Errorf("unknown command %q: expected noise or layout", args[0])
}

// A subject is a program with an input: straight code, or a tight loop.
type subject struct {
	name   string
	object *bpf.Object
	bench  bench.Benchmark
}

func subjects(ctx context.Context, example string) ([]subject, error) {
	suite, err := config.Load(filepath.Join(example, config.FileName))
	if err != nil {
		return nil, err
	}
	var out []subject
	for _, s := range []struct{ name, file, benchmark string }{
		{"straight", "v4_lookup.bpf.c", "fun_xdp/addresses"},
		{"loop", "v3_fibonacci.bpf.c", "fun_xdp/worst"},
	} {
		t, err := build.Open(ctx, ".", filepath.Join(mustAbs(example), s.file))
		if err != nil {
			return nil, err
		}
		defer t.Close()
		path, err := t.Object(ctx, t.File, nil)
		if err != nil {
			return nil, err
		}
		o, err := bpf.OpenObject(path)
		if err != nil {
			return nil, err
		}
		for _, b := range suite.Benchmarks {
			if b.Name == s.benchmark {
				out = append(out, subject{s.name, o, b})
			}
		}
	}
	return out, nil
}

func mustAbs(p string) string {
	abs, err := filepath.Abs(p)
	if err != nil {
		panic(err) // no working directory
	}
	return abs
}

// load keeps every CPU busy until stop is called.
func load() (stop func(), err error) {
	var cmds []*exec.Cmd
	stop = func() {
		for _, c := range cmds {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range runtime.NumCPU() {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			stop()
			return nil, err
		}
		cmds = append(cmds, c)
	}
	return stop, nil
}

// noise records rounds of each subject against itself.
func noise(ctx context.Context, s *bpf.Session, subjects []subject, dir string, rounds int, seed uint64, busy bool) error {
	testbed, err := bpf.Testbed()
	if err != nil {
		return err
	}
	how := "quiet"
	if busy {
		how = "busy"
	}
	for _, sub := range subjects {
		m, err := s.Micro(sub.bench, bpf.Side{Name: "base", Object: sub.object}, bpf.Side{Name: "head", Object: sub.object})
		if err != nil {
			return err
		}
		runs := [2]*bench.Run{}
		for i, side := range []string{"base", "head"} {
			runs[i] = &bench.Run{
				Schema: bench.SchemaVersion, ID: fmt.Sprintf("noise-%s-%s-%s", how, sub.name, side), Time: time.Now().UTC(),
				Session: fmt.Sprintf("noise-%s-%s", how, sub.name), Testbed: testbed, Seed: seed,
				Revision: bench.Revision{Name: side},
				Results:  []bench.Result{{Benchmark: sub.bench.Name, Program: sub.bench.Program, Measure: bench.Latency, Kind: bench.Micro, Path: m.Path}},
			}
		}
		for r := range rounds {
			if err := ctx.Err(); err != nil {
				return err
			}
			x, err := m.Round(r)
			if err != nil {
				return err
			}
			for i := range runs {
				runs[i].Results[0].Samples = append(runs[i].Results[0].Samples, x[i])
			}
		}
		m.Close()
		for _, r := range runs {
			if err := write(filepath.Join(dir, r.ID+".json.gz"), r); err != nil {
				return err
			}
		}
	}
	return nil
}
