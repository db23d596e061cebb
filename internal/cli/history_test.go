package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// fill stores n runs a level, of one branch, an hour apart.
func fill(t *testing.T, dir string, n int, levels ...float64) {
	t.Helper()
	s, err := store.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range n * len(levels) {
		at := time.Date(2026, 1, 1, i, 0, 0, 0, time.UTC)
		result := func(measure string, v float64) bench.Result {
			return bench.Result{Benchmark: "p/x", Program: "p", Measure: measure, Kind: bench.Micro, Samples: []bench.Sample{{Value: v, Offset: -1}}}
		}
		r := &bench.Run{
			Schema: bench.SchemaVersion, ID: fmt.Sprintf("run-%03d", i), Time: at,
			Revision: bench.Revision{Name: "main", Branch: "main", Commit: object(i)},
			Testbed:  bench.Testbed{Name: "lab", Kernel: "6.11", Arch: "amd64", CPU: "x", CPUs: 2, JIT: true},
			Results:  []bench.Result{result(bench.Latency, levels[i/n]+rnd.NormFloat64()), result(bench.VerifiedInsns, 58)},
		}
		if _, err := s.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// object is the commit of run i.
func object(i int) string { return fmt.Sprintf("%07x%033d", 0xabc000+i, 0) }

func TestHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	fill(t, dir, 15, 100, 110)
	gate := func(args ...string) (code int, out, errs string) {
		var stdout, stderr bytes.Buffer
		code = Command{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr}.Main(append([]string{"gate", "history", "--store", dir}, args...))
		return code, stdout.String(), stderr.String()
	}
	code, out, errs := gate()
	if code != 0 || errs != "" {
		t.Fatalf("exit %d, %s", code, errs)
	}
	for _, want := range []string{
		"main on lab, 30 runs\n",
		"p/x latency (ns, lower is better)\n",
		"✗ " + object(14)[:12] + ".." + object(15)[:12] + "  2026-01-01  99.9 ns to 110.1 ns, +10.2% [",
		"confidence 99.5%\n",
		"p/x verified_insns: no change, 58 insns\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "•"); n != 30 {
		t.Errorf("%d dots for 30 runs\n%s", n, out)
	}
	if !strings.Contains(out, "│") {
		t.Errorf("the change is not drawn\n%s", out)
	}
	code, out, _ = gate("--format", "json", "--measure", "latency")
	var all []chronicle
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 || len(all) != 1 || len(all[0].Series) != 1 || len(all[0].Series[0].Changes) != 1 {
		t.Errorf("exit %d, %v, %s", code, err, out)
	}
	if c := all[0].Series[0].Changes[0]; c.At != 15 || c.From.Commit != object(14) {
		t.Errorf("change %+v", c)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"q/x"}, exitUsage, "no stored run has q/x"},
		{[]string{"--measure", "speed"}, exitUsage, "speed is not a measure"},
		{[]string{"--format", "xml"}, exitUsage, "expected one of text, json"},
		{[]string{"--branch", "none"}, 0, "no runs in"},
	} {
		if code, _, errs := gate(c.args...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, code, errs)
		}
	}
	if _, out, _ := gate("p/x", "--measure", "verified_insns"); strings.Count(out, "•") != 30 {
		t.Errorf("a constant series that is named is drawn\n%s", out)
	}
}
