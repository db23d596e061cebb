package adapter

import (
	"cmp"
	"math"
	"regexp"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// Quiet output has letters of other tests before a line.
var libtestLine = regexp.MustCompile(`(?m)^[.iF]*test (.+?) +\.\.\. bench: +([\d.,]+) ns/iter \(\+/- [\d.,]+\)(?: = ([\d.,]+) MB/s)?`)
var libtestOther = regexp.MustCompile(`^[.iF]*test (.+?) +\.\.\. (FAILED|ignored)`)

func isLibtest(s shape) bool {
	return s.json && !s.list && s.keys["type"] && (s.keys["event"] && s.keys["test_count"] || s.keys["median"] && s.keys["deviation"]) || s.has(libtestLine)
}

// readLibtest reads the medians that libtest prints, as text or as a stream of JSON.
func readLibtest(s *source) {
	if s.first() == '{' {
		s.stream(func(w *walker) { w.libtest() })
		return
	}
	s.lines(func(line string) {
		if m := libtestOther.FindStringSubmatch(line); m != nil {
			s.skip(m[1], m[2])
			return
		}
		m := libtestLine.FindStringSubmatch(line)
		switch {
		case m != nil:
			s.add(m[1], latency, s.number(m[2]))
			if m[3] != "" {
				s.add(m[1], figure("throughput", "MB/s", bench.Higher), s.number(m[3]))
			}
		case strings.Contains(line, "... bench:"):
			s.fail("expected a time, as in \"bench: 205 ns/iter (+/- 12)\"")
		}
	})
}

// libtest reads one event.
func (w *walker) libtest() {
	var kind, name, event string
	median, rate := math.NaN(), math.NaN()
	w.fields("an event", map[string]func(){
		"type":           func() { kind = w.text() },
		"name":           func() { name = w.text() },
		"event":          func() { event = w.text() },
		"median":         func() { median = w.float("median") },
		"mib_per_second": func() { rate = w.float("mib_per_second") },
	})
	switch {
	case kind == "test" && (event == "failed" || event == "ignored"):
		w.source.skip(name, event)
	case kind != "bench":
	case math.IsNaN(median):
		w.fail("%.80q has no median", name)
	default:
		w.add(name, latency, median)
		if !math.IsNaN(rate) { // the number that the text calls MB/s
			w.add(name, figure("throughput", "MB/s", bench.Higher), rate)
		}
	}
}

var (
	iaiLine  = regexp.MustCompile(`^ +([A-Z][A-Za-z0-9+ -]*): +([\d,.]+)(?:\|\S+.*| *\(.*\)| *)$`)
	iaiShape = regexp.MustCompile(`(?m)^\S.*\n(  =+.*\n)?  Instructions: +[\d,]`)
)

func isIai(s shape) bool {
	return s.json && !s.list && s.keys["module_path"] && s.keys["profiles"] || s.has(iaiShape)
}

// readIai reads the counts of Gungraun, iai-callgrind and Iai, under the names that
// Bencher has for them: "Total read+write" is count[total-read-write].
func readIai(s *source) {
	if s.first() == '{' {
		s.stream(func(w *walker) { w.gungraun() })
		return
	}
	benchmark := ""
	s.lines(func(line string) {
		line = stripANSI(line)
		if line != "" && line[0] != ' ' {
			benchmark = line
			return
		}
		m := iaiLine.FindStringSubmatch(line)
		if m == nil {
			return
		}
		if benchmark == "" {
			s.fail("%s stands under no benchmark", m[1])
		}
		name := strings.NewReplacer(" ", "-", "+", "-").Replace(strings.ToLower(m[1]))
		r := bench.Result{Benchmark: benchmark}
		r.Program, _, _ = strings.Cut(benchmark, " ")
		s.addResult(r, tally(name, "count"), s.number(m[2]))
	})
}

// gungraunNames are the names that the text has for what the summary calls otherwise.
var gungraunNames = map[string]string{
	"Ir": "instructions", "L1hits": "l1-hits", "LLhits": "ll-hits", "RamHits": "ram-hits", "TotalRW": "total-read-write", "EstimatedCycles": "estimated-cycles",
	"TotalBytes": "total-bytes", "TotalBlocks": "total-blocks", "AtTGmaxBytes": "at-t-gmax-bytes", "AtTGmaxBlocks": "at-t-gmax-blocks",
	"AtTEndBytes": "at-t-end-bytes", "AtTEndBlocks": "at-t-end-blocks", "ReadsBytes": "reads-bytes", "WritesBytes": "writes-bytes",
}

// gungraun reads a benchmark's summary: the new numbers of each tool's totals, under the
// names that the text has.
func (w *walker) gungraun() {
	var module, id, description string
	type number struct {
		name  string
		value float64
	}
	var all []number
	metric := func(name string) {
		value := math.NaN()
		w.fields("a metric", map[string]func(){
			"values": func() { w.fields("values", map[string]func(){"new": func() { value = w.perhaps() }}) },
		})
		if !math.IsNaN(value) { // of perf it is more than a number
			all = append(all, number{name, value})
		}
	}
	w.fields("a summary", map[string]func(){
		"module_path": func() { module = w.text() },
		"id":          func() { id = w.text() },
		"description": func() { description = w.text() },
		"profiles": func() {
			w.list("profiles", func() {
				w.fields("a profile", map[string]func(){"data": func() {
					w.fields("data", map[string]func(){"total": func() {
						w.fields("total", map[string]func(){"metrics": func() { w.object("metrics", metric) }})
					}})
				}})
			})
		},
	})
	name := module
	if id != "" {
		name += " " + id
		if description != "" {
			name += ":" + description
		}
	}
	for _, n := range all {
		m := tally(cmp.Or(gungraunNames[n.name], n.name), "count")
		switch {
		case n.name == "SysTime" || n.name == "SysCpuTime":
			m = figure(n.name, "nsec", bench.Lower)
		case n.name == "L1HitRate":
			m.unit, m.better = "%", bench.Higher
		case strings.HasSuffix(n.name, "Rate"): // a hit further away is a miss nearer by
			m.unit = "%"
		}
		w.addResult(bench.Result{Benchmark: name, Program: module}, m, n.value)
	}
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// stripANSI takes colours out.
func stripANSI(line string) string {
	if !strings.Contains(line, "\x1b") {
		return line
	}
	return ansi.ReplaceAllString(line, "")
}
