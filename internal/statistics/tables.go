package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// A study is what the tables are made from.
type study struct {
	noises []noise
	seed   uint64
	suites int // simulated suites of each false-alarm rate
	trials int // of each other rate
}

const alpha = 0.01

// count runs trials on all processors, each with random numbers of its own that
// only depend on the seed, the table and its number, and counts those that hold.
func (s study) count(table string, trials int, holds func(rnd *rand.Rand) bool) int {
	salt := s.seed
	for _, c := range []byte(table) {
		salt = salt*1099511628211 + uint64(c)
	}
	var next, n atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(trials); i = next.Add(1) {
				if holds(rand.New(rand.NewPCG(salt, uint64(i)))) {
					n.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return int(n.Load())
}

// share is k of n as a percentage, with its 95% interval (Clopper & Pearson 1934).
func share(k, n int) string {
	low, high := stats.BinomialInterval(k, n, 0.95)
	return fmt.Sprintf("%.2f%% [%.2f, %.2f]", 100*float64(k)/float64(n), 100*low, 100*high)
}

// falseAlarms is how often a suite of unchanged benchmarks, and one of benchmarks
// slower by exactly the margin, is called regressed.
func (s study) falseAlarms() string {
	t := table("noise", "benchmarks", "unchanged: regressed", "improved", "slower by the limit: regressed")
	u := rule{alpha: alpha, margin: 0.01}
	for _, n := range s.noises {
		for _, m := range []int{1, 20, 200} {
			key := fmt.Sprint("alarms ", n.name, m)
			var improved atomic.Int64
			regressed := s.count(key, s.suites, func(rnd *rand.Rand) bool {
				rows := suite(rnd, n, m, 0)
				u.session(rows)
				if has(rows, gate.Improved) {
					improved.Add(1)
				}
				return has(rows, gate.Regressed)
			})
			// At the limit hardly anything is decided early, so that a suite takes
			// five times as long: fewer of them.
			worst := max(s.suites*2/5, 1)
			if m > 20 {
				worst = max(s.suites/10, 1)
			}
			at := s.count(key+" worst", worst, func(rnd *rand.Rand) bool {
				rows := suite(rnd, n, m, u.margin)
				u.session(rows)
				return has(rows, gate.Regressed)
			})
			t.add(n.name, fmt.Sprint(m), share(regressed, s.suites), share(int(improved.Load()), s.suites),
				fmt.Sprintf("%s of %d", share(at, worst), worst))
		}
	}
	return t.String()
}

// power is how often one slower benchmark of twenty is called regressed, and how
// often unchanged ones pass.
func (s study) power() string {
	t := table("noise", "limit", "slower by", "test", "regressed", "after rounds (median)", "improved")
	for _, n := range s.noises {
		for _, c := range []struct{ margin, effect float64 }{{0.01, 0.03}, {0.005, 0.02}} {
			for _, test := range []gate.PairedTest{gate.SignedRank, gate.PairedT} {
				u := rule{alpha: alpha, margin: c.margin, test: test}
				var mu sync.Mutex
				var rounds []float64
				improved := 0
				found := s.count(fmt.Sprint("power ", n.name, c), s.trials, func(rnd *rand.Rand) bool {
					rows := suite(rnd, n, 20, 0)
					rows[0].effect = c.effect
					u.session(rows)
					mu.Lock()
					defer mu.Unlock()
					if rows[0].verdict == gate.Improved {
						improved++
					}
					rounds = append(rounds, float64(len(rows[0].rounds)))
					return rows[0].verdict == gate.Regressed
				})
				t.add(n.name, percent(c.margin), percent(c.effect), string(test), share(found, s.trials), fmt.Sprint(stats.Median(rounds)), fmt.Sprint(improved))
			}
		}
	}
	return t.String()
}

// passes is how often unchanged benchmarks pass, and after how many rounds.
func (s study) passes() string {
	t := table("noise", "limit", "passed", "after rounds (median)")
	for _, n := range s.noises {
		for _, margin := range []float64{0.01, 0.03} {
			var mu sync.Mutex
			var rounds []float64
			passed := s.count(fmt.Sprint("pass ", n.name, margin), s.trials, func(rnd *rand.Rand) bool {
				rows := suite(rnd, n, 1, 0)
				rule{alpha: alpha, margin: margin}.session(rows)
				mu.Lock()
				defer mu.Unlock()
				rounds = append(rounds, float64(len(rows[0].rounds)))
				return rows[0].verdict == gate.Pass
			})
			t.add(n.name, percent(margin), share(passed, s.trials), fmt.Sprint(stats.Median(rounds)))
		}
	}
	return t.String()
}

// orders holds the rejection rate of rounds as they were against that of the same
// rounds with the sides of each exchanged by a coin. Random orders make these equal:
// more rejections as they were mean that some order is not random. A recording has
// as many rounds as it has, so it is cut into parts, and is also judged as a whole.
func (s study) orders() string {
	t := table("noise", "rounds", "rejected as measured", "rejected flipped")
	for _, n := range s.noises {
		for _, size := range []int{20, 80} {
			actual, of, flipped := s.orderRates(n, size)
			t.add(n.name, fmt.Sprint(size), fmt.Sprintf("%s of %d", share(actual, of), of), share(flipped, s.trials))
		}
		if all := n.recorded; all != nil {
			t.add(n.name, fmt.Sprintf("all %d", len(all)), fmt.Sprintf("p = %.2g", orderTest(all, nil).TwoSided), "")
		}
	}
	return t.String()
}

const orderLevel = 0.05

// orderRates are the numbers of sessions that a test of no difference rejects as
// they were measured, of so many, and flipped, of s.trials.
func (s study) orderRates(n noise, size int) (actual, of, flipped int) {
	session := func(rnd *rand.Rand) []round {
		next := n.start(rnd)
		rounds := make([]round, size)
		for i := range rounds {
			rounds[i] = next()
		}
		return rounds
	}
	key := fmt.Sprint("orders ", n.name, size)
	flipped = s.count(key, s.trials, func(rnd *rand.Rand) bool {
		return orderTest(session(rnd), rnd).TwoSided <= orderLevel
	})
	if n.recorded != nil {
		for part := range slices.Chunk(n.recorded, size) {
			if len(part) < size {
				break
			}
			of++
			if orderTest(part, nil).TwoSided <= orderLevel {
				actual++
			}
		}
		return actual, of, flipped
	}
	actual = s.count(key, s.trials, func(rnd *rand.Rand) bool {
		return orderTest(session(rnd), nil).TwoSided <= orderLevel
	})
	return actual, s.trials, flipped
}

// orderTest tests the sides of rounds for any difference, flipped by the coins of
// flip where that is not nil.
func orderTest(rounds []round, flip *rand.Rand) stats.RankTest {
	y := make([]float64, len(rounds))
	for i, r := range rounds {
		y[i] = (r.b - r.a) / (r.a + r.b)
		if flip != nil && flip.IntN(2) == 0 {
			y[i] = -y[i]
		}
	}
	return stats.SignedRank(y)
}

// compared holds the rules of peers against ours on the same loads.
func (s study) compared(resamples int) string {
	t := table("noise", "rule", "measures", "false alarms", "a suite of 20 alarms", "smallest slowdown caught 19 times in 20")
	for _, n := range s.noises {
		for _, p := range peers(resamples) {
			key := fmt.Sprint("peer ", n.name, p.name)
			k := s.count(key, s.trials, func(rnd *rand.Rand) bool { return p.alarm(rnd, n, 0) })
			suiteRate := s.count(key+" suite", max(s.trials/20, 20), func(rnd *rand.Rand) bool {
				for range 20 {
					if p.alarm(rnd, n, 0) {
						return true
					}
				}
				return false
			})
			t.add(n.name, p.name, p.needs, share(k, s.trials), fmt.Sprintf("%.1f%%", 100*float64(suiteRate)/float64(max(s.trials/20, 20))), s.smallest(key, n, p))
		}
	}
	return t.String()
}

// smallest bisects for the slowdown that is caught in 95 of 100.
func (s study) smallest(key string, n noise, p peer) string {
	trials := max(s.trials/10, 40)
	caught := func(effect float64) bool {
		k := s.count(key+" power", trials, func(rnd *rand.Rand) bool { return p.alarm(rnd, n, effect) })
		return float64(k) >= 0.95*float64(trials)
	}
	low, high := 0.0, 0.01
	for !caught(high) {
		if low, high = high, 2*high; high > 10 {
			return "more than 1000%"
		}
	}
	for range 6 {
		if mid := (low + high) / 2; caught(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return percent(high)
}

func percent(x float64) string { return fmt.Sprintf("%.3g%%", 100*x) }

// A grid is a table of markdown.
type grid struct{ lines []string }

func table(columns ...string) *grid {
	g := &grid{}
	g.add(columns...)
	g.lines = append(g.lines, "|"+strings.Repeat("-|", len(columns)))
	return g
}

func (g *grid) add(cells ...string) { g.lines = append(g.lines, "| "+strings.Join(cells, " | ")+" |") }

func (g *grid) String() string { return strings.Join(g.lines, "\n") + "\n" }
