package adapter

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
)

func isHyperfine(s shape) bool { return s.json && s.keys["results"] && s.inner["command"] }

// readHyperfine reads the times of a command as samples of its latency.
func readHyperfine(s *source) {
	s.walk(func(w *walker) {
		w.fields("the file", map[string]func(){"results": func() { w.list("results", w.hyperfine) }})
	})
}

func (w *walker) hyperfine() {
	var command string
	var times, memory []float64
	median, user, system := math.NaN(), math.NaN(), math.NaN()
	failed := 0
	params := map[string]string{}
	w.fields("a result", map[string]func(){
		"command":           func() { command = w.text() },
		"times":             func() { times = w.floats("times") },
		"memory_usage_byte": func() { memory = w.floats("memory_usage_byte") },
		"median":            func() { median = w.perhaps() },
		"user":              func() { user = w.perhaps() },
		"system":            func() { system = w.perhaps() },
		"exit_codes": func() {
			w.list("exit_codes", func() {
				if w.perhaps() != 0 { // null: a signal
					failed++
				}
			})
		},
		"parameters": func() { w.object("parameters", func(k string) { w.param(params, k) }) },
	})
	if len(times) == 0 {
		if math.IsNaN(median) {
			w.fail("%.80q has neither times nor a median", command)
		}
		times = []float64{median}
	}
	r := bench.Result{Benchmark: command}
	for _, k := range slices.Sorted(maps.Keys(params)) {
		r.Benchmark += " " + k + "=" + params[k]
	}
	r.Program = clean(r.Benchmark) // a command's slashes are no cases
	if failed > 0 {
		r.Warnings = []string{fmt.Sprintf("%d of the command's runs failed", failed)}
	}
	for _, v := range times {
		w.addResult(r, latency, v*1e9)
	}
	r.Warnings = nil
	for _, v := range memory {
		w.addResult(r, figure("memory", "bytes", bench.Lower), v)
	}
	for _, t := range []struct {
		name string
		v    float64
	}{{"user", user}, {"system", system}} {
		if !math.IsNaN(t.v) {
			w.addResult(r, figure(t.name, "ns", bench.Lower), t.v*1e9)
		}
	}
}
