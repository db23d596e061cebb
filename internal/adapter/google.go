package adapter

import (
	"cmp"
	"math"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

func isGoogle(s shape) bool { return s.json && s.keys["context"] && s.inner["library_build_type"] }

// googleOwn are keys of a benchmark that are no counters.
var googleOwn = map[string]bool{
	"family_index": true, "per_family_instance_index": true, "repetitions": true, "repetition_index": true,
	"threads": true, "iterations": true, "real_time": true, "cpu_time": true, "complexity_n": true,
}

// nanoseconds of a unit of time; 0: it is none.
func nanoseconds(unit string) float64 {
	return map[string]float64{"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "min": 60e9, "hr": 3600e9, "ps": 1e-3}[unit]
}

// readGoogle reads repetitions as samples: the real time is the latency, counters are
// figures. Aggregates are what the gate makes itself; they stand in only where the tool
// kept the repetitions to itself, by the median.
func readGoogle(s *source) {
	s.walk(func(w *walker) {
		w.fields("the file", map[string]func(){
			"context": func() {
				w.fields("context", map[string]func(){
					"num_cpus": func() { s.set.Testbed.CPUs = cpus(w.perhaps()) },
					"date":     func() { s.set.Time, _ = time.Parse(time.RFC3339, w.text()) },
				})
			},
			"benchmarks": func() { w.list("benchmarks", w.google) },
		})
	})
}

func cpus(n float64) int {
	if n >= 1 && n <= 1<<16 {
		return int(n)
	}
	return 0
}

func (w *walker) google() {
	var name, run, kind, aggregate, unit, failed string
	type counter struct {
		name  string
		value float64
	}
	var counters []counter
	real, cpu := math.NaN(), math.NaN()
	w.object("a benchmark", func(key string) {
		switch key {
		case "name":
			name = w.text()
		case "run_name":
			run = w.text()
		case "run_type":
			kind = w.text()
		case "aggregate_name":
			aggregate = w.text()
		case "time_unit":
			unit = w.text()
		case "real_time":
			real = w.perhaps()
		case "cpu_time":
			cpu = w.perhaps()
		case "error_message":
			failed = w.text()
		default:
			v := w.perhaps()
			if !googleOwn[key] && !math.IsNaN(v) && len(counters) < bench.MaxMembers {
				counters = append(counters, counter{key, v})
			}
		}
	})
	name = cmp.Or(run, name)
	if failed != "" {
		w.source.skip(name, failed)
		return
	}
	if kind == "aggregate" && (aggregate != "median" || w.set.has(name, latency)) {
		return
	}
	scale := nanoseconds(cmp.Or(unit, "ns"))
	switch {
	case scale == 0:
		w.fail("%.80q: unknown time_unit %.20q", name, unit)
	case math.IsNaN(real):
		w.fail("%.80q has no real_time", name)
	}
	w.add(name, latency, real*scale)
	if !math.IsNaN(cpu) {
		w.add(name, figure("cpu_time", "ns", bench.Lower), cpu*scale)
	}
	for _, c := range counters {
		unit := map[string]string{"bytes_per_second": "B/s", "items_per_second": "items/s"}[c.name]
		w.add(name, figure(c.name, unit, guess(c.name)), c.value)
	}
}
