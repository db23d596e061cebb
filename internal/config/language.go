package config

import (
	"sync"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// Patterns of scalars. Digits may be parted by '_', which makes text of a number.
const (
	anything  = `.`
	whole     = `^(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)$`
	number10  = `^[0-9][0-9_]*(\.[0-9]+)?$`
	percent   = `^[0-9][0-9_]*(\.[0-9]+)?%?$`
	duration  = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`
	long      = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h|d|w))+$`
	quantity  = `^[0-9][0-9_]*(\.[0-9]+)?(%|ns|us|µs|ms|s)?$`
	day       = `^[0-9]{4}-[0-9]{2}-[0-9]{2}$`
	spanned   = `^(0x)?[0-9][0-9a-fA-Fxob_]*(\.\.(0x)?[0-9][0-9a-fA-Fxob_]*)?$`
	aName     = `^[A-Za-z_][A-Za-z0-9_.]*$`
	aCase     = `^[A-Za-z_][A-Za-z0-9_.]*/[A-Za-z0-9][A-Za-z0-9_.+=:@/-]{0,99}$`
	netnsName = `^[a-z][a-z0-9_-]{0,14}$`
)

func text() Shape                 { return Shape{Pattern: anything} }
func like(pattern string) Shape   { return Shape{Pattern: pattern} }
func oneOf(words ...string) Shape { return Shape{Words: words} }
func listOf(s Shape) Shape        { return Shape{Items: &s} }
func keys(k ...Key) Shape         { return Shape{Keys: k} }

// is names a shape.
func (s Shape) is(name string) Shape {
	s.Is = name
	return s
}

func (s Shape) or(others ...Shape) Shape { return Shape{Or: append([]Shape{s}, others...)} }

// named is a mapping of names, of what they are called, to shapes.
func named(what, pattern string, s Shape) Shape {
	return Shape{Named: &s, NamePattern: pattern, NameIs: what}
}

// Language is the whole of it. Every key stands here once, in the order of the
// reference.
var Language = sync.OnceValue(func() Shape {
	return keys(
		Key{Name: "version", About: "the version of the language: `1`", Shape: oneOf("1"), Required: true},
		Key{Name: "build", About: "what is built in each tree before anything is loaded", Shape: ofBuild()},
		Key{Name: "programs", About: "what is loaded: a mapping from the program's name, that of its function in the source", Shape: named("PROGRAM", aName, ofProgram())},
		Key{Name: "benchmarks", About: "what is measured: a mapping from `program/case` to an input and a way to drive it", Shape: named("PROGRAM/CASE", aCase, ofBenchmark())},
		Key{Name: "kernels", About: "the testbeds: versions of Linux, which are booted in virtual machines, and `host` for the running kernel", Default: "`[host]`",
			Shape: listOf(like(`^([0-9]+\.[0-9]+([.+~-]+[0-9a-z]+)*|host)$`))},
		Key{Name: "agents", About: "user space that loads its programs itself: a mapping from a name", Shape: named("AGENT", aName, ofAgent())},
		Key{Name: "commands", About: "benchmarks of user space that measure themselves, such as `go test -bench`: a mapping from a name", Shape: named("COMMAND", aName, ofHarness())},
		Key{Name: "policy", About: "how it is judged", Shape: ofPolicy()},
	)
})

func ofBuild() Shape {
	return keys(
		Key{Name: "run", About: "a shell command, in the config's directory of each tree, as the user who called gate", Shape: text()},
		Key{Name: "share", About: "untracked paths that base's tree gets from head's", Shape: listOf(text())},
		Key{Name: "outputs", About: "what the build makes; `*`, `?` and `[a-z]` match within one name", Shape: listOf(text())},
		Key{Name: "cflags", About: "further flags of clang for `.bpf.c` sources", Shape: listOf(text())},
		Key{Name: "timeout", About: "ends `run`", Default: "`30m`", Shape: like(duration)},
	)
}

func ofProgram() Shape {
	entry := keys(
		Key{Name: "key", About: "the entry's key: a value, a range `1..3` or `$cpu`; queues and stacks have none", Shape: Shape{}},
		Key{Name: "value", About: "the entry's value", Shape: Shape{}, Required: true},
	)
	return keys(
		Key{Name: "object", About: "the file it is in. A `.bpf.c` source is compiled. `${arch}` is the architecture as bpf2go names it: `x86`, `arm64`, `arm`, `riscv`, `powerpc`, `s390`, `loongarch`, `mips`", Shape: text(), Required: true},
		Key{Name: "type", About: "the section it should have had, where its own says nothing: `xdp`, `tc`, `cgroup_skb/ingress`, …", Shape: text()},
		Key{Name: "attach", About: "where it hangs, as a section (`kprobe/tcp_v4_connect`, `fentry/do_exit`, …) or as `{tracepoint: sched/sched_switch}`; see [macro.md](macro.md#hooks)",
			Shape: text().or(named("KIND", `^[!-~]+$`, text()))},
		Key{Name: "constants", About: "global variables (`.rodata`, `.data`, `.bss`) and the values they have when the program is loaded", Shape: named("VARIABLE", aName, Shape{})},
		Key{Name: "loader", About: "a shell command that loads it in gate's place: [below](#loader-objects-that-only-their-own-loader-can-load)", Shape: text()},
		Key{Name: "maps", About: "what maps hold before each measurement, by the map's name: a list of entries, or `{max_entries: N, entries: […]}` to size it, too",
			Shape: named("MAP", aName, listOf(entry).or(keys(
				Key{Name: "max_entries", About: "the map's size, 1 to 4,294,967,295", Default: "the object's", Shape: like(whole)},
				Key{Name: "entries", About: "what it holds", Shape: listOf(entry)},
			)))},
	)
}

func ofBenchmark() Shape {
	return keys(
		Key{Name: "packets", About: "the input: see [below](#packets)", Default: "the built-in set", Shape: ofPackets()},
		Key{Name: "context", About: "the raw context in hex, at most 4096 bytes, for programs that take one instead of a packet (raw_tp, sk_lookup, syscall)", Default: "none", Shape: text()},
		Key{Name: "expect", About: "the answer, by name (`XDP_PASS`, `TC_ACT_OK`, `SK_PASS`, …) or number. Another answer is an error: the wrong path was measured", Default: "the first answer of each packet",
			Shape: Shape{Words: answers, Pattern: `^-?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$`}},
		Key{Name: "repeat", About: "runs of one reading, 1 to 1,000,000, in whole passes over the packets, at least one", Default: "1000", Shape: like(whole)},
		Key{Name: "warm", About: "passes over all packets before the first reading, 0 to 10,000; with `work`, how often it is done before the first round, at least once", Default: "0; with `work` 1", Shape: like(whole)},
		Key{Name: "restore", About: "`packet`: each run has a fresh packet. `none`: a run has what the one before left", Default: "`packet`", Shape: oneOf("packet", "none")},
		Key{Name: "drain", About: "maps emptied before each reading: queues, stacks, ring and perf buffers, hash maps; with `work` every 10 ms, as an agent would. `[]` for none. A side without the map is left alone",
			Default: "none; without a config or with `work`, all queues, stacks, ring and perf buffers", Shape: listOf(like(aName))},
		Key{Name: "budget", About: "the measuring time, up to `24h`", Default: "10 s, or its share of the policy's", Shape: like(duration)},
		Key{Name: "veth", About: "makes it macro: attached to a veth pair, real packets sent through it", Default: "test runs", Shape: keys(
			Key{Name: "mode", About: "`native` or `generic` for XDP, `ingress` or `egress` for tc", Default: "the first of each", Shape: oneOf("native", "generic", "ingress", "egress")},
			Key{Name: "count", About: "packets a round, 1 to 10,000,000", Default: "5,000", Shape: like(whole)},
			Key{Name: "min_runs", About: "fewer runs of the program than that give no sample", Default: "90% of `count`", Shape: like(whole)},
		)},
		Key{Name: "agent", About: "the agent whose programs are measured, if it is to be said: the name before the slash is it", Shape: like(aName)},
		Key{Name: "work", About: "makes it macro: attached where its section or `attach` says, and run by real work: see [below](#work)", Default: "test runs", Shape: ofWork()},
		Key{Name: "net", About: "namespaces joined by veth pairs: a list of `{client: 10.0.0.1/24, server: 10.0.0.2/24}`", Default: "`[{client: 192.0.2.1/32, server: 198.51.100.1/32}]`",
			Shape: listOf(named("NAMESPACE", netnsName, text().or(listOf(text()))))},
		Key{Name: "at", About: "where programs of the network hang: a namespace, or `namespace/interface`; an interface is named for the namespace at its other end", Default: "the second end of the first link", Shape: text()},
		Key{Name: "setup", About: "commands before the first round: one, `{in: server, run: COMMAND}`, or a list. With `port: 80` gate waits until somebody listens on that TCP port there. What it leaves running is ended after `teardown`", Default: "none", Shape: ofCommands()},
		Key{Name: "teardown", About: "commands after the last round", Default: "none", Shape: ofCommands()},
		Key{Name: "min_runs", About: "fewer runs of the program than that give no sample", Default: "1", Shape: like(whole)},
		Key{Name: "with", About: "programs of the same object that hang beside it, with its maps, and are not measured", Default: "none", Shape: listOf(like(aName))},
		Key{Name: "alternate", About: "`true`: base and head have work of their own each, even where both could hang at once", Default: "`false`", Shape: oneOf("true", "false")},
	)
}

func ofCommands() Shape {
	one := keys(
		Key{Name: "run", About: "a shell command", Shape: text(), Required: true},
		Key{Name: "in", About: "the namespace that it runs in", Default: "the first one", Shape: like(netnsName)},
		Key{Name: "port", About: "wait until somebody listens on this TCP port there (`setup` alone)", Shape: like(whole)},
	)
	return text().or(one, listOf(text().or(one)))
}

func ofWork() Shape {
	return keys(
		Key{Name: "run", About: "a shell command, in the config's directory of head's tree, as that directory's owner", Shape: text()},
		Key{Name: "within", About: "ends it with an error, up to `24h`", Default: "`1m`", Shape: like(duration)},
		Key{Name: "figures", About: "numbers that the command states: `{NAME: {match: REGEXP, unit: req/s, better: higher}}`, or `json: a.b.0.c` in the place of `match`. Each is a measure, `figure[NAME]`", Default: "none",
			Shape: named("NAME", aName, keys(
				Key{Name: "match", About: "a regular expression whose one group is the number", Shape: text()},
				Key{Name: "json", About: "a path into output that is JSON: `end.sum_received.bits_per_second`", Shape: text()},
				Key{Name: "unit", About: "its unit, without spaces", Shape: text(), Required: true},
				Key{Name: "better", About: "`lower` or `higher`", Shape: oneOf("lower", "higher"), Required: true},
			))},
		Key{Name: "packets", About: "packets as [below](#packets), in the place of `run`: sent through a packet socket", Shape: ofPackets()},
		Key{Name: "count", About: "so many of them a round, 1 to 10,000,000", Default: "5,000", Shape: like(whole)},
		Key{Name: "rate", About: "so many a second", Default: "as fast as they go", Shape: like(number10)},
		Key{Name: "live", About: "`true`: sent as XDP frames (Linux 5.18); only native XDP programs take these", Default: "`false`", Shape: oneOf("true", "false")},
		Key{Name: "duration", About: "packets are sent for so long; without `packets`, programs are only watched", Shape: like(duration)},
		Key{Name: "in", About: "the namespace that the command runs in, or that packets leave from", Default: "the first one", Shape: like(netnsName)},
	)
}

func ofPackets() Shape {
	frame := keys(Key{Name: "hex", About: "a whole frame from the Ethernet header on, 14 to 65,535 bytes", Shape: text(), Required: true})
	one := text().or(ofTemplate(), frame).is("packet")
	return one.or(listOf(one)).is("packets")
}

func ofTemplate() Shape {
	numbers := like(spanned)
	vlan := keys(
		Key{Name: "id", About: "1 to 4094", Default: "1", Shape: numbers},
		Key{Name: "priority", About: "0 to 7", Default: "0", Shape: like(whole)},
		Key{Name: "type", About: "the tag's own Ethernet type", Default: "0x8100", Shape: like(whole)},
	)
	return keys(
		Key{Name: "ethernet", About: "the Ethernet header", Shape: keys(
			Key{Name: "src", About: "a MAC address", Default: "02:00:00:00:00:01", Shape: text()},
			Key{Name: "dst", About: "a MAC address", Default: "02:00:00:00:00:02", Shape: text()},
			Key{Name: "type", About: "the Ethernet type", Default: "what follows", Shape: like(whole)},
		)},
		Key{Name: "vlan", About: "a tag, or a list of several, outermost first, at most 4", Shape: vlan.or(listOf(vlan))},
		Key{Name: "arp", About: "ARP", Shape: keys(
			Key{Name: "op", About: "`request` or `reply`", Default: "request", Shape: oneOf("request", "reply")},
			Key{Name: "src", About: "an address, a network or a range", Default: "192.0.2.1", Shape: text()},
			Key{Name: "dst", About: "an address, a network or a range", Default: "198.51.100.1", Shape: text()},
		)},
		Key{Name: "ipv4", About: "IPv4", Shape: keys(
			Key{Name: "src", About: "an address, a network or a range", Default: "192.0.2.1", Shape: text()},
			Key{Name: "dst", About: "an address, a network or a range", Default: "198.51.100.1", Shape: text()},
			Key{Name: "ttl", About: "hops", Default: "64", Shape: numbers},
			Key{Name: "tos", About: "type of service", Default: "0", Shape: numbers},
			Key{Name: "id", About: "identification", Default: "0", Shape: numbers},
			Key{Name: "protocol", About: "the protocol's number", Default: "what follows; 253 if nothing does", Shape: numbers},
			Key{Name: "flags", About: "of `df`, `mf`", Default: "[]", Shape: listOf(oneOf("df", "mf"))},
			Key{Name: "offset", About: "of a fragment, in units of 8 bytes, 0 to 8191", Default: "0", Shape: like(whole)},
		)},
		Key{Name: "ipv6", About: "IPv6", Shape: keys(
			Key{Name: "src", About: "an address, a network or a range", Default: "2001:db8::1", Shape: text()},
			Key{Name: "dst", About: "an address, a network or a range", Default: "2001:db8::2", Shape: text()},
			Key{Name: "hop_limit", About: "hops", Default: "64", Shape: numbers},
			Key{Name: "traffic_class", About: "traffic class", Default: "0", Shape: numbers},
			Key{Name: "flow_label", About: "flow label", Default: "0", Shape: numbers},
			Key{Name: "next_header", About: "the next header's number", Default: "what follows", Shape: numbers},
		)},
		Key{Name: "tcp", About: "TCP", Shape: keys(
			Key{Name: "sport", About: "source port", Default: "40000", Shape: numbers},
			Key{Name: "dport", About: "destination port", Default: "80", Shape: numbers},
			Key{Name: "seq", About: "sequence number", Default: "1", Shape: numbers},
			Key{Name: "ack", About: "acknowledgement", Default: "0", Shape: numbers},
			Key{Name: "window", About: "window", Default: "65535", Shape: numbers},
			Key{Name: "flags", About: "of `fin`, `syn`, `rst`, `psh`, `ack`, `urg`, `ece`, `cwr`", Default: "[syn]", Shape: listOf(oneOf(tcpFlags...))},
		)},
		Key{Name: "udp", About: "UDP", Shape: keys(
			Key{Name: "sport", About: "source port", Default: "40000", Shape: numbers},
			Key{Name: "dport", About: "destination port", Default: "53", Shape: numbers},
		)},
		Key{Name: "icmp", About: "ICMP, or ICMPv6 after `ipv6`", Shape: keys(
			Key{Name: "type", About: "its type", Default: "echo request (8, or 128 after `ipv6`)", Shape: numbers},
			Key{Name: "code", About: "its code", Default: "0", Shape: numbers},
			Key{Name: "id", About: "identifier", Default: "1", Shape: numbers},
			Key{Name: "seq", About: "sequence number", Default: "1", Shape: numbers},
		)},
		Key{Name: "payload", About: "text, or `hex(…)`, after the last header", Shape: text()},
		Key{Name: "size", About: "bytes of the frame, filled with zeros that count as payload", Shape: numbers},
	)
}

func ofAgent() Shape {
	return keys(
		Key{Name: "run", About: "a shell command that is the agent: run as root, in the config's directory of its side's own tree. Without it, the agent runs already, `find` says where, and there is no base to compare with", Default: "none", Shape: text()},
		Key{Name: "programs", About: "names of programs, or patterns (`event_*`), that must be there, and are measured", Default: "all that are found", Shape: listOf(text())},
		Key{Name: "ready", About: "when it is at work: all of `log`, `port` and `command`, and its programs, to which for the time `stable` nothing is added; `within` a time", Default: "`{stable: 500ms, within: 1m}`", Shape: keys(
			Key{Name: "log", About: "a regular expression that a line of its output matches", Shape: text()},
			Key{Name: "port", About: "a TCP port on which something listens in its namespace", Shape: like(whole)},
			Key{Name: "command", About: "a shell command that ends with 0", Shape: text()},
			Key{Name: "programs", About: "`all`, which is meant anyway", Default: "all", Shape: oneOf("all")},
			Key{Name: "stable", About: "nothing is added to its programs for so long", Default: "`500ms`", Shape: like(duration)},
			Key{Name: "within", About: "until it is given up", Default: "`1m`", Shape: like(duration)},
		)},
		Key{Name: "find", About: "where else its programs are", Default: "by its processes, the pins in its bpffs, and the interfaces of its namespace", Shape: keys(
			Key{Name: "names", About: "patterns of programs loaded since it was started", Shape: listOf(text())},
			Key{Name: "pins", About: "paths of the host", Shape: listOf(text())},
			Key{Name: "cgroups", About: "paths of the host", Shape: listOf(text())},
			Key{Name: "interfaces", About: "of the host", Shape: listOf(text())},
		)},
		Key{Name: "stop", About: "how it is ended", Default: "`{signal: SIGTERM, within: 10s}`", Shape: keys(
			Key{Name: "signal", About: "what it is sent", Default: "`SIGTERM`", Shape: oneOf(signals...)},
			Key{Name: "within", About: "until it is killed", Default: "`10s`", Shape: like(duration)},
		)},
		Key{Name: "env", About: "environment variables", Default: "none", Shape: named("NAME", `^[A-Za-z_][A-Za-z0-9_]*$`, text())},
		Key{Name: "in", About: "the namespace of the benchmark that it is in", Default: "that of `at`", Shape: like(netnsName)},
		Key{Name: "where", About: "`host`: where gate runs, which in the action is the measuring container. `container` is an error; see [agents.md](agents.md#in-a-container)", Default: "`host`", Shape: oneOf("host", "container")},
	)
}

func ofHarness() Shape {
	return keys(
		Key{Name: "run", About: "a shell command, run by turns in base's tree and in head's, as the user who called gate", Shape: text(), Required: true},
		Key{Name: "dir", About: "the directory that it runs in", Default: "that of the config", Shape: text()},
		Key{Name: "adapter", About: "the [format](adapters.md) of what it says", Default: "`magic`: that is found out", Shape: oneOf(adapters()...)},
		Key{Name: "results", About: "a file or directory below `$GATE_TMP` that it writes its results to", Default: "its standard output", Shape: text()},
		Key{Name: "profiles", About: "files below `$GATE_TMP` that it writes in pprof's format, such as `-test.memprofile` makes: they name the lines that allocate more", Default: "none", Shape: listOf(text())},
		Key{Name: "env", About: "environment variables", Default: "none", Shape: named("NAME", `^[A-Za-z_][A-Za-z0-9_]*$`, text())},
		Key{Name: "within", About: "ends each run with an error, up to `24h`. The first run of each side may have to compile", Default: "`5m`", Shape: like(duration)},
		Key{Name: "budget", About: "the measuring time, up to `24h`", Default: "2 min, or its share of the policy's", Shape: like(duration)},
	)
}

func ofPolicy() Shape {
	pattern := text()
	pattern.NameIs = "PATTERN"
	own := []Key{
		{Name: "preset", About: "the limits that it starts from: " + presetNames(), Default: "`default`", Shape: oneOf(presetWords()...)},
		{Name: "alpha", About: "the chance that a suite of unchanged programs is called regressed: `0.01` or `1%`", Default: "0.01", Shape: like(percent)},
		{Name: "test", About: "what judges pairs of samples: `signed_rank` (Wilcoxon's, exact whatever the tails), or `t_test` (Student's). Reports carry the t statistic either way", Default: "`signed_rank`",
			Shape: oneOf(string(gate.SignedRank), string(gate.PairedT))},
		{Name: "budget", About: "the measuring time of the whole suite, up to `24h`", Default: "10 s a benchmark", Shape: like(duration)},
		{Name: "min_effect", About: "the slowdown that is never a regression, however large a share it is: `1ns`", Default: "`1ns`", Shape: like(`^[0-9][0-9_]*(\.[0-9]+)?(ns|us|µs|ms|s)$`)},
		{Name: "min_effect_ns", About: "the same, as a number of ns", Default: "1", Shape: like(number10)},
		{Name: "waivers", About: "regressions that are accepted for a time: [below](#waivers-an-expected-regression)", Default: "none", Shape: listOf(keys(
			Key{Name: "benchmark", About: "a name, or a pattern of several", Shape: pattern, Required: true},
			Key{Name: "max", About: "how much worse each measure may be: a percentage, or for counts a number", Shape: measuresTo(like(percent)), Required: true},
			Key{Name: "since", About: "the day on which it was granted", Shape: like(day)},
			Key{Name: "until", About: "the last day on which it counts (UTC)", Shape: like(day), Required: true},
			Key{Name: "reason", About: "why it is worth it", Shape: text(), Required: true},
		))},
		{Name: "overrides", About: "other limits for some benchmarks or kernels", Default: "none", Shape: listOf(measuresTo(ofLimit(),
			Key{Name: "benchmark", About: "a name, or a pattern of several", Shape: pattern},
			Key{Name: "kernel", About: "a version (`6.1`), or a pattern of versions or releases (`5.*`)", Shape: text()},
		))},
		{Name: "threshold", About: "the rule against stored runs: [below](#threshold-the-rule-against-stored-runs)", Default: "`{test: t_test, upper: 0.99}`", Shape: ofThreshold(false)},
	}
	return measuresTo(ofLimit(), own...)
}

// measuresTo is a mapping of measures, and members of families of them, and of keys.
func measuresTo(s Shape, own ...Key) Shape {
	out := keys(own...)
	for _, m := range bench.Measures() {
		out.Keys = append(out.Keys, Key{Name: m.Name, About: m.Help, Shape: s})
		if bench.IsFamily(m.Name) {
			out.NamePattern += "|" + m.Name
		}
	}
	out.NamePattern = `^(` + out.NamePattern[1:] + `)\[.+\]$`
	out.Named, out.NameIs = &s, "MEASURE[MEMBER]"
	return out
}

func ofLimit() Shape {
	return Shape{Is: "limit", Keys: []Key{
		{Name: "warn", About: "the change for the worse that is told: a percentage, or for counts a number; `0` is any", Shape: like(percent)},
		{Name: "fail", About: "the change for the worse that fails", Shape: like(percent)},
		{Name: "max", About: "what head may not exceed, whatever base has: in the measure's unit, or a share of what the kernel allows; `{warn: …, fail: …}` tells at one value and fails at another",
			Shape: like(quantity).or(keys(
				Key{Name: "warn", About: "the value above which head is told", Shape: like(quantity)},
				Key{Name: "fail", About: "the value above which head fails", Shape: like(quantity)},
			))},
		{Name: "threshold", About: "the measure's own rule against stored runs", Default: "the policy's, for noisy measures with a limit", Shape: ofThreshold(true)},
	}}
}

func ofThreshold(measure bool) Shape {
	var tests []string
	for _, t := range gate.Tests() {
		if measure || t != gate.Static {
			tests = append(tests, string(t))
		}
	}
	side := Shape{Words: []string{"none"}, Pattern: quantity}
	return keys(
		Key{Name: "test", About: "which rule", Default: "`t_test`", Shape: oneOf(tests...), Required: measure},
		Key{Name: "upper", About: "the limit on that side, or `none`; what is strictly beyond it is an alarm. On the bad side that is a regression, on the good side an improvement; for `static` either is a regression", Default: "0.99 for `t_test`, else none", Shape: side},
		Key{Name: "lower", About: "the limit on the other side, or `none`", Default: "none", Shape: side},
		Key{Name: "min_sample_size", About: "fewer stored runs judge nothing: the report says so, and `gate run` exits 0", Default: "10; for `percentage` 1", Shape: like(whole)},
		Key{Name: "max_sample_size", About: "only so many of the newest are looked at", Default: "64", Shape: like(whole)},
		Key{Name: "window", About: "only those of this time before head: `12h`, `30d`, `8w`", Default: "all", Shape: like(long)},
		Key{Name: "change_points", About: "`restart`: only those since the last change of level that `gate history` finds. `ignore`: all", Default: "restart", Shape: oneOf("restart", "ignore")},
	)
}
