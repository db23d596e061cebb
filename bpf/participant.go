//go:build linux

package bpf

import (
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
)

// A participant is one load of one side (or the empty program), with the programs
// that work beside it.
type participant struct {
	name  string
	load  *Loaded // nil: the floor
	prog  *ebpf.Program
	spec  *ebpf.ProgramSpec
	hook  Hook
	with  []companion
	drain []drainer
	maps  map[string]*ebpf.Map
	holds closers
	iter  []iterator
}

// A companion is a program of `with:`.
type companion struct {
	*Loaded
	hook Hook
}

func (a *Attached) load(i int) (_ *participant, err error) {
	p, err := a.loadAlone(i)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	side := a.sides[0]
	if i < len(a.sides) {
		side = a.sides[i]
	} else if a.together {
		return p, nil // the sides' own are there
	}
	for _, name := range a.b.With {
		if !side.Object.Has(name) {
			continue
		}
		h, err := side.Object.Hook(name)
		if err != nil {
			return nil, err
		}
		c, err := side.Object.Load(name, LoadOptions{Cache: a.s.cache, Reuse: p.maps})
		if err != nil {
			return nil, fmt.Errorf("load %s of %s: %w", name, side.Name, err)
		}
		p.with = append(p.with, companion{c, h})
		for n, m := range c.coll.Maps {
			if p.maps[n] == nil {
				p.maps[n] = m
			}
		}
	}
	if p.load != nil {
		err = a.addDrains(p)
	}
	return p, err
}

// loadAlone loads a participant without companions; the one past the sides is the
// empty program.
func (a *Attached) loadAlone(i int) (*participant, error) {
	if i == len(a.sides) {
		spec := a.sides[0].Object.spec.Programs[a.b.Program]
		p, err := ebpf.NewProgram(emptyLike(spec))
		if err != nil {
			return nil, fmt.Errorf("load the empty program: %w", explainLoad(spec.Type, err))
		}
		// Its hook is the program's: where it does not run, that would not, either.
		return &participant{name: a.b.Program, prog: p, spec: spec, hook: a.hooks[0], maps: map[string]*ebpf.Map{}}, nil
	}
	side := a.sides[i]
	spec := side.Object.spec.Programs[a.b.Program]
	load := side.Object.Load
	if spec.Type == ebpf.StructOps {
		load = side.Object.loadOps
	}
	l, err := load(a.b.Program, LoadOptions{Cache: a.s.cache})
	if err != nil {
		return nil, fmt.Errorf("load %s of %s: %w", a.b.Program, side.Name, err)
	}
	return &participant{name: fmt.Sprintf("%s (%s)", a.b.Program, side.Name), load: l, prog: l.Program, spec: spec, hook: a.hooks[i], maps: maps.Clone(l.coll.Maps)}, nil
}

// addDrains makes the drainers of what the config names; where it names nothing, of
// all that fills up and somebody else empties where the program is at work.
func (a *Attached) addDrains(p *participant) error {
	names := a.b.Drain
	if names == nil {
		for name, m := range p.maps {
			switch m.Type() {
			case ebpf.Queue, ebpf.Stack, ebpf.RingBuf, ebpf.PerfEventArray:
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		l := p.load
		for _, c := range p.with {
			if l.coll.Maps[name] == nil && c.coll.Maps[name] != nil {
				l = c.Loaded
			}
		}
		d, err := l.drainerAmong(name, a.sides)
		if err != nil {
			return &bench.Diagnostic{Pos: a.b.Pos, Message: fmt.Sprintf("drain: %v", err)}
		}
		p.drain = append(p.drain, d)
	}
	return nil
}

// hang attaches the participant, after its companions: it must not run before what
// it relies on.
func (p *participant) hang(place Place) error {
	hold := func(c io.Closer, err error) error {
		if err != nil {
			return err
		}
		p.holds = append(p.holds, c)
		if it, ok := c.(iterator); ok {
			p.iter = append(p.iter, it)
		}
		return nil
	}
	for _, c := range p.with {
		if err := hold(c.hook.hang(c.Program, c.object.spec.Programs[c.Name], place, p.maps)); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	if err := hold(p.hook.hang(p.prog, p.spec, place, p.maps)); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// release takes the participant off its hook.
func (p *participant) release() {
	_ = p.holds.Close()
	p.holds, p.iter = nil, nil
}

func (p *participant) close() {
	p.release()
	for _, d := range p.drain {
		d.close()
	}
	for _, c := range p.with {
		c.Loaded.Close()
	}
	if p.load != nil {
		p.load.Close()
	} else {
		p.prog.Close()
	}
}

// drainEvery is how often maps are emptied while work goes on, as the agent of the
// programs would.
const drainEvery = 10 * time.Millisecond

// drainWhile empties what is to be drained until the returned function is called.
func drainWhile(all []*participant) (stop func() error) {
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-quit:
				done <- nil
				return
			case <-time.After(drainEvery):
				if err := emptyAll(all); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	return func() error {
		close(quit)
		return <-done
	}
}

func emptyAll(all []*participant) error {
	for _, p := range all {
		for _, d := range p.drain {
			if err := d.empty(nil); err != nil {
				return fmt.Errorf("drain: %w", err)
			}
		}
	}
	return nil
}
