package adapter

import (
	"math"
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
)

func isBMF(s shape) bool {
	return s.json && !s.list && (s.deep["value"] || string(s.text) == "{}")
}

// bencherCounts are measures of Bencher that its tools count alike each time.
var bencherCounts = []string{
	"instructions", "l1-accesses", "l2-accesses", "ram-accesses", "l1-hits", "l2-hits", "ll-hits", "ram-hits",
	"total-accesses", "total-read-write", "estimated-cycles",
	"total-bytes", "total-blocks", "at-t-gmax-bytes", "at-t-gmax-blocks", "at-t-end-bytes", "at-t-end-blocks", "reads-bytes", "writes-bytes",
	"file-size",
}

// readBMF reads {"benchmark": {"measure": {"value": 1}}}. The format has no samples,
// units or directions: a value is one sample, and directions are guessed from names.
// Counts of Bencher's tools are exact where they come without bounds.
func readBMF(s *source) {
	s.walk(func(w *walker) {
		w.object("the file", func(benchmark string) {
			w.object("benchmark", func(name string) {
				value, bounds := math.NaN(), false
				w.object("measure", func(key string) {
					switch key {
					case "value":
						value = w.float("value")
					case "lower_value", "upper_value":
						bounds = !math.IsNaN(w.perhaps()) || bounds
					default:
						w.skip()
					}
				})
				if math.IsNaN(value) {
					w.fail("%.80q of %.80q has no value", name, benchmark)
				}
				m := named(name)
				if !bounds && slices.Contains(bencherCounts, name) {
					m = tally(name, "")
				}
				w.addResult(bench.Result{Benchmark: benchmark}, m, value)
			})
		})
	})
}
