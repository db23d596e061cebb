//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
)

// A Result is what a plan gave. Base is nil where there was one side.
type Result struct {
	Base, Head *bench.Run
	// Report is the verdict of the last look; nil where there was one side.
	Report *gate.Report
	// Failures are required benchmarks that could not be measured.
	Failures []error
}

// Run measures a plan. The error is that of a host on which nothing can be
// measured, or the context's, or all mistakes that only the objects and this kernel
// show in what the config says of hooks ([bench.Diagnostic]); what one benchmark lacks
// is told in the result.
func Run(ctx context.Context, p Plan) (*Result, error) {
	var s *bpf.Session
	if p.ofKernel() {
		var err error
		if s, err = bpf.NewSession(p.Seed); err != nil {
			return nil, err
		}
		defer s.Close()
		s.Stop = ctx.Err
	}
	r := newRun(p, s)
	defer r.close()
	if err := r.hooks(); err != nil {
		return nil, err
	}
	if err := r.static(ctx); err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	r.changes()
	r.noteHardware()
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	r.close() // which may tell something
	out := &Result{Head: r.runs[len(r.runs)-1], Report: r.report, Failures: r.failures}
	if len(r.runs) == 2 {
		out.Base = r.runs[0]
		out.Report = gate.Compare(out.Base, out.Head, p.Policy)
	}
	return out, nil
}

func runID(p Plan, side Side) string {
	return fmt.Sprintf("%s-%s-%08x", p.Time.UTC().Format("20060102t150405"), side.Name, uint32(p.Seed^p.Seed>>32))
}

type run struct {
	Plan
	session  *bpf.Session // nil: nothing of the plan needs the kernel
	start    time.Time
	rng      *rand.Rand
	runs     []*bench.Run // by side
	cases    []*benchCase
	report   *gate.Report
	failures []error
	// leading is the measure that every benchmark has.
	leading string
}

// newRun is a run of which nothing has been measured.
func newRun(p Plan, s *bpf.Session) *run {
	r := &run{Plan: p, session: s, leading: bench.Latency, start: time.Now(), rng: rand.New(rand.NewPCG(p.Seed, 0))}
	for _, side := range p.Sides {
		r.runs = append(r.runs, &bench.Run{
			Schema: bench.SchemaVersion, ID: runID(p, side), Time: p.Time.UTC(), Revision: side.Revision,
			Testbed: p.Testbed, Seed: p.Seed, Tool: p.Tool,
		})
	}
	if len(r.runs) == 2 {
		for _, b := range r.runs {
			b.Session = fmt.Sprintf("%s-%016x", p.Time.UTC().Format("20060102t150405"), p.Seed)
		}
	}
	return r
}

// begin tells what is done next.
func (r *run) begin(what string) {
	if r.Begin != nil {
		r.Begin(what)
	}
}

// A benchCase is one benchmark on its way.
type benchCase struct {
	bench.Benchmark
	lane    lane          // nil: it could not be prepared
	done    int           // rounds
	spent   time.Duration // measuring
	final   bool
	results [][]*bench.Result // by side, then by measure
	control []*bench.Result   // by side; nil: another case carries the control
	// exact results, by side, are known before the first round and take no part
	// in rounds and looks.
	exact [][]*bench.Result
	// objects are those of the sides, executed what its inputs did there; nil where
	// that was not counted.
	objects  []*bpf.Object
	executed []*bpf.Executions
	noisy    bool
}

// A lane measures one benchmark, round by round.
type lane interface {
	// round returns one sample a side for each measure.
	round(n int) ([][]bench.Sample, error)
	measures() []string
	describe() (kind bench.Kind, path, answer string, warnings []string)
	Close()
}

// A declarer is a lane whose measures are not all in the table of measures.
type declarer interface {
	declared(measure string) (unit string, better bench.Better)
}

// prepare readies every benchmark, and tells which cannot be measured. What the config
// names to hang at and is not there is its mistake, and nothing is measured.
func (r *run) prepare(ctx context.Context) error {
	var wrong mistakes
	for _, b := range r.Benchmarks {
		err := r.prepareOne(ctx, b)
		if stopped := ctx.Err(); stopped != nil {
			return stopped
		}
		var lost *bpf.NoTarget
		switch {
		case errors.As(err, &lost):
			wrong.add(lost.Diagnostic)
		case err != nil:
			r.fail(b, err)
		}
	}
	return wrong.err()
}

// fail tells that a benchmark could not be measured. One that somebody asked for
// keeps its place in the suite, without samples: the number of comparisons is
// fixed before the first round, and a suite that lacks one cannot pass.
func (r *run) fail(b bench.Benchmark, err error) {
	if r.Required {
		r.failures = append(r.failures, fmt.Errorf("%s: %w", b.Name, err))
		if !slices.ContainsFunc(r.cases, func(c *benchCase) bool { return c.Name == b.Name }) {
			c := &benchCase{Benchmark: b, results: make([][]*bench.Result, len(r.Sides))}
			for i := range c.results {
				c.results[i] = []*bench.Result{{Benchmark: b.Name, Program: b.Program, Measure: r.leading, Kind: b.Kind()}}
			}
			r.cases = append(r.cases, c)
		}
	}
	for _, out := range r.runs {
		out.Skipped = append(out.Skipped, bench.Skip{Name: b.Name, Reason: inOneLine(err), Required: r.Required})
	}
}

// sidesOf are the sides of a benchmark, and their indices: those that have its
// program.
func (r *run) sidesOf(b bench.Benchmark) (sides []bpf.Side, at []int, err error) {
	for i := range r.Sides {
		if o, ok := r.Sides[i].find(b.Program); ok {
			sides, at = append(sides, bpf.Side{Name: r.Sides[i].Name, Object: o.Object}), append(at, i)
		}
	}
	if len(sides) == 0 {
		return nil, nil, fmt.Errorf("no object has program %q", b.Program)
	}
	if len(sides) < len(r.Sides) {
		// Added or removed: measured alone, so that it is told and not judged.
		name := r.Sides[at[0]].Name
		r.runs[at[0]].Warnings = append(r.runs[at[0]].Warnings, fmt.Sprintf("only %s has program %s", name, b.Program))
	}
	for _, s := range sides {
		// A program that does not load has been told; its benchmark is then
		// missing on purpose.
		if res := r.outcome(s.Name, b.Program); res != nil && res.Outcome != bench.Accepted {
			return nil, nil, fmt.Errorf("%s of %s does not load: %s", b.Program, s.Name, res.Reason)
		}
	}
	return sides, at, nil
}

// inOneLine is an error with the first and the last of its lines: the others are what
// somebody said on the way.
func inOneLine(err error) string {
	first, rest, more := strings.Cut(err.Error(), "\n")
	if !more {
		return first
	}
	last := strings.TrimSpace(rest[strings.LastIndexByte(rest, '\n')+1:])
	return strings.TrimSuffix(first, ":") + ": " + last
}

func (r *run) prepareOne(ctx context.Context, b bench.Benchmark) error {
	switch {
	case b.Harness != nil:
		return r.prepareHarness(ctx, b)
	case b.Agent != nil:
		return r.prepareAgent(ctx, b)
	}
	sides, at, err := r.sidesOf(b)
	if err != nil {
		return err
	}
	c := &benchCase{Benchmark: b, results: make([][]*bench.Result, len(r.Sides))}
	l, err := r.open(ctx, b, append(sides, r.companions(c, sides)...))
	if err != nil {
		return err
	}
	c.lane = l
	for _, s := range sides {
		c.objects = append(c.objects, s.Object)
	}
	kind, path, answer, warnings := l.describe()
	for j, i := range at {
		for _, m := range l.measures() {
			res := &bench.Result{Benchmark: b.Name, Program: b.Program, Measure: m, Kind: kind, Path: path, Answer: answer, With: b.With}
			if d, ok := l.(declarer); ok {
				res.Unit, res.Better = d.declared(m)
			}
			if j == len(at)-1 {
				res.Warnings = warnings
			}
			c.results[i] = append(c.results[i], res)
		}
	}
	r.exact(c, at)
	r.cases = append(r.cases, c)
	return nil
}

// companions are sides that tell of the host instead of the change, measured in
// the same rounds: base with its code moved, which shows what code placement does
// here, and for the first benchmark base once more, the session's control.
func (r *run) companions(c *benchCase, sides []bpf.Side) []bpf.Side {
	if c.Veth != nil || c.Work != nil || len(sides) < 2 {
		return nil
	}
	const cacheLine = 64
	base := sides[0].Object
	out := []bpf.Side{{Name: "base, moved,", Object: base.Shifted(1 + r.rng.IntN(cacheLine-1))}}
	if !slices.ContainsFunc(r.cases, func(c *benchCase) bool { return c.control != nil }) {
		for range sides {
			c.control = append(c.control, &bench.Result{Benchmark: bench.Control, Program: c.Program, Measure: bench.Latency, Kind: bench.Micro})
		}
		out = append(out, bpf.Side{Name: "base, again,", Object: base})
	}
	return out
}

func (r *run) outcome(side, program string) *bench.ProgramResult {
	for i := range r.Sides {
		if r.Sides[i].Name != side {
			continue
		}
		for j := range r.runs[i].Programs {
			if r.runs[i].Programs[j].Program == program {
				return &r.runs[i].Programs[j]
			}
		}
	}
	return nil
}

// all are the results of a case that has samples, of every side.
func (c *benchCase) all() []*bench.Result {
	return append(slices.Concat(c.results...), c.control...)
}

func (c *benchCase) add(samples [][]bench.Sample) {
	side := 0
	for _, results := range c.results {
		if results == nil {
			continue
		}
		for m, res := range results {
			if s := samples[side][m]; s.Round >= 0 {
				res.Samples = append(res.Samples, s)
			}
		}
		side++
	}
	if moved := samples[side:]; len(moved) > 0 {
		base := c.results[0][0].Samples
		base[len(base)-1].Twin = moved[0][0].Value
	}
	if c.control != nil {
		// Base, and base again under head's name.
		c.control[0].Samples = append(c.control[0].Samples, samples[0][0])
		c.control[1].Samples = append(c.control[1].Samples, samples[side+1][0])
	}
	c.done++
}

// drop forgets the samples: what is left of a benchmark that failed half way is
// not a measurement.
func (c *benchCase) drop() {
	for _, res := range c.all() {
		res.Samples, res.Looks = nil, nil
	}
	c.exact = nil
}

// remember takes over what the lane has found to doubt since it was prepared.
func (c *benchCase) remember() {
	if c.lane == nil {
		return
	}
	_, _, _, warnings := c.lane.describe()
	for _, results := range slices.Backward(c.results) {
		if len(results) == 0 {
			continue
		}
		for _, w := range warnings {
			if !slices.Contains(results[0].Warnings, w) {
				results[0].Warnings = append(slices.Clone(results[0].Warnings), w)
			}
		}
		return
	}
}

// collect writes the results so far into the runs, static ones first.
func (r *run) collect() {
	for i, out := range r.runs {
		out.Results = slices.DeleteFunc(out.Results, func(res bench.Result) bool { return res.Kind != bench.Static })
		for _, c := range r.cases {
			c.remember()
			for _, res := range c.results[i] {
				res.Seconds = c.spent.Seconds()
				out.Results = append(out.Results, *res)
			}
			if c.exact != nil {
				for _, res := range c.exact[i] {
					out.Results = append(out.Results, *res)
				}
			}
			if c.control != nil {
				out.Results = append(out.Results, *c.control[i])
			}
		}
	}
}

func (r *run) close() {
	for _, c := range r.cases {
		if c.lane != nil {
			c.lane.Close()
			c.lane = nil
		}
	}
}

// FailureSummary joins failures for people.
func FailureSummary(failures []error) error {
	if len(failures) == 0 {
		return nil
	}
	lines := make([]string, len(failures))
	for i, f := range failures {
		lines[i] = f.Error()
	}
	return errors.New(strings.Join(lines, "\n"))
}
