package adapter

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/stats"
)

// maxSamples is how many samples of one import are kept over all results: as many as a
// stored run of them stays well below the store's limit. Of more, every other one of
// each result is left out, again and again.
const maxSamples = bench.MaxSamples / 4

// maxNotes limits skips and warnings.
const maxNotes = 1000

const maxName = 1000 // bytes of a benchmark; a run allows a few more

// A measure is what a foreign number is a measure of.
type measure struct {
	name   string
	unit   string // of declared measures
	better bench.Better
}

var latency = measure{name: bench.Latency}

// figure is a noisy measure of the tool's own.
func figure(name, unit string, better bench.Better) measure {
	return declare(bench.Figures, name, unit, better)
}

// tally is an exact measure of the tool's own: less of it is better.
func tally(name, unit string) measure { return declare(bench.Counts, name, unit, bench.Lower) }

func declare(family, name, unit string, better bench.Better) measure {
	if unit = clean(unit); len(unit) > bench.MaxUnit {
		unit = "" // the name says it
	}
	return measure{bench.Member(family, clean(name)), unit, better}
}

// guess is the direction of what a format has no direction for: rates and throughputs
// are better higher, all else lower.
func guess(names ...string) bench.Better {
	for _, n := range names {
		n = strings.ToLower(n)
		for _, end := range []string{"/s", "/sec", "/second", "/ms", "/us", "/ns", "/min", "per_second", "per-second", "persecond"} {
			if strings.HasSuffix(n, end) {
				return bench.Higher
			}
		}
		if strings.Contains(n, "throughput") || n == "thrpt" {
			return bench.Higher
		}
	}
	return bench.Lower
}

// named is the measure of the table with that name, or a figure.
func named(name string) measure {
	if _, ok := bench.LookupMeasure(name); ok && !bench.IsFamily(name) {
		m := measure{name: name}
		if bench.IsDeclared(name) {
			m.better = guess(name)
		}
		return m
	}
	return figure(name, "", guess(name))
}

// A Set is what files of other tools hold.
type Set struct {
	// Revision, Testbed and Time are what the files say of them, empty where they
	// say nothing.
	Revision bench.Revision
	Testbed  bench.Testbed
	Time     time.Time

	programs []bench.ProgramResult
	results  []bench.Result // without their samples
	values   [][]float64    // of the samples kept, by result
	seen     []int          // samples seen, by result
	skipped  []bench.Skip
	index    map[[2]string]int
	samples  int
	stride   int // of the samples seen, every stride-th is kept
}

func newSet() *Set { return &Set{index: map[[2]string]int{}, stride: 1} }

// Benchmarks and Samples are how many the set holds.
func (s *Set) Benchmarks() int {
	names := map[string]bool{}
	for i := range s.results {
		names[s.results[i].Benchmark] = true
	}
	return len(names)
}

// Samples is how many samples the set holds.
func (s *Set) Samples() int { return s.samples }

// Results is how many results the set holds.
func (s *Set) Results() int { return len(s.results) }

// Join puts what a further file holds behind: samples of the same benchmark and
// measure follow each other.
func (s *Set) Join(other *Set) error {
	s.Revision = cmp.Or(s.Revision, other.Revision)
	s.Testbed = cmp.Or(s.Testbed, other.Testbed)
	if s.Time.Before(other.Time) {
		s.Time = other.Time
	}
	for i := range other.results {
		r := other.results[i]
		at, err := s.place(r, measure{r.Measure, r.Unit, r.Better})
		if err != nil {
			return err
		}
		for _, v := range other.values[i] {
			s.keep(at, v)
		}
	}
	s.programs = append(s.programs, other.programs...)
	for _, skip := range other.skipped {
		s.skip(skip)
	}
	return nil
}

// skip notes a benchmark that the tool did not measure, once however often it tried.
func (s *Set) skip(skip bench.Skip) {
	if len(s.skipped) < maxNotes && !slices.Contains(s.skipped, skip) {
		s.skipped = append(s.skipped, skip)
	}
}

// add keeps a sample of a result, whose name and warnings the first one says.
func (s *Set) add(r bench.Result, m measure, value float64) error {
	i, err := s.place(r, m)
	if err == nil {
		s.keep(i, value)
	}
	return err
}

// place is where the samples of a result are kept: an index that stays.
func (s *Set) place(r bench.Result, m measure) (int, error) {
	if i, ok := s.index[[2]string{r.Benchmark, m.name}]; ok {
		return i, nil
	}
	r.Benchmark, r.Measure = clean(r.Benchmark), m.name
	key := [2]string{r.Benchmark, r.Measure}
	if i, ok := s.index[key]; ok {
		return i, nil
	}
	switch {
	case r.Benchmark == "":
		return 0, errors.New("a benchmark without a name")
	case len(r.Benchmark) > maxName || len(r.Measure) > maxName:
		return 0, fmt.Errorf("a name of more than %d bytes: %.60q", maxName, r.Benchmark)
	case len(s.results) >= bench.MaxResults:
		return 0, fmt.Errorf("more than %d results", bench.MaxResults)
	}
	if r.Program == "" {
		r.Program, _, _ = strings.Cut(r.Benchmark, "/")
		r.Program = cmp.Or(r.Program, r.Benchmark)
	}
	r.Kind, r.Unit, r.Better = bench.Imported, m.unit, m.better
	i := len(s.results)
	s.index[key] = i
	s.results, s.values, s.seen = append(s.results, r), append(s.values, nil), append(s.seen, 0)
	return i, nil
}

// keep keeps a sample.
func (s *Set) keep(i int, value float64) {
	n := s.seen[i]
	s.seen[i]++
	if n%s.stride != 0 {
		return
	}
	s.values[i] = append(s.values[i], value)
	if s.samples++; s.samples > maxSamples {
		s.thin()
	}
}

// thin leaves every other sample of each result out.
func (s *Set) thin() {
	s.stride *= 2
	s.samples = 0
	for i, v := range s.values {
		kept := v[:0]
		for j := 0; j < len(v); j += 2 {
			kept = append(kept, v[j])
		}
		s.values[i] = kept
		s.samples += len(kept)
	}
}

// has tells whether there is a sample.
func (s *Set) has(benchmark string, m measure) bool {
	_, ok := s.index[[2]string{clean(benchmark), m.name}]
	return ok
}

// rename makes another measure of a result.
func (s *Set) rename(i int, m measure) {
	r := &s.results[i]
	delete(s.index, [2]string{r.Benchmark, r.Measure})
	r.Measure, r.Unit, r.Better = m.name, m.unit, m.better
	s.index[[2]string{r.Benchmark, r.Measure}] = i
}

// Turn says what is better of a figure or count, by its own name or the whole one.
func (s *Set) Turn(name string, better bench.Better) error {
	if better != bench.Lower && better != bench.Higher {
		return fmt.Errorf("better is %q or %q", bench.Higher, bench.Lower)
	}
	found := false
	for i := range s.results {
		r := &s.results[i]
		if _, member, _ := bench.SplitMember(r.Measure); bench.IsDeclared(r.Measure) && (name == member || name == r.Measure) {
			r.Better, found = better, true
		}
	}
	if !found {
		return errors.New("the results have no such figure")
	}
	return nil
}

// Medians are the results by themselves, each with one sample: the median of those that
// it has.
func (s *Set) Medians() []bench.Result {
	out := slices.Clone(s.results)
	for i, v := range s.values {
		out[i].Samples = []bench.Sample{{Value: stats.Median(v), Offset: -1}}
	}
	return out
}

// alike tells that all values are the same.
func alike(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return x != v[0] })
}

// Run makes the set a run of the revision and the testbed; what these leave empty the
// files say. Runs of equal content, time and revision have equal IDs, so that nothing is
// stored twice.
func (s *Set) Run(rev bench.Revision, bed string, now time.Time, tool string) (*bench.Run, error) {
	r := &bench.Run{
		Schema: bench.SchemaVersion, Time: s.Time, Revision: s.Revision, Testbed: s.Testbed, Tool: tool,
		Programs: s.programs, Results: slices.Clone(s.results), Skipped: s.skipped,
	}
	for i, v := range s.values {
		samples := make([]bench.Sample, len(v))
		for j, x := range v {
			samples[j] = bench.Sample{Round: j * s.stride, Value: x, Offset: -1}
		}
		r.Results[i].Samples = samples
		if family, _, _ := bench.SplitMember(r.Results[i].Measure); family == bench.Counts && !alike(v) {
			r.Results[i].Noisy = "its samples differ"
		}
	}
	if r.Time.IsZero() {
		r.Time = now
	}
	r.Time = r.Time.UTC()
	if rev != (bench.Revision{}) {
		r.Revision = rev
	}
	r.Testbed.Name = bed
	r.Testbed.JIT = true // no tool says that programs were interpreted
	if s.stride > 1 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("of more than %d samples every %dth is kept", maxSamples, s.stride))
	}
	h, digits := sha256.New(), make([]byte, 0, 32)
	fmt.Fprintf(h, "%v %+v %q", r.Time.UnixNano(), r.Revision, bed)
	for i := range r.Results {
		res := &r.Results[i]
		fmt.Fprintf(h, "%q %q %d", res.Benchmark, res.Measure, len(res.Samples))
		for _, x := range res.Samples {
			h.Write(strconv.AppendUint(append(digits, ' '), math.Float64bits(x.Value), 16))
		}
	}
	r.ID = fmt.Sprintf("%s-import-%x", r.Time.Format("20060102t150405"), h.Sum(nil)[:4])
	if err := r.Check(); err != nil {
		return nil, err
	}
	return r, nil
}

// clean makes a name of what a stranger wrote.
func clean(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return strings.TrimSpace(name)
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(name, "\ufffd")))
}
