package adapter

import (
	"regexp"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

var (
	xdpLine  = regexp.MustCompile(`(?m)^(\S+) +([\d,]+) rx/s +([\d,]+) (?:err,drop|err)/s((?: +[\d,]+ (?:xmit|redir|pass)/s)*) *$`)
	xdpField = regexp.MustCompile(`([\d,]+) (xmit|redir|pass)/s`)
	xdpMode  = regexp.MustCompile(`^(Dropping|Passing|Hairpinning|Redirecting)\b.* (?:on|from) (\S+)`)
)

func isXDPBench(s shape) bool { return s.has(xdpLine) }

// readXDPBench reads the lines that xdp-bench, and the samples of the kernel before it,
// print every interval: each is a sample of the rates. What the extended output says
// below them, and the sums at the end, are the same numbers.
func readXDPBench(s *source) {
	names := map[string]string{"Dropping": "drop", "Passing": "pass", "Hairpinning": "tx", "Redirecting": "redirect"}
	name := "xdp-bench"
	s.lines(func(line string) {
		if m := xdpMode.FindStringSubmatch(line); m != nil {
			name = "xdp-bench " + names[m[1]] + " " + m[2]
			return
		}
		m := xdpLine.FindStringSubmatch(line)
		if m == nil {
			return
		}
		r := bench.Result{Benchmark: s.Benchmark, Program: "xdp-bench"}
		if r.Benchmark == "" {
			r.Benchmark = name
			if _, to, ok := strings.Cut(m[1], "->"); ok && to != "?" {
				r.Benchmark += "->" + to
			}
		}
		s.addResult(r, figure("rx", "pkt/s", bench.Higher), s.number(m[2]))
		s.addResult(r, figure("err", "pkt/s", bench.Lower), s.number(m[3]))
		for _, f := range xdpField.FindAllStringSubmatch(m[4], -1) {
			s.addResult(r, figure(f[2], "pkt/s", bench.Higher), s.number(f[1]))
		}
	})
}

// glog may stand before it.
var (
	katranTest   = regexp.MustCompile(`(?m)(?:^|\] )Test: (.+?) +duration: +(\d+) ns/pckt or (\d+) pps *$`)
	katranFailed = regexp.MustCompile(`failed to run bpf test on (pckt #\d+)`)
)

func isKatran(s shape) bool { return s.has(katranTest) }

// readKatran reads what katran_tester --perf_testing prints: test runs of one packet each.
func readKatran(s *source) {
	s.lines(func(line string) {
		line = stripANSI(line)
		if m := katranTest.FindStringSubmatch(line); m != nil {
			r := bench.Result{Benchmark: m[1], Program: "katran"}
			s.addResult(r, latency, s.number(m[2]))
			s.addResult(r, figure("pps", "pkt/s", bench.Higher), s.number(m[3]))
		} else if m := katranFailed.FindStringSubmatch(line); m != nil {
			s.skip(m[1], "failed to run")
		}
	})
}
