package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// A round is one pair of samples in ns: base, head, and the floor beside base.
type round struct{ a, b, floor float64 }

// slower is the round as it would be if head took that share more of its own time.
func (r round) slower(effect float64) round {
	r.b = r.floor + (r.b-r.floor)*(1+effect)
	return r
}

// A noise is a way in which identical programs differ from load to load.
type noise struct {
	name string
	// start begins a session: each call of next is its next round.
	start func(rnd *rand.Rand) (next func() round)
	// recorded are the rounds that were measured, in their order; nil: none were.
	recorded []round
}

// Synthetic noise is of a program of 100 ns over a floor of 30 ns. Every order is
// random, as the real lane's are, so that rounds are symmetric; nothing else about
// it is kind.
const (
	floor = 30
	net   = 100
)

// synthetic are the invented noises, each worse in its own way than what was
// recorded.
func synthetic() []noise {
	round1 := func(host, a, b float64) round {
		return round{floor + net*host*a, floor + net*host*b, floor}
	}
	heavy := func(rnd *rand.Rand) float64 { // 0.7%, one load in eight 5.6%
		x := 0.007 * rnd.NormFloat64()
		if rnd.IntN(8) == 0 {
			x *= 8
		}
		return 1 + x
	}
	return []noise{
		{name: "heavy tails", start: func(rnd *rand.Rand) func() round {
			return func() round { return round1(1+0.1*rnd.Float64(), heavy(rnd), heavy(rnd)) }
		}},
		{name: "two modes", start: func(rnd *rand.Rand) func() round {
			side := func() float64 { // the JIT put three loads in ten across a line
				x := 1 + 0.005*rnd.NormFloat64()
				if rnd.Float64() < 0.3 {
					x += 0.08
				}
				return x
			}
			return func() round { return round1(1, side(), side()) }
		}},
		{name: "autocorrelated", start: func(rnd *rand.Rand) func() round {
			// The host's mood drifts, also between the two sides of a round.
			mood := 0.05 * rnd.NormFloat64()
			step := func() float64 {
				mood = 0.95*mood + 0.016*rnd.NormFloat64()
				return math.Exp(mood) * (1 + 0.003*rnd.NormFloat64())
			}
			return func() round {
				first, second := step(), step()
				if rnd.IntN(2) == 0 {
					first, second = second, first
				}
				return round1(1, first, second)
			}
		}},
		{name: "noisy half way", start: func(rnd *rand.Rand) func() round {
			turn, i := 10+rnd.IntN(150), 0
			return func() round {
				i++
				x := func() float64 { return 1 + 0.004*rnd.NormFloat64() }
				if i > turn {
					x = func() float64 { return 1 + 0.04*rnd.NormFloat64()*math.Exp(0.5*rnd.NormFloat64()) }
				}
				return round1(1, x(), x())
			}
		}},
	}
}

// recorded reads the pairs of runs that a directory holds: what gate run stored of a
// program against itself, NAME-base.json.gz and NAME-head.json.gz of one session,
// with as many rounds as there was patience for. Each benchmark in it is a noise.
func recorded(dir string) ([]noise, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*-base.json.gz"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	slices.Reverse(files) // quiet before busy, straight before loop
	var all []noise
	for _, base := range files {
		name := strings.TrimSuffix(base, "-base.json.gz")
		a, err := readRun(base)
		if err != nil {
			return nil, err
		}
		b, err := readRun(name + "-head.json.gz")
		if err != nil {
			return nil, err
		}
		if a.Session == "" || a.Session != b.Session {
			return nil, fmt.Errorf("%s: base and head are not of one session", name)
		}
		for i := range a.Results {
			rounds := pair(&a.Results[i], b)
			if len(rounds) == 0 {
				continue
			}
			title := strings.ReplaceAll(strings.TrimPrefix(filepath.Base(name), "noise-"), "-", " ")
			if len(a.Results) > 1 {
				title += " " + a.Results[i].Benchmark
			}
			all = append(all, recording(title, rounds))
		}
	}
	return all, nil
}

// stretch is the mean number of rounds that a recording is played on end.
const stretch = 50

// recording plays rounds in stretches of random length, each from a random round on
// and in their order, from the end to the start again (the stationary bootstrap of
// Politis & Romano 1994): moods and tails follow upon each other as they did, and a
// recording makes more sessions than it has rounds. Which side of a round is base
// is drawn by a coin, as the orders were when it was measured. That these were, and
// that the signs of rounds do not hang together, is held by [study.orders], which
// takes them as they are.
//
// Note: signs that are kept as measured make a few hundred independent rounds stand
// for ten thousand suites. What a stretch of them has by chance, say 28 of 80 above
// 0, is then in all of these, and the tails of a rate that is far smaller than one in
// the number of rounds are those of one throw.
func recording(name string, rounds []round) noise {
	return noise{name: name, recorded: rounds, start: func(rnd *rand.Rand) func() round {
		i, left := 0, 0
		return func() round {
			if left == 0 {
				i = rnd.IntN(len(rounds))
				left = 1 + int(math.Log(1-rnd.Float64())/math.Log(1-1.0/stretch)) // geometric
			}
			r := rounds[i%len(rounds)]
			i++
			left--
			if rnd.IntN(2) == 0 {
				r.a, r.b = r.b, r.a
			}
			return r
		}
	}}
}

func pair(a *bench.Result, head *bench.Run) []round {
	i := slices.IndexFunc(head.Results, func(b bench.Result) bool { return b.Benchmark == a.Benchmark && b.Measure == a.Measure })
	if a.Measure != bench.Latency || i < 0 {
		return nil
	}
	other := map[int]float64{}
	for _, s := range head.Results[i].Samples {
		other[s.Round] = s.Value
	}
	var all []round
	for _, s := range a.Samples {
		if v, ok := other[s.Round]; ok {
			all = append(all, round{s.Value, v, s.Floor})
		}
	}
	return all
}

func readRun(name string) (r *bench.Run, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r, err = bench.Decode(z); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, errors.Join(z.Close())
}
