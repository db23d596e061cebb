//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/verifier"
	"github.com/org/ebpf-bench-gate/stats"
)

// verifyArg makes the command what gate verifier --format csv is, without waiting for
// this host's turn: `figures verify JOBS OBJECT…`.
const verifyArg = "verify"

func verify(ctx context.Context, args []string, out io.Writer) error {
	jobs, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	sources, _, err := verifier.Find(args[1:])
	if err != nil {
		return err
	}
	rows, skips, err := verifier.Measure(ctx, sources, verifier.Options{Jobs: jobs})
	if err != nil {
		return err
	}
	for _, s := range skips {
		return s.Err
	}
	q := &verifier.Query{}
	return q.WriteCSV(out, q.Select(verifier.Alone(rows)))
}

// A tool is a way to get the verifier's statistics of objects as CSV.
type tool struct {
	name    string
	args    []string // before the objects
	seconds []float64
	memory  int64 // the most that it held, in KiB
	csv     []byte
}

func (t *tool) run(ctx context.Context, objects []string) error {
	cmd := exec.CommandContext(ctx, t.args[0], append(t.args[1:len(t.args):len(t.args)], objects...)...)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %.200s", t.name, err, messages.String())
	}
	t.seconds = append(t.seconds, time.Since(start).Seconds())
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		t.memory = max(t.memory, u.Maxrss)
	}
	t.csv = out.Bytes()
	return nil
}

func (t *tool) time() float64 { return stats.Median(t.seconds) }

// verifierSpeed compares gate verifier with veristat on all that the packages install.
func verifierSpeed(l *lab) ([]row, error) {
	objects, err := allObjects(filepath.Join(l.temp, "objects"))
	if err != nil {
		return nil, err
	}
	ours := &tool{name: "gate verifier", args: []string{"/proc/self/exe", verifyArg, strconv.Itoa(runtime.NumCPU())}}
	single := &tool{name: "gate verifier -j 1", args: []string{"/proc/self/exe", verifyArg, "1"}}
	tools := []*tool{ours, single}
	path, missing := exec.LookPath("veristat")
	theirs := &tool{name: "veristat", args: []string{path, "-q", "-o", "csv"}}
	if missing == nil {
		tools = append(tools, theirs)
	}
	const turns = 5
	for range turns {
		for _, t := range tools {
			if err := t.run(l.ctx, objects); err != nil {
				return nil, err
			}
		}
	}
	rows, err := verifier.Read(ours.csv)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d programs of %d objects", len(rows), len(objects))
	if missing != nil {
		return []row{
			{what: what, measured: fmt.Sprintf("%.2f s", ours.time())},
			{what: "memory", measured: fmt.Sprintf("%d MiB", ours.memory>>10)},
		}, errors.New("beside veristat, which is not installed here")
	}
	beside := func(what string, t *tool, target string) row {
		r := row{
			what: what, measured: fmt.Sprintf("%.2f s", t.time()), beside: fmt.Sprintf("veristat: %.2f s", theirs.time()),
			ratio: fmt.Sprintf("%.2f×", t.time()/theirs.time()), target: target,
		}
		if target != "" {
			r.met = meets(t.time() <= theirs.time())
		}
		return r
	}
	base, err := verifier.Read(theirs.csv)
	if err != nil {
		return nil, err
	}
	equal, both, err := agree(base, rows)
	return []row{
		beside(what, ours, "≤ 1×"),
		beside("the same, one file at a time", single, ""),
		{
			what: "memory at most", measured: fmt.Sprintf("%d MiB", ours.memory>>10), beside: fmt.Sprintf("veristat: %d MiB", theirs.memory>>10),
			ratio: fmt.Sprintf("%.1f×", float64(ours.memory)/float64(theirs.memory)),
		},
		{what: "programs with the same numbers, of those that both load", measured: fmt.Sprintf("%d of %d", equal, both), target: "all", met: meets(equal == both && both > 0)},
	}, err
}

// agree counts the programs whose numbers, but for the time, are the same in both,
// of those that both tools load.
func agree(base, head []verifier.Row) (equal, both int, err error) {
	const numbers = "file,prog,total_insns,total_states,peak_states,max_states_per_insn,max_mark_read_len,prog_size,prog_size_jited,stack_depth"
	columns, err := verifier.ParseColumns(numbers)
	if err != nil {
		return 0, 0, err
	}
	q := &verifier.Query{Columns: columns}
	line := func(r *verifier.Row) (string, error) {
		var b strings.Builder
		err := q.WriteCSV(&b, verifier.Alone([]verifier.Row{*r}))
		return b.String(), err
	}
	for _, p := range verifier.Join(base, head) {
		if p.Base == nil || p.Head == nil || !p.Base.Accepted || !p.Head.Accepted {
			continue
		}
		both++
		a, err := line(p.Base)
		if err != nil {
			return 0, 0, err
		}
		b, err := line(p.Head)
		if err != nil {
			return 0, 0, err
		}
		if a == b {
			equal++
		}
	}
	return equal, both, nil
}

// allObjects names the objects of xdp-tools, and writes those that the binaries of
// both packages carry into a directory: veristat reads only files.
func allObjects(dir string) ([]string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	files, err := xdpToolsFiles()
	if err != nil {
		return nil, err
	}
	for _, list := range []string{"libbpf-tools", "xdp-tools"} {
		binaries, err := installed(list)
		if err != nil {
			return nil, err
		}
		for _, f := range binaries {
			in, err := bpf.EmbeddedBytes(f)
			if err != nil {
				return nil, err
			}
			for i, b := range in {
				name := filepath.Join(dir, fmt.Sprintf("%s.%d.o", filepath.Base(f), i))
				if err := os.WriteFile(name, b, 0o600); err != nil {
					return nil, err
				}
				files = append(files, name)
			}
		}
	}
	return files, nil
}
