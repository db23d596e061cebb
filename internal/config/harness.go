package config

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/adapter"
)

// maxProfiles is how many profiles one command may write.
const maxProfiles = 8

// harnesses reads the commands of user space that measure themselves: each is a
// benchmark, under whose name the results are that it says.
func (r *reader) harnesses(n *yaml.Node) []bench.Benchmark {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "commands", "a mapping of names to commands")
		return nil
	}
	var all []bench.Benchmark
	for key, v := range pairs(n) {
		b := bench.Benchmark{Pos: r.pos(key)}
		b.Name, _ = r.name(key, "a command")
		b.Program = b.Name
		h := &bench.Harness{Pos: b.Pos}
		b.Harness = h
		ok := r.mapping(v, "command "+quote(key.Value), fields{
			"run":     func(_, v *yaml.Node) { h.Run, _ = r.command(v, "run", "a shell command") },
			"dir":     func(_, v *yaml.Node) { h.Dir, _ = r.file(v, "dir") },
			"adapter": func(_, v *yaml.Node) { h.Adapter = r.adapter(v) },
			"results": func(_, v *yaml.Node) { h.Results, _ = r.file(v, "results") },
			"profiles": func(_, v *yaml.Node) {
				h.Profiles = r.words(v, "profiles", func(e *yaml.Node) (string, bool) { return r.file(e, "a profile") })
				if len(h.Profiles) > maxProfiles {
					r.fail(v, "", "%d profiles, at most %d", len(h.Profiles), maxProfiles)
				}
			},
			"env":    func(_, v *yaml.Node) { h.Env = r.env(v) },
			"within": func(_, v *yaml.Node) { h.Within, _ = r.duration(v, "within") },
			"budget": func(_, v *yaml.Node) { b.Budget, _ = r.duration(v, "budget") },
		})
		if ok && h.Run == "" {
			r.fail(key, "run: go test -run '^$' -bench . ./...", "command %s does not say what it runs", quote(key.Value))
		}
		all = append(all, b)
	}
	return all
}

// magic is the adapter that finds out what a command says.
const magic = "magic"

// adapters are the names of formats.
func adapters() []string {
	names := []string{magic}
	for _, f := range adapter.Formats() {
		names = append(names, f.Name)
	}
	return names
}

// adapter reads the name of a format; that which finds it out is empty.
func (r *reader) adapter(n *yaml.Node) string {
	w, _ := r.choice(n, "adapter", adapters()...)
	if w == magic {
		return ""
	}
	return w
}

// ofHarnesses notes names that two things have.
func (r *reader) ofHarnesses(s *Suite) {
	for _, b := range s.Benchmarks {
		if b.Harness == nil {
			continue
		}
		if slices.ContainsFunc(s.Programs, func(p bench.Program) bool { return p.Name == b.Name }) {
			r.failAt(b.Pos, "give the command another name", "%s is a program and a command", quote(b.Name))
		}
		if slices.ContainsFunc(s.Agents, func(a bench.Agent) bool { return a.Name == b.Name }) {
			r.failAt(b.Pos, "give the command another name", "%s is an agent and a command", quote(b.Name))
		}
	}
}

// Commands are the names under commands of a config, whose other parts may not fit the
// tree at hand. A file that is no config has none.
func Commands(src []byte) []string {
	r := &reader{}
	root := r.tree(src)
	if root == nil {
		return nil
	}
	var names []string
	for key, v := range pairs(root) {
		if key.Value != "commands" {
			continue
		}
		for name := range pairs(v) {
			names = append(names, name.Value)
		}
	}
	return names
}
