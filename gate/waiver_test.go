package gate_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

func date(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

func waiver(benchmark, until string, latency float64) gate.Waiver {
	return gate.Waiver{Benchmark: benchmark, Max: map[string]gate.Margin{"latency": {Ratio: latency}, bench.VerifiedInsns: {Absolute: 10}},
		Since: date("2026-01-01"), Until: date(until), Reason: "GUE support, #412"}
}

// The runs are of 2026-01-02 03:04:05 UTC, and head is 10% slower.
func TestWaivers(t *testing.T) {
	for _, c := range []struct {
		name    string
		waivers []gate.Waiver
		now     string // RFC 3339; empty: 2026-01-02
		want    gate.Verdict
		reason  string
		used    bool
		expired bool
		left    int
	}{
		{"none", nil, "", gate.Regressed, "", false, false, 0},
		{"accepted", []gate.Waiver{waiver("p/x", "2026-02-01", 0.2)}, "", gate.Pass, "up to +20% is accepted until 2026-02-01 (GUE support, #412)", true, false, 30},
		{"too little", []gate.Waiver{waiver("p/x", "2026-02-01", 0.06)}, "", gate.Regressed, "beyond the +6% that is accepted until 2026-02-01 (GUE", true, false, 30},
		{"of others", []gate.Waiver{waiver("p/y", "2026-02-01", 0.2)}, "", gate.Regressed, "", false, false, 0},
		{"by pattern", []gate.Waiver{waiver("p/*", "2026-02-01", 0.2)}, "", gate.Pass, "accepted", true, false, 30},
		{"its last second", []gate.Waiver{waiver("p/x", "2026-01-02", 0.2)}, "2026-01-02T23:59:59Z", gate.Pass, "accepted", true, false, 0},
		{"one later", []gate.Waiver{waiver("p/x", "2026-01-02", 0.2)}, "2026-01-03T00:00:00Z", gate.Regressed, "the waiver expired on 2026-01-02 (GUE support, #412)", false, true, -1},
		{"its last hour, told from the east", []gate.Waiver{waiver("p/x", "2026-01-02", 0.2)}, "2026-01-03T07:59:59+09:00", gate.Pass, "accepted", true, false, 0},
		{"an expired one does not hide one that counts", []gate.Waiver{waiver("p/x", "2026-02-01", 0.2), waiver("p/x", "2026-01-01", 0.5)}, "", gate.Pass, "up to +20%", true, false, 30},
		{"less than the limit", []gate.Waiver{waiver("p/x", "2026-02-01", 0.001)}, "", gate.Regressed, "", true, false, 30},
		{"no time", []gate.Waiver{waiver("p/x", "2026-02-01", 0.2)}, "never", gate.Regressed, "expired", false, true, 0},
	} {
		p := latencyPolicy(0.03)
		p.Waivers = c.waivers
		rnd := rand.New(rand.NewPCG(31, 1))
		b, h := pair(rnd, 160, 30, 0.10)
		base, head := newRun("a", "s", b), newRun("b", "s", h)
		switch c.now {
		case "":
		case "never":
			head.Time = time.Time{}
		default:
			head.Time, _ = time.Parse(time.RFC3339, c.now)
		}
		r := gate.Compare(base, head, p)
		got := row(t, r, "p/x", "latency")
		if got.Verdict != c.want || r.Verdict != c.want || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %v, %q", c.name, got.Verdict, got.Reason)
		}
		w := got.Waived
		if w == nil {
			w = &gate.Waived{}
		} else if c.now == "" && (w.Age == nil || *w.Age != 1) || w.Reason != "GUE support, #412" {
			t.Errorf("%s: %+v", c.name, w)
		}
		if w.Used != c.used || w.Expired != c.expired || w.Left != c.left {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}

// A waiver holds for exact measures and against history, but waives no maximum; one
// that nobody needs any more says so.
func TestWaiversElsewhere(t *testing.T) {
	p := gate.DefaultPolicy()
	p.Limits = map[string]gate.Limit{bench.VerifiedInsns: {Fail: &gate.Margin{}}}
	p.Waivers = []gate.Waiver{waiver("p/x", "2026-02-01", 0.2)}
	for head, want := range map[float64]gate.Verdict{58: gate.Pass, 68: gate.Pass, 69: gate.Regressed} {
		c := row(t, gate.Compare(newRun("a", "s", static(bench.VerifiedInsns, 58)), newRun("b", "s", static(bench.VerifiedInsns, head)), p), "p/x", bench.VerifiedInsns)
		if c.Verdict != want || c.Waived == nil || c.Waived.Used != (head > 58) {
			t.Errorf("58 to %v: %v, %+v", head, c.Verdict, c.Waived)
		}
	}
	p.Limits[bench.VerifiedInsns] = gate.Limit{Fail: &gate.Margin{}, Max: number(60)}
	if c := row(t, gate.Compare(newRun("a", "s", static(bench.VerifiedInsns, 58)), newRun("b", "s", static(bench.VerifiedInsns, 62)), p), "p/x", bench.VerifiedInsns); c.Verdict != gate.Regressed || !strings.Contains(c.Reason, "maximum") {
		t.Errorf("beyond the maximum: %v, %q", c.Verdict, c.Reason)
	}

	p = latencyPolicy(0.05)
	p.Waivers = []gate.Waiver{waiver("p/x", "2026-02-01", 0.2)}
	varied := []float64{100, 101, 99, 100, 102, 98, 100, 101, 99, 100}
	for head, want := range map[float64]gate.Verdict{100: gate.Pass, 115: gate.Pass, 125: gate.Regressed} {
		past := varied
		if head > 100 { // the second alarm
			past = append(varied[:10:10], head)
		}
		c := row(t, gate.CompareHistory(newRun("h", "", result("latency", 0, head)), stored("latency", past...), p), "p/x", "latency")
		if c.Verdict != want || c.Waived == nil || c.Waived.Used != (head == 115) && want == gate.Pass {
			t.Errorf("history, %v: %v, %q, %+v", head, c.Verdict, c.Reason, c.Waived)
		}
	}
	p.Waivers = []gate.Waiver{waiver("p/x", "2026-01-01", 0.2)}
	c := row(t, gate.CompareHistory(newRun("h", "", result("latency", 0, 100)), stored("latency", varied...), p), "p/x", "latency")
	if c.Verdict != gate.Pass || !slices.ContainsFunc(c.Warnings, func(s string) bool { return strings.Contains(s, "expired on 2026-01-01 and can go") }) {
		t.Errorf("unneeded: %v, %q", c.Verdict, c.Warnings)
	}
	bad := gate.DefaultPolicy()
	bad.Waivers = []gate.Waiver{{}, {Benchmark: "x", Reason: "r", Since: date("2026-02-01"), Until: date("2026-01-01"), Max: map[string]gate.Margin{"latency": {Ratio: -1}}}}
	for _, want := range []string{`waiver "": not a pattern`, "no reason", "no date", "no measure", "ends before it starts", "latency: max is not 0 or more"} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
