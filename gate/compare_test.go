package gate_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

func number(x float64) *float64 { return &x }

func static(measure string, values ...float64) bench.Result {
	r := result(measure, 0, values...)
	r.Kind = bench.Static
	return r
}

func TestExact(t *testing.T) {
	margin := func(m gate.Margin) gate.Limit { return gate.Limit{Fail: &m} }
	for _, c := range []struct {
		name       string
		limit      *gate.Limit
		base, head []float64
		want       gate.Verdict
		judged     bool
		suite      gate.Verdict
	}{
		{"equal", &gate.Limit{Fail: &gate.Margin{}}, []float64{58}, []float64{58, 58}, gate.Pass, true, gate.Pass},
		{"zero margin is any", &gate.Limit{Fail: &gate.Margin{}}, []float64{58}, []float64{59}, gate.Regressed, true, gate.Regressed},
		{"at the ratio", pointer(margin(gate.Margin{Ratio: 0.5})), []float64{58}, []float64{87}, gate.Pass, true, gate.Pass},
		{"beyond it", pointer(margin(gate.Margin{Ratio: 0.5})), []float64{58}, []float64{88}, gate.Regressed, true, gate.Regressed},
		{"at the number", pointer(margin(gate.Margin{Absolute: 10})), []float64{58}, []float64{68}, gate.Pass, true, gate.Pass},
		{"beyond the number", pointer(margin(gate.Margin{Absolute: 10})), []float64{58}, []float64{69}, gate.Regressed, true, gate.Regressed},
		{"lower within", pointer(margin(gate.Margin{Absolute: 10})), []float64{58}, []float64{48}, gate.Pass, true, gate.Pass},
		{"lower beyond", pointer(margin(gate.Margin{Absolute: 10})), []float64{58}, []float64{47}, gate.Improved, true, gate.Improved},
		{"from nothing", pointer(margin(gate.Margin{Ratio: 0.5})), []float64{0}, []float64{1}, gate.Regressed, true, gate.Regressed},
		{"head disagrees with itself", pointer(margin(gate.Margin{})), []float64{58}, []float64{58, 59}, gate.Inconclusive, true, gate.Inconclusive},
		{"base disagrees with itself", pointer(margin(gate.Margin{})), []float64{58, 57}, []float64{58}, gate.Inconclusive, true, gate.Inconclusive},
		{"no samples", pointer(margin(gate.Margin{})), []float64{58}, nil, gate.Inconclusive, true, gate.Inconclusive},
		{"above the maximum", &gate.Limit{Max: number(100)}, []float64{200}, []float64{101}, gate.Regressed, true, gate.Regressed},
		{"at the maximum", &gate.Limit{Max: number(100)}, []float64{50}, []float64{100}, gate.Pass, true, gate.Pass},
		{"told, equal", nil, []float64{58}, []float64{58}, gate.Pass, false, gate.Inconclusive},
		{"told, more", nil, []float64{58}, []float64{59}, gate.Regressed, false, gate.Inconclusive},
		{"told, fewer", nil, []float64{58}, []float64{57}, gate.Improved, false, gate.Inconclusive},
	} {
		p := gate.DefaultPolicy()
		if c.limit != nil {
			p.Limits[bench.VerifiedInsns] = *c.limit
		}
		// Exact measures need no session.
		r := gate.Compare(newRun("a", "", static(bench.VerifiedInsns, c.base...)), newRun("b", "", static(bench.VerifiedInsns, c.head...)), p)
		got := r.Comparisons[0]
		if got.Verdict != c.want || got.Judged != c.judged || r.Verdict != c.suite || !got.Exact || got.Interval != nil {
			t.Errorf("%s: row %v, judged %v, suite %v; want %v, %v, %v (%s)", c.name, got.Verdict, got.Judged, r.Verdict, c.want, c.judged, c.suite, got.Reason)
		}
	}
}

func pointer[T any](v T) *T { return &v }

// What the verifier says decides before any number does.
func TestPrograms(t *testing.T) {
	program := func(o bench.Outcome) []bench.ProgramResult {
		if o == "" {
			return nil
		}
		return []bench.ProgramResult{{Program: "p", Outcome: o, Reason: "R1 invalid mem access"}}
	}
	for _, c := range []struct {
		base, head bench.Outcome
		want       gate.Verdict
		shown      int
		says       string
	}{
		{bench.Accepted, bench.Accepted, gate.Pass, 0, "nothing is worse"},
		{bench.Accepted, bench.Rejected, gate.Regressed, 1, "the verifier rejects p, which it accepted before"},
		{bench.Accepted, bench.NotLoaded, gate.Inconclusive, 1, "p could not be loaded"},
		{bench.Rejected, bench.Rejected, gate.Pass, 1, "nothing is worse"},
		{bench.Rejected, bench.Accepted, gate.Pass, 1, "nothing is worse"},
		{"", bench.Rejected, gate.Inconclusive, 1, "p could not be loaded"},
		{bench.Accepted, "", gate.Pass, 0, "nothing is worse"}, // its rows tell
	} {
		p := gate.DefaultPolicy()
		p.Limits[bench.VerifiedInsns] = gate.Limit{Fail: &gate.Margin{}}
		b, h := newRun("a", "", static(bench.VerifiedInsns, 5)), newRun("b", "", static(bench.VerifiedInsns, 5))
		b.Programs, h.Programs = program(c.base), program(c.head)
		r := gate.Compare(b, h, p)
		if r.Verdict != c.want || len(r.Programs) != c.shown || !strings.HasPrefix(r.Summary, c.says) {
			t.Errorf("%q, then %q: %v, %d shown, %q", c.base, c.head, r.Verdict, len(r.Programs), r.Summary)
		}
		if both := c.base == bench.Rejected && c.head == bench.Rejected; both != (len(r.Warnings) > 0 && strings.Contains(r.Warnings[0], "alike")) {
			t.Errorf("%q, then %q: warnings %q", c.base, c.head, r.Warnings)
		}
	}
}

func TestFailsClosed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 1))
	b, h := pair(rnd, 40, 0, 0)
	other := named(b, "p/y")
	negative, zero, nan := h, h, h
	negative.Samples, zero.Samples, nan.Samples = slices.Clone(h.Samples), slices.Clone(h.Samples), slices.Clone(h.Samples)
	negative.Samples[7].Value = -1
	nan.Samples[7].Value = math.NaN()
	late := h
	late.Samples = slices.Clone(h.Samples)
	for i := range late.Samples {
		late.Samples[i].Round += 100
	}
	four := func(r bench.Result) bench.Result { r.Samples = r.Samples[:4]; return r }
	for i := range zero.Samples {
		zero.Samples[i].Value = 0
	}
	failed := newRun("b", "s", result("latency", 0))
	failed.Skipped = []bench.Skip{{Name: "p/y", Reason: "another"}, {Name: "p/x", Reason: "two paths", Required: true}}
	p := latencyPolicy(0.05)
	for _, c := range []struct {
		name       string
		base, head *bench.Run
		policy     gate.Policy
		want       gate.Verdict
		says       string
	}{
		{"the same", newRun("a", "s", b), newRun("b", "s", h), p, gate.Pass, "nothing is worse than its limit allows; 1 passed."},
		{"nil", nil, nil, p, gate.Inconclusive, "nothing was judged: there are no results."},
		{"nil base", nil, newRun("b", "s", h), p, gate.Inconclusive, "nothing was judged: no measure"},
		{"empty head", newRun("a", "s", b), newRun("b", "s"), p, gate.Inconclusive, "p/x latency is missing: not measured in head; 1 missing."},
		{"one missing", newRun("a", "s", b, other), newRun("b", "s", h), p, gate.Inconclusive, "p/y latency is missing"},
		{"one added", newRun("a", "s", b), newRun("b", "s", h, other), p, gate.Pass, "nothing is worse"},
		{"no policy", newRun("a", "s", b), newRun("b", "s", h), gate.Policy{}, gate.Inconclusive, "nothing was judged: alpha is 0"},
		{"no limits", newRun("a", "s", b), newRun("b", "s", h), gate.Policy{Alpha: 0.01}, gate.Inconclusive, "nothing was judged: no measure that has a limit"},
		{"no samples", newRun("a", "s", result("latency", 0)), newRun("b", "s", result("latency", 0)), p, gate.Inconclusive, "p/x latency could not be measured (limit +5%); 1 inc"},
		{"failed", newRun("a", "s", result("latency", 0)), failed, p, gate.Inconclusive, "p/x latency could not be measured: two paths (limit +5%); 1 inc"},
		{"no common round", newRun("a", "s", b), newRun("b", "s", late), p, gate.Inconclusive, "p/x latency could not be decided: no round has both sides"},
		{"four rounds", newRun("a", "s", four(b)), newRun("b", "s", four(h)), p, gate.Inconclusive, "p/x latency could not be decided: 4 rounds are too few"},
		{"negative", newRun("a", "s", b), newRun("b", "s", negative), p, gate.Inconclusive, "p/x latency could not be decided: a value is negative"},
		{"nan", newRun("a", "s", b), newRun("b", "s", nan), p, gate.Inconclusive, "p/x latency could not be decided: a value is not a finite"},
		{"base of zeros", newRun("a", "s", zero), newRun("b", "s", h), p, gate.Inconclusive, "p/x latency could not be decided: a run that took no time"},
		{"head of zeros", newRun("a", "s", b), newRun("b", "s", zero), p, gate.Inconclusive, "p/x latency could not be decided: a run that took no time"},
		{"all zeros, zero margin", newRun("a", "s", zero), newRun("b", "s", zero), latencyPolicy(0), gate.Inconclusive, "p/x latency could not be decided"},
		{"all equal", newRun("a", "s", b), newRun("b", "s", b), p, gate.Pass, "nothing is worse"},
		{"sessions differ", newRun("a", "s", b), newRun("b", "t", four(h)), p, gate.Inconclusive, "p/x latency could not be decided: 40 and 4 samples, at least 5"},
	} {
		r := gate.Compare(c.base, c.head, c.policy)
		if r.Verdict != c.want || !strings.HasPrefix(r.Summary, c.says) || !r.Asked {
			t.Errorf("%s: %v, %q", c.name, r.Verdict, r.Summary)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A floor above the value leaves no net time to take a share of: what remains is
// the absolute part of the margin.
func TestFloorAboveValue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(22, 1))
	b, h := pair(rnd, 40, 0, 0.10)
	for i := range b.Samples {
		b.Samples[i].Floor = 500
	}
	p := latencyPolicy(0.5)
	if r := gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p); r.Verdict != gate.Regressed {
		t.Errorf("no margin: %v", r.Verdict)
	}
	p.MinEffectNS = 30
	if r := gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p); r.Verdict != gate.Pass {
		t.Errorf("30 ns: %v, %s", r.Verdict, r.Summary)
	}
}

func TestUnchanged(t *testing.T) {
	rnd := rand.New(rand.NewPCG(23, 1))
	b, h := pair(rnd, 40, 0, 0.5)
	program := func(digest string) []bench.ProgramResult {
		return []bench.ProgramResult{{Program: "p", Outcome: bench.Accepted, Digest: digest}}
	}
	runs := func(measure, was, is string) (*bench.Run, *bench.Run) {
		b, h := b, h
		b.Measure, h.Measure = measure, measure
		base, head := newRun("a", "s", b), newRun("b", "s", h)
		base.Programs, head.Programs = program(was), program(is)
		return base, head
	}
	p := latencyPolicy(0.05)
	p.Limits[bench.Runs] = gate.Limit{Fail: &gate.Margin{Ratio: 0.05}}
	for _, c := range []struct {
		measure, was, is string
		want             gate.Verdict
	}{
		{bench.Latency, "d1", "d1", gate.Pass},
		{bench.Latency, "d1", "d2", gate.Regressed},
		{bench.Latency, "", "", gate.Regressed}, // unknown is not equal
		{bench.Runs, "d1", "d1", gate.Regressed},
	} {
		base, head := runs(c.measure, c.was, c.is)
		r := gate.Compare(base, head, p)
		row := r.Comparisons[0]
		if row.Verdict != c.want || row.Unchanged != (c.want == gate.Pass) || !row.Judged {
			t.Errorf("%+v: %+v", c, row)
		}
		// A 50% difference of equal programs says something about the host.
		if said := len(r.Warnings) > 0 && strings.Contains(r.Warnings[0], "cannot be trusted"); said != row.Unchanged {
			t.Errorf("%+v: warnings %q", c, r.Warnings)
		}
	}
	// An unchanged program takes no alpha from the others.
	base, head := runs(bench.Latency, "d1", "d1")
	o := named(b, "q/x")
	o.Program = "q"
	o2 := named(h, "q/x")
	o2.Program = "q"
	base.Results, head.Results = append(base.Results, o), append(head.Results, o2)
	got := row(t, gate.Compare(base, head, p), "q/x", "latency")
	if got.Verdict != gate.Regressed || math.Abs(got.Interval.Level-(1-2*p.Alpha)) > 1e-12 {
		t.Errorf("%v at %v", got.Verdict, got.Interval)
	}
	// It cannot be known that something which was not measured is fast enough.
	base, head = runs(bench.Latency, "d1", "d1")
	head.Results[0].Samples = nil
	if r := gate.Compare(base, head, p); r.Verdict != gate.Inconclusive {
		t.Errorf("unchanged without samples: %v", r.Verdict)
	}
}

func TestUnpaired(t *testing.T) {
	rnd := rand.New(rand.NewPCG(24, 1))
	p := latencyPolicy(0.05)
	for effect, want := range map[float64]gate.Verdict{0: gate.Pass, 0.5: gate.Regressed, -0.5: gate.Improved} {
		b, h := pair(rnd, 60, 0, effect)
		r := gate.Compare(newRun("a", "s1", b), newRun("b", "s2", h), p)
		c := r.Comparisons[0]
		if c.Verdict != want || c.T == nil || c.T.T*effect < 0 || c.Detectable != nil {
			t.Errorf("%+v: %v, %+v", effect, c.Verdict, c)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "not measured side by side") {
			t.Errorf("warnings %q", r.Warnings)
		}
		head := newRun("b", "s2", h)
		head.Testbed.Kernel = "6.12.0"
		r = gate.Compare(newRun("a", "s1", b), head, p)
		if c := r.Comparisons[0]; c.Verdict != gate.Inconclusive || c.Reason != "the testbeds differ: kernel 6.11 and 6.12" || c.Base == nil {
			t.Errorf("other kernel: %v, %q", c.Verdict, c.Reason)
		}
	}
}

// Nothing is below zero: neither is the end of an interval, though the shift between two
// samples of which one is skewed may be.
func TestNothingBelowZero(t *testing.T) {
	base := result(bench.Latency, 0, 10, 11, 12, 10, 11, 900, 950, 12, 10, 870, 11, 12)
	head := result(bench.Latency, 0, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1)
	c := gate.Compare(newRun("a", "s1", base), newRun("b", "s2", head), latencyPolicy(0.05)).Comparisons[0]
	if c.Verdict != gate.Improved || c.Change == nil || c.Interval == nil {
		t.Fatalf("%v: %+v, %+v", c.Verdict, c.Change, c.Interval)
	}
	if *c.Change < -1 || c.Interval.Low != -1 || c.Interval.High >= 0 {
		t.Errorf("%v, %+v", *c.Change, c.Interval)
	}
	if *c.Head < 0 || c.Interval.Low > *c.Change || c.Interval.High < *c.Change {
		t.Errorf("%g to %g, %+v", *c.Base, *c.Head, c.Interval)
	}
}

func TestTold(t *testing.T) {
	rnd := rand.New(rand.NewPCG(25, 1))
	b, h := pair(rnd, 60, 0, 0.5)
	p := gate.DefaultPolicy()
	p.Limits = map[string]gate.Limit{"latency": {Warn: &gate.Margin{Ratio: 0.1}}}
	r := gate.Compare(newRun("a", "s", b, static(bench.VerificationUS, 900)), newRun("b", "s", h, static(bench.VerificationUS, 1800)), p)
	if c := row(t, r, "p/x", "latency"); c.Judged || c.Verdict != gate.Regressed || !c.Warn {
		t.Errorf("latency: %+v", c)
	}
	if c := row(t, r, "p/x", bench.VerificationUS); c.Judged || c.Verdict != gate.Pass || *c.Change != 1 {
		t.Errorf("verification time: %+v", c)
	}
	if r.Verdict != gate.Inconclusive {
		t.Errorf("suite %v, though nothing has a limit", r.Verdict)
	}
}

func TestWarn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(26, 1))
	p := latencyPolicy(0.30)
	l := p.Limits["latency"]
	l.Warn = &gate.Margin{Ratio: 0.05}
	p.Limits["latency"] = l
	for effect, want := range map[float64]bool{0: false, 0.15: true, 0.8: false} {
		b, h := pair(rnd, 80, 0, effect)
		c := gate.Compare(newRun("a", "s", b), newRun("b", "s", h), p).Comparisons[0]
		if c.Warn != want || (c.Verdict == gate.Regressed) != (effect > 0.3) {
			t.Errorf("%v: warn %v, %v", effect, c.Warn, c.Verdict)
		}
	}
	p.Limits[bench.VerifiedInsns] = gate.Limit{Warn: &gate.Margin{}, Fail: &gate.Margin{Ratio: 0.5}}
	for head, want := range map[float64]bool{10: false, 11: true, 16: false} {
		c := gate.Compare(newRun("a", "", static(bench.VerifiedInsns, 10)), newRun("b", "", static(bench.VerifiedInsns, head)), p).Comparisons[0]
		if c.Warn != want {
			t.Errorf("exact %v: warn %v", head, c.Warn)
		}
	}
}

// The report of the mock-up in UX.md: what fails comes first, the benchmark that
// changed most with all its measures.
func TestReportReads(t *testing.T) {
	rnd := rand.New(rand.NewPCG(27, 1))
	p := gate.DefaultPolicy()
	p.Limits[bench.XlatedInsns] = gate.Limit{Fail: &gate.Margin{Ratio: 0.05}}
	base, head := newRun("a", "s"), newRun("b", "s")
	add := func(name string, b, h bench.Result) {
		base.Results, head.Results = append(base.Results, named(b, name)), append(head.Results, named(h, name))
	}
	lb, lh := pair(rnd, 40, 0, 0.158)
	add("fun_xdp/addresses", lb, lh)
	add("fun_xdp/worst", static(bench.XlatedInsns, 58), static(bench.XlatedInsns, 1972))
	lb, lh = pair(rnd, 4, 0, 0.04)
	add("fun_xdp/veth", lb, lh)
	lb, lh = pair(rnd, 40, 0, 1.403)
	add("fun_xdp/worst", lb, lh)
	add("fun_xdp", static(bench.StackDepth, 8), static(bench.StackDepth, 16))
	lb, lh = pair(rnd, 40, 0, 0)
	add("fun_xdp/quiet", lb, lh)
	base.Skipped = []bench.Skip{{Name: "kp", Reason: "no kprobes"}}
	head.Skipped = base.Skipped
	base.Warnings, head.Warnings = []string{"load 3.1"}, []string{"load 3.1", "steal"}

	r := gate.Compare(base, head, p)
	var rows []string
	for _, c := range r.Comparisons {
		rows = append(rows, c.Verdict.String()+" "+c.Benchmark+" "+c.Measure)
	}
	if want := []string{
		"regressed fun_xdp/worst latency", "regressed fun_xdp/worst xlated_insns", "regressed fun_xdp/addresses latency",
		"inconclusive fun_xdp/veth latency", "pass fun_xdp/quiet latency", "regressed fun_xdp stack_depth",
	}; !slices.Equal(rows, want) {
		t.Errorf("rows %q", rows)
	}
	if want := "fun_xdp/worst is 2.4"; !strings.HasPrefix(r.Summary, want) || !strings.HasSuffix(r.Summary, "× slower (limit +5%); 3 regressed, 1 inconclusive.") {
		t.Errorf("summary %q", r.Summary)
	}
	if len(r.Skipped) != 1 || !slices.Equal(r.Warnings, []string{"load 3.1", "steal"}) {
		t.Errorf("skipped %v, warnings %q", r.Skipped, r.Warnings)
	}
}

func TestPolicyCheck(t *testing.T) {
	if err := gate.DefaultPolicy().Check(); err != nil {
		t.Error(err)
	}
	bad := gate.Policy{
		Alpha: 2, Budget: -1, MinEffectNS: math.NaN(),
		Limits: map[string]gate.Limit{
			"a": {Fail: &gate.Margin{Ratio: -1}}, "b": {Warn: &gate.Margin{Ratio: 1, Absolute: 1}}, "c": {Max: number(math.Inf(1))},
			"d": {Threshold: &gate.Threshold{Test: "z", Upper: number(1)}}, "e": {Threshold: &gate.Threshold{Test: gate.IQR}},
			"f": {Threshold: &gate.Threshold{Test: gate.Static, Lower: number(2), Upper: number(1), Window: -1}},
		},
		Overrides: []gate.Override{{Benchmark: "["}, {Benchmark: "p/*", Limits: map[string]gate.Limit{"g": {Max: number(math.NaN())}}}},
		Threshold: gate.Threshold{Test: gate.ZScore, Upper: number(0.3), MinSamples: 9, MaxSamples: 3},
	}
	got := bad.Check().Error()
	for _, want := range []string{"alpha is 2", "budget", "min_effect_ns", "a: fail is not", "b: warn is both", "c: max", `d: threshold: unknown test "z"`, "e: threshold: iqr has neither", "lower of static is above upper", "window is -1ns",
		`override "[": not a pattern`, `override "p/*": g: max`, "upper of z_score is 0.3", "at least 9 and at most 3"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

// Whatever two files hold, judging them neither panics nor passes without a
// judged row, and the report can be written.
func FuzzCompare(f *testing.F) {
	rnd := rand.New(rand.NewPCG(28, 1))
	b, h := pair(rnd, 6, 3, 0.2)
	h.Looks, h.Final = []int{3, 6}, true
	for _, session := range []string{"s", ""} {
		var files [2]bytes.Buffer
		for i, r := range []*bench.Run{newRun("a", session, b, static(bench.VerifiedInsns, 3)), newRun("b", session, h, static(bench.VerifiedInsns, 4))} {
			if err := bench.Encode(&files[i], r); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(files[0].Bytes(), files[1].Bytes())
	}
	p := gate.DefaultPolicy()
	p.Limits[bench.VerifiedInsns] = gate.Limit{Fail: &gate.Margin{Ratio: 0.1}, Warn: &gate.Margin{}, Max: number(1e6)}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		base, err := bench.Decode(bytes.NewReader(a))
		if err != nil {
			t.Skip()
		}
		head, err := bench.Decode(bytes.NewReader(b))
		if err != nil {
			t.Skip()
		}
		for _, r := range []*gate.Report{gate.Compare(base, head, p), gate.CompareHistory(head, []*bench.Run{base}, p)} {
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
			good := 0
			for _, c := range r.Comparisons {
				if !c.Judged {
					continue
				}
				if c.Verdict == gate.Pass || c.Verdict == gate.Improved {
					good++
				} else if c.Verdict != gate.Added && (r.Verdict == gate.Pass || r.Verdict == gate.Improved) {
					t.Fatalf("%v with a row that is %v", r.Verdict, c.Verdict)
				}
			}
			if (r.Verdict == gate.Pass || r.Verdict == gate.Improved) && good == 0 {
				t.Fatalf("%v without a judged row", r.Verdict)
			}
		}
	})
}

// Rounds beyond Tukey's fences are counted, by the side on which head is worse, and
// take part all the same.
func TestOutliers(t *testing.T) {
	a := slices.Repeat([]float64{100}, 40)
	b := make([]float64, 40)
	for i := range b {
		b[i] = 100 + float64(i%5) // quartiles 101 and 103, fences 98 and 106, 95 and 109
	}
	b[3], b[7], b[11] = 107, 150, 97
	for measure, want := range map[string]gate.Outliers{"latency": {Worse: 2, Better: 1, Severe: 1}} {
		c := row(t, gate.Compare(newRun("a", "s", result(measure, 0, a...)), newRun("b", "s", result(measure, 0, b...)), latencyPolicy(0.05)), "p/x", measure)
		if c.Outliers == nil || *c.Outliers != want || c.Rounds != 40 {
			t.Errorf("%s: %+v in %d rounds", measure, c.Outliers, c.Rounds)
		}
	}
	for i := range b {
		b[i] = 100 + float64(i%5)
	}
	if c := row(t, gate.Compare(newRun("a", "s", result("latency", 0, a...)), newRun("b", "s", result("latency", 0, b...)), latencyPolicy(0.05)), "p/x", "latency"); c.Outliers != nil {
		t.Errorf("none: %+v", c.Outliers)
	}
}
