package config

import (
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
)

// build reads how objects are made.
func (r *reader) build(key, n *yaml.Node) Build {
	b := Build{Pos: r.pos(key)}
	r.mapping(n, "build", fields{
		"run": func(_, v *yaml.Node) { b.Run, _ = r.command(v, "run", "a shell command") },
		"share": func(_, v *yaml.Node) {
			b.Share = r.words(v, "share", func(e *yaml.Node) (string, bool) { return r.file(e, "a shared path") })
		},
		"outputs": func(_, v *yaml.Node) {
			b.Outputs = r.words(v, "outputs", func(e *yaml.Node) (string, bool) { return r.pattern(e, "an output") })
		},
		"cflags": func(_, v *yaml.Node) {
			// A flag may stand twice: -I a -I b.
			for _, e := range r.list(v, "cflags") {
				if flag, ok := r.command(e, "a flag", "text"); ok {
					b.CFlags = append(b.CFlags, flag)
				}
			}
		},
		"timeout": func(_, v *yaml.Node) { b.Timeout, _ = r.duration(v, "timeout") },
	})
	return b
}

// programs reads what is loaded.
func (r *reader) programs(n *yaml.Node) []bench.Program {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "programs", "a mapping of names to programs")
		return nil
	}
	var programs []bench.Program
	for key, v := range pairs(n) {
		p := bench.Program{Pos: r.pos(key)}
		p.Name, _ = r.name(key, "a program")
		hasObject := false
		ok := r.mapping(v, "program "+quote(key.Value), fields{
			"object": func(_, v *yaml.Node) {
				hasObject = true
				p.Object, _ = r.file(v, "object")
				if strings.ContainsAny(p.Object, "*?[") {
					r.fail(v, "name one file; ${arch} stands for the architecture", "object must be one file, not a pattern")
				}
			},
			"loader":    func(_, v *yaml.Node) { p.Loader, _ = r.command(v, "loader", "a shell command") },
			"type":      func(_, v *yaml.Node) { p.Type = r.section(v, "type") },
			"attach":    func(_, v *yaml.Node) { p.Attach = r.attach(v) },
			"constants": func(_, v *yaml.Node) { p.Constants = r.constants(v) },
			"maps":      func(_, v *yaml.Node) { p.Maps = r.maps(v) },
		})
		if ok && !hasObject {
			r.fail(key, "object: the file that it is in, such as object: prog.bpf.o", "program %s has no object", quote(key.Value))
		}
		programs = append(programs, p)
	}
	return programs
}

// section reads the name of an ELF section, such as xdp or kprobe/do_exit.
func (r *reader) section(n *yaml.Node, what string) string {
	const must = "the name of an ELF section, such as xdp or kprobe/tcp_v4_connect"
	w, ok := r.word(n, what, must)
	if ok && strings.ContainsFunc(w, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		r.wrong(n, what, must)
	}
	return w
}

func (r *reader) constants(n *yaml.Node) []bench.Constant {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "constants", "a mapping of names to values")
		return nil
	}
	var constants []bench.Constant
	for key, v := range pairs(n) {
		name, _ := r.name(key, "a variable")
		value, ok := r.value(v)
		if ok {
			r.only(value, "a constant", false)
		}
		constants = append(constants, bench.Constant{Name: name, Value: value, Pos: r.pos(key)})
	}
	return constants
}

func (r *reader) maps(n *yaml.Node) []bench.MapSetup {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "maps", "a mapping of names to entries")
		return nil
	}
	var maps []bench.MapSetup
	for key, v := range pairs(n) {
		m := bench.MapSetup{Pos: r.pos(key)}
		m.Name, _ = r.name(key, "a map")
		switch v.Kind {
		case yaml.SequenceNode:
			m.Entries = r.entries(v)
		case yaml.MappingNode:
			r.mapping(v, "map "+quote(key.Value), fields{
				"max_entries": func(_, v *yaml.Node) {
					size, _ := r.integer(v, "max_entries", 1, math.MaxUint32)
					m.MaxEntries = uint32(size)
				},
				"entries": func(_, v *yaml.Node) { m.Entries = r.entries(v) },
			})
		default:
			r.wrong(v, "a map", "a list of entries, or a mapping with max_entries and entries")
		}
		maps = append(maps, m)
	}
	return maps
}

// entries reads a list of {key, value}. Queues and stacks have no keys.
func (r *reader) entries(n *yaml.Node) []bench.Entry {
	var entries []bench.Entry
	for _, e := range r.list(n, "entries") {
		var entry bench.Entry
		keyOK, valueOK, hasValue := true, false, false
		ok := r.mapping(e, "an entry", fields{
			"key":   func(_, v *yaml.Node) { entry.Key, keyOK = r.value(v) },
			"value": func(_, v *yaml.Node) { hasValue = true; entry.Value, valueOK = r.value(v) },
		})
		if ok && !hasValue {
			r.fail(e, "", "an entry must have a value")
		}
		if keyOK && valueOK {
			r.entry(entry)
		}
		entries = append(entries, entry)
	}
	return entries
}

// entry checks that a key is one that maps can have, and that what a value
// takes from it is there.
func (r *reader) entry(e bench.Entry) {
	numbered := false // the key is a number, a range of them, or $cpu
	switch x := e.Key.Expr.(type) {
	case bench.Range:
		numbered = true
	case bench.Int:
		numbered = !x.Neg
	case bench.Variable:
		numbered = x.Name == "cpu" && x.Prefix+x.Suffix == ""
	}
	walk(e.Key, func(v bench.Value) {
		switch x := v.Expr.(type) {
		case bench.Range:
			if !numbered {
				r.failAt(v.Pos, "write one entry for each", "a range must be the whole key, not a part of it")
			}
		case bench.Variable:
			switch {
			case x.Name == "key":
				r.failAt(v.Pos, "write a number, or a range such as 0..9", "$key stands for the entry's key, and cannot be in it")
			case !numbered:
				r.failAt(v.Pos, "write one entry for each", "$cpu must be the whole key, not a part of it")
			}
		case bench.Call:
			if x.Func == "new" || x.Func == "program" {
				r.failAt(v.Pos, "", "a key cannot be %s", x.Func)
			}
		}
	})
	r.only(e.Value, "a value", true)
	walk(e.Value, func(v bench.Value) {
		if x, ok := v.Expr.(bench.Variable); ok && x.Name == "key" && !numbered {
			r.failAt(v.Pos, "a number, a range or $cpu as the key", "$key, but the key is not a number")
		}
	})
}

// only notes what cannot be in a value, or in a constant: ranges, and for
// constants all that needs a map.
func (r *reader) only(v bench.Value, what string, inMap bool) {
	walk(v, func(v bench.Value) {
		switch x := v.Expr.(type) {
		case bench.Range:
			r.failAt(v.Pos, "a range as the key, and $key in the value", "%s cannot be a range", what)
		case bench.Variable:
			if !inMap {
				r.failAt(v.Pos, "", "%s cannot have $%s", what, x.Name)
			}
		case bench.Call:
			if !inMap && (x.Func == "new" || x.Func == "program") {
				r.failAt(v.Pos, "", "%s cannot be %s", what, x.Func)
			}
		}
	})
}
