package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// A stillness is how a program compared with itself.
type stillness struct {
	benchmark  string
	path       string
	base, head []bench.Sample
	took       time.Duration
	policy     gate.Policy
}

// each is the time of a round.
func (s *stillness) each() time.Duration { return s.took / time.Duration(max(len(s.base), 1)) }

// times is how long so many rounds take.
func (s *stillness) times(rounds int) string {
	return (time.Duration(rounds) * s.each()).Round(10 * time.Millisecond).String()
}

// differences are those of head from base, as shares of their means.
func (s *stillness) differences() []float64 {
	d := make([]float64, len(s.base))
	for i := range d {
		a, b := s.base[i].Value, s.head[i].Value
		d[i] = (b - a) / (a/2 + b/2)
	}
	return d
}

// share is that of the rounds in which something happened.
func (s *stillness) share(of func(bench.Sample) bool) float64 {
	n := 0
	for i := range s.base {
		if of(s.base[i]) || of(s.head[i]) {
			n++
		}
	}
	return float64(n) / float64(max(len(s.base), 1))
}

// stolen is the share of the time that the hypervisor took.
func (s *stillness) stolen() float64 {
	var hundredths int64
	for i := range s.base {
		hundredths += s.base[i].Steal + s.head[i].Steal
	}
	return float64(hundredths) / 100 / s.took.Seconds()
}

// judged is the row of the first n rounds, as of a run of that length.
func (s *stillness) judged(n int) gate.Comparison {
	run := func(id string, samples []bench.Sample) *bench.Run {
		return &bench.Run{ID: id, Session: "noise", Results: []bench.Result{{
			Benchmark: s.benchmark, Program: s.benchmark, Measure: bench.Latency, Kind: bench.Micro, Samples: samples[:n],
		}}}
	}
	return gate.Compare(run("base", s.base), run("head", s.head), s.policy).Comparisons[0]
}

// A sight is what a run of some length can show.
type sight struct {
	rounds int
	// margin is the limit, and noise what the rounds need beyond it to call nine
	// slowdowns in ten regressed; shares of base. NaN: nothing would be.
	margin, noise float64
}

// sights are those of the planned looks, and of all rounds.
func (s *stillness) sights() []sight {
	var all []sight
	for n := 20; n <= len(s.base); n *= 2 {
		c := s.judged(n)
		v := sight{n, 0, math.NaN()}
		if c.Margin != nil {
			v.margin = *c.Margin
		}
		if c.Detectable != nil {
			v.noise = *c.Detectable - v.margin
		}
		all = append(all, v)
	}
	return all
}

// print tells all of it.
func (s *stillness) print(out io.Writer) error {
	d := s.differences()
	shift, ok := stats.PairedShift(d, nil)
	if !ok {
		return fmt.Errorf("the readings are not numbers")
	}
	const level = 0.99
	tail := (1 - level) / 2
	latency, floor := s.medians()
	fmt.Fprintf(out, "%s against itself, %d rounds (%s)\n", s.benchmark, len(d), s.path)
	w := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  latency\t%.1f ns\tan empty program: %.1f ns\n", latency, floor)
	fmt.Fprintf(w, "  one load to the next\t%s\thalf of all rounds differ by less\n", percent(stats.Median(absolute(d))))
	fmt.Fprintf(w, "  base against head\t%+.2f%%\t%.0f%% interval %+.2f…%+.2f%%: holds 0 on an honest host\n",
		100*shift.Estimate(), 100*level, 100*shift.Lower(tail), 100*shift.Upper(tail))
	fmt.Fprintf(w, "  odd rounds\t%.0f%%\toutside Tukey's fences\n", 100*float64(stats.Tukey(d).Count())/float64(len(d)))
	fmt.Fprintf(w, "  interrupted rounds\t%.0f%%\tthe scheduler ran something else in between\n", 100*s.share(func(x bench.Sample) bool { return x.Switches > 0 }))
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	w = tabwriter.NewWriter(out, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "rounds\ttime\tnoise\tregressed 9 times in 10 from\t")
	for _, v := range s.sights() {
		noise, from := "–", "none"
		if !math.IsNaN(v.noise) {
			e := v.margin + v.noise
			noise = percent(v.noise)
			from = fmt.Sprintf("%+.2f ns", e*latency)
			if latency > floor {
				from += fmt.Sprintf(" (%+.1f%% of %.1f ns)", 100*e*latency/(latency-floor), latency-floor)
			}
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t\n", v.rounds, s.times(v.rounds), noise, from)
	}
	return w.Flush()
}

func (s *stillness) medians() (latency, floor float64) {
	var values, floors []float64
	for i := range s.base {
		values, floors = append(values, s.base[i].Value, s.head[i].Value), append(floors, s.base[i].Floor)
	}
	return stats.Median(values), stats.Median(floors)
}

// Shares of rounds or of time from which on an observation is worth a hint.
const (
	oftenInterrupted = 0.1
	muchStolen       = 0.01
)

// helps is what these rounds say would show smaller slowdowns, or the same ones
// sooner.
func (s *stillness) helps() []string {
	var all []string
	help := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if x := s.share(func(x bench.Sample) bool { return x.Switches > 0 }); x > oftenInterrupted {
		help("other work interrupts %.0f%% of the rounds: stop it, or give gate a CPU of its own (boot with isolcpus=N, run taskset -c N gate run)", 100*x)
	}
	if x := s.stolen(); x > muchStolen {
		help("the hypervisor took %.0f%% of the time: an instance with CPUs of its own, or another hour", 100*x)
	}
	latency, floor := s.medians()
	sights := s.sights()
	if len(sights) == 0 || !(latency > 0) {
		return all
	}
	last := sights[len(sights)-1]
	noMinimum := *s
	noMinimum.policy.MinEffectNS = 0
	if c := noMinimum.judged(last.rounds); s.policy.MinEffectNS > 0 && c.Margin != nil && *c.Margin < last.margin {
		share := ""
		if latency > floor {
			share = fmt.Sprintf(" is %.1f%% of this program's %.1f ns, and", 100*s.policy.MinEffectNS/(latency-floor), latency-floor)
		}
		help("min_effect (%g ns)%s decides instead of the %s: policy: {min_effect: %.1gns} would leave it to that",
			s.policy.MinEffectNS, share, c.Limit, *c.Margin*latency)
	}
	help("%s", s.budget(sights))
	return all
}

// budget says what more time would do: enough rounds are those whose noise is half
// of the limit or less, so that the limit and not the host says what is found.
func (s *stillness) budget(sights []sight) string {
	last := sights[len(sights)-1]
	enough := last.margin / 2
	i := slices.IndexFunc(sights, func(v sight) bool { return v.noise <= enough })
	switch {
	case last.margin <= 0:
		return fmt.Sprintf("noise shrinks with the square root of the time: %s rounds show half of what %d do", fmt.Sprint(4*last.rounds), last.rounds)
	case i >= 0:
		return fmt.Sprintf("%d rounds (%s) are enough here: what noise adds to the limit is half of it or less", sights[i].rounds, s.times(sights[i].rounds))
	case math.IsNaN(last.noise):
		return fmt.Sprintf("%d rounds decide nothing; give it more", last.rounds)
	}
	ratio := last.noise / enough
	need := ratio * ratio * float64(last.rounds)
	if most := s.policy.Looks(); need > float64(most[len(most)-1]) {
		return fmt.Sprintf("%d rounds (%s), the most that gate run takes, leave %s of noise beside a limit of %s: a wider limit, or a quieter host", most[len(most)-1], s.times(most[len(most)-1]), percent(last.noise*math.Sqrt(float64(last.rounds)/float64(most[len(most)-1]))), percent(last.margin))
	}
	return fmt.Sprintf("about %.0f rounds (%s a benchmark: --budget) would bring noise down to half of the limit", need, s.times(int(need)))
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", 100*x) }

func absolute(xs []float64) []float64 {
	out := slices.Clone(xs)
	for i, x := range out {
		out[i] = math.Abs(x)
	}
	return out
}
