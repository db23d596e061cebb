//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/render"
	"github.com/org/ebpf-bench-gate/stats"
)

// pages writes the page of a thousand comparisons, and opens it in a browser.
func pages(l *lab) ([]row, error) {
	const rounds, stored, times = 60, 40, 5
	report := manyComparisons(rand.New(rand.NewPCG(l.newSeed(), 0)), rounds, stored)
	if n := len(report.Report.Comparisons); n != 1000 {
		return nil, fmt.Errorf("%d comparisons", n)
	}
	var page bytes.Buffer
	var took []float64
	for range times {
		page.Reset()
		start := time.Now()
		if err := render.HTML(&page, []render.PageReport{report}, 0, render.PageOptions{}); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start).Seconds())
	}
	size := float64(page.Len()) / (1 << 20)
	rows := []row{
		{what: "time to write it, change points included", measured: fmt.Sprintf("%.2f s", stats.Median(took)), target: "≤ 2 s", met: meets(stats.Median(took) <= 2)},
		{what: "size", measured: fmt.Sprintf("%.1f MB", size), target: "≤ 5 MB", met: meets(size <= 5)},
	}
	file := filepath.Join(l.temp, "page.html")
	if err := os.WriteFile(file, page.Bytes(), 0o644); err != nil {
		return rows, err
	}
	var paint, whole []float64
	for range times {
		p, w, err := openPage(l.ctx, filepath.Join(l.temp, "browser"), "file://"+file)
		if err != nil {
			return rows, err
		}
		paint, whole = append(paint, p), append(whole, w)
	}
	return append(rows, row{
		what: "first paint", measured: fmt.Sprintf("%.2f s", stats.Median(paint)), beside: fmt.Sprintf("all of it ready: %.2f s", stats.Median(whole)),
		target: "≤ 1 s", met: meets(stats.Median(paint) <= 1),
	}), nil
}

// openPage opens a page in a browser of its own: seconds from asking for it to the
// first paint, and to the end of its script.
func openPage(ctx context.Context, profile, url string) (paint, ready float64, err error) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		return 0, 0, errors.New("no chromium is installed")
	}
	defer os.RemoveAll(profile)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		return 0, 0, err
	}
	at, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](`new Promise(done => {
		const look = () => {
			const [paint] = performance.getEntriesByName("first-paint"), [page] = performance.getEntriesByType("navigation");
			paint && page.loadEventEnd ? done([paint.startTime, page.domContentLoadedEventEnd]) : setTimeout(look, 20);
		};
		look();
	})`, chromedp.EvalAwaitPromise))
	if err != nil {
		return 0, 0, err
	}
	return at[0] / 1000, at[1] / 1000, nil
}

// manyComparisons are 500 benchmarks with a noisy and an exact measure each, some of
// them slower or faster, and stored runs with a change in the middle.
func manyComparisons(rnd *rand.Rand, rounds, stored int) render.PageReport {
	const benchmarks = 500
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	run := func(id, session string, at, rounds int, shift func(i int) float64) *bench.Run {
		r := &bench.Run{
			Schema: bench.SchemaVersion, ID: id, Session: session, Time: made.Add(time.Duration(at) * time.Hour),
			Revision: bench.Revision{Name: "main", Commit: fmt.Sprintf("%040x", at), Branch: "main"},
			Testbed:  bench.Testbed{Kernel: "6.18.0", Arch: "amd64", CPU: "EPYC", CPUs: 2, JIT: true},
			Programs: []bench.ProgramResult{{Program: "lb", Outcome: bench.Accepted, Digest: id}},
		}
		for i := range benchmarks {
			name := fmt.Sprintf("lb/case-%03d", i)
			latency := bench.Result{Benchmark: name, Program: "lb", Measure: bench.Latency, Kind: bench.Micro, Path: "driver", Looks: []int{rounds}, Final: true}
			for k := range rounds {
				latency.Samples = append(latency.Samples, bench.Sample{Round: k, Value: float64(50+i%97) * (1 + shift(i)) * (1 + 0.01*rnd.NormFloat64()), Floor: 20, Offset: -1})
			}
			insns := bench.Result{Benchmark: name, Program: "lb", Measure: bench.Insns, Kind: bench.Micro, Samples: []bench.Sample{{Value: float64(100 + i + int(100*shift(i)))}}}
			insns.Lines = []bench.LineCount{{File: "lb.bpf.c", Line: 12, Text: "for (i = 0; i < n; i++)", Function: "lb", Executions: 9, Insns: 90, Decides: 40, BaseExecutions: 1}}
			r.Results = append(r.Results, latency, insns)
		}
		return r
	}
	changed := func(i int) float64 { return map[int]float64{0: 0.2, 1: -0.1, 2: 0.04}[i%10] }
	base, head := run("base", "s", stored, rounds, func(int) float64 { return 0 }), run("head", "s", stored, rounds, changed)
	out := render.PageReport{Report: gate.Compare(base, head, gate.DefaultPolicy()), Base: base, Head: head}
	for k := range stored {
		level := 0.0
		if k < stored/2 {
			level = -0.1
		}
		out.Past = append(out.Past, run(fmt.Sprintf("past-%d", k), "", k, 1, func(int) float64 { return level }))
	}
	return out
}
