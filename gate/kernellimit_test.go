package gate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// verified is a static measure of p, as loading tells it; below 0 it was not told.
func verified(measure string, value float64) []bench.Result {
	if value < 0 {
		return nil
	}
	r := static(measure, value)
	r.Benchmark = "p"
	return []bench.Result{r}
}

func TestKernelLimits(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	fail := gate.DefaultPolicy()
	fail.Limits[bench.VerifiedInsns] = gate.Limit{Max: f(900_000), MaxWarn: f(500_000)}
	old := gate.DefaultPolicy()
	old.Overrides = []gate.Override{
		{Kernel: "5.*", Limits: map[string]gate.Limit{bench.VerifiedInsns: {Max: f(1)}}},
		{Kernel: "6.11", Limits: map[string]gate.Limit{bench.VerifiedInsns: {Max: f(700_000)}}},
		{Kernel: "6.11.*-azure", Limits: map[string]gate.Limit{bench.VerifiedInsns: {Max: f(2)}}},
	}
	for _, tt := range []struct {
		name       string
		policy     gate.Policy
		measure    string
		base, head float64 // below 0: not there
		verdict    gate.Verdict
		judged     bool
		warn       string
		reason     string
		used       float64
	}{
		{"far below", gate.DefaultPolicy(), bench.VerifiedInsns, 1000, 1000, gate.Pass, false, "", "", 0.001},
		{"came above the default", gate.DefaultPolicy(), bench.VerifiedInsns, 700_000, 905_000, gate.Regressed, false, "verified_insns of 905,000 is 90.5% of the kernel's limit of 1,000,000", "", 0.905},
		{"stayed above it", gate.DefaultPolicy(), bench.VerifiedInsns, 905_000, 905_000, gate.Pass, false, "", "", 0.905},
		{"above it, and better", gate.DefaultPolicy(), bench.VerifiedInsns, 950_000, 905_000, gate.Improved, false, "", "", 0.905},
		{"above it, and worse", gate.DefaultPolicy(), bench.VerifiedInsns, 905_000, 905_001, gate.Regressed, false, "90.5%", "", 0.905001},
		{"new above it", gate.DefaultPolicy(), bench.MaxStackDepth, -1, 496, gate.Added, false, "max_stack_depth of 496 is 96.9% of the kernel's limit of 512", "", 496. / 512},
		{"maps", gate.DefaultPolicy(), bench.UsedMaps, 51, 52, gate.Regressed, false, "52 is 81.2%", "", 52. / 64},
		{"a chain of tail calls without end", gate.DefaultPolicy(), bench.TailCallDepth, 2, 33, gate.Regressed, false, "33 is 100.0%", "", 1},
		{"above the policy's warning", fail, bench.VerifiedInsns, 400_000, 600_000, gate.Pass, true, "60.0%", "", 0.6},
		{"above the policy's maximum", fail, bench.VerifiedInsns, 400_000, 900_001, gate.Regressed, true, "", "900,001 is above the maximum of 900,000", 0.900001},
		{"new, above the maximum", fail, bench.VerifiedInsns, -1, 900_001, gate.Regressed, true, "", "above the maximum", 0.900001},
		{"the maximum of one kernel", old, bench.VerifiedInsns, 700_001, 700_001, gate.Regressed, true, "", "above the maximum of 700,000", 0.700001},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := newRun("base", "s", verified(tt.measure, tt.base)...)
			head := newRun("head", "s", verified(tt.measure, tt.head)...)
			if err := tt.policy.Check(); err != nil {
				t.Fatal(err)
			}
			c := row(t, gate.Compare(base, head, tt.policy), "p", tt.measure)
			if c.Verdict != tt.verdict || c.Judged != tt.judged || !strings.Contains(c.Reason, tt.reason) {
				t.Errorf("%v, judged %v, reason %q", c.Verdict, c.Judged, c.Reason)
			}
			said := slices.ContainsFunc(c.Warnings, func(s string) bool { return tt.warn != "" && strings.Contains(s, tt.warn) })
			if c.Warn != (tt.warn != "") || c.Warn != said {
				t.Errorf("warn %v, warnings %q, want %q", c.Warn, c.Warnings, tt.warn)
			}
			if c.Used == nil || *c.Used != tt.used || c.KernelLimit == nil {
				t.Errorf("used %v of %v, want %v", c.Used, c.KernelLimit, tt.used)
			}
		})
	}
	c := row(t, gate.Compare(newRun("base", "s"), newRun("head", "s", verified(bench.JitedBytes, 4)...), fail), "p", bench.JitedBytes)
	if c.Used != nil || c.KernelLimit != nil {
		t.Errorf("jited_bytes has a limit: %+v", c)
	}
	// The same rules hold against stored runs.
	stored := newRun("old", "", verified(bench.VerifiedInsns, 700_000)...)
	r := gate.CompareHistory(newRun("head", "", verified(bench.VerifiedInsns, 905_000)...), []*bench.Run{stored}, gate.DefaultPolicy())
	if c := row(t, r, "p", bench.VerifiedInsns); !c.Warn || c.Used == nil {
		t.Errorf("against history: %+v", c)
	}
	if r.Verdict == gate.Regressed {
		t.Error("a warning failed the suite")
	}
}

func TestPolicyOfKernels(t *testing.T) {
	bad := gate.DefaultPolicy()
	low, high := 1., 2.
	bad.Overrides = []gate.Override{
		{Kernel: "[", Limits: map[string]gate.Limit{"a": {Max: &low, MaxWarn: &high}}},
		{},
	}
	err := bad.Check()
	for _, want := range []string{`kernel "[" is not a pattern`, "max warns above 2 and fails above 1", `override "": not a pattern`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
