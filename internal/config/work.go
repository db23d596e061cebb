package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
)

// Bounds of what work may ask for.
const (
	maxRate       = 1e9
	maxRuns       = 1_000_000_000
	maxLinks      = 16
	maxCommands   = 64
	maxFigures    = 16
	maxExpression = 1024
)

// needWork are the keys of a benchmark that mean something beside work alone.
var needWork = []string{"net", "at", "setup", "teardown", "min_runs", "with", "alternate"}

// work reads what runs an attached program.
func (r *reader) work(key, n *yaml.Node, b *bench.Benchmark) *bench.Work {
	w := &bench.Work{Pos: r.pos(key)}
	given := map[string]*yaml.Node{}
	for k := range pairs(n) {
		given[k.Value] = k
	}
	r.mapping(n, "work", fields{
		"run":    func(_, v *yaml.Node) { w.Run, _ = r.command(v, "run", "a shell command") },
		"in":     func(_, v *yaml.Node) { w.In = r.namespace(v) },
		"within": func(_, v *yaml.Node) { w.Within, _ = r.duration(v, "within") },
		"packets": func(_, v *yaml.Node) {
			w.Packets = true
			b.Packets = r.packets(v)
		},
		"count":    func(_, v *yaml.Node) { w.Count = r.count(v, "count", 1, maxVethCount) },
		"rate":     func(_, v *yaml.Node) { w.Rate = r.rate(v) },
		"live":     func(_, v *yaml.Node) { w.Live = r.boolean(v, "live") },
		"duration": func(_, v *yaml.Node) { w.Duration, _ = r.duration(v, "duration") },
		"figures":  func(_, v *yaml.Node) { w.Figures = r.figures(v) },
	})
	switch {
	case given["run"] != nil && (given["packets"] != nil || given["duration"] != nil):
		r.fail(given["run"], "leave one of them out", "run is work of its own: packets and duration are not beside it")
	case given["run"] == nil && given["packets"] == nil && given["duration"] == nil && n.Kind == yaml.MappingNode:
		r.fail(key, `run: "a shell command", packets: {…}, or duration: 2s to watch only`, "work says nothing that is done")
	}
	for _, k := range []string{"within", "figures"} {
		if given[k] != nil && given["run"] == nil {
			r.fail(given[k], "leave it out", "%s is for work with run", k)
		}
	}
	for _, k := range []string{"count", "rate", "live"} {
		if given[k] != nil && given["packets"] == nil {
			r.fail(given[k], "leave it out", "%s is for work with packets", k)
		}
	}
	if given["in"] != nil && given["run"] == nil && given["packets"] == nil {
		r.fail(given["in"], "leave it out", "in is for work with run or packets")
	}
	if given["count"] != nil && given["duration"] != nil {
		r.fail(given["count"], "leave one of them out", "packets are sent so many times, or for so long")
	}
	if w.Live && given["rate"] != nil {
		r.fail(given["rate"], "leave one of them out", "live frames go as fast as they can: there is no rate")
	}
	return w
}

func (r *reader) boolean(n *yaml.Node, what string) bool {
	w, _ := r.choice(n, what, "true", "false")
	return w == "true"
}

// rate is packets a second.
func (r *reader) rate(n *yaml.Node) float64 {
	const must = "packets a second, above 0 and at most 1e9"
	w, ok := r.word(n, "rate", must)
	if !ok {
		return 0
	}
	f, ok := parseDecimal(w)
	if !ok || f <= 0 || f > maxRate {
		r.wrong(n, "rate", must)
		return 0
	}
	return f
}

// namespaceName is the name of a namespace, and of the interfaces to it: Linux has
// 15 bytes for one.
var namespaceName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,14}$`)

func (r *reader) namespace(n *yaml.Node) string {
	w, ok := r.word(n, "a namespace", "a name")
	if ok && (!namespaceName.MatchString(w) || slices.Contains([]string{"lo", "all", "default"}, w)) {
		r.fail(n, "a small letter, then small letters, digits, '_' or '-', 15 at most, and not lo, all or default", "%s is not a name of a namespace", quote(w))
		return ""
	}
	return w
}

// links reads veth pairs: a list of {client: 10.0.0.1/24, server: 10.0.0.2/24}.
func (r *reader) links(n *yaml.Node) []bench.Link {
	const example = "- {client: 10.0.0.1/24, server: 10.0.0.2/24}"
	var links []bench.Link
	joined := map[[2]string]bool{}
	for _, e := range r.list(n, "net") {
		l := bench.Link{Pos: r.pos(e)}
		if e.Kind != yaml.MappingNode || len(e.Content) != 4 {
			r.fail(e, example, "a link has two ends, each a namespace and its address")
			continue
		}
		i := 0
		for k, v := range pairs(e) {
			end := bench.End{Namespace: r.namespace(k)}
			w, ok := r.word(v, "an address", "an address and its network, such as 10.0.0.1/24")
			if ok {
				var err error
				if end.Addr, err = netip.ParsePrefix(w); err != nil {
					r.fail(v, example, "%s is not an address with its network", quote(w))
				}
			}
			l.Ends[i] = end
			i++
		}
		a, b := l.Ends[0], l.Ends[1]
		names := [2]string{min(a.Namespace, b.Namespace), max(a.Namespace, b.Namespace)}
		switch {
		case a.Namespace == "" || b.Namespace == "" || !a.Addr.IsValid() || !b.Addr.IsValid():
		case a.Addr.Addr() == b.Addr.Addr():
			r.fail(e, example, "both ends of the link have the address %s", a.Addr.Addr())
		case a.Addr.Addr().Is4() != b.Addr.Addr().Is4():
			r.fail(e, example, "one end of the link has an address of IPv4, the other of IPv6")
		case joined[names]:
			r.fail(e, "give them another namespace between, or one link", "there is a link between %s and %s already", a.Namespace, b.Namespace)
		}
		joined[names] = true
		links = append(links, l)
	}
	if len(links) > maxLinks {
		r.fail(n, "", "%d links, at most %d", len(links), maxLinks)
	}
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.fail(n, "leave it out to have the default one", "net has no link")
	}
	return links
}

// commands reads set-up or tear-down: a command, {run: …, in: …}, or a list of them.
func (r *reader) commands(n *yaml.Node, what string) []bench.Command {
	all := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		all = n.Content
	}
	if len(all) > maxCommands {
		r.fail(n, "write a script", "%d commands of %s, at most %d", len(all), what, maxCommands)
		return nil
	}
	var commands []bench.Command
	for _, e := range all {
		c := bench.Command{Pos: r.pos(e)}
		if e.Kind == yaml.MappingNode {
			before := len(r.found)
			r.mapping(e, "a command of "+what, fields{
				"run": func(_, v *yaml.Node) { c.Run, _ = r.command(v, "run", "a shell command") },
				"in":  func(_, v *yaml.Node) { c.In = r.namespace(v) },
				"port": func(k, v *yaml.Node) {
					c.Port = r.count(v, "port", 1, 65535)
					if what != "setup" {
						r.fail(k, "leave it out", "port is waited for after setup alone")
					}
				},
			})
			if c.Run == "" && len(r.found) == before {
				r.fail(e, `{in: server, run: "a shell command"}`, "a command of %s does not say what it runs", what)
			}
		} else {
			c.Run, _ = r.command(e, what, "a shell command, {in: NAMESPACE, run: COMMAND}, or a list of them")
		}
		commands = append(commands, c)
	}
	return commands
}

// figures reads what work says of itself.
func (r *reader) figures(n *yaml.Node) []bench.Figure {
	const example = `{throughput: {json: end.sum_received.bits_per_second, unit: bit/s, better: higher}}`
	if n.Kind != yaml.MappingNode {
		r.fail(n, example, "figures must be a mapping of names, not %s", kind(n))
		return nil
	}
	var figures []bench.Figure
	for key, v := range pairs(n) {
		f := bench.Figure{Pos: r.pos(key)}
		f.Name, _ = r.name(key, "a figure")
		before := len(r.found)
		r.mapping(v, "figure "+quote(key.Value), fields{
			"match": func(_, v *yaml.Node) { f.Match = r.expression(v) },
			"json": func(_, v *yaml.Node) {
				f.JSON, _ = r.word(v, "json", "a path into the output, such as end.sum.bytes")
				if len(f.JSON) > maxExpression {
					r.fail(v, "", "json has more than %d characters", maxExpression)
				}
			},
			"unit": func(_, v *yaml.Node) { f.Unit = r.unit(v) },
			"better": func(_, v *yaml.Node) {
				w, _ := r.choice(v, "better", string(bench.Lower), string(bench.Higher))
				f.Better = bench.Better(w)
			},
		})
		if len(r.found) == before {
			switch {
			case (f.Match == "") == (f.JSON == ""):
				r.fail(key, example, "the figure %s needs match: a regular expression, or json: a path", quote(key.Value))
			case f.Unit == "" || f.Better == "":
				r.fail(key, example, "the figure %s needs its unit, and what is better: lower or higher", quote(key.Value))
			}
		}
		figures = append(figures, f)
	}
	if len(figures) > maxFigures {
		r.fail(n, "", "%d figures, at most %d", len(figures), maxFigures)
	}
	return figures
}

// expression is a regular expression with one group at most.
func (r *reader) expression(n *yaml.Node) string {
	const hint = `the group is the number: 'Requests/sec: +([0-9.]+)'`
	w, ok := r.word(n, "match", "a regular expression")
	if !ok {
		return ""
	}
	re, err := regexp.Compile(w)
	switch {
	case len(w) > maxExpression:
		r.fail(n, "", "match has more than %d characters", maxExpression)
	case err != nil:
		r.fail(n, hint, "match: %s", err)
	case re.NumSubexp() > 1:
		r.fail(n, hint+"; others are written (?:…)", "match has %d groups, at most 1", re.NumSubexp())
	}
	return w
}

func (r *reader) unit(n *yaml.Node) string {
	w, ok := r.word(n, "unit", "the figure's unit, such as req/s")
	if ok && (len(w) > bench.MaxUnit || strings.ContainsFunc(w, func(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) })) {
		r.fail(n, "req/s, bit/s, ms", "%s is not a unit: %d bytes at most, without spaces", quote(w), bench.MaxUnit)
		return ""
	}
	return w
}

// attach reads where a program hangs: a section, or {KIND: TARGET}.
func (r *reader) attach(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return r.section(n, "attach")
	}
	if len(n.Content) != 2 {
		r.fail(n, "attach: {tracepoint: sched/sched_switch}", "attach has one kind of hook and its target")
		return ""
	}
	kind, target := r.section(n.Content[0], "attach"), r.section(n.Content[1], "attach")
	if kind == "" || target == "" {
		return ""
	}
	return strings.TrimSuffix(kind, "/") + "/" + target
}

// worked notes what does not fit the work of a benchmark, once all of it is read.
func (r *reader) worked(given map[string]*yaml.Node, b *bench.Benchmark) {
	if given["work"] == nil {
		for _, k := range needWork {
			if given[k] != nil {
				r.fail(given[k], `work: {run: "a shell command"}`, "%s is for benchmarks with work", k)
			}
		}
		return
	}
	for name, why := range map[string]string{
		"veth":    "veth is work of its own",
		"context": "the kernel makes the context",
		"expect":  "what an attached program returns is not seen",
		"repeat":  "work is done once a round",
		"restore": "each packet passes once",
		"packets": "write them into work: {packets: …}",
	} {
		if k := given[name]; k != nil {
			r.fail(k, "leave it out", "%s has no meaning with work: %s", name, why)
		}
	}
	if b.Work != nil {
		r.inNet(b, b.Work.Pos, b.Work.In)
	}
	for _, c := range slices.Concat(b.Setup, b.Teardown) {
		r.inNet(b, c.Pos, c.In)
	}
	k := given["at"]
	if k == nil {
		return
	}
	space, iface, _ := strings.Cut(b.At, "/")
	all := neighbours(b, space)
	switch {
	case len(all) == 0:
		r.inNet(b, r.pos(k), space)
	case iface == "" && len(all) > 1:
		r.fail(k, "write "+space+"/"+strings.Join(all, " or "+space+"/"), "%s has several interfaces", space)
	case iface != "" && !slices.Contains(all, iface):
		r.fail(k, "interfaces are named for the namespace at their other end: "+space+"/"+strings.Join(all, ", "+space+"/"), "%s has no interface %s", space, quote(iface))
	}
}

// neighbours are the namespaces that a benchmark joins with one, for which the
// interfaces there are named; all namespaces for "".
func neighbours(b *bench.Benchmark, space string) []string {
	links := b.Net
	if len(links) == 0 {
		links = bench.DefaultLinks()
	}
	var all []string
	for _, l := range links {
		for i, e := range l.Ends {
			if other := l.Ends[1-i].Namespace; (space == "" || other == space) && !slices.Contains(all, e.Namespace) {
				all = append(all, e.Namespace)
			}
		}
	}
	return all
}

// inNet notes a namespace that a benchmark does not have.
func (r *reader) inNet(b *bench.Benchmark, pos bench.Pos, name string) {
	if all := neighbours(b, ""); name != "" && !slices.Contains(all, name) {
		r.failAt(pos, "there are "+strings.Join(all, ", ")+`; net: declares others`, "no namespace %s", quote(name))
	}
}
