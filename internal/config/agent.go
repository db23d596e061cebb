package config

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
)

// signals are those that ask a process to end.
var signals = []string{"SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL"}

// agents reads who loads programs itself.
func (r *reader) agents(n *yaml.Node) []bench.Agent {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "agents", "a mapping of names to agents")
		return nil
	}
	var agents []bench.Agent
	for key, v := range pairs(n) {
		a := bench.Agent{Pos: r.pos(key)}
		a.Name, _ = r.name(key, "an agent")
		ok := r.mapping(v, "agent "+quote(key.Value), fields{
			"run":      func(_, v *yaml.Node) { a.Run, _ = r.command(v, "run", "a shell command") },
			"where":    func(_, v *yaml.Node) { r.where(v) },
			"in":       func(_, v *yaml.Node) { a.In, _ = r.word(v, "in", "a network namespace of the benchmark") },
			"env":      func(_, v *yaml.Node) { a.Env = r.env(v) },
			"ready":    func(_, v *yaml.Node) { a.Ready = r.ready(v) },
			"programs": func(_, v *yaml.Node) { a.Programs = r.globs(v, "programs") },
			"find":     func(_, v *yaml.Node) { a.Find = r.find(v) },
			"stop":     func(_, v *yaml.Node) { a.Stop = r.stop(v) },
		})
		if ok && a.Run == "" && !a.Find.Anywhere() {
			r.fail(key, "run: ./bin/agent starts it; find: {interfaces: [eth0]} finds one that runs already", "agent %s has neither run nor find", quote(key.Value))
		}
		agents = append(agents, a)
	}
	return agents
}

// where is host, which is wherever gate itself runs.
//
// Note: gate starts no containers. The agent of a round has to end with the round,
// however gate ends, and a container's processes are its engine's.
func (r *reader) where(n *yaml.Node) {
	w, ok := r.choice(n, "where", "host", "container")
	if ok && w == "container" {
		r.fail(n, "leave it out: in the action, that is the measuring container; elsewhere run may start one, run: docker run --rm --privileged --pid=host IMAGE, with find: {names: [PROGRAM]}",
			"where: container: gate starts no container; an agent runs where gate does")
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// env reads environment variables.
func (r *reader) env(n *yaml.Node) []string {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "env", "a mapping of names to values")
		return nil
	}
	var env []string
	for key, v := range pairs(n) {
		switch {
		case !variableName.MatchString(key.Value):
			r.fail(key, "letters, digits and '_'", "%s is not a name of a variable", quote(key.Value))
		case v.Kind != yaml.ScalarNode || strings.ContainsRune(v.Value, 0):
			r.wrong(v, key.Value, "text")
		default:
			env = append(env, key.Value+"="+v.Value)
		}
	}
	return env
}

func (r *reader) ready(n *yaml.Node) bench.Ready {
	var b bench.Ready
	r.mapping(n, "ready", fields{
		"log": func(_, v *yaml.Node) {
			b.Log, _ = r.word(v, "log", "a regular expression")
			if _, err := regexp.Compile(b.Log); err != nil {
				r.fail(v, "see https://pkg.go.dev/regexp/syntax", "log: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
			}
		},
		"command":  func(_, v *yaml.Node) { b.Command, _ = r.command(v, "command", "a shell command") },
		"port":     func(_, v *yaml.Node) { b.Port = r.count(v, "port", 1, 65535) },
		"programs": func(_, v *yaml.Node) { r.choice(v, "programs", "all") },
		"stable":   func(_, v *yaml.Node) { b.Stable, _ = r.duration(v, "stable") },
		"within":   func(_, v *yaml.Node) { b.Within, _ = r.duration(v, "within") },
	})
	within := b.Within
	if within == 0 {
		within = bench.DefaultReady
	}
	if b.Stable >= within {
		r.fail(n, "", "stable is %v, but it has to be ready within %v", b.Stable, within)
	}
	return b
}

func (r *reader) find(n *yaml.Node) bench.Find {
	var f bench.Find
	paths := func(v *yaml.Node, what string) []string {
		return r.words(v, what, func(e *yaml.Node) (string, bool) {
			w, ok := r.word(e, what, "a path")
			if ok && !path.IsAbs(w) {
				r.fail(e, "the host's, such as /sys/fs/cgroup/unified/agent", "%s is not a path from the root on", quote(w))
			}
			return w, ok
		})
	}
	r.mapping(n, "find", fields{
		"names":   func(_, v *yaml.Node) { f.Names = r.globs(v, "names") },
		"pins":    func(_, v *yaml.Node) { f.Pins = paths(v, "pins") },
		"cgroups": func(_, v *yaml.Node) { f.Cgroups = paths(v, "cgroups") },
		"interfaces": func(_, v *yaml.Node) {
			f.Interfaces = r.words(v, "interfaces", func(e *yaml.Node) (string, bool) { return r.word(e, "an interface", "a name") })
		},
	})
	return f
}

// globs reads names of programs, of which some may be patterns.
func (r *reader) globs(n *yaml.Node, what string) []string {
	return r.words(n, what, func(e *yaml.Node) (string, bool) {
		w, ok := r.word(e, "a program", "a name")
		if !ok {
			return "", false
		}
		if _, err := path.Match(w, ""); err != nil {
			r.fail(e, "*, ? and [a-z] stand for characters of a name", "%s is not a pattern", quote(w))
			return "", false
		}
		return w, true
	})
}

func (r *reader) stop(n *yaml.Node) bench.Stop {
	var s bench.Stop
	r.mapping(n, "stop", fields{
		"signal": func(_, v *yaml.Node) { s.Signal, _ = r.choice(v, "signal", signals...) },
		"within": func(_, v *yaml.Node) { s.Within, _ = r.duration(v, "within") },
	})
	return s
}

// sameAgent reads the agent of a benchmark, which its name has told already.
func (r *reader) sameAgent(n *yaml.Node, b *bench.Benchmark) {
	w, ok := r.name(n, "an agent")
	if ok && b.Program != "" && w != b.Program {
		r.fail(n, "name it "+w+"/…", "a benchmark of agent %s has its name before the slash, and not %s", quote(w), quote(b.Program))
	}
}

// notOfAgent are what a benchmark of an agent cannot have: how its programs are
// loaded, attached and emptied is the agent's business.
func notOfAgent(b *bench.Benchmark) (key string) {
	switch {
	case b.Veth != nil:
		return "veth"
	case b.With != nil:
		return "with"
	case b.Alternate:
		return "alternate"
	case b.Drain != nil:
		return "drain"
	}
	return ""
}

// ofAgents gives benchmarks the agents whose names they have, and notes what does not
// fit them.
func (r *reader) ofAgents(s *Suite) {
	for i := range s.Benchmarks {
		b := &s.Benchmarks[i]
		at := slices.IndexFunc(s.Agents, func(a bench.Agent) bool { return a.Name == b.Program && a.Name != "" })
		if at < 0 {
			continue
		}
		b.Agent = &s.Agents[at]
		if key := notOfAgent(b); key != "" {
			r.failAt(b.Pos, "leave it out: the agent loads and attaches its programs itself", "%s has no meaning with an agent", key)
		}
		if b.Agent.Run == "" && (b.Net != nil || b.At != "" || b.Work != nil && b.Work.Packets) {
			r.failAt(b.Pos, "leave them out: work goes on in the host's own network namespace", "net, at and packets have no meaning with an agent that runs already")
		}
		r.inNet(b, b.Agent.Pos, b.Agent.In)
		if b.Work == nil {
			r.failAt(b.Pos, `work: {run: "a shell command"}, or {duration: 2s} to watch only`, "benchmark %s does not say what is at work meanwhile", quote(b.Name))
		}
	}
	for _, p := range s.Programs {
		if slices.ContainsFunc(s.Agents, func(a bench.Agent) bool { return a.Name == p.Name }) {
			r.failAt(p.Pos, "give the agent another name", "%s is a program and an agent", quote(p.Name))
		}
	}
}
