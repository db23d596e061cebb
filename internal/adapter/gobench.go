package adapter

import (
	"errors"
	"io"
	"math"
	"regexp"

	"golang.org/x/perf/benchfmt"

	"github.com/org/ebpf-bench-gate/bench"
)

var gobenchLine = regexp.MustCompile(`(?m)^(Benchmark\S*[ \t]+\d+[ \t]+\S+[ \t]+\S|goos: |pkg: |Unit \S+ \S+=)`)

func isGobench(s shape) bool { return s.has(gobenchLine) || isTestEvents(s) }

// readGobench reads benchfmt. A benchmark is named after its package and itself,
// "example.com/fib.Fib/n=10-2": one name stands in many packages. Values keep the units
// that were written, but for the time of an operation, which is the latency.
func readGobench(s *source) {
	if s.first() == '{' {
		s.benchfmt(newTestEvents(s))
	} else {
		s.benchfmt(s.in)
	}
}

func (s *source) benchfmt(text io.Reader) {
	in := newBenchLines(text, s.set)
	r := benchfmt.NewReader(in, s.File)
	pkg := ""
	for r.Scan() {
		s.line, s.col = in.n, 1
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			s.fail("%s", rec.Msg)
		case *benchfmt.Result:
			if i, ok := rec.ConfigIndex("pkg"); !ok && pkg != "" || ok && string(rec.Config[i].Value) != pkg {
				pkg = rec.GetConfig("pkg")
				in.forget()
			}
			in.unsure = false
			b := in.known[string(rec.Name)]
			if b == nil {
				b = &gobenchmark{key: string(rec.Name), name: string(rec.Name), pkg: pkg}
				if pkg != "" {
					b.name = pkg + "." + b.name
				}
				in.known[b.key] = b
				s.host(rec)
			}
			for i := range rec.Values {
				s.gobench(b, i, &rec.Values[i])
			}
		}
	}
	if err := r.Err(); err != nil {
		s.line, s.col = max(in.n, 1), 1
		s.broken(errors.Unwrap(err))
	}
	s.units(r.Units())
}

// A gobenchmark is a benchmark that was seen before, and where the set keeps the i-th
// value of its lines: nearly all lines of a benchmark have the same units.
type gobenchmark struct {
	key       string // as its lines have it
	name, pkg string
	units     []string
	at        []int
	next      *gobenchmark // whose line came behind its last one; nil: not known
}

func (s *source) gobench(b *gobenchmark, i int, v *benchfmt.Value) {
	value, unit := v.Value, v.Unit
	if v.OrigUnit != "" {
		value, unit = v.OrigValue, v.OrigUnit
	}
	if unit == "sec/op" {
		value *= 1e9
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		s.fail("%s of %.80q is not a finite number", unit, b.name)
	}
	if i < len(b.units) && b.units[i] == unit {
		s.set.keep(b.at[i], value)
		return
	}
	m := latency
	if unit != "ns/op" && unit != "sec/op" {
		m = unitMeasure(unit)
	}
	at, err := s.set.place(bench.Result{Benchmark: b.name, Program: b.pkg}, m)
	if err != nil {
		s.fail("%s", err)
	}
	if i == len(b.units) {
		b.units, b.at = append(b.units, unit), append(b.at, at)
	}
	s.set.keep(at, value)
}

// unitMeasure is the measure of a unit of benchfmt. Memory is counted, not sampled:
// package testing reads both from the runtime's own counters.
func unitMeasure(unit string) measure {
	if unit == "B/op" || unit == "allocs/op" {
		return tally(unit, unit)
	}
	if _, ok := bench.LookupMeasure(unit); ok {
		return named(unit)
	}
	return figure(unit, unit, guess(unit))
}

// host takes what the file says of the machine.
func (s *source) host(r *benchfmt.Result) {
	t := &s.set.Testbed
	if t.Arch == "" {
		t.Arch = clean(limit(r.GetConfig("goarch")))
	}
	if t.CPU == "" {
		t.CPU = clean(limit(r.GetConfig("cpu")))
	}
}

// limit cuts text that is not worth an error.
func limit(s string) string { return s[:min(len(s), maxName)] }

// units applies what "Unit" lines say, wherever they stand: directions and exactness.
func (s *source) units(meta benchfmt.UnitMetadataMap) {
	for i := range s.set.results {
		r := &s.set.results[i]
		if !bench.IsDeclared(r.Measure) {
			continue
		}
		family, unit, _ := bench.SplitMember(r.Measure)
		m := measure{r.Measure, r.Unit, r.Better}
		for _, written := range []string{unit, r.Measure} {
			if b := meta.Get(written, "better"); b != nil && b.Value == "higher" {
				m.better = bench.Higher
			} else if b != nil && b.Value == "lower" {
				m.better = bench.Lower
			}
			if a := meta.Get(written, "assume"); a != nil && a.Value == "exact" && family == bench.Figures {
				m.name = bench.Member(bench.Counts, unit)
			}
		}
		s.set.rename(i, m)
	}
}
