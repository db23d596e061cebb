package test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/org/ebpf-bench-gate/bench"
)

// mkrun writes a run as a gate of another time or machine would have, so that
// judging is tried without a kernel. Keys and their defaults:
//
//	id=r1 branch=main session=s1 commit= kernel=6.18.0 testbed= schema=1
//	minute=0            when, in minutes of a fixed hour
//	latency=100         in ns, with noise of 0.3%
//	benchmark=p/case rounds=40
//	suite=              of several, which begins the benchmark's name
//
// The noise is the same each time for the same id.
func mkrun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: mkrun FILE [KEY=VALUE]...")
	}
	v := map[string]string{
		"id": "r1", "branch": "main", "session": "s1", "commit": "", "kernel": "6.18.0", "testbed": "", "schema": "1",
		"minute": "0", "latency": "100", "benchmark": "p/case", "rounds": "40", "suite": "",
	}
	for _, arg := range args[1:] {
		key, value, ok := strings.Cut(arg, "=")
		if _, known := v[key]; !ok || !known {
			ts.Fatalf("mkrun: %q is no KEY=VALUE", arg)
		}
		v[key] = value
	}
	number := func(key string) float64 {
		x, err := strconv.ParseFloat(v[key], 64)
		if err != nil {
			ts.Fatalf("mkrun: %s: %v", key, err)
		}
		return x
	}
	program, _, _ := strings.Cut(v["benchmark"], "/")
	rounds := int(number("rounds"))
	res := bench.Result{
		Benchmark: v["benchmark"], Program: program, Measure: bench.Latency, Kind: bench.Micro,
		Looks: []int{rounds}, Final: true, Path: "driver", Answer: "XDP_PASS",
	}
	rng := rand.New(rand.NewPCG(uint64(len(v["id"])), uint64(v["id"][len(v["id"])-1])))
	for i := range rounds {
		res.Samples = append(res.Samples, bench.Sample{Round: i, Value: number("latency") * (1 + .003*rng.NormFloat64()), Floor: 20, Offset: -1})
	}
	r := bench.Run{
		Schema: 1, ID: v["id"], Session: v["session"], Seed: 7, Tool: "test",
		Time:     time.Date(2026, 1, 2, 3, int(number("minute")), 0, 0, time.UTC),
		Revision: bench.Revision{Name: v["id"], Commit: v["commit"], Branch: v["branch"]},
		Testbed:  bench.Testbed{Name: v["testbed"], Kernel: v["kernel"], Arch: "amd64", CPU: "AMD EPYC 7763", CPUs: 2, JIT: true},
		// Other digests, or the two sides would be unchanged programs.
		Programs: []bench.ProgramResult{{Program: program, Object: program + ".o", Type: "xdp", Outcome: bench.Accepted, Digest: v["id"]}},
		Results:  []bench.Result{res},
	}
	if v["suite"] != "" {
		r = *bench.JoinSuites([]string{v["suite"]}, []*bench.Run{&r})
	}
	var b strings.Builder
	ts.Check(bench.Encode(&b, &r))
	// Encode refuses to write what this version could not read.
	text := strings.Replace(b.String(), `"schema": 1`, fmt.Sprintf(`"schema": %s`, v["schema"]), 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}
