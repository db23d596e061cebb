//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/stats"
)

// kernel runs the real command, which scripts/bench.sh builds beside this one.
func kernel(l *lab) ([]row, error) {
	const runs, target = 5, 4.0
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return nil, errors.New("qemu-system-x86_64 is not installed")
	}
	cache, err := os.MkdirTemp("", "gate-bench-kernel-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(cache)
	snapshots, err := ownSnapshots(cache)
	if err != nil {
		return nil, err
	}
	var rows []row
	var alone float64
	for _, kernels := range []string{"6.12", "6.1,6.12"} {
		if _, err := l.kernelRun(kernels, cache); err != nil { // which may fetch the kernel
			return nil, err
		}
		if err := os.RemoveAll(snapshots); err != nil {
			return nil, err
		}
		cold, err := l.kernelRun(kernels, cache)
		if err != nil {
			return nil, err
		}
		var took, began []float64
		equal := 0
		for range runs {
			r, err := l.kernelRun(kernels, cache)
			if err != nil {
				return nil, err
			}
			took, began = append(took, r.took), append(began, r.began)
			if maps.Equal(cold.numbers, r.numbers) {
				equal++
			}
		}
		seconds := stats.Median(took)
		r := row{
			what:     fmt.Sprintf("gate run --kernel %s, from the command to its end", kernels),
			measured: fmt.Sprintf("%.2f s", seconds),
			beside:   fmt.Sprintf("the guest begins to measure after %.2f s", stats.Median(began)),
			target:   fmt.Sprintf("< %.0f s", target), met: meets(seconds < target),
		}
		if kernels == "6.12" {
			alone = seconds
		} else {
			r.target, r.met, r.ratio = "", "", fmt.Sprintf("%.1f× 6.12 alone", seconds/alone)
		}
		rows = append(rows, r, row{
			what:     "the first such run, which boots and takes the snapshot",
			measured: fmt.Sprintf("%.2f s", cold.took),
			beside:   fmt.Sprintf("the guest begins to measure after %.2f s", cold.began),
		}, row{
			what: fmt.Sprintf("exact numbers equal to the first run's to the digit, of %d", len(cold.numbers)), measured: fmt.Sprintf("%d of %d runs", equal, runs),
			target: "all", met: meets(equal == runs),
		})
	}
	return rows, nil
}

// ownSnapshots makes of a directory a cache with the user's kernels and without the
// user's snapshots, and returns where there will be some.
func ownSnapshots(cache string) (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	kernels := filepath.Join(user, "ebpf-bench-gate", "kernels")
	own := filepath.Join(cache, "ebpf-bench-gate")
	for _, dir := range []string{kernels, own} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	return filepath.Join(own, "snapshots"), os.Symlink(kernels, filepath.Join(own, "kernels"))
}

// A kernelRun is one command: its time and that until the last guest began to
// measure, in seconds, and the exact numbers of its reports.
type kernelRun struct {
	took, began float64
	numbers     map[string][2]float64
}

// begun is the line that tells that a guest begins to measure.
var begun = regexp.MustCompile(`(?m)^ *([0-9.]+)s  kernel \S+: set up$`)

func (l *lab) kernelRun(kernels, cache string) (r kernelRun, err error) {
	gate, err := gateBinary()
	if err != nil {
		return r, err
	}
	example := filepath.Join(l.top, "examples/fun-xdp")
	cmd := exec.CommandContext(l.ctx, gate, "run", "-v", "--kernel", kernels, "--no-store", "--format", "json",
		"--config", filepath.Join(example, config.FileName), "--base", filepath.Join(example, "v2_fizzbuzz.bpf.c"), filepath.Join(example, "v3_fibonacci.bpf.c"))
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	start := time.Now()
	err = cmd.Run()
	r.took = time.Since(start).Seconds()
	if code := cmd.ProcessState.ExitCode(); code != 1 { // v3 is a regression
		return r, fmt.Errorf("gate run --kernel %s: exit code %d, %w: %.300s", kernels, code, err, told.String())
	}
	for _, m := range begun.FindAllStringSubmatch(told.String(), -1) {
		at, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return r, err
		}
		r.began = max(r.began, at)
	}
	r.numbers, err = exactNumbers(out.Bytes())
	return r, err
}

// exactNumbers are those of a report in JSON, or of one for each testbed.
func exactNumbers(b []byte) (map[string][2]float64, error) {
	type report struct {
		Comparisons []struct {
			Benchmark, Measure string
			Base, Head         float64
			Exact              bool
		}
	}
	var all struct {
		report
		Reports []report
	}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	numbers := map[string][2]float64{}
	for i, r := range append(all.Reports, all.report) {
		for _, c := range r.Comparisons {
			if c.Exact {
				numbers[fmt.Sprintf("%d %s %s", i, c.Benchmark, c.Measure)] = [2]float64{c.Base, c.Head}
			}
		}
	}
	if len(numbers) == 0 {
		return nil, errors.New("the report has no exact number")
	}
	return numbers, nil
}
