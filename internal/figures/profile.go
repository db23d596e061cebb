//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// mix is a load of functions whose shares are 10 to 1, and of system calls.
const mix = `#include <fcntl.h>
#include <unistd.h>
volatile unsigned long sink;
#define F(n) __attribute__((noinline)) void take##n(void) { for (long i = 0; i < 50000 * n; i++) sink += i; }
F(10) F(9) F(8) F(6) F(5) F(4) F(3) F(2) F(1)
int main(void) {
  static char b[1 << 16];
  for (int zero = open("/dev/zero", O_RDONLY);;) {
    take10(); take9(); take8(); take6(); take5(); take4(); take3(); take2(); take1();
    for (int i = 0; i < 100; i++) sink += read(zero, b, sizeof b);
  }
}
`

// profiled runs gate profile and returns what it wrote, and said, and what it cost.
func (l *lab) profiled(args ...string) (out, said string, used time.Duration, err error) {
	gate, err := gateBinary()
	if err != nil {
		return "", "", 0, err
	}
	cmd := exec.CommandContext(l.ctx, gate, append([]string{"profile"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", "", 0, fmt.Errorf("gate profile: %w: %s", err, &stderr)
	}
	if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		used = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	}
	return stdout.String(), stderr.String(), used, nil
}

// profiler is what gate profile costs, loses, and gets right.
func profiler(l *lab) ([]row, error) {
	var rows []row
	for _, part := range []func(*lab) ([]row, error){profilerCost, profilerLost, profilerAgrees} {
		more, err := part(l)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// profilerCost profiles the host for a minute, while every CPU is busy.
func profilerCost(l *lab) ([]row, error) {
	const seconds, target = 60, 1.0
	c, err := newCrowd()
	if err != nil {
		return nil, err
	}
	defer c.close()
	c.work()
	seen := make(chan profilerReading)
	ctx, cancel := context.WithCancel(l.ctx)
	go func() { seen <- watchProfiler(ctx, seconds*time.Second) }()
	_, said, used, err := l.profiled("--sw-event", "--freq", "99", "--duration", fmt.Sprint(seconds, "s"), "--format", "top")
	cancel()
	r := <-seen
	if err != nil {
		return nil, err
	}
	share := 100 * used.Seconds() / seconds / float64(runtime.NumCPU())
	samples, lost, err := counted(said)
	if err != nil {
		return nil, err
	}
	return []row{
		{
			what: "CPU of gate profile at 99 Hz, every CPU busy", measured: fmt.Sprintf("%.2f%%", share),
			beside: fmt.Sprintf("%.0f ms in %d s on %d CPUs, its start included; %d samples, %d lost", used.Seconds()*1e3, seconds, runtime.NumCPU(), samples, lost),
			target: fmt.Sprintf("< %.0f%%", target), met: meets(share < target),
		},
		{what: "CPU of its eBPF program, as the kernel counts it", measured: fmt.Sprintf("%.3f%%", r.cpu)},
		{
			what: "its memory (RSS) at the end", measured: fmt.Sprintf("%.1f MB", r.late),
			beside: fmt.Sprintf("%.1f MB after a third of the time", r.early),
		},
	}, nil
}

// A profilerReading is memory, in MB, and time, in percent of all CPUs.
type profilerReading struct{ early, late, cpu float64 }

// watchProfiler reads what the profiler that runs now holds, and what its program costs as a
// share of all CPUs.
func watchProfiler(ctx context.Context, total time.Duration) (r profilerReading) {
	w, err := programs.NewWatch()
	if err != nil {
		return r
	}
	defer w.Close()
	begin := time.Now()
	var busy, over time.Duration
	for tick := time.NewTicker(total / 60); ; {
		select {
		case <-ctx.Done():
			r.cpu = 100 * busy.Seconds() / max(over.Seconds(), 1e-9) / float64(runtime.NumCPU())
			return r
		case <-tick.C:
		}
		costs, err := w.Read()
		if err != nil {
			return r
		}
		for _, c := range costs {
			if c.Name == "gate_profile" && len(c.Holders) > 0 {
				busy, over = busy+c.Time, over+c.Over
				r.late = rss(c.Holders[0].PID)
			}
		}
		if time.Since(begin) < total/3 {
			r.early = r.late
		}
	}
}

// rss is the memory of a process, in MB.
func rss(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	return 0
}

// summary is what gate profile says at its end.
var summary = regexp.MustCompile(`(\d+) samples of .* (\d+) lost`)

func counted(said string) (samples, lost uint64, err error) {
	m := summary.FindStringSubmatch(said)
	if m == nil {
		return 0, 0, fmt.Errorf("gate profile said %q", said)
	}
	samples, _ = strconv.ParseUint(m[1], 10, 64)
	lost, _ = strconv.ParseUint(m[2], 10, 64)
	return samples, lost, nil
}

// profilerLost profiles one busy program at 10 kHz.
func profilerLost(l *lab) ([]row, error) {
	const seconds = 10
	binary, err := l.compileMix()
	if err != nil {
		return nil, err
	}
	_, said, used, err := l.profiled("--sw-event", "--freq", "10000", "--duration", fmt.Sprint(seconds, "s"), "--format", "top", "--", binary)
	if err != nil {
		return nil, err
	}
	samples, lost, err := counted(said)
	if err != nil {
		return nil, err
	}
	return []row{{
		what: "samples lost of one busy program at 10 kHz", measured: fmt.Sprint(lost),
		beside: fmt.Sprintf("%d samples in %d s; gate and the program used %.1f s of CPU", samples, seconds, used.Seconds()),
		target: "0", met: meets(lost == 0),
	}}, nil
}

func (l *lab) compileMix() (string, error) {
	source, binary := filepath.Join(l.temp, "mix.c"), filepath.Join(l.temp, "mix")
	if err := os.WriteFile(source, []byte(mix), 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(l.ctx, "clang", "-g", "-O0", "-fno-omit-frame-pointer", "-o", binary, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile a load: %w: %s", err, out)
	}
	return binary, nil
}

// profilerAgrees has perf record and gate profile sample one process at the same time.
func profilerAgrees(l *lab) ([]row, error) {
	const seconds, most, target = 10, 10, 3.0
	perf, err := exec.LookPath("perf")
	if err != nil {
		return []row{{what: "shares of the ten hottest functions beside perf record", measured: "not measured", beside: "there is no perf here"}}, nil
	}
	binary, err := l.compileMix()
	if err != nil {
		return nil, err
	}
	load := exec.CommandContext(l.ctx, binary)
	if err := load.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = load.Process.Kill()
		_ = load.Wait()
	}()
	pid, data := strconv.Itoa(load.Process.Pid), filepath.Join(l.temp, "perf.data")
	record := exec.CommandContext(l.ctx, perf, "record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-p", pid, "-o", data, "--", "sleep", strconv.Itoa(seconds))
	if err := record.Start(); err != nil {
		return nil, err
	}
	ours, _, _, err := l.profiled("--sw-event", "--freq", "999", "--pid", pid, "--duration", fmt.Sprint(seconds, "s"), "--format", "top", "--rows", "0")
	if e := record.Wait(); e != nil || err != nil {
		return nil, fmt.Errorf("profile beside perf record: %w, %w", err, e)
	}
	theirs, err := exec.CommandContext(l.ctx, perf, "report", "-i", data, "--no-children", "-g", "none", "--stdio", "-F", "overhead,sym", "-t", ";").Output()
	if err != nil {
		return nil, fmt.Errorf("perf report: %w", err)
	}
	a := shares(ours, regexp.MustCompile(`(?m)^ *\S+ +([\d.]+)% +\S+ +[\d.]+% +(\S+)`))
	b := shares(string(theirs), regexp.MustCompile(`(?m)^ *([\d.]+)% *;\[.\] (\S+)`))
	hottest := func(of map[string]float64) []string {
		names := make([]string, 0, len(of))
		for n := range of {
			names = append(names, n)
		}
		slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(of[y], of[x]), strings.Compare(x, y)) })
		return names[:min(most, len(names))]
	}
	tens := hottest(b)
	if len(tens) < most {
		return nil, fmt.Errorf("perf report has %d functions:\n%s", len(tens), theirs)
	}
	furthest, missing := 0.0, 0
	mine := hottest(a)
	for _, name := range tens {
		furthest = max(furthest, math.Abs(a[name]-b[name]))
		if !slices.Contains(mine, name) {
			missing++
		}
	}
	return []row{{
		what: "shares of the ten hottest functions beside perf record: the largest difference", measured: fmt.Sprintf("%.2f points", furthest),
		beside: fmt.Sprintf("%d of perf's ten are not among gate's", missing), target: fmt.Sprintf("< %.0f points, 0", target), met: meets(furthest < target && missing == 0),
	}}, nil
}

// shares reads percents and names.
func shares(text string, line *regexp.Regexp) map[string]float64 {
	all := map[string]float64{}
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		percent, _ := strconv.ParseFloat(m[1], 64)
		all[m[2]] += percent
	}
	return all
}
