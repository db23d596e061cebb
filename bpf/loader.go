//go:build linux

package bpf

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bpf/programs"
)

// A Loader loads a program in the place of gate, by whatever means, and tells its
// id. Unload ends what it has started. It is called once a load.
type Loader func(program string) (id uint32, unload func(), err error)

// LoadBy has the program loaded by its own loader from now on. What the object says
// of it (type, maps by name) must be true of what is loaded; the config's maps are
// filled over what the loader has put there.
//
// Such a program is measured as it comes: it is laid out, counted and moved by
// nobody, and whether it is unchanged nobody knows.
func (o *Object) LoadBy(program string, load Loader) {
	if o.loaders == nil {
		o.loaders = make(map[string]Loader)
	}
	o.loaders[program] = load
}

// loadBy loads a program by its own loader.
func (o *Object) loadBy(program string, load Loader) (_ *Loaded, err error) {
	spec, err := o.prune(program)
	if err != nil {
		return nil, err
	}
	id, unload, err := load(program)
	if err != nil {
		return nil, err
	}
	l := &Loaded{Name: program, object: o, spec: spec, extra: []interface{ Close() error }{unloading(unload)}}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return nil, fmt.Errorf("take program %d from its loader: %w", id, err)
	}
	l.coll = &ebpf.Collection{Programs: map[string]*ebpf.Program{program: p}, Maps: map[string]*ebpf.Map{}}
	l.Program, l.Type = p, p.Type()
	if want := spec.Programs[program].Type; want != ebpf.UnspecifiedProgram && want != l.Type {
		return nil, fmt.Errorf("its loader has loaded %s as %s, and %s has it as %s", program, programs.TypeName(l.Type), o.Path, programs.TypeName(want))
	}
	if err := l.adopt(p); err != nil {
		return nil, err
	}
	return l, l.fill(func(string) bool { return true })
}

// adopt takes the maps of a program by the names that the object has for them: the
// kernel's stop at 15 characters.
func (l *Loaded) adopt(p *ebpf.Program) error {
	const kernelName = 15
	info, err := p.Info()
	if err != nil {
		return fmt.Errorf("maps of %s: %w", l.Name, err)
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return fmt.Errorf("map %d of %s: %w", id, l.Name, err)
		}
		mi, err := m.Info()
		if err != nil {
			m.Close()
			return fmt.Errorf("map %d of %s: %w", id, l.Name, err)
		}
		name := mi.Name
		for long, spec := range l.spec.Maps {
			if spec.Type == m.Type() && (long == name || len(name) == kernelName && strings.HasPrefix(long, name)) {
				name = long
				break
			}
		}
		if l.coll.Maps[name] != nil {
			m.Close() // which of two of one name it is, nobody knows
			continue
		}
		l.coll.Maps[name] = m
	}
	return nil
}

// An unloading is what ends a load.
type unloading func()

func (u unloading) Close() error {
	u()
	return nil
}

// byLoader tells that a side's program is loaded by its own loader.
func (m *Micro) byLoader() bool {
	for _, s := range m.sides {
		if s.Object.loaders[m.b.Program] != nil {
			return true
		}
	}
	return false
}
