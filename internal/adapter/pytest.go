package adapter

import (
	"cmp"
	"encoding/json"
	"math"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

func isPytest(s shape) bool { return s.json && s.keys["machine_info"] && s.keys["benchmarks"] }

// readPytest reads the rounds (--benchmark-save-data) as samples of the latency, or,
// where the file has none, the median as one.
func readPytest(s *source) {
	set := s.set
	s.walk(func(w *walker) {
		w.fields("the file", map[string]func(){
			"machine_info": func() {
				w.fields("machine_info", map[string]func(){
					"machine": func() { set.Testbed.Arch = goarch(w.text()) },
					"release": func() { set.Testbed.Kernel = clean(limit(w.text())) },
					"cpu": func() {
						w.fields("cpu", map[string]func(){
							"brand_raw": func() { set.Testbed.CPU = clean(limit(w.text())) },
							"count":     func() { set.Testbed.CPUs = cpus(w.perhaps()) },
						})
					},
				})
			},
			"commit_info": func() {
				w.fields("commit_info", map[string]func(){
					"id":     func() { set.Revision.Commit = clean(limit(w.text())) },
					"branch": func() { set.Revision.Branch = clean(limit(w.text())) },
					"dirty":  func() { w.any(func(t json.Token) { set.Revision.Dirty = t == true }) },
				})
			},
			"datetime": func() {
				// Older versions write no zone; it is UTC.
				text := w.text()
				for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
					if t, err := time.Parse(layout, text); err == nil {
						set.Time = t
						return
					}
				}
			},
			"benchmarks": func() { w.list("benchmarks", w.pytest) },
		})
	})
	if rev := &set.Revision; rev.Commit == "unversioned" { // it stood in no repository
		*rev = bench.Revision{}
	}
}

// goarch is Go's name of a machine.
func goarch(machine string) string {
	return clean(limit(cmp.Or(map[string]string{"x86_64": "amd64", "aarch64": "arm64", "i686": "386"}[machine], machine)))
}

func (w *walker) pytest() {
	var name, full string
	var data []float64
	median := math.NaN()
	w.fields("a benchmark", map[string]func(){
		"name":     func() { name = w.text() },
		"fullname": func() { full = w.text() },
		"stats": func() {
			w.fields("stats", map[string]func(){
				"median": func() { median = w.float("median") },
				"data":   func() { data = w.floats("data") },
			})
		},
	})
	name = cmp.Or(full, name)
	if len(data) == 0 {
		if math.IsNaN(median) {
			w.fail("%.80q has neither data nor a median", name)
		}
		data = []float64{median}
	}
	for _, v := range data {
		w.addResult(bench.Result{Benchmark: name}, latency, v*1e9)
	}
}
