package gate_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// Slowdowns exactly at the margin, the worst case of the null hypothesis, in
// suites of 1 and of 20, over all looks: the suite is called Regressed at most
// alpha of the time. Alpha is 0.1 here so that a fault shows in few trials.
func TestFalseAlarms(t *testing.T) {
	p := latencyPolicy(0.03)
	p.Alpha = 0.1
	for _, c := range []struct{ m, rounds, trials int }{{1, 80, 800}, {20, 40, 250}} {
		rnd := rand.New(rand.NewPCG(11, uint64(c.m)))
		regressed, improved := 0, 0
		for range c.trials {
			base, head := suite(rnd, c.m, c.rounds, func(int) float64 { return 0.03 })
			r := session(t, p, base, head)
			if r.Verdict == gate.Regressed {
				regressed++
			}
			if slices.ContainsFunc(r.Comparisons, func(c gate.Comparison) bool { return c.Verdict == gate.Improved }) {
				improved++
			}
		}
		rate := float64(regressed) / float64(c.trials)
		bound := p.Alpha + 3*math.Sqrt(p.Alpha*(1-p.Alpha)/float64(c.trials))
		t.Logf("suite of %d: %.3f of %d called regressed (alpha %v)", c.m, rate, c.trials, p.Alpha)
		if rate > bound {
			t.Errorf("suite of %d: %.3f called regressed, at most %.3f", c.m, rate, bound)
		}
		if rate < p.Alpha/10 { // a procedure that never rejects would also hold alpha
			t.Errorf("suite of %d: %.3f called regressed: the test has no teeth", c.m, rate)
		}
		if improved > 0 {
			t.Errorf("suite of %d: %d of %d slower ones called improved", c.m, improved, c.trials)
		}
	}
}

// What is slower by exactly the margin passes at most passAlpha of the time.
func TestFalsePasses(t *testing.T) {
	p := latencyPolicy(0.03)
	rnd := rand.New(rand.NewPCG(12, 1))
	const trials = 600
	passed := 0
	for range trials {
		base, head := suite(rnd, 1, 80, func(int) float64 { return 0.03 })
		if session(t, p, base, head).Verdict == gate.Pass {
			passed++
		}
	}
	if rate := float64(passed) / trials; rate > 0.05+3*math.Sqrt(0.05/trials) || rate < 0.005 {
		t.Errorf("%.3f passed, expected about 0.05", rate)
	}
}

// A suite of 20 with one slower and one faster program: these are found, the
// others pass, and nothing else is said of anyone.
func TestPower(t *testing.T) {
	p := latencyPolicy(0.03)
	rnd := rand.New(rand.NewPCG(13, 1))
	const trials = 25
	found, fast, pass := 0, 0, 0
	for range trials {
		base, head := suite(rnd, 20, 320, func(i int) float64 { return map[int]float64{3: 0.06, 7: -0.06}[i] })
		r := session(t, p, base, head)
		for _, c := range r.Comparisons {
			switch {
			case c.Verdict == gate.Regressed && c.Benchmark == "p/3":
				found++
			case c.Verdict == gate.Improved && c.Benchmark == "p/7":
				fast++
			case c.Verdict == gate.Pass && c.Benchmark != "p/3":
				pass++
			case c.Verdict != gate.Inconclusive:
				t.Errorf("%s is %v", c.Benchmark, c.Verdict)
			}
			if c.Verdict == gate.Pass && c.Rounds > 160 {
				t.Errorf("%s needed %d rounds to pass", c.Benchmark, c.Rounds)
			}
		}
		if r.Verdict == gate.Regressed && r.Comparisons[0].Benchmark != "p/3" {
			t.Errorf("first row is %s", r.Comparisons[0].Benchmark)
		}
	}
	// A faster program may pass before it is known to have improved.
	if found < trials-1 || fast < trials/4 || pass < 18*trials {
		t.Errorf("of %d suites: %d slowdowns found, %d gains found, %d rows passed", trials, found, fast, pass)
	}
}

// The verdict's interval is the verdict's: it lies above the margin where
// Regressed, below where Pass, beyond the mirrored one where Improved, and holds
// it where Inconclusive; and its level is what was left after the correction.
func TestIntervalDecides(t *testing.T) {
	p := latencyPolicy(0.03)
	rnd := rand.New(rand.NewPCG(14, 1))
	seen := map[gate.Verdict]int{}
	for trial := range 150 {
		effect := []float64{0, 0.015, 0.03, 0.045, 0.12, -0.09}[trial%6]
		base, head := suite(rnd, 3, 20<<(trial%3), func(int) float64 { return effect })
		for _, c := range session(t, p, base, head).Comparisons {
			seen[c.Verdict]++
			i, margin := c.Interval, *c.Margin
			// The margin is of the net time: 100 of about 130 ns.
			if margin < 0.02 || margin > 0.025 {
				t.Fatalf("margin %v", margin)
			}
			ok := map[gate.Verdict]bool{
				gate.Regressed:    i.Low > margin,
				gate.Pass:         i.High < margin,
				gate.Improved:     i.High < -margin,
				gate.Inconclusive: i.Low <= margin && margin <= i.High,
			}[c.Verdict]
			if !ok || *c.Change < i.Low || *c.Change > i.High {
				t.Fatalf("%v: change %v, interval %+v, margin %v", c.Verdict, *c.Change, i, margin)
			}
			if c.Verdict == gate.Regressed && (i.Level < 1-2*p.Alpha || i.Level > 1-2*0.1*p.Alpha/3+1e-9) {
				t.Fatalf("level %v", i.Level)
			}
		}
	}
	for _, v := range []gate.Verdict{gate.Regressed, gate.Pass, gate.Improved, gate.Inconclusive} {
		if seen[v] == 0 {
			t.Errorf("no row was %v: %v", v, seen)
		}
	}
}

// The p-value of a row is that of the documented test, computed here by hand.
func TestPaired(t *testing.T) {
	rnd := rand.New(rand.NewPCG(15, 1))
	b, h := pair(rnd, 30, 30, 0.2)
	for i := range b.Samples {
		b.Samples[i].Floor += rnd.Float64() // a floor that moves
	}
	p := latencyPolicy(0.03)
	p.MinEffectNS = 2
	c := row(t, gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p), "p/x", "latency")
	y := make([]float64, 30)
	d := make([]float64, 30)
	for i := range y {
		a, f := b.Samples[i].Value, b.Samples[i].Floor
		d[i] = h.Samples[i].Value - a
		y[i] = (d[i] - max(0.03*(a-f), 2)) / (a + h.Samples[i].Value)
	}
	if want := stats.SignedRank(y).Greater; c.P == nil || math.Abs(*c.P-want) > 1e-12 || c.Verdict != gate.Regressed {
		t.Errorf("%v with p %v, want %v", c.Verdict, *c.P, want)
	}
	if want, _ := stats.PairedT(d); c.T == nil || *c.T != (gate.TStatistic{T: want.T, Freedom: want.Freedom, P: want.P}) {
		t.Errorf("t %+v, want %+v", c.T, want)
	}
	if c.Rounds != 30 || c.Floor == nil || *c.Floor < 30 || c.Detectable == nil || *c.Detectable < *c.Margin {
		t.Errorf("row %+v", c)
	}
}

// Alpha is spent look by look: p-values that are small enough for a final look
// are not for an early one, and a session that stopped by itself cannot spend
// what it left.
func TestSpending(t *testing.T) {
	// 20 rounds, 18 slower by far and two faster by more: P(W+ >= 210-39).
	v := make([]float64, 20)
	for i := range v {
		v[i] = 110 + float64(i)/10
	}
	v[3], v[5] = 50, 50.5
	base, head := result("latency", 0, slices.Repeat([]float64{100}, 20)...), result("latency", 0, v...)
	y := make([]float64, 20)
	for i := range y {
		y[i] = (v[i] - 101) / (v[i] + 100)
	}
	pv := stats.SignedRank(y).Greater
	p := latencyPolicy(0.01)
	for _, c := range []struct {
		name  string
		looks []int
		final bool
		alpha float64
		want  gate.Verdict
		open  bool
	}{
		{"replay without looks spends all", nil, false, pv * 1.001, gate.Regressed, false},
		{"and not more", nil, false, pv * 0.999, gate.Inconclusive, false},
		{"first look spends a tenth", []int{20}, false, pv * 10.01, gate.Regressed, false},
		{"and not more", []int{20}, false, pv * 9.99, gate.Inconclusive, true},
		{"a final first look spends all", []int{20}, true, pv * 1.001, gate.Regressed, false},
		{"a final second look spends the rest", []int{10, 20}, true, pv / 0.899, gate.Regressed, false},
		{"and not more", []int{10, 20}, true, pv / 0.901, gate.Inconclusive, false},
		{"a second look spends .15", []int{10, 20}, false, pv / 0.149, gate.Regressed, false},
		{"the fifth of five spends the rest", []int{6, 7, 8, 9, 20}, false, pv / 0.299, gate.Regressed, false},
		{"a sixth has nothing to spend", []int{5, 6, 7, 8, 9, 20}, false, pv * 20, gate.Inconclusive, false},
		{"unless it is final", []int{5, 6, 7, 8, 9, 20}, true, pv / 0.299, gate.Regressed, false},
	} {
		p.Alpha = c.alpha
		head.Looks, head.Final = c.looks, c.final
		got := row(t, gate.Compare(newRun("a", "s", base), newRun("b", "s", head), p), "p/x", "latency")
		if got.Verdict != c.want || got.Open != c.open {
			t.Errorf("%s: %v, open %v (p %v, alpha %v)", c.name, got.Verdict, got.Open, *got.P, c.alpha)
		}
	}
}

// Holm over the suite: m counts every judged noisy row, measured or not, and only
// a rejection returns its alpha, at the same look and at later ones.
func TestHolmOverTheSuite(t *testing.T) {
	slow := func(worse int) bench.Result { // 10 rounds, the first ones faster
		v := make([]float64, 10)
		for i := range v {
			v[i] = 120 + float64(i)
			if i < worse {
				v[i] = 81 - float64(i)
			}
		}
		return result("latency", 0, v...)
	}
	same := result("latency", 0, slices.Repeat([]float64{100}, 10)...)
	p := latencyPolicy(0)
	p.Alpha = 0.002 // all ten slower: p = 1/1024, so alone it is enough
	compare := func(heads ...bench.Result) string {
		base, head := newRun("a", "s"), newRun("b", "s")
		for i, h := range heads {
			name := string(rune('a' + i))
			b := same
			if len(h.Samples) == 0 {
				b.Samples = nil
			}
			base.Results, head.Results = append(base.Results, named(b, name)), append(head.Results, named(h, name))
		}
		r := gate.Compare(base, head, p)
		s := ""
		for i := range heads {
			s += row(t, r, string(rune('a'+i)), "latency").Verdict.String()[:1]
		}
		return s
	}
	none := result("latency", 0)
	for _, c := range []struct {
		name, got, want string
	}{
		{"alone", compare(slow(0)), "r"},
		{"two", compare(slow(0), slow(0)), "rr"}, // .001 each
		{"three", compare(slow(0), slow(0), slow(0)), "iii"},
		{"an unmeasured one counts", compare(slow(0), slow(0), none), "iii"},
		{"one that passes counts", compare(slow(0), slow(0), slow(10)), "iip"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestSwapUnitsOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(16, 1))
	p := latencyPolicy(0.03)
	for trial := range 30 {
		effect := []float64{0, 0.2, -0.2}[trial%3]
		b, h := pair(rnd, 40, 0, effect)
		r := gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p)
		c := r.Comparisons[0]

		swapped := gate.Compare(newRun("a", "s", h), newRun("b", "s", b), p).Comparisons[0]
		mirror := map[gate.Verdict]gate.Verdict{gate.Regressed: gate.Improved, gate.Improved: gate.Regressed, gate.Pass: gate.Pass}
		if swapped.Verdict != mirror[c.Verdict] || *swapped.Change**c.Change > 0 && effect != 0 {
			t.Errorf("%v, swapped %v", c.Verdict, swapped.Verdict)
		}

		scaled := func(r bench.Result) bench.Result {
			r.Samples = slices.Clone(r.Samples)
			for i := range r.Samples {
				r.Samples[i].Value *= 1024
			}
			return r
		}
		u := gate.Compare(newRun("a", "s", scaled(b)), newRun("b", "s", scaled(h)), p).Comparisons[0]
		if u.Verdict != c.Verdict || *u.Change != *c.Change || *u.P != *c.P || *u.Interval != *c.Interval {
			t.Errorf("units: %+v and %+v", c, u)
		}

		for i := range b.Samples { // other order: the rounds change places
			j := rnd.IntN(i + 1)
			for _, s := range [][]bench.Sample{b.Samples, h.Samples} {
				s[i].Value, s[j].Value = s[j].Value, s[i].Value
			}
		}
		o := gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p).Comparisons[0]
		if o.Verdict != c.Verdict || *o.P != *c.P || math.Abs(*o.Change-*c.Change) > 1e-12 {
			t.Errorf("order: %+v and %+v", c, o)
		}
	}
}

// The same files give the same report, byte for byte, and it can be written.
func TestReplay(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 1))
	base, head := suite(rnd, 5, 80, func(i int) float64 { return float64(i) / 30 })
	p := gate.DefaultPolicy()
	a, errA := json.Marshal(session(t, p, base, head))
	b, errB := json.Marshal(session(t, p, base, head))
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%v %v\n%s\n%s", errA, errB, a, b)
	}
}

// One load in seven is slow in head: the typical round passes, and yet head must
// not. The same on both sides is no slow mode of head's.
func TestSlowMode(t *testing.T) {
	rnd := rand.New(rand.NewPCG(18, 1))
	p := latencyPolicy(0.05)
	b, h := pair(rnd, 160, 0, 0)
	for i := range h.Samples {
		if i%7 == 0 {
			h.Samples[i].Value *= 1.4
		}
	}
	c := gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p).Comparisons[0]
	if c.Verdict != gate.Inconclusive || !strings.Contains(c.Reason, "slow mode: in 2") || *c.P > 0.05 {
		t.Errorf("slow mode in head: %v, %q, p %v", c.Verdict, c.Reason, *c.P)
	}
	for i := range b.Samples {
		if i%7 == 1 {
			b.Samples[i].Value *= 1.4
		}
	}
	if c := gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p).Comparisons[0]; c.Verdict != gate.Pass {
		t.Errorf("slow mode in both: %v, %q", c.Verdict, c.Reason)
	}
}

// With policy.test: t_test the paired t-test of the documented values decides, here
// computed by hand, and the interval is still the verdict's.
func TestPairedTDecides(t *testing.T) {
	rnd := rand.New(rand.NewPCG(16, 1))
	p := latencyPolicy(0.03)
	p.Test = gate.PairedT
	seen := map[gate.Verdict]int{}
	for trial := range 60 {
		b, h := pair(rnd, 40, 30, []float64{0, 0.03, 0.15, -0.15}[trial%4])
		c := row(t, gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p), "p/x", "latency")
		seen[c.Verdict]++
		y := make([]float64, 40)
		for i := range y {
			a, f, v := b.Samples[i].Value, b.Samples[i].Floor, h.Samples[i].Value
			y[i] = (v - a - 0.03*(a-f)) / (a + v)
		}
		if r, _ := stats.PairedT(y); c.Verdict == gate.Regressed && math.Abs(*c.P-r.P/2) > 1e-6*r.P {
			t.Errorf("p %v, want %v", *c.P, r.P/2)
		}
		i, margin := c.Interval, *c.Margin
		if c.Verdict == gate.Regressed && i.Low <= margin || c.Verdict == gate.Pass && i.High >= margin ||
			c.Verdict == gate.Inconclusive && (i.Low > margin || margin > i.High) || c.Detectable == nil || c.T == nil {
			t.Errorf("%v with %+v, margin %v", c.Verdict, i, margin)
		}
	}
	for _, v := range []gate.Verdict{gate.Regressed, gate.Pass, gate.Inconclusive, gate.Improved} {
		if seen[v] == 0 {
			t.Errorf("no row was %v: %v", v, seen)
		}
	}
	b, h := result("latency", 0, slices.Repeat([]float64{100}, 40)...), result("latency", 0, slices.Repeat([]float64{120}, 40)...)
	for name, session := range map[string]string{"paired": "s", "unpaired": "other"} {
		if c := row(t, gate.Compare(newRun("a", "s", b), newRun("b", session, h), p), "p/x", "latency"); c.Verdict != gate.Inconclusive || !strings.Contains(c.Reason, "do not vary") {
			t.Errorf("%s, constant: %v, %q", name, c.Verdict, c.Reason)
		}
	}
	p.Test = "z"
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), `test is "z"`) {
		t.Error(err)
	}
}

// A margin of zero: what is the same number every time on both sides is not more than
// base, as it would be of an exact measure. What varies, or is too little, is undecided.
func TestOneNumber(t *testing.T) {
	same := func(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }
	mixed := append(same(19, 700), 701)
	for _, c := range []struct {
		name       string
		base, head []float64
		test       gate.PairedTest
		want       gate.Verdict
		unpaired   gate.Verdict
	}{
		{"the same", same(20, 700), same(20, 700), "", gate.Pass, gate.Pass},
		{"the same, by t-test", same(20, 700), same(20, 700), gate.PairedT, gate.Pass, gate.Pass},
		{"nothing", same(20, 0), same(20, 0), "", gate.Pass, gate.Pass},
		{"too few", same(4, 700), same(4, 700), "", gate.Inconclusive, gate.Inconclusive},
		{"more", same(20, 700), same(20, 701), "", gate.Regressed, gate.Regressed},
		{"once more", same(20, 700), mixed, "", gate.Inconclusive, gate.Inconclusive},
		{"both vary", mixed, mixed, "", gate.Inconclusive, gate.Inconclusive},
		{"fewer", same(20, 701), same(20, 700), "", gate.Improved, gate.Improved},
	} {
		p := gate.DefaultPolicy()
		p.Test = c.test
		p.Limits = map[string]gate.Limit{bench.Runs: {Fail: &gate.Margin{}}}
		for session, want := range map[string]gate.Verdict{"s": c.want, "": c.unpaired} {
			base, head := newRun("b", session, result(bench.Runs, 0, c.base...)), newRun("h", session, result(bench.Runs, 0, c.head...))
			if got := row(t, gate.Compare(base, head, p), "p/x", bench.Runs); got.Verdict != want {
				t.Errorf("%s, session %q: %v (%s), want %v", c.name, session, got.Verdict, got.Reason, want)
			}
		}
	}
}
