package cli

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// still is a program of so many ns over a floor of 20 that differs from load to load
// by that share.
func still(net, noise float64, rounds int, edit func(i int, s *bench.Sample)) *stillness {
	rnd := rand.New(rand.NewPCG(81, 1))
	s := &stillness{benchmark: "p/x", path: "driver", took: time.Duration(rounds) * 10 * time.Millisecond, policy: gate.DefaultPolicy()}
	for i := range rounds {
		a := bench.Sample{Round: i, Value: 20 + net*(1+noise*rnd.NormFloat64()), Floor: 20}
		b := bench.Sample{Round: i, Value: 20 + net*(1+noise*rnd.NormFloat64()), Floor: 20}
		if edit != nil {
			edit(i, &a)
		}
		s.base, s.head = append(s.base, a), append(s.head, b)
	}
	return s
}

// What would help follows from what was seen, and is not said where it was not.
func TestNoiseHelps(t *testing.T) {
	interrupted, stolen := "other work interrupts", "the hypervisor took"
	minimum, enough := "min_effect", "are enough here"
	more, hopeless := "--budget", "the most that gate run takes"
	all := []string{interrupted, stolen, minimum, enough, more, hopeless}
	for _, c := range []struct {
		name string
		s    *stillness
		want []string
	}{
		{"quiet", still(500, 0.005, 160, nil), []string{enough}},
		{"small", still(10, 0.005, 160, nil), []string{minimum, enough}},
		{"interrupted", still(500, 0.005, 160, func(i int, s *bench.Sample) { s.Switches = int64(i % 2) }), []string{interrupted, enough}},
		{"now and then", still(500, 0.005, 160, func(i int, s *bench.Sample) { s.Switches = int64(max(0, i%20-18)) }), []string{enough}},
		{"stolen", still(500, 0.005, 160, func(i int, s *bench.Sample) { s.Steal = int64(i % 2) }), []string{stolen, enough}},
		{"noisy, a short look", still(500, 0.06, 40, nil), []string{more}},
		{"too noisy", still(500, 0.25, 320, nil), []string{hopeless}},
	} {
		got := strings.Join(c.s.helps(), "\n")
		for _, h := range all {
			want := false
			for _, w := range c.want {
				want = want || w == h
			}
			if strings.Contains(got, h) != want {
				t.Errorf("%s: %q is there: %v\n%s", c.name, h, !want, got)
			}
		}
	}
	told := still(500, 0.01, 80, nil)
	told.policy.Limits = nil
	if got := strings.Join(told.helps(), "\n"); !strings.Contains(got, "320 rounds show half of what 80 do") {
		t.Errorf("without a limit: %s", got)
	}
}

// The smallest slowdown of the table is the one that a report of as many rounds tells,
// and it shrinks with more of them.
func TestNoiseSights(t *testing.T) {
	s := still(500, 0.02, 320, nil)
	sights := s.sights()
	if len(sights) != 5 {
		t.Fatalf("%+v", sights)
	}
	for i, v := range sights {
		if got := *s.judged(v.rounds).Detectable; math.Abs(got-v.margin-v.noise) > 1e-12 || v.margin < 0.045 || v.margin > 0.05 {
			t.Errorf("%d rounds: %+v, a report has %v", v.rounds, v, got)
		}
		if i > 0 && !(v.noise < sights[i-1].noise) {
			t.Errorf("%d rounds: noise %v, after %v", v.rounds, v.noise, sights[i-1].noise)
		}
	}
	var out bytes.Buffer
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"p/x against itself, 320 rounds (driver)", "an empty program: 20.0 ns", "regressed 9 times in 10 from", "% of 500.", "3.2s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	broken := still(500, 0.02, 20, func(i int, s *bench.Sample) { s.Value = math.NaN() })
	if err := broken.print(&out); err == nil {
		t.Error("readings that are no numbers were printed")
	}
}
