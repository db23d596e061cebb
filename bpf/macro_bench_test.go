//go:build linux

package bpf

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// BenchmarkMacro shows how steady ten rounds are, and beside it what the usual
// harness does: attach, one request, read fdinfo. The figure is the standard
// error of an A/A comparison in percent, and the time of a round.
func BenchmarkMacro(b *testing.B) {
	v := "v4_lookup"
	o := macroObject(b, v)
	for _, count := range []int{2000, 5000, 10000, 20000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			s := macroSession(b, uint64(count))
			m, err := s.Macro(veth("native", count), Side{"base", o}, Side{"head", o})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			var diffs, single, base, floor []float64
			for r := 0; b.Loop(); r++ {
				got, err := m.Round(r)
				if err != nil {
					b.Fatal(err)
				}
				diffs = append(diffs, got[1].Latency.Value/got[0].Latency.Value-1)
				base, floor = append(base, got[0].Latency.Value), append(floor, got[0].Latency.Floor)
			}
			for range 30 {
				pair := make([]float64, 2)
				for i := range pair {
					if pair[i], err = oneRequest(m); err != nil {
						b.Fatal(err)
					}
				}
				single = append(single, pair[1]/pair[0]-1)
			}
			b.ReportMetric(100*deviation(diffs)/math.Sqrt(10), "%se-of-10-rounds")
			b.ReportMetric(100*deviation(single), "%se-of-one-request")
			b.ReportMetric(median(base), "ns/run")
			b.ReportMetric(median(floor), "ns/floor")
		})
	}
}

// oneRequest loads and attaches a program, sends one packet, and reads fdinfo.
func oneRequest(m *Macro) (ns float64, err error) {
	err = m.s.do(func() error {
		subs := make([]*subject, 3)
		for i := range subs {
			if subs[i], err = m.load(i); err != nil {
				return err
			}
			defer subs[i].close()
		}
		if err := m.place(subs); err != nil {
			return err
		}
		stats, err := programs.EnableStats()
		if err != nil {
			return err
		}
		defer stats.Close()
		if err := m.read(subs[0], 1, 1); err != nil {
			return err
		}
		ns = subs[0].total.PerRun()
		return nil
	})
	return ns, err
}

// deviation is the standard deviation of xs without the tails: from the median
// absolute deviation, as for a normal distribution.
func deviation(xs []float64) float64 {
	mid := median(xs)
	d := slices.Clone(xs)
	for i := range d {
		d[i] = math.Abs(d[i] - mid)
	}
	return 1.4826 * median(d)
}
