// Package adapter reads what other tools measured into results of package bench, and
// writes runs in formats that other tools read.
//
// It measures nothing and judges nothing. [Detect] recognises a file by its beginning,
// [Read] makes a [Set] of it, and [Set.Run] makes the Set a run that is stored and
// compared like any other, but never in pairs: it has no session.
//
// What a foreign number becomes:
//
//   - the time of one iteration is the measure latency, in nanoseconds, so that the
//     limits for latency hold for it;
//   - what is named as a measure of the table is that measure: the numbers of the
//     verifier that veristat and bpftool tell;
//   - what a tool counts alike each time is count[NAME], exact;
//   - all else is figure[NAME], noisy, with the tool's own unit. Where a format does
//     not say what is better, a rate is better higher, and all else lower.
//
// Files come from anybody. Every parser reads its input as a stream, keeps nothing but
// results, and bounds what it keeps; a mistake is a [bench.Diagnostic] with its place.
//
// Note: no common intermediate format. A parser is some thirty lines over a walker of
// JSON or lines, and what tools mean by their numbers differs too much for a table of
// paths and units.
package adapter

import (
	"bytes"
	"slices"
)

// A Format is what one tool writes.
type Format struct {
	Name string // for --adapter: "gobench"
	Help string // the tool and its flags
	// is tells the format from the beginning of a file.
	is func(head shape) bool
	// read reports mistakes by panicking with a bail; see [Read].
	read func(*source)
}

// formats in the order in which they are tried: what is surest first.
var formats = []Format{
	{"criterion", "Criterion: target/criterion, its estimates.json and sample.json, or the text of cargo bench", isCriterion, readCriterion},
	{"gungraun", "Gungraun (its text or --output-format json), iai-callgrind and Iai: cargo bench", isIai, readIai},
	{"libtest", "libtest: the text of cargo bench with #[bench], or --format json", isLibtest, readLibtest},
	{"dhat", "DHAT: dhat-heap.json, dhat.out.PID, or the lines that valgrind --tool=dhat prints", isDHAT, readDHAT},
	{"callgrind", "valgrind --tool=callgrind: callgrind.out.PID", isCallgrind, readCallgrind},
	{"google", "Google Benchmark: --benchmark_out_format=json", isGoogle, readGoogle},
	{"catch2", "Catch2: the text of its benchmarks, or -r xml", isCatch2, readCatch2},
	{"pytest", "pytest-benchmark: --benchmark-json", isPytest, readPytest},
	{"jmh", "JMH: -rf json", isJMH, readJMH},
	{"hyperfine", "hyperfine: --export-json", isHyperfine, readHyperfine},
	{"bpftool", "bpftool prog show -j, and bpftool prog run and prog profile, with -j or not", isBpftool, readBpftool},
	{"xdp-bench", "xdp-bench, terse or extended", isXDPBench, readXDPBench},
	{"katran", "katran_tester --perf_testing", isKatran, readKatran},
	{"veristat", "veristat -o csv", isVeristat, readVeristat},
	{"bmf", "Bencher Metric Format JSON", isBMF, readBMF},
	{"gobench", "go test -bench, with -json or not, and what else writes golang.org/x/perf/benchfmt", isGobench, readGobench},
}

// Formats are all that can be read, by name.
func Formats() []Format {
	all := slices.Clone(formats)
	slices.SortFunc(all, func(a, b Format) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return all
}

// Lookup finds a format by name.
func Lookup(name string) (Format, bool) {
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return formats[i], true
}

// HeadSize is how many bytes of a file [Detect] wants to see, if it has as many.
const HeadSize = 64 << 10

// Detect finds the format of a file that begins with head. A run of gate has none of
// these formats.
func Detect(head []byte) (Format, bool) {
	s := shapeOf(head)
	if s.keys["schema"] && s.keys["id"] {
		return Format{}, false
	}
	i := slices.IndexFunc(formats, func(f Format) bool { return f.is(s) })
	if i < 0 {
		return Format{}, false
	}
	return formats[i], true
}
