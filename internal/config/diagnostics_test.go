package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ebpf-bench-gate/bench"
)

var update = flag.Bool("update", false, "write what the tests get as what they want")

// What is printed for each testdata/bad/*.yml stands beside it.
func TestFormatGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(f), src)
			var ds Diagnostics
			if !errors.As(err, &ds) {
				t.Fatalf("no diagnostics but %v", err)
			}
			var b strings.Builder
			if err := ds.Format(&b, src, false); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(f, ".yml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	long := strings.Repeat("0123456789", 20)
	for _, c := range []struct {
		name, src string
		d         bench.Diagnostic
		want      string
	}{
		{"tabs", "a\tb: c", bench.Diagnostic{Pos: bench.Pos{File: "f", Line: 1, Col: 3}, Message: "m"}, "f:1:3: m\n  a   b: c\n      ^\n"},
		{"wide", "日本: x", bench.Diagnostic{Pos: bench.Pos{File: "f", Line: 1, Col: 5}, Message: "m"}, "f:1:5: m\n  日本: x\n        ^\n"},
		{"marks", "e\u0301: x", bench.Diagnostic{Pos: bench.Pos{File: "f", Line: 1, Col: 5}, Message: "m"}, "f:1:5: m\n  e\u0301: x\n     ^\n"},
		{"escapes", "a: \x1b[2J\u202ex", bench.Diagnostic{Pos: bench.Pos{File: "f", Line: 1, Col: 1}, Message: "\x1b[31m", Hint: "\r"}, "f:1:1: \ufffd[31m\n  a: \ufffd[2J\ufffdx\n  ^\nhint: \ufffd\n"},
		{"windows", "a: b\r\nc: d\r\n", bench.Diagnostic{Pos: bench.Pos{File: "f", Line: 2, Col: 99}, Message: "m"}, "f:2:99: m\n  c: d\n      ^\n"},
		{"no line", "a", bench.Diagnostic{Pos: bench.Pos{File: "f", Line: 9, Col: 1}, Message: "m"}, "f:9:1: m\n"},
		{"no place", "a", bench.Diagnostic{Pos: bench.Pos{File: "f"}, Message: "m", Hint: "h"}, "f: m\nhint: h\n"},
		{"long, early", long, bench.Diagnostic{Pos: bench.Pos{File: "f", Line: 1, Col: 2}, Message: "m"}, "f:1:2: m\n  " + long[:100] + "…\n   ^\n"},
		{"long, middle", long, bench.Diagnostic{Pos: bench.Pos{File: "f", Line: 1, Col: 81}, Message: "m"}, "f:1:81: m\n  …" + long[20:120] + "…\n" + strings.Repeat(" ", 2+1+60) + "^\n"},
		{"long, end", long, bench.Diagnostic{Pos: bench.Pos{File: "f", Line: 1, Col: 200}, Message: "m"}, "f:1:200: m\n  …" + long[100:] + "\n" + strings.Repeat(" ", 2+1+99) + "^\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			if err := (Diagnostics{&c.d}).Format(&b, []byte(c.src), false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
	var plain, color strings.Builder
	d := Diagnostics{{Pos: bench.Pos{File: "f", Line: 1, Col: 1}, Message: "m", Hint: "h"}}
	_ = d.Format(&plain, []byte("x"), false)
	_ = d.Format(&color, []byte("x"), true)
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(color.String(), "\x1b[1;31m^\x1b[0m") {
		t.Errorf("%q and in color %q", &plain, &color)
	}
}

// Every mistake is found where it stands. The place is that of the '§' in the
// source, which is taken out before it is read.
func TestMistakes(t *testing.T) {
	program := func(s string) string { return "version: 1\nprograms: {p: {object: o, " + s + "}}" }
	entry := func(s string) string { return program("maps: {m: [" + s + "]}") }
	value := func(s string) string { return entry("{key: 0, value: §" + s + "}") }
	benchmark := func(s string) string {
		return "version: 1\nprograms: {p: {object: o}}\nbenchmarks: {p/c: {" + s + "}}"
	}
	packets := func(s string) string { return benchmark("packets: " + s) }
	policy := func(s string) string { return "version: 1\npolicy: {" + s + "}" }
	for _, c := range []struct{ src, message, hint string }{
		// the whole
		{"§", "the config is empty", "version: 1"},
		{"§# only this", "the config is empty", "version: 1"},
		{"§- a", "the config must be a mapping, not a list", ""},
		{"§programs: {}", "the config has no version", "version: 1"},
		{"version: §2", `version "2" is not known to this version`, "version: 1"},
		{"version: §[1]", "version must be a number, not a list", ""},
		{"version: 1\n§programms: {}", `unknown key "programms" in the config`, "did you mean programs?"},
		{"version: 1\n§xyz: {}", `unknown key "xyz"`, "expected one of agents, benchmarks, build, commands, kernels, policy, programs, version"},
		{"version: 1\nagents: §[]", "agents must be a mapping", ""},
		{"version: 1\n§version: 1", `"version" is given twice`, "line 1"},
		{"version: 1\n§<<: {build: {}}", "merge keys", "write the keys out"},
		{"version: §!!int 1", `tags such as "!!int"`, "leave the tag out"},
		{"version: 1\n§[a]: 1", "a key must be a word", ""},
		{"version: 1\n§---\nversion: 1", "more than one YAML document", ""},
		{"version: 1\nbuild: &a\n  share: §*a", "the anchor &a holds itself", ""},
		{"version: 1\nb: \xff", "not UTF-8", "UTF-8"},
		{"version: 1\nbuild: {run: §@x}", "not YAML: found character that cannot start any token", "quote what starts"},
		{"version: 1\nbuild: {run: §x\npolicy: {}", "not YAML: did not find expected ',' or '}'", "a bracket is not closed"},
		// build
		{"version: 1\nkernels: §6.1", `kernels must be a list, not "6.1"`, ""},
		{"version: 1\nkernels: [6.1, §6.1]", `"6.1" is given twice`, ""},
		{"version: 1\nkernels: [§/boot/vmlinuz]", `"/boot/vmlinuz" is not a version of Linux`, "such as 6.12"},
		{"version: 1\nkernels: [§6]", `"6" is not a version of Linux`, ""},
		{"version: 1\nbuild: §make", `build must be a mapping, not "make"`, ""},
		{"version: 1\nbuild:§ ", "build must be a mapping, not empty", ""},
		{"version: 1\nbuild: {run: §[make]}", "run must be a shell command, not a list", ""},
		{`version: 1` + "\n" + `build: {run: §"printf '\033[1m'; make"}`, "run has a NUL character", "single quotes"},
		{`version: 1` + "\n" + `build: {cflags: [§"-D\0"]}`, "a flag has a NUL character", ""},
		{"version: 1\nbuild: {share: §deps}", `share must be a list, not "deps"`, ""},
		{"version: 1\nbuild: {share: [a, §a]}", `"a" is given twice`, ""},
		{"version: 1\nbuild: {share: [§../a]}", "leads out of the config's directory", "relative"},
		{"version: 1\nbuild: {share: [§a/../../b]}", "leads out of the config's directory", ""},
		{"version: 1\nbuild: {share: [§/etc]}", "leads out of the config's directory", ""},
		{`version: 1` + "\n" + `build: {share: [§"a\\b"]}`, "backslash", "write /"},
		{`version: 1` + "\n" + `build: {share: [§"a\0b"]}`, "control character", ""},
		{"version: 1\nbuild: {outputs: [§'a[']}", "is not a pattern", "*, ?"},
		{"version: 1\nbuild: {timeout: §10}", "timeout must be a duration above 0 and up to 24h", "10s"},
		{"version: 1\nbuild: {timeout: §-1s}", "timeout must be a duration", ""},
		{"version: 1\nbuild: {timeout: §25h}", "timeout must be a duration", ""},
		// programs
		{"version: 1\nprograms: §[p]", "programs must be a mapping of names to programs, not a list", ""},
		{"version: 1\nprograms: {§p: {type: xdp}}", `program "p" has no object`, "object: prog.bpf.o"},
		{"version: 1\nprograms: {§a-b: {object: o}}", `"a-b" is not a name of a program`, ""},
		{"version: 1\nprograms: {p: {§objct: o}}", `unknown key "objct" in program "p"`, "did you mean object?"},
		{"version: 1\nprograms: {p: {object: §'*.o'}}", "object must be one file, not a pattern", "${arch}"},
		{"version: 1\nprograms: {p: {object: §'${os}.o'}}", "unknown variable in the path", "${arch}"},
		{"version: 1\nprograms: {p: {object: §../o}}", "leads out", ""},
		{program("type: §'x p'"), "type must be the name of an ELF section", ""},
		{program("constants: {a: §1..2}"), "a constant cannot be a range", ""},
		{program("constants: {a: §$cpu}"), "a constant cannot have $cpu", ""},
		{program("constants: {a: §new}"), "a constant cannot be new", ""},
		{program("constants: {a: {b: §program(x)}}"), "a constant cannot be program", ""},
		{program("maps: {m: §5}"), `a map must be a list of entries, or a mapping`, ""},
		{program("maps: {m: {§max_entires: 5}}"), "unknown key", "did you mean max_entries?"},
		{program("maps: {m: {max_entries: §0}}"), "max_entries must be a whole number from 1 to 4294967295", ""},
		{program("maps: {m: {max_entries: §4294967296}}"), "max_entries must be a whole number", ""},
		// values
		{entry("§{key: 1}"), "an entry must have a value", ""},
		{entry("§5"), `an entry must be a mapping, not "5"`, ""},
		{value("010"), `"010" is no number, range or address`, "without leading zeros"},
		{value("1.5"), `"1.5" is no number`, ""},
		{value("18446744073709551616"), "is no number", ""},
		{value("-9223372036854775809"), "is no number", ""},
		{value("10.0.0.256"), "is no number, range or address", ""},
		{value("10.0.0.0/8"), "is no number, range or address", "quote it"},
		{value("1..3"), "a value cannot be a range", "$key"},
		{value("3..1"), "ends before it starts", ""},
		{value("-1..1"), "is not a range of numbers", "not negative"},
		{value("$foo"), "unknown variable $foo", "$key, $cpu"},
		{value("$key$key"), "not one variable", ""},
		{value(""), "a value is missing", ""},
		{value("bee(80)"), `unknown function "bee"`, "did you mean be?"},
		{value("be(x)"), `be cannot take "x"`, "be(80)"},
		{value("be(10.0.0.1)"), "be cannot take", ""},
		{value("be(be(1))"), "be cannot take", ""},
		{value("u8(new)"), "u8 cannot take", ""},
		{value("u8(256)"), "256 does not fit in 8 bits", ""},
		{value("u8(-129)"), "-129 does not fit in 8 bits", ""},
		{value("u16(10.0.0.1)"), "10.0.0.1 does not fit in 16 bits", ""},
		{value("u8(be(u8(1)))"), "functions within functions", ""},
		{value("hex(0)"), "odd number of hex digits", "two digits"},
		{value("be(80"), "starts as a function and does not end as one", "quote it"},
		{value("hex()"), "no hex digits", ""},
		{value("program(a b)"), "is not the name of a program", ""},
		{entry("{key: §0..4194304, value: 1}"), "more than 4194304 numbers", ""},
		{entry("{key: §$key, value: 1}"), "cannot be in it", "0..9"},
		{entry("{key: §new, value: 1}"), "a key cannot be new", ""},
		{entry("{key: {a: §1..2}, value: 1}"), "a range must be the whole key", ""},
		{entry("{key: [§$cpu], value: 1}"), "$cpu must be the whole key", ""},
		{entry("{key: be(80), value: §$key}"), "the key is not a number", ""},
		{entry("{value: {a: [§10.0.0.$key]}}"), "the key is not a number", ""},
		{entry("{key: 0, value: {§'a b': 1}}"), "is not a name of a struct field", ""},
		// benchmarks
		{"version: 1\nbenchmarks: §[a]", "benchmarks must be a mapping", ""},
		{"version: 1\nbenchmarks: {§p: {}}", `"p" is not a name of a benchmark: program/case`, "a slash"},
		{"version: 1\nbenchmarks: {§'p/a b': {}}", "is not a name of a benchmark", ""},
		{"version: 1\nprograms: {prog: {object: o}}\nbenchmarks: {§porg/c: {}}", `the program "porg" is not listed under programs`, "did you mean prog?"},
		{"version: 1\nbenchmarks: {§p/c: {}}", "is not listed under programs", "programs: {p: {object: …}}"},
		{benchmark("work: §x"), "work must be a mapping", ""},
		{benchmark("§work: {}"), "work says nothing that is done", "duration: 2s to watch only"},
		{benchmark("work: {§run: a, duration: 1s}"), "run is work of its own", ""},
		{benchmark("work: {duration: 1s, §within: 1s}"), "within is for work with run", ""},
		{benchmark("work: {run: a, §rate: 5}"), "rate is for work with packets", ""},
		{benchmark("work: {duration: 1s, §in: client}"), "in is for work with run or packets", ""},
		{benchmark("work: {packets: {udp: {}}, rate: §0}"), "rate must be packets a second", ""},
		{benchmark("work: {packets: {udp: {}}, §count: 5, duration: 1s}"), "so many times, or for so long", ""},
		{benchmark("work: {packets: {udp: {}}, §rate: 5, live: true}"), "there is no rate", ""},
		{benchmark("work: {packets: {udp: {}}, live: §yes}"), "live cannot be", "true, false"},
		{benchmark("§work: {run: a, in: nobody}"), `no namespace "nobody"`, "there are client, server"},
		{benchmark("work: {run: a, in: §Client}"), "is not a name of a namespace", "small letter"},
		{benchmark("work: {run: a}, net: [{§lo: 1.0.0.1/8, b: 1.0.0.2/8}]"), `"lo" is not a name of a namespace`, ""},
		{benchmark("work: {run: a}, net: [§{a: 1.0.0.1/8}]"), "a link has two ends", "client: 10.0.0.1/24"},
		{benchmark("work: {run: a}, net: [{a: §1.0.0.1, b: 1.0.0.2/8}]"), "is not an address with its network", ""},
		{benchmark("work: {run: a}, net: [§{a: 1.0.0.1/8, b: 1.0.0.1/8}]"), "both ends of the link have the address 1.0.0.1", ""},
		{benchmark("work: {run: a}, net: [§{a: 1.0.0.1/8, b: 'fd00::1/64'}]"), "one end of the link has an address of IPv4", ""},
		{benchmark("work: {run: a}, net: [{a: 1.0.0.1/8, b: 1.0.0.2/8}, §{b: 2.0.0.1/8, a: 2.0.0.2/8}]"), "a link between b and a already", ""},
		{benchmark("work: {run: a}, net: §[]"), "net has no link", ""},
		{benchmark("work: {run: a}, §at: router/x"), `no namespace "router"`, ""},
		{benchmark("work: {run: a}, §at: server/eth0"), `server has no interface "eth0"`, "server/client"},
		{benchmark("work: {run: a}, net: [{a: 1.0.0.1/8, b: 1.0.0.2/8}, {b: 2.0.0.1/8, c: 2.0.0.2/8}], §at: b"), "b has several interfaces", "write b/a or b/c"},
		{benchmark("work: {run: a}, setup: [a, §{in: nobody, run: b}]"), `no namespace "nobody"`, ""},
		{benchmark("work: {run: a}, setup: [§{in: client}]"), "does not say what it runs", ""},
		{benchmark("work: {run: a}, setup: {run: b, port: §65536}"), "port must be a whole number from 1 to 65535", ""},
		{benchmark("work: {run: a}, teardown: {run: b, §port: 5}"), "waited for after setup alone", ""},
		{benchmark("work: {run: a}, min_runs: §0"), "min_runs must be a whole number from 1", ""},
		{benchmark("§min_runs: 1"), "min_runs is for benchmarks with work", ""},
		{benchmark("§setup: a"), "setup is for benchmarks with work", ""},
		{benchmark("work: {run: a}, §expect: XDP_PASS"), "expect has no meaning with work", ""},
		{benchmark("work: {run: a}, §packets: {udp: {}}"), "packets has no meaning with work: write them into work", ""},
		{benchmark("work: {run: a, figures: §[a]}"), "figures must be a mapping of names, not a list", "throughput"},
		{benchmark("work: {run: a, figures: {§f: {unit: s, better: lower}}}"), "needs match: a regular expression, or json", ""},
		{benchmark("work: {run: a, figures: {§f: {json: a, unit: s}}}"), "needs its unit, and what is better", ""},
		{benchmark("work: {run: a, figures: {f: {match: §'(', unit: s, better: lower}}}"), "match: error parsing regexp", ""},
		{benchmark("work: {run: a, figures: {f: {match: §'(a)(b)', unit: s, better: lower}}}"), "match has 2 groups", ""},
		{benchmark("work: {run: a, figures: {f: {match: a, unit: §'a b', better: lower}}}"), "is not a unit", ""},
		{benchmark("work: {run: a, figures: {f: {match: a, unit: s, better: §faster}}}"), "better cannot be", ""},
		{"version: 1\nprograms: {p: {object: o, attach: §{a: b, c: d}}}", "attach has one kind of hook", ""},
		{"version: 1\nprograms: {p: {object: o, attach: {tracepoint: §a b}}}", "attach must be the name of an ELF section", ""},
		{benchmark("expect: §XDP_PAS"), `"XDP_PAS" is not an answer`, "did you mean XDP_PASS?"},
		{benchmark("expect: §4294967296"), "nor a number of 32 bits", ""},
		{benchmark("expect: §-2147483649"), "nor a number of 32 bits", ""},
		{benchmark("repeat: §0"), "repeat must be a whole number from 1 to 1000000, not \"0\"", ""},
		{benchmark("warm: §-1"), "warm must be a whole number from 0 to 10000", ""},
		{benchmark("restore: §packets"), "restore cannot be", "did you mean packet?"},
		{benchmark("drain: [a, §a]"), "is given twice", ""},
		{benchmark("drain: [§'a b']"), "is not a name of a map", ""},
		{benchmark("budget: §fast"), "budget must be a duration", ""},
		{benchmark("context: §0"), "context: an odd number", ""},
		{benchmark("context: §" + strings.Repeat("00", 4097)), "4097 bytes, at most 4096", ""},
		{benchmark("packets: {udp: {}}, §context: 00"), "context and packets exclude each other", ""},
		{benchmark("veth: {}, §repeat: 5"), "repeat has no meaning with veth", ""},
		{benchmark("veth: {mode: §nativ}"), "mode cannot be", "did you mean native?"},
		{benchmark("veth: §{min_runs: 5001}"), "min_runs is 5001, but only 5000 packets are sent", ""},
		// packets
		{packets("§[]"), "no packets", "built-in"},
		{packets("§a.txt"), "packets must be header fields", ""},
		{packets("§5"), "packets must be header fields", ""},
		{packets("§../a.pcap"), "leads out", ""},
		{packets("§/etc/a.pcap"), "leads out", ""},
		{packets("§none.pcap"), "none.pcap: no such file", ""},
		{packets("{hex: §00}"), "hex: a frame of 1 bytes", ""},
		{packets("{§ip4: {}}"), `unknown key "ip4" in a packet`, "did you mean ipv4?"},
		{packets("{ipv4: {src: §10.0.0.1/8}}"), "is an address within a network", "write 10.0.0.0/8"},
		{packets("{ipv4: {src: §fd00::1}}"), "is not an IPv4 address, CIDR or range", "10.0.0.1"},
		{packets("{ipv6: {src: §10.0.0.1}}"), "is not an IPv6 address, CIDR or range", "2001:db8::1"},
		{packets("{ipv4: {src: §10.0.0.9..10.0.0.1}}"), "ends before it starts", ""},
		{packets("§{ipv4: {src: 10.0.0.0/8}}"), "more than 65536 packets", ""},
		{packets("[{udp: {}}, §{ipv4: {src: 10.0.0.0/16}}]"), "more than 65535 packets", ""},
		{packets("§{udp: {sport: 0..1022}, size: 65535}"), "", ""}, // just fits: see below
		{packets("§{udp: {sport: 0..1024}, size: 65535}"), "more than 67108864 bytes", ""},
		{packets("{tcp: {dport: §65536}}"), `dport must be a number from 0 to 65535, or a range such as 80..89, not "65536"`, ""},
		{packets("{tcp: {dport: §9..8}}"), "ends before it starts", ""},
		{packets("{tcp: {flags: [§sin]}}"), "a flag cannot be", "did you mean"},
		{packets("{vlan: {id: §4096}}"), "id must be a number from 0 to 4095", ""},
		{packets("{vlan: {priority: §8}}"), "priority must be a whole number from 0 to 7", ""},
		{packets("{ethernet: {src: §02:00}}"), "is not a MAC address", ""},
		{packets("{ipv4: {offset: §8192}}"), "offset must be a whole number from 0 to 8191", ""},
		{packets("{arp: {op: §ask}}"), "op cannot be", "request, reply"},
		{packets("{udp: {}, payload: §hex(0)}"), "payload: an odd number", ""},
		{packets("§{ipv4: {}, ipv6: {}}"), "both ipv4 and ipv6", ""},
		// policy
		{policy("alpha: §0"), "alpha must be a number above 0 and below 1", ""},
		{policy("alpha: §100%"), "alpha must be a number", ""},
		{policy("alpha: §1e-2"), "alpha must be a number", ""},
		{policy("test: §ttest"), "test cannot be", "did you mean t_test?"},
		{policy("§latancy: {}"), "unknown key", "did you mean latency?"},
		{policy("waivers: §{}"), "waivers must be a list", ""},
		{policy("waivers: [§{benchmark: p/c, max: {latency: 6%}, until: 2027-01-31}]"), "a waiver needs reason", "why"},
		{policy("waivers: [§{benchmark: p/c, reason: x}]"), "a waiver needs max, until", "latency: 6%"},
		{policy("waivers: [{benchmark: p/c, max: §{}, until: 2027-01-31, reason: x}]"), "max names no measure", "latency: 6%"},
		{policy("waivers: [{benchmark: p/c, max: {§latancy: 6%}}]"), "unknown key", "did you mean latency?"},
		{policy("waivers: [{benchmark: p/c, max: {latency: §6}}]"), "max of latency must be a percentage", ""},
		{policy("waivers: [{benchmark: p/c, until: §2027-02-30}]"), "until is not a day", "2027-01-31"},
		{policy("waivers: [{benchmark: p/c, until: §soon}]"), "until is not a day", "2027-01-31"},
		{policy("waivers: [{benchmark: §'p/[', reason: x}]"), "is not a pattern", ""},
		{policy("waivers: [{reason: §[]}]"), "reason must be a sentence", ""},
		{policy("waivers: [§{benchmark: p/c, max: {latency: 6%}, since: 2027-02-01, until: 2027-01-31, reason: x}]"), "ends before it starts", ""},
		{policy("waivers: [{§untill: 2027-01-31}]"), "unknown key", "did you mean until?"},
		{policy("latency: §3%"), "latency must be a mapping", ""},
		{policy("latency: {fail: §3}"), "fail of latency must be a percentage such as 3%, or 0", ""},
		{policy("latency: {fail: §-3%}"), "fail of latency must be", ""},
		{policy("latency: {fail: §.nan}"), "fail of latency must be", ""},
		{policy("latency: §{warn: 5%, fail: 3%}"), "warn of latency is above fail", ""},
		{policy("verified_insns: §{warn: 5, fail: 3}"), "warn of verified_insns is above fail", ""},
		{policy("verified_insns: {max: §many}"), "max of verified_insns must be a number of insns", ""},
		{policy("jited_bytes: {max: §90%}"), "the kernel has no limit of jited_bytes", "a number of bytes"},
		{policy("verified_insns: {max: §120%}"), "max of verified_insns is above the kernel's own limit", ""},
		{policy("verified_insns: {max: §{}}"), "max of verified_insns has neither warn nor fail", "warn: 80%"},
		{policy("verified_insns: {max: §{warn: 900000, fail: 80%}}"), "warn of verified_insns is above fail", "warn is the smaller one"},
		{policy("verified_insns: {max: {§wran: 80%}}"), "unknown key", "did you mean warn?"},
		{policy("overrides: [{kernel: §'[', insns: {}}]"), "is not a pattern", "6.8.0-*-azure"},
		{policy("jited_bytes: {max: §5ns}"), "max of jited_bytes must be a number of bytes", ""},
		{policy("min_effect: §1"), "min_effect must be a time such as 1ns", ""},
		{policy("min_effect: 1ns, §min_effect_ns: 1"), "both min_effect and min_effect_ns", ""},
		{policy("min_effect_ns: §1e99"), "min_effect_ns must be", ""},
		{policy("threshold: {test: §z_test}"), "test cannot be", "did you mean t_test?"},
		{policy("threshold: {upper: §0.4}"), "upper must be a number from 0.5 and below 1", ""},
		{policy("threshold: {upper: §1}"), "upper must be a number from 0.5 and below 1", ""},
		{policy("threshold: {test: §static, upper: 5}"), `test cannot be "static"`, "expected one of percentage"},
		{policy("threshold: §{test: iqr}"), "neither upper nor lower", "upper: 1.5"},
		{policy("threshold: {test: iqr, upper: §-1}"), "upper must be a number of 0 or more", ""},
		{policy("threshold: {test: percentage, upper: §ten}"), "upper must be a number of 0 or more, or a percentage", ""},
		{policy("threshold: {window: §30}"), "window must be above 0 and up to 3650d", "30d, 8w"},
		{policy("threshold: {window: §0d}"), "window must be above 0", ""},
		{policy("threshold: {window: §99999w}"), "window must be above 0", ""},
		{policy("threshold: {window: §[]}"), "window must be a time such as 30d, 8w or 12h", ""},
		{policy("threshold: {change_points: §no}"), "change_points cannot be", "restart, ignore"},
		{policy("threshold: {§minimum: 2}"), "unknown key", "expected one of change_points"},
		{policy("threshold: §5"), "threshold must be a mapping", ""},
		{policy("latency: {threshold: §{upper: 0.9}}"), "the threshold of latency has no test", "test: t_test"},
		{policy("latency: {threshold: {test: static, upper: §fast}}"), "upper of latency must be a number of ns, or a time such as 200ns", ""},
		{policy("latency: {threshold: {test: static, upper: 1, §window: 3d}}"), "unknown key", "expected one of lower, test, upper"},
		{policy("latency: {threshold: §{test: static, upper: 1, lower: 2}}"), "lower is above upper", ""},
		{policy("latency: {threshold: {test: log_normal, upper: §1.5}}"), "upper must be a number from 0.5 and below 1", ""},
		{policy("overrides: §{}"), "overrides must be a list", ""},
		{policy("overrides: [§{latency: {fail: 1%}}]"), "an override needs the benchmark", "program/*"},
		{policy("overrides: [§{benchmark: p/c}]"), "changes nothing", "latency"},
		{policy("overrides: [{benchmark: §'p/['}]"), "is not a pattern", "*, ?"},
		{policy("overrides: [{benchmark: p/c, §latancy: {}}]"), "unknown key", "did you mean latency?"},
		{policy("overrides: [{benchmark: p/c, latency: {fail: §3}}]"), "fail of latency must be", ""},
		{policy("threshold: §{upper: none}"), "neither upper nor lower", ""},
		{policy("threshold: §{max_sample_size: 5}"), "max_sample_size is 5, below the min_sample_size of 10", ""},
		{policy("threshold: {min_sample_size: §1}"), "min_sample_size must be a whole number from 2", ""},
	} {
		t.Run(c.src, func(t *testing.T) {
			before, _, marked := strings.Cut(c.src, "§")
			_, err := Parse("f", []byte(strings.ReplaceAll(c.src, "§", "")))
			if c.message == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var ds Diagnostics
			if !errors.As(err, &ds) || len(ds) != 1 {
				t.Fatalf("got %v, want one mistake: %s", err, c.message)
			}
			if !strings.Contains(ds[0].Message, c.message) {
				t.Errorf("message %q, want %q", ds[0].Message, c.message)
			}
			if !strings.Contains(ds[0].Hint, c.hint) {
				t.Errorf("hint %q, want %q", ds[0].Hint, c.hint)
			}
			want := fmt.Sprintf("f:%d:%d", strings.Count(before, "\n")+1, len(before)-strings.LastIndex(before, "\n"))
			if marked && ds[0].Pos.String() != want {
				t.Errorf("place %s, want %s", ds[0].Pos, want)
			}
		})
	}
}

// All mistakes are told at once, in the order of the file, and each can be had.
func TestDiagnosticsError(t *testing.T) {
	_, err := Parse("f", []byte("version: 2\nprograms: {p: {objct: o}}\npolicy: {alpha: 2}"))
	want := "f:1:10: version \"2\" is not known to this version of gate\n" +
		"f:2:16: unknown key \"objct\" in program \"p\"\n" +
		"f:3:17: alpha must be a number above 0 and below 1, or a percentage, not \"2\""
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	var first *bench.Diagnostic
	if !errors.As(err, &first) || first.Pos.Line != 1 {
		t.Errorf("the first is %v", first)
	}
	many := "version: 1\n"
	for i := range 1000 {
		many += fmt.Sprintf("k%d: 1\n", i)
	}
	_, err = Parse("f", []byte(many))
	var ds Diagnostics
	if !errors.As(err, &ds) || len(ds) != maxFound || ds[maxFound-1].Message != "951 more mistakes from here on" {
		t.Errorf("%d mistakes, the last %v", len(ds), ds[len(ds)-1])
	}
}
