package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/org/ebpf-bench-gate/stats"
)

// The annual flow of the Nile at Aswan, 1871 to 1970, R's dataset Nile. It is
// known for one change, after 1898 (Cobb 1978; Zeileis et al. 2003), the 28th year.
var nile = []float64{
	1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
	1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
	831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
	781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
	744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
}

func places(c []stats.Change) string {
	var at []int
	for _, c := range c {
		at = append(at, c.At)
	}
	return fmt.Sprint(at)
}

// Apache Otava's (Hunter's) and MongoDB's own tests of E-divisive: a series that
// halves after ten runs, and steps from 0 to 1 after any number of them. (Of ten runs
// in the best order one shuffle in 126 is as good, which the default level hardly
// takes.)
func TestChangesOfOthers(t *testing.T) {
	x := []float64{
		1.02, 0.95, 0.99, 1.00, 1.12, 1.00, 1.01, 0.98, 1.01, 0.96,
		0.50, 0.51, 0.48, 0.48, 0.55, 0.50, 0.49, 0.51, 0.50, 0.49,
	}
	if got := places(stats.Changes(x, stats.ChangeOptions{})); got != "[10]" {
		t.Errorf("Otava: %s", got)
	}
	for n := 6; n < 100; n++ {
		if got := places(stats.Changes(slices.Concat(repeat(n, 0), repeat(n, 1)), stats.ChangeOptions{})); got != fmt.Sprintf("[%d]", n) {
			t.Errorf("MongoDB, %d and %d: %s", n, n, got)
		}
	}
}

func TestChangesPublished(t *testing.T) {
	for seed := range uint64(5) {
		c := stats.Changes(nile, stats.ChangeOptions{Seed: seed})
		if places(c) != "[28]" || c[0].P > 0.01 {
			t.Errorf("seed %d: %+v", seed, c)
		}
	}
}

// Steps are found where they are, to within what noise hides; without one nothing
// is found but by chance.
func TestChanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(51, 1))
	step := func(n int, levels ...float64) []float64 {
		return seq(n*len(levels), func(i int) float64 { return levels[i/n] + rnd.NormFloat64() })
	}
	for _, c := range []struct {
		name   string
		x      []float64
		want   []int
		within int
	}{
		{"one", step(30, 100, 104), []int{30}, 2},
		{"two", step(25, 100, 104, 99), []int{25, 50}, 2},
		{"a spread", seq(200, func(i int) float64 { return []float64{1, 8}[i/100] * rnd.NormFloat64() }), []int{100}, 12},
		{"exact", slices.Concat(repeat(7, 58), repeat(9, 60), repeat(5, 59)), []int{7, 16}, 0},
		{"one outlier", append(append(repeat(10, 1, 2, 3), 900), repeat(10, 1, 2, 3)...), nil, 0},
		{"near the end: five values after it", append(repeat(10, 1, 2, 3), 50, 51, 52, 53), []int{29}, 0},
	} {
		got := stats.Changes(c.x, stats.ChangeOptions{})
		ok := len(got) == len(c.want)
		for i := range got {
			ok = ok && math.Abs(float64(got[i].At-c.want[i])) <= float64(c.within)
		}
		if !ok {
			t.Errorf("%s: %+v, want %v", c.name, got, c.want)
		}
	}
	const trials, level = 1000, 0.05
	alarms := 0
	for i := range trials {
		x := seq(40, func(int) float64 { return cauchyish(rnd) })
		if len(stats.Changes(x, stats.ChangeOptions{Level: level, Seed: uint64(i)})) > 0 {
			alarms++
		}
	}
	if rate := float64(alarms) / trials; rate > level+4*math.Sqrt(level/trials) || rate < level/3 {
		t.Errorf("%.3f of series without a change have one, want %v", rate, level)
	}
}

// Units, direction and a constant do not move a change; seeds make it repeatable.
func TestChangesInvariant(t *testing.T) {
	want := stats.Changes(nile, stats.ChangeOptions{})
	for name, f := range map[string]func(float64) float64{
		"scaled": func(v float64) float64 { return v * 1e-200 }, "huge": func(v float64) float64 { return v * 1e300 },
		"flipped": func(v float64) float64 { return -v }, "moved": func(v float64) float64 { return v + 1e6 },
	} {
		x := seq(len(nile), func(i int) float64 { return f(nile[i]) })
		if got := stats.Changes(x, stats.ChangeOptions{}); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	back := slices.Clone(nile)
	slices.Reverse(back)
	if got := places(stats.Changes(back, stats.ChangeOptions{})); got != "[72]" {
		t.Errorf("backwards: %s", got)
	}
	for name, x := range map[string][]float64{
		"empty": nil, "short": {1, 2, 3}, "constant": repeat(50, 2), "nan": append(repeat(20, 1, 2), math.NaN()),
		"inf": append(repeat(20, 1, 2), math.Inf(1)), "long": make([]float64, stats.MaxChangeValues+1),
		"overflow": append(repeat(20, -math.MaxFloat64), repeat(20, math.MaxFloat64)...),
	} {
		if got := stats.Changes(x, stats.ChangeOptions{}); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What a threshold asks of each series of 64 runs: see issue 4.
func BenchmarkChanges(b *testing.B) {
	rnd := rand.New(rand.NewPCG(52, 1))
	x := seq(64, func(int) float64 { return rnd.NormFloat64() })
	for i := 0; b.Loop(); i++ {
		stats.Changes(x, stats.ChangeOptions{Seed: uint64(i)})
	}
}
