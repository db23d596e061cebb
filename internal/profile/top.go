package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/org/ebpf-bench-gate/internal/symbol"
)

// A Function is a line of the top table.
type Function struct {
	Name, Module string
	Kind         symbol.Kind
	// Flat is the time in the function itself, Cum with what it called, in ns.
	Flat, Cum int64
}

// Functions are those of a profile, by the time in themselves, largest first. A function that
// calls itself counts once a sample.
func Functions(p *Profile) []Function {
	type key struct {
		name, module string
		kind         symbol.Kind
	}
	of := func(f symbol.Frame) key { return key{name(f), f.Module, f.Kind} }
	all := map[key]*Function{}
	get := func(k key) *Function {
		f := all[k]
		if f == nil {
			f = &Function{Name: k.name, Module: k.module, Kind: k.kind}
			all[k] = f
		}
		return f
	}
	for _, s := range p.Stacks {
		seen := map[key]bool{}
		for i, l := range s.Locations {
			for j, frame := range l.Frames {
				k := of(frame)
				if i+j == 0 {
					get(k).Flat += s.Value
				}
				if !seen[k] {
					seen[k] = true
					get(k).Cum += s.Value
				}
			}
		}
	}
	out := make([]Function, 0, len(all))
	for _, f := range all {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Flat, a.Flat), cmp.Compare(b.Cum, a.Cum), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Module, b.Module))
	})
	return out
}

// Top writes a table of the functions with the most time, at most so many; 0 is all.
func Top(w io.Writer, p *Profile, most int) error {
	total := p.Value()
	share := func(ns int64) float64 { return 100 * float64(ns) / float64(max(total, 1)) }
	b := bufio.NewWriter(w)
	what := "on CPUs"
	if p.Type == OffCPU {
		what = "waiting"
	}
	fmt.Fprintf(b, "%v %s in %d samples\n", round(total), what, p.Count())
	fmt.Fprintf(b, "%10s %6s  %10s %6s  %s\n", "FLAT", "", "CUM", "", "FUNCTION")
	all := Functions(p)
	if most > 0 && len(all) > most {
		all = all[:most]
	}
	for _, f := range all {
		line := fmt.Sprintf("%10v %5.1f%%  %10v %5.1f%%  %s", round(f.Flat), share(f.Flat), round(f.Cum), share(f.Cum), visible(f.Name))
		switch {
		case f.Kind == symbol.KindKernel && f.Module == "[kernel]":
			line += "  [kernel]"
		case f.Module != "" && f.Name != f.Module:
			line += "  " + visible(path.Base(f.Module))
		}
		fmt.Fprintln(b, line)
	}
	return b.Flush()
}

// round is a time with the digits that tell.
func round(ns int64) time.Duration {
	d := time.Duration(ns)
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
