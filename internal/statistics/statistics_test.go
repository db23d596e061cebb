package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// The procedure that is simulated is gate's: the same verdicts after the same
// rounds, row by row, whatever the noise, the effect and the test.
func TestSameAsGate(t *testing.T) {
	seen := map[gate.Verdict]int{}
	for i, n := range noises(t) {
		for trial := range 8 {
			u := rule{alpha: 0.2, margin: 0.03, test: []gate.PairedTest{gate.SignedRank, gate.PairedT}[trial%2]}
			seed := uint64(100*i + trial)
			start := func() []*row {
				rows := suite(rand.New(rand.NewPCG(1, seed)), n, 6, 0)
				for k, w := range rows {
					w.effect = []float64{0, 0.03, 0.04, 0.06, -0.1, 0.2}[k]
				}
				return rows
			}
			fast, real := start(), start()
			u.session(fast)
			for k, c := range compare(real, u) {
				seen[c.Verdict]++
				if c.Verdict != fast[k].verdict || c.Rounds != len(fast[k].rounds) {
					t.Errorf("%s, seed %d, row %d (%s): %v after %d rounds, gate has %v after %d", n.name, seed, k, u.test, fast[k].verdict, len(fast[k].rounds), c.Verdict, c.Rounds)
				}
			}
		}
	}
	for _, v := range []gate.Verdict{gate.Regressed, gate.Pass, gate.Improved, gate.Inconclusive} {
		if seen[v] == 0 {
			t.Errorf("no row was %v: %v", v, seen)
		}
	}
}

// noises are those of the study, the recorded ones first.
func noises(t *testing.T) []noise {
	t.Helper()
	real, err := recorded("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return append(real, synthetic()...)
}

// A small part of the study: unchanged suites of twenty hold alpha, as do ones at the
// limit, with a tenth for alpha so that few trials tell.
func TestFamilyWise(t *testing.T) {
	u := rule{alpha: 0.1, margin: 0.01}
	for _, n := range noises(t) {
		for effect, trials := range map[float64]int{0: 150, u.margin: 60} {
			s := study{seed: 3, trials: trials}
			k := s.count(fmt.Sprint(n.name, effect), s.trials, func(rnd *rand.Rand) bool {
				rows := suite(rnd, n, 20, effect)
				u.session(rows)
				return has(rows, gate.Regressed)
			})
			if low, _ := stats.BinomialInterval(k, s.trials, 0.999); low > u.alpha {
				t.Errorf("%s, slower by %v: %d of %d suites regressed, alpha is %v", n.name, effect, k, s.trials, u.alpha)
			}
		}
	}
}

// A procedure that never rejects would hold alpha as well.
func TestPowerIsThere(t *testing.T) {
	s := study{noises: synthetic()[:1], seed: 4, trials: 40}
	u := rule{alpha: alpha, margin: 0.01}
	k := s.count("power", s.trials, func(rnd *rand.Rand) bool {
		rows := suite(rnd, s.noises[0], 20, 0)
		rows[7].effect = 0.03
		u.session(rows)
		return rows[7].verdict == gate.Regressed
	})
	if k < 36 {
		t.Errorf("3%% found in %d of %d", k, s.trials)
	}
}

// The rejection rate of rounds as they were measured is not above that of the same
// rounds flipped by coins: every order was random. A side that is always measured
// first is found out.
func TestOrdersAreRandom(t *testing.T) {
	s := study{seed: 5, trials: 1000}
	for _, n := range noises(t) {
		actual, of, flipped := s.orderRates(n, 20)
		low, _ := stats.BinomialInterval(actual, of, 0.9999)
		if _, high := stats.BinomialInterval(flipped, s.trials, 0.9999); low > high {
			t.Errorf("%s: %d of %d rejected as measured, %d of %d flipped", n.name, actual, of, flipped, s.trials)
		}
		if n.recorded != nil {
			if p := orderTest(n.recorded, nil).TwoSided; p < 0.0001 {
				t.Errorf("%s: the sides of all %d rounds differ, p = %.2g", n.name, len(n.recorded), p)
			}
		}
		if _, high := stats.BinomialInterval(flipped, s.trials, 0.9999); high < 0.03 || flipped > 2*orderLevel*1000 {
			t.Errorf("%s: %d of %d rejected when flipped, want %v of them", n.name, flipped, s.trials, orderLevel)
		}
	}
	biased := noise{name: "biased", start: func(rnd *rand.Rand) func() round {
		next := synthetic()[0].start(rnd)
		return func() round { return next().slower(0.006) } // fact 12 of the design
	}}
	actual, of, flipped := s.orderRates(biased, 80)
	low, _ := stats.BinomialInterval(actual, of, 0.9999)
	if _, high := stats.BinomialInterval(flipped, s.trials, 0.9999); low <= high {
		t.Errorf("a steady bias of 0.6%% is not seen: %d rejected as measured, %d flipped", actual, flipped)
	}
}

// At a fixed number of rounds the signed-rank interval covers as it says.
func TestCoverage(t *testing.T) {
	s := study{seed: 6, trials: 1500}
	v := intervals(0)[0]
	for _, n := range synthetic() {
		k := s.covered(n, 20, v)[0]
		if low, high := stats.BinomialInterval(k, s.trials, 0.9999); low > 0.97 || high < 0.95 {
			t.Errorf("%s: %d of %d intervals hold the truth", n.name, k, s.trials)
		}
	}
}

// At stopping, the interval that a verdict shows misses the truth no oftener than
// its level says; the worst is a program slower by exactly the limit, which passes
// once in twenty sessions.
func TestCoverageAtStopping(t *testing.T) {
	s := study{seed: 9}
	const margin = 0.01
	for effect, trials := range map[float64]int{0: 60, margin: 150, 0.02: 60} {
		may := 0.0
		n := synthetic()[0]
		missed := 0
		for i := range trials {
			c := compare(suite(rand.New(rand.NewPCG(s.seed, uint64(i))), n, 1, effect), rule{alpha: alpha, margin: margin})[0]
			if c.Interval == nil {
				t.Fatal("no interval")
			}
			may += 1 - c.Interval.Level
			if truth := effect / margin * *c.Margin; truth < c.Interval.Low || truth > c.Interval.High {
				missed++
			}
		}
		if low, _ := stats.BinomialInterval(missed, trials, 0.999); low > may/float64(trials) {
			t.Errorf("slower by %v: %d of %d intervals miss the truth, %.1f may", effect, missed, trials, may)
		}
	}
}

// What a study says depends on the seed and on nothing else.
func TestRepeatable(t *testing.T) {
	s := study{noises: synthetic(), seed: 7, suites: 20, trials: 20}
	u := s
	u.seed = 8
	first := s.orders() + s.passes()
	if again := s.orders() + s.passes(); again != first {
		t.Errorf("%s\nand then\n%s", first, again)
	}
	if u.orders()+u.passes() == first {
		t.Error("another seed changes nothing")
	}
	for name, table := range map[string]string{
		"alarms": s.falseAlarms(), "power": s.power(), "fixed": s.fixed(100), "stopped": s.stopped(), "peers": study{noises: synthetic()[:1], seed: 1, trials: 20}.compared(100),
	} {
		lines := strings.Split(strings.TrimSpace(table), "\n")
		if len(lines) < 4 || strings.Count(lines[0], "|") != strings.Count(lines[3], "|") || strings.Contains(table, "NaN") {
			t.Errorf("%s:\n%s", name, table)
		}
	}
}

func TestReplace(t *testing.T) {
	got, err := replace("a\n<!-- table x -->\nold\n<!-- end -->\nb <!-- end -->", "x", "new\n")
	if want := "a\n<!-- table x -->\nnew\n<!-- end -->\nb <!-- end -->"; got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := replace("a", "x", "new"); err == nil {
		t.Error("no place, no error")
	}
	// The page has a place for each table.
	doc, err := os.ReadFile("../../docs/statistics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alarms", "power", "passes", "fixed", "stopped", "orders", "peers", "layout", "effect", "aa"} {
		if _, err := replace(string(doc), name, ""); err != nil {
			t.Error(err)
		}
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, doc, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := putTable(page, "aa", strings.NewReader("")); err == nil {
		t.Error("no table was put")
	}
	if err := putTable(page, "aa", strings.NewReader("| a |\n|-|\n| 1 |\n")); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(page); err != nil || !strings.Contains(string(got), "<!-- table aa -->\n| a |\n|-|\n| 1 |\n<!-- end -->") {
		t.Errorf("%v\n%s", err, got)
	}
}

// Recordings that are torn, alone, or of two sessions are errors, and none at all
// is none.
func TestRecorded(t *testing.T) {
	dir := t.TempDir()
	if all, err := recorded(dir); err != nil || all != nil {
		t.Errorf("nothing: %v, %v", all, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "noise-x-base.json.gz"), []byte("no gzip"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := recorded(dir); err == nil || !strings.Contains(err.Error(), "noise-x-base.json.gz") {
		t.Errorf("torn: %v", err)
	}
	var rounds []round
	for i := range 40 {
		rounds = append(rounds, round{float64(i), 1000 + float64(i), 0})
	}
	next := recording("r", rounds).start(rand.New(rand.NewPCG(1, 1)))
	const played = 100_000
	follows, swapped := 0, 0
	last := next()
	for range played {
		r := next()
		if max(r.a, r.b)-min(r.a, r.b) != 1000 {
			t.Fatalf("%v was not recorded", r)
		}
		if r.a > r.b {
			swapped++
		}
		if math.Mod(min(r.a, r.b)-min(last.a, last.b)+40, 40) == 1 {
			follows++
		}
		last = r
	}
	if share := float64(follows) / played; math.Abs(share-(1-1.0/stretch)) > 0.01 {
		t.Errorf("%v of the rounds follow the one before, want all but one in %d", share, stretch)
	}
	if share := float64(swapped) / played; math.Abs(share-0.5) > 0.01 {
		t.Errorf("%v of the rounds are swapped", share)
	}
}
