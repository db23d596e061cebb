package config

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/english"
	"github.com/org/ebpf-bench-gate/internal/packet"
)

// Bounds of what one benchmark may ask for.
const (
	maxRepeat    = 1_000_000
	maxWarm      = 10_000
	maxVethCount = 10_000_000
)

// answers are the names of what programs return, by include/uapi/linux/bpf.h
// and pkt_cls.h.
var answers = []string{
	"XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT",
	"TC_ACT_UNSPEC", "TC_ACT_OK", "TC_ACT_RECLASSIFY", "TC_ACT_SHOT", "TC_ACT_PIPE",
	"TC_ACT_STOLEN", "TC_ACT_QUEUED", "TC_ACT_REPEAT", "TC_ACT_REDIRECT", "TC_ACT_TRAP",
	"BPF_OK", "BPF_DROP", "BPF_REDIRECT", "BPF_LWT_REROUTE", "BPF_FLOW_DISSECTOR_CONTINUE",
	"SK_DROP", "SK_PASS", "NF_DROP", "NF_ACCEPT",
}

// caseName is what may follow the program's name: nothing that a shell, a
// table or a markdown comment takes for its own.
var caseName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+=:@/-]{0,99}$`)

// benchmarks reads what is measured.
func (r *reader) benchmarks(n *yaml.Node) []bench.Benchmark {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "benchmarks", "a mapping of names to benchmarks")
		return nil
	}
	var benchmarks []bench.Benchmark
	for key, v := range pairs(n) {
		b := bench.Benchmark{Name: key.Value, Pos: r.pos(key)}
		var name string
		b.Program, name, _ = strings.Cut(key.Value, "/")
		if !identifier.MatchString(b.Program) || !caseName.MatchString(name) {
			r.fail(key, "a listed program, a slash, and letters, digits or any of _.+=:@/-", "%s is not a name of a benchmark: program/case", quote(key.Value))
			b.Program = ""
		}
		r.benchmark(key, v, &b)
		benchmarks = append(benchmarks, b)
	}
	return benchmarks
}

func (r *reader) benchmark(key, n *yaml.Node, b *bench.Benchmark) {
	given := make(map[string]*yaml.Node)
	for k := range pairs(n) {
		given[k.Value] = k
	}
	r.mapping(n, "benchmark "+quote(key.Value), fields{
		"packets": func(_, v *yaml.Node) { b.Packets = r.packets(v) },
		"context": func(_, v *yaml.Node) { b.Context = r.context(v) },
		"expect":  func(_, v *yaml.Node) { b.Expect = r.expect(v) },
		"repeat":  func(_, v *yaml.Node) { b.Repeat = r.count(v, "repeat", 1, maxRepeat) },
		"warm":    func(_, v *yaml.Node) { b.Warm = r.count(v, "warm", 0, maxWarm) },
		"restore": func(_, v *yaml.Node) {
			what, _ := r.choice(v, "restore", "packet", "none")
			b.KeepPacket = what == "none"
		},
		"drain": func(_, v *yaml.Node) {
			b.Drain = append([]string{}, r.words(v, "drain", func(e *yaml.Node) (string, bool) { return r.name(e, "a map") })...)
		},
		"budget": func(_, v *yaml.Node) { b.Budget, _ = r.duration(v, "budget") },
		"veth":   func(_, v *yaml.Node) { b.Veth = r.veth(v) },
		"agent":  func(_, v *yaml.Node) { r.sameAgent(v, b) },
		"work":   func(k, v *yaml.Node) { b.Work = r.work(k, v, b) },
		"net":    func(_, v *yaml.Node) { b.Net = r.links(v) },
		"at": func(_, v *yaml.Node) {
			b.At, _ = r.word(v, "at", "a namespace, or namespace/interface")
		},
		"setup":     func(_, v *yaml.Node) { b.Setup = r.commands(v, "setup") },
		"teardown":  func(_, v *yaml.Node) { b.Teardown = r.commands(v, "teardown") },
		"min_runs":  func(_, v *yaml.Node) { b.MinRuns = r.count(v, "min_runs", 1, maxRuns) },
		"alternate": func(_, v *yaml.Node) { b.Alternate = r.boolean(v, "alternate") },
		"with": func(_, v *yaml.Node) {
			b.With = r.words(v, "with", func(e *yaml.Node) (string, bool) { return r.name(e, "a program") })
			if len(b.With) > bench.MaxWith {
				r.fail(v, "", "with has %d programs, at most %d", len(b.With), bench.MaxWith)
			}
		},
	})
	r.worked(given, b)
	// What cannot be heeded is not passed over.
	if k := given["context"]; k != nil && given["packets"] != nil {
		r.fail(k, "leave one of them out", "context and packets exclude each other")
	}
	if given["veth"] != nil {
		for _, name := range []string{"context", "expect", "repeat", "restore"} {
			if k := given[name]; k != nil {
				r.fail(k, "leave it out, or measure with test runs: leave veth out", "%s has no meaning with veth: real packets pass once", name)
			}
		}
	}
}

func (r *reader) count(n *yaml.Node, what string, least, most uint64) int {
	v, _ := r.integer(n, what, least, most)
	return int(v)
}

func (r *reader) context(n *yaml.Node) []byte {
	const most = 4096
	w, ok := r.word(n, "context", "hex digits")
	if !ok {
		return nil
	}
	b, err := packet.DecodeHex(w)
	switch {
	case err != nil:
		r.fail(n, "", "context: %s", err)
	case len(b) > most:
		r.fail(n, "", "context: %d bytes, at most %d", len(b), most)
	}
	return b
}

// expect is an answer by name or number.
func (r *reader) expect(n *yaml.Node) string {
	w, ok := r.word(n, "expect", "an answer such as XDP_PASS, or a number")
	if !ok || slices.Contains(answers, w) {
		return w
	}
	abs, neg, ok := parseInt(w)
	switch {
	case ok && neg && abs <= -math.MinInt32:
		return strconv.FormatInt(-int64(abs), 10)
	case ok && !neg && abs <= math.MaxUint32:
		return strconv.FormatUint(abs, 10)
	}
	r.fail(n, expected(w, answers), "%s is not an answer of a program, nor a number of 32 bits", quote(w))
	return ""
}

func (r *reader) veth(n *yaml.Node) *bench.Veth {
	v := &bench.Veth{}
	r.mapping(n, "veth", fields{
		"mode":     func(_, m *yaml.Node) { v.Mode, _ = r.choice(m, "mode", "native", "generic", "ingress", "egress") },
		"count":    func(_, m *yaml.Node) { v.Count = r.count(m, "count", 1, maxVethCount) },
		"min_runs": func(_, m *yaml.Node) { v.MinRuns = r.count(m, "min_runs", 1, maxVethCount) },
	})
	sent := v.Count
	if sent == 0 {
		sent = bench.DefaultVethCount
	}
	if v.MinRuns > sent {
		r.fail(n, "", "min_runs is %d, but only %d packets are sent", v.MinRuns, sent)
	}
	return v
}

// known notes benchmarks of programs that nobody listed.
func (r *reader) known(benchmarks []bench.Benchmark, programs []bench.Program) {
	var names []string
	for _, p := range programs {
		names = append(names, p.Name)
	}
	for _, b := range benchmarks {
		if b.Program == "" || b.Agent != nil || slices.Contains(names, b.Program) {
			continue
		}
		hint := "list it with its object: programs: {" + b.Program + ": {object: …}}"
		if meant, ok := english.Near(b.Program, names); ok {
			hint = "did you mean " + meant + "?"
		}
		r.failAt(b.Pos, hint, "the program %s is not listed under programs", quote(b.Program))
	}
}
