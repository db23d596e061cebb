//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
)

// maxFill bounds the entries that one map setup may make.
const maxFill = 1 << 22

// fill writes the config's entries into the program's maps, in batches where
// the kernel has them (5.6). Maps for which want is false are left alone.
func (l *Loaded) fill(want func(name string) bool) error {
	for _, setup := range l.object.setups() {
		m, spec := l.coll.Maps[setup.Name], l.spec.Maps[setup.Name]
		if m == nil || spec == nil || m.Type() == ebpf.ProgramArray || !want(setup.Name) {
			continue
		}
		for _, e := range setup.Entries {
			if err := l.fillEntry(m, spec, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Loaded) fillEntry(m *ebpf.Map, spec *ebpf.MapSpec, e bench.Entry) error {
	first, last, err := l.span(spec, e.Key)
	if err != nil {
		return err
	}
	var keys, values []byte
	n := 0
	flush := func() error {
		if n == 0 {
			return nil
		}
		err := putAll(m, spec, keys, values, n)
		keys, values, n = keys[:0], values[:0], 0
		if err != nil {
			return &bench.Diagnostic{Pos: e.Key.Pos, Message: fmt.Sprintf("map %s: %v", spec.Name, err)}
		}
		return nil
	}
	for k := first; ; k++ {
		sc := scope{key: k, cpu: int(k)}
		key := e.Key
		if _, ranged := key.Expr.(bench.Range); ranged {
			key.Expr = bench.Int{Abs: k}
		}
		var kb []byte
		if spec.KeySize > 0 {
			if kb, err = encode(key, spec.Key, int(spec.KeySize), l.object.spec.ByteOrder, sc); err != nil {
				return err
			}
		}
		if isNew(e.Value) {
			if err := l.putInner(m, spec, kb, e.Value); err != nil {
				return err
			}
		} else {
			vb, err := l.encodeValue(spec, e.Value, sc)
			if err != nil {
				return err
			}
			keys, values, n = append(keys, kb...), append(values, vb...), n+1
		}
		if n == 4096 || k == last {
			if err := flush(); err != nil {
				return err
			}
		}
		if k == last {
			return nil
		}
	}
}

// span is the numbers that a key stands for.
func (l *Loaded) span(spec *ebpf.MapSpec, key bench.Value) (first, last uint64, err error) {
	switch x := key.Expr.(type) {
	case bench.Range:
		if x.Last < x.First || x.Last-x.First >= maxFill {
			return 0, 0, misfit(key, "", "a range of at most %d keys, first to last", maxFill)
		}
		return x.First, x.Last, nil
	case bench.Variable:
		if x.Name == "cpu" {
			n, err := ebpf.PossibleCPU()
			if err != nil {
				return 0, 0, fmt.Errorf("count CPUs: %w", err)
			}
			return 0, uint64(n - 1), nil
		}
	case bench.Int:
		return x.Abs, x.Abs, nil
	}
	return 0, 0, nil
}

// encodeValue encodes a map value; a per-CPU map takes a list of one value a
// CPU, or one value for all.
func (l *Loaded) encodeValue(spec *ebpf.MapSpec, v bench.Value, sc scope) ([]byte, error) {
	order := l.object.spec.ByteOrder
	if !perCPU(spec.Type) {
		return encode(v, spec.Value, int(spec.ValueSize), order, sc)
	}
	n, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	stride := (int(spec.ValueSize) + 7) &^ 7
	out := make([]byte, n*stride)
	list, isList := v.Expr.(bench.List)
	for cpu := range n {
		one := v
		if isList {
			if cpu >= len(list) {
				break
			}
			one = list[cpu]
		}
		b, err := encode(one, spec.Value, int(spec.ValueSize), order, scope{key: sc.key, cpu: cpu})
		if err != nil {
			return nil, err
		}
		copy(out[cpu*stride:], b)
	}
	return out, nil
}

func perCPU(t ebpf.MapType) bool {
	return t == ebpf.PerCPUArray || t == ebpf.PerCPUHash || t == ebpf.LRUCPUHash
}

// putAll writes n keys and values, in one batch where the map has batches
// (hash and array maps, Linux 5.6).
func putAll(m *ebpf.Map, spec *ebpf.MapSpec, keys, values []byte, n int) error {
	ks, vs := len(keys)/n, len(values)/n
	if n > 1 && ks > 0 && !perCPU(spec.Type) {
		_, err := m.BatchUpdate(rows(keys, ks, n), rows(values, vs, n), nil)
		if err == nil || !errors.Is(err, ebpf.ErrNotSupported) {
			return err
		}
	}
	for i := range n {
		if err := putOne(m, keys[i*ks:(i+1)*ks], values[i*vs:(i+1)*vs]); err != nil {
			return err
		}
	}
	return nil
}

// rows is b as a []([size]byte), which is how cilium/ebpf counts a batch.
func rows(b []byte, size, n int) any {
	array := reflect.ArrayOf(size, reflect.TypeFor[byte]())
	s := reflect.MakeSlice(reflect.SliceOf(array), n, n)
	for i := range n {
		reflect.Copy(s.Index(i), reflect.ValueOf(b[i*size:(i+1)*size]))
	}
	return s.Interface()
}

func putOne(m *ebpf.Map, key, value []byte) error {
	switch {
	case perCPU(m.Type()):
		size, stride := int(m.ValueSize()), (int(m.ValueSize())+7)&^7
		var cpus [][]byte
		for at := 0; at < len(value); at += stride {
			cpus = append(cpus, value[at:at+size])
		}
		return m.Put(key, cpus)
	case m.KeySize() == 0:
		return m.Put(nil, value) // queues and stacks
	}
	return m.Put(key, value)
}

// isNew tells whether a value asks for a fresh inner map.
func isNew(v bench.Value) bool {
	c, ok := v.Expr.(bench.Call)
	return ok && c.Func == "new"
}

// putInner puts a fresh inner map, made as the object declares it, into a map
// of maps.
func (l *Loaded) putInner(m *ebpf.Map, spec *ebpf.MapSpec, key []byte, v bench.Value) error {
	if spec.InnerMap == nil {
		return misfit(v, "", "map %s does not hold maps", spec.Name)
	}
	inner, err := ebpf.NewMap(spec.InnerMap.Copy())
	if err != nil {
		return misfit(v, "", "inner map of %s: %v", spec.Name, err)
	}
	defer inner.Close() // the outer map keeps it
	if err := m.Put(key, inner); err != nil {
		return misfit(v, "", "map %s: %v", spec.Name, err)
	}
	return nil
}

// memory is the bytes that the program's maps take, roughly: what decides
// whether they are made anew for every round.
func (l *Loaded) memory() int {
	total := 0
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		cpus = 1
	}
	for _, m := range l.coll.Maps {
		per := int(m.KeySize()) + int(m.ValueSize())
		if perCPU(m.Type()) {
			per *= cpus
		}
		if m.Type() == ebpf.RingBuf {
			per = 1
		}
		total += per * int(m.MaxEntries())
	}
	return total
}
