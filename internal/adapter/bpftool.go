package adapter

import (
	"fmt"
	"math"
	"regexp"

	"github.com/org/ebpf-bench-gate/bench"
)

// What bpftool prog profile prints: how often the program ran, and what all runs
// together took.
var (
	progProfile = regexp.MustCompile(`(?m)^ *\d+ run_cnt *\n *\d+ [a-z_0-9]+ `)
	profileLine = regexp.MustCompile(`^ *(\d+) ([a-z_0-9]+) .*?(?:\(([\d.]+)%\))?$`)
)

var progRun = regexp.MustCompile(`(?m)^Return value: (\d+), duration(?: \(average\))?: (\d+)ns`)

func isBpftool(s shape) bool {
	return s.json && (s.keys["bytes_xlated"] && s.keys["tag"] || s.keys["retval"] && s.keys["duration"] && !s.list || s.isProgProfile()) || s.has(progRun) || s.has(progProfile)
}

func (s shape) isProgProfile() bool { return s.list && s.keys["metric"] && s.keys["run_cnt"] }

// readBpftool reads the list of programs, the answer of a test run, or the counters of
// a profile, which are told for one run. Programs are
// named by their names, of which the kernel keeps 15 characters; a second one of a name
// has "#2" behind it. What they ran, where the kernel counted it, is one sample of the
// latency: the mean of all runs.
func readBpftool(s *source) {
	switch s.first() {
	case '[':
		names := map[string]int{}
		s.walk(func(w *walker) { w.list("the file", func() { w.loaded(names) }) })
	case '{':
		s.walk(func(w *walker) { w.loaded(map[string]int{}) })
	default:
		runs := 0.0
		s.lines(func(line string) {
			if m := progRun.FindStringSubmatch(line); m != nil {
				s.testRun(m[1], s.number(m[2]))
				return
			}
			// The line ends in spaces where a metric has no ratio.
			if m := profileLine.FindStringSubmatch(line + " "); m != nil && m[2] == "run_cnt" {
				runs = s.number(m[1])
				s.profiled(bench.Runs, runs, runs, 1)
			} else if m := profileLine.FindStringSubmatch(line); m != nil {
				share := 1.0
				if m[3] != "" {
					share = s.number(m[3]) / 100
				}
				s.profiled(m[2], s.number(m[1]), runs, share)
			}
		})
	}
}

func (s *source) testRun(answer string, ns float64) {
	s.addResult(bench.Result{Benchmark: s.single("", "prog run"), Answer: clean(answer)}, latency, ns)
}

// profiled keeps a number of bpftool prog profile, which is that of all runs together,
// counted for a share of the time.
func (s *source) profiled(name string, value, runs, share float64) {
	m := named(name)
	if name == "l1d_loads" {
		m = figure(name, "count", bench.Lower)
	}
	if name != bench.Runs {
		if runs <= 0 || share <= 0 {
			return // it did not run, or was not counted
		}
		value /= runs * share
	}
	s.add(s.single("", "prog profile"), m, value)
}

func (w *walker) loaded(names map[string]int) {
	var name, kind, tag, retval, metric string
	maps := -1
	numbers := map[string]float64{}
	w.object("a program", func(key string) {
		switch key {
		case "name":
			name = w.text()
		case "type":
			kind = w.text()
		case "tag":
			tag = w.text()
		case "retval":
			retval = w.text()
		case "metric":
			metric = w.text()
		case "map_ids":
			maps = 0
			w.list("map_ids", func() { w.skip(); maps++ })
		case "bytes_xlated", "bytes_jited", "bytes_memlock", "run_time_ns", "run_cnt", "recursion_misses", "duration", "value", "enabled", "running":
			if v := w.perhaps(); !math.IsNaN(v) {
				numbers[key] = v
			}
		default:
			w.skip()
		}
	})
	if d, ok := numbers["duration"]; ok && retval != "" {
		w.testRun(retval, d)
		return
	}
	if metric != "" {
		runs, share := numbers["run_cnt"], 1.0
		if e := numbers["enabled"]; e > 0 {
			share = numbers["running"] / e
		}
		if names[metric]++; len(names) == 1 {
			w.profiled(bench.Runs, runs, runs, 1)
		}
		w.profiled(metric, numbers["value"], runs, share)
		return
	}
	if name == "" {
		name = tag // a program may have no name
	}
	names[name]++
	if n := names[name]; n > 1 {
		name = fmt.Sprintf("%s#%d", name, n)
	}
	w.program(bench.ProgramResult{Program: clean(name), Type: clean(kind), Outcome: bench.Accepted})
	add := func(m string, value float64, ok bool) {
		if ok {
			w.addResult(bench.Result{Benchmark: name, Program: clean(name)}, measure{name: m}, value)
		}
	}
	number := func(key string) (float64, bool) { v, ok := numbers[key]; return v, ok }
	xlated, ok := number("bytes_xlated")
	add(bench.XlatedInsns, xlated/8, ok)
	jited, ok := number("bytes_jited")
	add(bench.JitedBytes, jited, ok && jited > 0)
	memlock, ok := number("bytes_memlock")
	add(bench.Memlock, memlock, ok)
	add(bench.UsedMaps, float64(maps), maps >= 0)
	runs := numbers["run_cnt"]
	add(bench.Latency, numbers["run_time_ns"]/runs, runs > 0)
	add(bench.Runs, runs, runs > 0)
	add(bench.RecursionMisses, numbers["recursion_misses"], runs > 0)
}

// program notes what the verifier said of a program.
func (s *source) program(p bench.ProgramResult) {
	if len(s.set.programs) >= bench.MaxResults {
		s.fail("more than %d programs", bench.MaxResults)
	}
	s.set.programs = append(s.set.programs, p)
}
