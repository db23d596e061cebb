//go:build linux

package main

import (
	"fmt"
	"reflect"
	"time"

	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/stats"
)

// insns counts the same again and again, with a busy loop on every CPU.
func insns(l *lab) ([]row, error) {
	b, err := l.benchmark("fun_xdp/addresses")
	if err != nil {
		return nil, err
	}
	c, err := newCrowd()
	if err != nil {
		return nil, err
	}
	defer c.close()
	c.work()
	const runs = 20
	var rows []row
	for _, version := range []string{"v1_basic", "v2_fizzbuzz", "v3_fibonacci", "v4_lookup"} {
		o, err := l.example(version)
		if err != nil {
			return nil, err
		}
		var first *bpf.Insns
		equal, measures := 0, 0
		var took []float64
		for range runs {
			s, err := bpf.NewSession(l.newSeed())
			if err != nil {
				return nil, err
			}
			s.Stop = l.ctx.Err
			start := time.Now()
			in, err := s.Insns(b, bpf.Side{Name: "head", Object: o})
			took = append(took, time.Since(start).Seconds())
			s.Close()
			if err != nil {
				return nil, err
			}
			in.Sides[0].Executed = nil // blocks, by address
			if first == nil {
				first, measures = in, 1+len(in.Sides[0].Counts)
			}
			if in.Noise == "" && reflect.DeepEqual(first, in) {
				equal++
			}
		}
		rows = append(rows, row{
			what:     fmt.Sprintf("%s: instructions, lines and %d counts equal to the digit", version, measures-1),
			measured: fmt.Sprintf("%d of %d runs", equal, runs),
			beside:   fmt.Sprintf("%v instructions a run; counted in %.2f s (median)", first.Sides[0].Mean, stats.Median(took)),
			target:   "all", met: meets(equal == runs),
		})
	}
	return rows, nil
}
