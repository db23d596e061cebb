package adapter

import (
	"cmp"
	"math"
	"regexp"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

var (
	criterionTime = regexp.MustCompile(`^(\S.*?)?\s+time:\s+\[\S+ \S+ ([\d.]+) (ps|ns|µs|μs|us|ms|s) \S+ \S+\]`)
	criterionRate = regexp.MustCompile(`^\s+thrpt:\s+\[\S+ \S+ ([\d.]+) ([KMGT]i?)?(B/s|bits/s|b/s|elem/s)\s+\S+ \S+\]`)
	criterionText = regexp.MustCompile(`(?m)^(\S.*?)?\s+time:\s+\[[\d.]+ (ps|ns|µs|μs|us|ms|s) [\d.]+ `)
)

func isCriterion(s shape) bool {
	return s.json && (s.keys["sampling_mode"] && s.keys["times"] || s.keys["median_abs_dev"] && s.inner["point_estimate"]) || s.has(criterionText)
}

// readCriterion reads sample.json: the raw measurements, each a sample; estimates.json:
// what Criterion tells of them, one sample; or its text: the same.
func readCriterion(s *source) {
	if s.first() != '{' {
		s.criterionText()
		return
	}
	var iters, times []float64
	slope, mean := math.NaN(), math.NaN()
	estimate := func(w *walker, to *float64) {
		w.fieldsOrNull("an estimate", map[string]func(){"point_estimate": func() { *to = w.float("point_estimate") }})
	}
	s.walk(func(w *walker) {
		w.fields("the file", map[string]func(){
			"iters": func() { iters = w.floats("iters") },
			"times": func() { times = w.floats("times") },
			"slope": func() { estimate(w, &slope) },
			"mean":  func() { estimate(w, &mean) },
		})
	})
	name := cmp.Or(s.Benchmark, "criterion")
	if len(iters) != len(times) {
		s.fail("%d iters and %d times", len(iters), len(times))
	}
	for i, t := range times {
		if !(iters[i] > 0) {
			s.fail("measurement %d is of %v iterations", i+1, iters[i])
		}
		s.add(name, latency, t/iters[i])
	}
	if times != nil {
		return
	}
	if math.IsNaN(slope) { // its samples are not of growing length
		slope = mean
	}
	s.add(name, latency, slope)
}

func (s *source) criterionText() {
	before, name := "", ""
	s.lines(func(line string) {
		line = stripANSI(line[strings.LastIndexByte(line, '\r')+1:])
		if m := criterionTime.FindStringSubmatch(line); m != nil {
			// A long name has a line of its own.
			if name = cmp.Or(m[1], before); name == "" {
				s.fail("a time that stands under no benchmark")
			}
			s.add(name, latency, s.number(m[2])*nanoseconds(m[3]))
		} else if m := criterionRate.FindStringSubmatch(line); m != nil && name != "" {
			scale := 1.0
			if m[2] != "" {
				base := 1000.0
				if strings.HasSuffix(m[2], "i") {
					base = 1024
				}
				scale = math.Pow(base, float64(1+strings.IndexByte("KMGT", m[2][0])))
			}
			s.add(name, figure("throughput", m[3], bench.Higher), s.number(m[1])*scale)
		}
		if line != "" && line[0] != ' ' {
			before = line
		} else if strings.TrimSpace(line) == "" {
			before, name = "", ""
		}
	})
}
