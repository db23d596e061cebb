//go:build linux

package runner

import (
	"context"
	"fmt"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
)

// noisyRounds is how many rounds a benchmark gets whose program does not always do
// the same: what the first look of a comparison has.
const noisyRounds = 20

// Count measures a plan where the clock counts instructions, as in the machine of
// package vm: what the verifier says of every program, and for every benchmark its
// executed instructions, BPF's and the CPU's. There is nothing to estimate, so there
// are no rounds and no looks, and no budget; only programs that do not always do the
// same are sampled.
//
// The error is that of a machine whose clock counts something else, or the
// context's.
func Count(ctx context.Context, p Plan) (*Result, error) {
	s, err := bpf.NewSession(p.Seed)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	s.Stop = ctx.Err
	if err := s.CountsInstructions(); err != nil {
		return nil, err
	}
	r := newRun(p, s)
	r.leading = bench.KernelInsns
	defer r.close()
	if err := r.static(ctx); err != nil {
		return nil, err
	}
	for _, b := range p.Benchmarks {
		if b.Veth != nil || b.Work != nil || b.Harness != nil {
			r.leaveOut(b)
			continue
		}
		r.begin("count " + b.Name)
		err := r.countOne(b)
		if stopped := ctx.Err(); stopped != nil {
			return nil, stopped
		}
		if err != nil {
			r.fail(b, err)
		}
	}
	r.changes()
	r.collect()
	out := &Result{Head: r.runs[len(r.runs)-1], Failures: r.failures}
	if len(r.runs) == 2 {
		out.Base = r.runs[0]
	}
	return out, nil
}

// leaveOut tells that a benchmark has nothing that could be counted.
func (r *run) leaveOut(b bench.Benchmark) {
	reason := "what an attached program takes is time, which a virtual machine has none of"
	if b.Harness != nil {
		reason = "a command of user space is measured on the host alone"
	}
	for _, out := range r.runs {
		out.Skipped = append(out.Skipped, bench.Skip{Name: b.Name, Reason: reason, Hint: "gate run --kernel host measures it"})
	}
}

func (r *run) countOne(b bench.Benchmark) error {
	sides, at, err := r.sidesOf(b)
	if err != nil {
		return err
	}
	m, err := r.session.Micro(b, sides...)
	if err != nil {
		return err
	}
	lane := &micro{Micro: m}
	c := &benchCase{Benchmark: b, lane: lane, results: make([][]*bench.Result, len(r.Sides))}
	for _, s := range sides {
		c.objects = append(c.objects, s.Object)
	}
	r.cases = append(r.cases, c)
	kind, path, answer, warnings := lane.describe()
	for j, i := range at {
		res := &bench.Result{Benchmark: b.Name, Program: b.Program, Measure: bench.KernelInsns, Kind: kind, Path: path, Answer: answer}
		if j == len(at)-1 {
			res.Warnings = warnings
		}
		c.results[i] = append(c.results[i], res)
	}
	r.exact(c, at)
	k, err := m.KernelInsns()
	if err != nil {
		c.drop()
		return fmt.Errorf("kernel_insns: %w", err)
	}
	for j, i := range at {
		res := c.results[i][0]
		if k.Noise == "" {
			res.Samples = []bench.Sample{kernelSample(0, k.Sides[j])}
			continue
		}
		res.Noisy = k.Noise
		if j == len(at)-1 {
			res.Warnings = append(res.Warnings[:len(res.Warnings):len(res.Warnings)], "not exact, and judged as noisy: "+k.Noise)
		}
	}
	return r.sample(c, lane, at, k.Noise != "")
}

func kernelSample(round int, s bpf.SideKernelInsns) bench.Sample {
	return bench.Sample{Round: round, Value: s.Mean, Floor: s.Floor, Offset: s.Offset}
}

// sample takes the rounds of what is not exact.
func (r *run) sample(c *benchCase, m *micro, at []int, kernel bool) error {
	for n := range noisyRounds {
		if !kernel && m.noisy == nil {
			return nil
		}
		if kernel {
			got, err := m.KernelInsnsRound(len(at))
			if err != nil {
				c.drop()
				return err
			}
			for j, i := range at {
				c.results[i][0].Samples = append(c.results[i][0].Samples, kernelSample(n, got[j]))
			}
		}
		if m.noisy == nil {
			continue
		}
		counted, err := m.InsnsRound(n, len(at))
		if err != nil {
			c.drop()
			return err
		}
		for j, i := range at {
			for x, name := range m.noisy {
				res := c.results[i][1+x]
				res.Samples = append(res.Samples, bench.Sample{Round: n, Value: counted[j][name], Offset: -1})
			}
		}
	}
	return nil
}
