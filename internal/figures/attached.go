//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/runner"
)

// onExec is a program of the usual kind: it notes in a map when something happened.
const onExec = `#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 10240); __type(key, __u64); __type(value, __u64); } starts SEC(".maps");
SEC("tracepoint/syscalls/sys_enter_execve") int on_exec(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
	bpf_map_update_elem(&starts, &id, &now, BPF_ANY);
	return 0;
}
char LICENSE[] SEC("license") = "GPL";
`

// attached tells how steady programs are that real work runs.
func attached(l *lab) ([]row, error) {
	const comparisons = 8
	source := filepath.Join(l.temp, "on_exec.bpf.c")
	if err := os.WriteFile(source, []byte(onExec), 0o600); err != nil {
		return nil, err
	}
	o, err := l.object(source)
	if err != nil {
		return nil, err
	}
	outcomes := map[bool][]float64{}
	var spent [2]time.Duration
	var runs, ns float64
	for range comparisons {
		for i, alternate := range []bool{false, true} {
			b := bench.Benchmark{
				Name: "on_exec/shell", Program: "on_exec", MinRuns: 100, Alternate: alternate,
				Work: &bench.Work{Run: "for i in $(seq 100); do /bin/true; done"},
			}
			start := time.Now()
			rows, err := l.tenRounds(b, o)
			if err != nil {
				return nil, err
			}
			spent[i] += time.Since(start)
			c := rows[bench.Latency]
			if c == nil || c.Change == nil || c.Base == nil || rows[bench.Runs] == nil {
				return nil, errors.New("on_exec has no latency")
			}
			outcomes[alternate] = append(outcomes[alternate], 100**c.Change)
			ns, runs = *c.Base, *rows[bench.Runs].Base
		}
	}
	q, u := deviation(outcomes[false]), deviation(outcomes[true])
	return []row{{
		what:     fmt.Sprintf("standard error of ten rounds of %.0f runs of %.0f ns", runs, ns),
		measured: fmt.Sprintf("%.2f%% in %.1f s", q, spent[0].Seconds()/comparisons),
		beside:   fmt.Sprintf("with work of its own each: %.2f%% in %.1f s", u, spent[1].Seconds()/comparisons),
		ratio:    fmt.Sprintf("1/%.1f", u/q),
	}}, nil
}

// tenRounds compares an object with itself, as briefly as can be judged.
func (l *lab) tenRounds(b bench.Benchmark, o *bpf.Object) (map[string]*gate.Comparison, error) {
	p := gate.DefaultPolicy()
	p.Budget = time.Nanosecond
	side := func(name string) runner.Side {
		return runner.Side{Name: name, Objects: []runner.Object{{Name: name, Object: o}}}
	}
	res, err := runner.Run(l.ctx, runner.Plan{
		Sides: []runner.Side{side("base"), side("head")}, Benchmarks: []bench.Benchmark{b}, Required: true,
		Policy: p, Dir: l.temp, Seed: l.newSeed(), Testbed: l.testbed, Tool: "figures", Time: time.Now(),
	})
	if err == nil {
		err = runner.FailureSummary(res.Failures)
	}
	if err != nil {
		return nil, err
	}
	rows := map[string]*gate.Comparison{}
	for i := range res.Report.Comparisons {
		if c := &res.Report.Comparisons[i]; c.Benchmark == b.Name {
			rows[c.Measure] = c
		}
	}
	return rows, nil
}
