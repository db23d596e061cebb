package gate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// What a row is said to need decides most rows that ask for it, and what it already
// had decides none of them. (Half would be decided by exactly the rounds that the
// bounds ask for; looks are further apart than that.)
func TestNeeds(t *testing.T) {
	const perRound = 0.02
	asked, decided := 0, 0
	p := latencyPolicy(.05)
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		effect := .01 + .08*rnd.Float64()
		b, h := pair(rnd, 320, 0, effect)
		cut := func(n int) *gate.Report {
			base, head := newRun("base", "s"), newRun("head", "s")
			b, h := b, h
			b.Samples, h.Samples = b.Samples[:n], h.Samples[:n]
			for _, look := range p.Looks() {
				if look <= n {
					h.Looks = append(h.Looks, look)
				}
			}
			h.Final, h.Seconds = true, perRound*float64(n)
			base.Results, head.Results = []bench.Result{b}, []bench.Result{h}
			return gate.Compare(base, head, p)
		}
		r := cut(20)
		c := row(t, r, "p/x", "latency")
		if c.Verdict != gate.Inconclusive {
			if c.Needs != nil || r.Budget() != 0 {
				t.Fatalf("seed %d: %v needs %v", seed, c.Verdict, *c.Needs)
			}
			continue
		}
		if c.Needs == nil {
			continue
		}
		asked++
		rounds := 20 + int(*c.Needs/perRound+.5)
		if rounds != 40 && rounds != 80 && rounds != 160 && rounds != 320 {
			t.Fatalf("seed %d: %d rounds are no look", seed, rounds)
		}
		if least := time.Duration(float64(rounds) * perRound * float64(time.Second)); r.Budget() < least || r.Budget() > 3*least {
			t.Fatalf("seed %d: a budget of %v for %v", seed, r.Budget(), least)
		}
		if row(t, cut(rounds), "p/x", "latency").Verdict != gate.Inconclusive {
			decided++
		}
	}
	t.Logf("%d of %d decided", decided, asked)
	if asked < 50 || decided*5 < asked*3 {
		t.Errorf("%d of %d decided", decided, asked)
	}
}
