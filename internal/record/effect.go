//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// suiteSize is the number of benchmarks of the suite that one of them is judged in:
// while no other was rejected, Holm holds its p-value against alpha/20.
const suiteSize = 20

// A plan is a slowdown to be found on a host.
type plan struct {
	host, subject string
	planted       int // instructions
	margin        float64
}

// plans have slowdowns of about 2% beside a limit of 0.5% on a quiet host, and of
// about 3% beside one of 1% on a busy one; how large each is, is measured.
var plans = []plan{
	{"quiet", "straight", 12, 0.005},
	{"quiet", "loop", 90, 0.005},
	{"busy", "straight", 18, 0.01},
	{"busy", "loop", 95, 0.01},
}

// effect plants instructions on the path that is executed, measures what they cost,
// and how often that is found within the default budget.
func effect(l *lab) error {
	todo := plans
	if l.plant > 0 {
		todo = nil
		for _, sub := range l.subjects {
			todo = append(todo, plan{"quiet", sub.name, l.plant, l.limit}, plan{"busy", sub.name, l.plant, l.limit})
		}
	}
	var rows []string
	if err := hosts(func(host string) error {
		for _, p := range todo {
			for _, sub := range l.subjects {
				if p.host != host || p.subject != sub.name {
					continue
				}
				row, err := l.find(sub, p)
				if err != nil {
					return fmt.Errorf("%s %s: %w", host, sub.name, err)
				}
				rows = append(rows, row)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	fmt.Println("| host | program | planted | slower by, of net time | limit | regressed | after rounds (median) | time: median, longest |")
	fmt.Println("|-|-|-|-|-|-|-|-|")
	fmt.Println(strings.Join(rows, "\n"))
	fmt.Printf("\n%s\n", l.about(fmt.Sprintf("true effects by %d rounds each", l.rounds)))
	return nil
}

func (l *lab) find(sub subject, p plan) (string, error) {
	head, err := l.planted(sub, p.planted)
	if err != nil {
		return "", err
	}
	truth, low, high, err := l.truth(sub, head)
	if err != nil {
		return "", err
	}
	l.progress("%s %s: %d instructions cost %.2f%% [%.2f, %.2f]", p.host, sub.name, p.planted, 100*truth, 100*low, 100*high)
	policy := netPolicy(p.margin)
	policy.Alpha /= suiteSize
	o, err := l.outcomes(l.trials, policy, sub, sub.object, head)
	if err != nil {
		return "", err
	}
	l.progress("%s %s: %d of %d found", p.host, sub.name, o.verdicts[gate.Regressed], l.trials)
	return fmt.Sprintf("| %s | %s | %d instructions | %.2f%% [%.2f, %.2f] | %g%% | %s | %.0f | %s |", p.host, sub.name, p.planted,
		100*truth, 100*low, 100*high, 100*p.margin, count(o.within(gate.Regressed, gate.DefaultBudget), l.trials), stats.Median(o.rounds), o.times()), nil
}

// planted is the subject with n more instructions where it is always executed, on a
// register of their own: the processor does them beside the others, so that one costs
// a fraction of a cycle.
func (l *lab) planted(sub subject, n int) (*bpf.Object, error) {
	const call = "	if (classify(addr, &value))\n"
	return l.edited(sub.version, call, fmt.Sprintf("	__u64 planted = addr;\n	asm volatile(\"%s\" : \"+r\"(planted));\n%s", strings.Repeat(`%0 ^= 1\n\t`, n), call))
}

// truth is the slowdown as a share of net time, with its 95% interval, over layouts
// that change from round to round; see [bpf.Session.Micro].
func (l *lab) truth(sub subject, head *bpf.Object) (estimate, low, high float64, err error) {
	s, err := bpf.NewSession(l.newSeed())
	if err != nil {
		return 0, 0, 0, err
	}
	defer s.Close()
	m, err := s.Micro(sub.bench, bpf.Side{Name: "base", Object: sub.object}, bpf.Side{Name: "head", Object: head})
	if err != nil {
		return 0, 0, 0, err
	}
	defer m.Close()
	var a, b bench.Result
	if err := l.measure(m, &a, &b, l.rounds); err != nil {
		return 0, 0, 0, err
	}
	d, net := make([]float64, l.rounds), make([]float64, l.rounds)
	for i := range d {
		x, y := a.Samples[i], b.Samples[i]
		mean := x.Value/2 + y.Value/2
		d[i], net[i] = (y.Value-x.Value)/mean, max((x.Value-x.Floor)/mean, 1e-6) // the floor's reading may be above it
	}
	shift, ok := stats.PairedShift(d, net)
	if !ok {
		return 0, 0, 0, fmt.Errorf("the readings are not numbers")
	}
	return shift.Estimate(), shift.Lower(0.025), shift.Upper(0.025), nil
}

// outcomes are what became of comparisons of a pair.
type outcomes struct {
	verdicts map[gate.Verdict]int
	all      []gate.Verdict
	took     []time.Duration
	rounds   []float64
	differ   int // two-sided at 1%, in the first rounds
	distrust int // the control found the host out
}

func (l *lab) outcomes(trials int, p gate.Policy, sub subject, base, head *bpf.Object) (*outcomes, error) {
	o := &outcomes{verdicts: map[gate.Verdict]int{}}
	for i := range trials {
		res, took, err := l.compare(sub, base, head, p)
		if err != nil {
			return nil, err
		}
		c, err := latency(res.Report)
		if err != nil {
			return nil, err
		}
		o.verdicts[c.Verdict]++
		o.all, o.took, o.rounds = append(o.all, c.Verdict), append(o.took, took), append(o.rounds, float64(c.Rounds))
		if stats.SignedRank(differences(latencies(res.Base), latencies(res.Head), firstLook)).TwoSided <= 0.01 {
			o.differ++
		}
		if c := res.Report.Control; c != nil && c.P <= 0.001 {
			o.distrust++
		}
		if (i+1)%20 == 0 {
			l.progress("%s: %d of %d", sub.name, i+1, trials)
		}
	}
	return o, nil
}

// within counts the comparisons with that verdict that took no longer.
func (o *outcomes) within(v gate.Verdict, longest time.Duration) int {
	n := 0
	for i, took := range o.took {
		if o.all[i] == v && took <= longest {
			n++
		}
	}
	return n
}

// times are the median and the longest time in seconds.
func (o *outcomes) times() string {
	var s []float64
	for _, t := range o.took {
		s = append(s, t.Seconds())
	}
	return fmt.Sprintf("%.1f s, %.1f s", stats.Median(s), stats.Quantile(s, 1))
}
