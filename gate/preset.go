package gate

import (
	"maps"
	"slices"

	"github.com/org/ebpf-bench-gate/bench"
)

// A Preset is a policy with a name, from which others start.
type Preset struct {
	Name, Help string
	// change turns the default policy into this one.
	change func(*Policy)
}

var presets = []Preset{
	{"default", "latency fails at 5%, executed instructions at 5%", func(*Policy) {}},
	{"strict", "latency fails at 2%, one more instruction or call of a helper fails", func(p *Policy) {
		p.Limits[bench.Latency] = Limit{Warn: &Margin{Ratio: 0.005}, Fail: &Margin{Ratio: 0.02}}
		p.failAtAnyMore()
	}},
	{"exact", "one more instruction or call fails, times are told and never fail: for hosts that are too noisy for times", func(p *Policy) {
		p.Limits[bench.Latency] = Limit{Warn: p.Limits[bench.Latency].Warn}
		p.failAtAnyMore()
	}},
	{"observe", "changes are told and nothing fails, but for a program that is not there or not accepted: for the first weeks", func(p *Policy) {
		for name, l := range p.Limits {
			l.Fail, l.Max = nil, nil
			p.Limits[name] = l
		}
		p.Threshold = Threshold{}
	}},
}

// Presets are those that there are, the default first.
func Presets() []Preset { return slices.Clone(presets) }

// Policy is the policy of a preset, which the caller owns.
func (q Preset) Policy() Policy {
	p := DefaultPolicy()
	p.Limits = maps.Clone(p.Limits)
	q.change(&p)
	return p
}

// failAtAnyMore lets exact counts of what is executed fail at any increase.
func (p *Policy) failAtAnyMore() {
	for _, m := range []string{bench.Insns, bench.KernelInsns, bench.Calls} {
		p.Limits[m] = Limit{Warn: &Margin{}, Fail: &Margin{}}
	}
}
