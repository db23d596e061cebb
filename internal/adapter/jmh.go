package adapter

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

func isJMH(s shape) bool { return s.json && s.list && s.keys["jmhVersion"] }

// readJMH reads the iterations of all forks as samples. The average time is the
// latency; other modes are measures of their own, since a benchmark may have several.
func readJMH(s *source) {
	s.walk(func(w *walker) { w.list("the file", w.jmh) })
}

type jmhMetric struct {
	unit string
	data []float64
}

func (w *walker) jmh() {
	var name, mode string
	params := map[string]string{}
	var primary jmhMetric
	secondary := map[string]jmhMetric{}
	w.fields("a benchmark", map[string]func(){
		"benchmark":     func() { name = w.text() },
		"mode":          func() { mode = w.text() },
		"primaryMetric": func() { primary = w.jmhMetric() },
		"params": func() {
			w.object("params", func(key string) { w.param(params, key) })
		},
		"secondaryMetrics": func() {
			w.object("secondaryMetrics", func(key string) {
				m := w.jmhMetric()
				if len(secondary) < bench.MaxMembers {
					secondary[strings.TrimPrefix(key, "·")] = m
				}
			})
		},
	})
	if primary.data == nil {
		w.fail("%.80q has no primaryMetric", name)
	}
	for _, k := range slices.Sorted(maps.Keys(params)) {
		name += "/" + k + "=" + params[k]
	}
	m, scale := jmhMeasure(mode, primary.unit)
	if m.name == "" {
		w.fail("%.80q: unknown scoreUnit %.20q", name, primary.unit)
	}
	for _, v := range primary.data {
		w.add(name, m, v*scale)
	}
	for _, k := range slices.Sorted(maps.Keys(secondary)) {
		better := guess(secondary[k].unit)
		if strings.HasPrefix(k, "gc.") {
			better = bench.Lower // of garbage even a rate
		}
		for _, v := range secondary[k].data {
			w.add(name, figure(mode+":"+k, secondary[k].unit, better), v)
		}
	}
}

// param keeps a parameter of a benchmark, of which there are few.
func (w *walker) param(params map[string]string, key string) {
	if params[key] = w.text(); len(params) > bench.MaxMembers {
		w.fail("more than %d parameters", bench.MaxMembers)
	}
}

// jmhMeasure is the measure of a mode, and what its score is multiplied with.
func jmhMeasure(mode, unit string) (measure, float64) {
	if of, ok := strings.CutPrefix(unit, "ops/"); ok {
		if scale := nanoseconds(of); scale > 0 { // all in one unit, whatever the report's
			return figure("throughput", "ops/s", bench.Higher), 1e9 / scale
		}
	}
	time, per, _ := strings.Cut(unit, "/")
	scale := nanoseconds(time)
	switch {
	case scale == 0 || per != "op":
		return measure{}, 0
	case mode == "avgt":
		return latency, scale
	case mode == "ss":
		return figure("single_shot", "ns", bench.Lower), scale
	}
	return figure("sample_time", "ns", bench.Lower), scale
}

func (w *walker) jmhMetric() jmhMetric {
	var m jmhMetric
	score := math.NaN()
	w.fields("a metric", map[string]func(){
		"score":     func() { score = w.perhaps() },
		"scoreUnit": func() { m.unit = w.text() },
		"rawData": func() {
			w.list("rawData", func() {
				if m.data = append(m.data, w.floats("rawData")...); len(m.data) > maxFloats {
					w.fail("rawData: more than %d numbers", maxFloats)
				}
			})
		},
	})
	if len(m.data) == 0 && !math.IsNaN(score) {
		m.data = []float64{score} // of the mode that samples there is a histogram
	}
	return m
}
