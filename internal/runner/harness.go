//go:build linux

package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/harness"
)

// harnesses is the lane of benchmarks of user space that a command measures itself. In
// each round base's and head's processes take turns, in random order; what one process
// says of a benchmark is one sample.
type harnesses struct {
	ctx      context.Context
	b        bench.Benchmark
	rng      *rand.Rand
	sides    []*harnessSide
	warnings []string
}

// A harnessSide is one revision's command.
type harnessSide struct {
	name    string // of the revision
	at      int    // its index in the plan
	process *harness.Process
	// rows are what the first run measured, under the names that its output has.
	rows    []bench.Result
	results []*bench.Result // what becomes of them, in their order
	profile *harness.Profile
}

// prepareHarness runs each side's command once, to see what it measures.
func (r *run) prepareHarness(ctx context.Context, b bench.Benchmark) error {
	h := fnv.New64a()
	_, _ = h.Write([]byte(b.Name))
	l := &harnesses{ctx: ctx, b: b, rng: rand.New(rand.NewPCG(r.Seed, h.Sum64()))}
	if err := l.open(r); err != nil {
		l.Close()
		return err
	}
	c := &benchCase{Benchmark: b, lane: l, results: make([][]*bench.Result, len(r.Sides))}
	for _, s := range l.sides {
		c.results[s.at] = s.results
	}
	r.cases = append(r.cases, c)
	return nil
}

func (l *harnesses) open(r *run) error {
	var all [][]bench.Result
	format := ""
	for i, side := range r.Sides {
		if side.Dir == "" {
			return l.wrong(fmt.Sprintf("%s is not a directory that command %s could run in", side.Name, l.b.Name), "--base takes a git ref or a directory")
		}
		s := &harnessSide{name: side.Name, at: i}
		r.begin(fmt.Sprintf("run %s of %s", l.b.Name, side.Name))
		out, err := l.first(s, side.Dir)
		if err != nil && slices.Contains(side.Lacks, l.b.Name) && l.ctx.Err() == nil {
			l.warnings = append(l.warnings, fmt.Sprintf("new: the config of %s has no command %s, and it does not run there", side.Name, l.b.Name))
			continue
		}
		if err != nil {
			return err
		}
		format, s.rows = out.Format, out.Results
		all = append(all, out.Results)
		l.sides = append(l.sides, s)
	}
	names := harness.Short(all, format)
	for i, s := range l.sides {
		seen := map[[2]string]bool{}
		for j, row := range s.rows {
			res := &bench.Result{
				Benchmark: l.b.Name + "/" + names[i][j], Program: l.b.Name, Measure: row.Measure, Kind: bench.User, Path: format,
				Unit: row.Unit, Better: row.Better,
			}
			key := [2]string{res.Benchmark, res.Measure}
			if seen[key] {
				return l.wrong(fmt.Sprintf("command %s of %s has two benchmarks called %s", l.b.Name, s.name, res.Benchmark), "")
			}
			seen[key] = true
			s.results = append(s.results, res)
		}
	}
	last := l.sides[len(l.sides)-1]
	last.results[0].Warnings = l.warnings
	return nil
}

// first runs a side's command for the first time: cold, and to see what it measures.
// Nothing of it is kept.
func (l *harnesses) first(s *harnessSide, dir string) (_ *harness.Output, err error) {
	if s.process, err = harness.New(*l.b.Harness, dir); err != nil {
		return nil, l.placed(s, err)
	}
	out, err := s.process.Run(l.ctx)
	if err != nil {
		_ = s.process.Close()
		return nil, l.placed(s, err)
	}
	for _, p := range out.Problems {
		l.warnings = append(l.warnings, fmt.Sprintf("%s: %v", s.name, p))
	}
	return out, nil
}

func (l *harnesses) wrong(message, hint string) error {
	return &bench.Diagnostic{Pos: l.b.Pos, Message: message, Hint: hint}
}

// placed is an error of a command, at its place in the config.
func (l *harnesses) placed(s *harnessSide, err error) error {
	if stopped := l.ctx.Err(); stopped != nil {
		return stopped
	}
	d := &bench.Diagnostic{Pos: l.b.Pos, Message: fmt.Sprintf("command %s of %s: %v", l.b.Name, s.name, err)}
	var e *harness.Error
	if errors.As(err, &e) {
		d.Hint = e.Advice
	}
	return d
}

// round implements [lane].
func (l *harnesses) round(n int) ([][]bench.Sample, error) {
	out := make([][]bench.Sample, len(l.sides))
	for _, i := range l.rng.Perm(len(l.sides)) {
		s := l.sides[i]
		o, err := s.process.Run(l.ctx)
		if err != nil {
			return nil, l.placed(s, err)
		}
		if out[i], err = l.samples(s, o, n); err != nil {
			return nil, err
		}
		for _, p := range o.Profiles {
			if s.profile == nil {
				s.profile = p
			} else {
				s.profile.Merge(p)
			}
		}
	}
	return out, nil
}

// samples are those of one run, in the order of the side's rows.
func (l *harnesses) samples(s *harnessSide, o *harness.Output, round int) ([]bench.Sample, error) {
	key := func(r bench.Result) [2]string { return [2]string{r.Benchmark, r.Measure} }
	got := make(map[[2]string]float64, len(o.Results))
	for _, r := range o.Results {
		got[key(r)] = r.Samples[0].Value
	}
	var out []bench.Sample
	for i, row := range s.rows {
		v, ok := got[key(row)]
		res := s.results[i]
		if !ok {
			return nil, l.wrong(fmt.Sprintf("command %s of %s measured %s of %s before, and not in round %d", l.b.Name, s.name, row.Measure, row.Benchmark, round),
				"each run of it has to measure the same benchmarks")
		}
		if m, _ := bench.LookupMeasure(row.Measure); m.Exact && len(res.Samples) > 0 && res.Samples[0].Value != v {
			res.Noisy = "it differs from run to run"
		}
		out = append(out, bench.Sample{Round: round, Value: v, Offset: -1})
	}
	return out, nil
}

// explain says where head allocates more than base, once all is measured.
func (l *harnesses) explain() {
	if len(l.sides) < 2 || l.sides[0].profile == nil || l.sides[1].profile == nil {
		return
	}
	base, head := l.sides[0], l.sides[1]
	for i, res := range head.results {
		j := slices.IndexFunc(base.results, func(b *bench.Result) bool { return b.Benchmark == res.Benchmark && b.Measure == res.Measure })
		if j < 0 {
			continue
		}
		res.Sites = harness.Explain(base.profile, head.profile, head.rows[i], middle(base.results[j]), middle(res))
	}
}

// middle is a median of a result's samples; 0 where there is none.
func middle(r *bench.Result) float64 {
	if len(r.Samples) == 0 {
		return 0
	}
	s := slices.SortedFunc(slices.Values(r.Samples), func(a, b bench.Sample) int { return cmp.Compare(a.Value, b.Value) })
	return s[len(s)/2].Value
}

// Close implements [lane].
func (l *harnesses) Close() {
	for _, s := range l.sides {
		_ = s.process.Close() // what stays is swept by the next gate
	}
}

// measures implements [lane]; the results of commands are made by prepareHarness.
func (l *harnesses) measures() []string { return nil }

func (l *harnesses) describe() (bench.Kind, string, string, []string) {
	return bench.User, "", "", l.warnings
}
