package gate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

var host = bench.Testbed{Kernel: "6.11.0", Arch: "amd64", CPU: "EPYC 7763", CPUs: 2, JIT: true}

// newRun is a run with these results.
func newRun(id, session string, results ...bench.Result) *bench.Run {
	return &bench.Run{Schema: 1, ID: id, Session: session, Testbed: host, Results: results,
		Revision: bench.Revision{Name: id}, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// result is one measure of p/x, sampled in rounds 0, 1, …
func result(measure string, floor float64, values ...float64) bench.Result {
	r := bench.Result{Benchmark: "p/x", Program: "p", Measure: measure, Kind: bench.Micro}
	for i, v := range values {
		r.Samples = append(r.Samples, bench.Sample{Round: i, Value: v, Floor: floor, Offset: -1})
	}
	return r
}

func named(r bench.Result, benchmark string) bench.Result {
	r.Benchmark = benchmark
	return r
}

// noise is symmetric with the tails of recorded loads: 0.7%, at times 6%.
func noise(rnd *rand.Rand) float64 {
	x := 0.007 * rnd.NormFloat64()
	if rnd.IntN(8) == 0 {
		x *= 8
	}
	return x
}

// pair measures n rounds of a benchmark whose head is slower by effect (a share
// of the net time of 100 ns over a floor).
func pair(rnd *rand.Rand, n int, floor, effect float64) (base, head bench.Result) {
	a, b := make([]float64, n), make([]float64, n)
	for i := range a {
		host := 1 + 0.1*rnd.Float64() // both sides of a round share the host's mood
		a[i] = floor + 100*host*(1+noise(rnd))
		b[i] = floor + 100*host*(1+effect)*(1+noise(rnd))
	}
	return result("latency", floor, a...), result("latency", floor, b...)
}

func latencyPolicy(fail float64) gate.Policy {
	p := gate.DefaultPolicy()
	p.MinEffectNS = 0
	p.Limits = map[string]gate.Limit{"latency": {Fail: &gate.Margin{Ratio: fail}}}
	return p
}

// sessions measures many benchmarks as a runner does: look after look, only what
// is still open, until nothing is or the plan ends. It returns the last report.
func session(t *testing.T, p gate.Policy, base, head *bench.Run) *gate.Report {
	t.Helper()
	b, h := *base, *head
	b.Results, h.Results = make([]bench.Result, len(base.Results)), make([]bench.Result, len(head.Results))
	for i := range base.Results {
		b.Results[i], h.Results[i] = base.Results[i], head.Results[i]
		b.Results[i].Samples, h.Results[i].Samples = nil, nil
	}
	var r *gate.Report
	for k, n := range p.Looks() {
		open := map[string]bool{}
		if k > 0 {
			for _, name := range r.Open() {
				open[name] = true
			}
		}
		for i := range h.Results {
			full := len(head.Results[i].Samples)
			if res := &h.Results[i]; k == 0 || open[res.Benchmark] {
				b.Results[i].Samples = base.Results[i].Samples[:min(n, full)]
				res.Samples = head.Results[i].Samples[:min(n, full)]
				res.Looks = append(res.Looks[:len(res.Looks):len(res.Looks)], min(n, full))
				res.Final = n >= full
			}
		}
		if err := h.Check(); err != nil {
			t.Fatal(err)
		}
		r = gate.Compare(&b, &h, p)
		if len(r.Open()) == 0 {
			break
		}
	}
	return r
}

func suite(rnd *rand.Rand, m, rounds int, effect func(i int) float64) (base, head *bench.Run) {
	base, head = newRun("base", "s"), newRun("head", "s")
	for i := range m {
		b, h := pair(rnd, rounds, 30, effect(i))
		name := fmt.Sprintf("p/%d", i)
		base.Results, head.Results = append(base.Results, named(b, name)), append(head.Results, named(h, name))
	}
	return base, head
}

func row(t *testing.T, r *gate.Report, benchmark, measure string) gate.Comparison {
	t.Helper()
	for _, c := range r.Comparisons {
		if c.Benchmark == benchmark && c.Measure == measure {
			return c
		}
	}
	t.Fatalf("no row %s %s in %+v", benchmark, measure, r.Comparisons)
	return gate.Comparison{}
}
