//go:build linux

package work

import (
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
)

func TestFind(t *testing.T) {
	const iperf = `{"start":{}, "end":{"streams":[{"sender":{"bps":1}},{"sender":{"bps":2.5e9}}],"text":"12","sum":{}}}`
	for _, tt := range []struct {
		name, match, json, out string
		truncated              bool
		want                   float64
		err                    string
	}{
		{name: "group", match: `Requests/sec: +([0-9.]+)`, out: "Requests/sec:   123.50\n", want: 123.5},
		{name: "the last one", match: `[0-9]+ pps`, out: "1 pps", err: `"1 pps" is not a number`},
		{name: "whole match", match: `[0-9]+`, out: "7 8\n9 end", want: 9},
		{name: "commas", match: `total ([0-9,.]+)`, out: "total 1,234,567.5", want: 1234567.5},
		{name: "no match", match: `x([0-9]+)`, out: "one\ntwo\x1b[2J\n", err: `it ends in "two\x1b[2J"`},
		{name: "no output", match: `x`, err: "nothing in the output matches"},
		{name: "infinity", match: `Inf`, out: "Inf", err: "not a number"},
		{name: "JSON", json: "end.streams.1.sender.bps", out: iperf, want: 2.5e9},
		{name: "JSON text", json: "end.text", out: iperf, want: 12},
		{name: "JSON nothing there", json: "end.sum.bps", out: iperf, err: `has no end.sum.bps (at "bps")`},
		{name: "JSON list", json: "end.streams.2.sender", out: iperf, err: "a list of 2"},
		{name: "JSON beyond", json: "end.text.more", out: iperf, err: "stands no object"},
		{name: "JSON object", json: "end.sum", out: iperf, err: "end.sum is not a number"},
		{name: "no JSON", json: "a", out: "connection refused", err: `begins with "connection refused"`},
		{name: "half of JSON", json: "start", out: iperf, truncated: true, err: "read as a whole"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Find(bench.Figure{Name: "rate", Match: tt.match, JSON: tt.json}, Output{Stdout: []byte(tt.out), Truncated: tt.truncated})
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}
