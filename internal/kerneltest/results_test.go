package main

import "testing"

// What go test -v prints of subtests: their words as they come, their endings behind
// that of their parent.
func TestReasons(t *testing.T) {
	var r results
	r.read([]byte(`=== package ./bpf
=== RUN   TestHand
=== RUN   TestHand/plain
=== RUN   TestHand/may_goto
    hand_test.go:12: this kernel has no may_goto
=== RUN   TestHand/later
=== PAUSE TestHand/later
=== CONT  TestHand/later
    hand_test.go:30: needs kprobe: refused
--- PASS: TestHand (0.02s)
    --- PASS: TestHand/plain (0.00s)
    --- SKIP: TestHand/may_goto (0.00s)
    --- SKIP: TestHand/later (0.00s)
=== RUN   TestAlone
    a_test.go:3: no PMU
--- SKIP: TestAlone (0.00s)
=== RUN   TestSilent
--- SKIP: TestSilent (0.00s)
PASS
=== ended ./bpf: ok
`))
	want := map[string]string{
		"TestHand/may_goto": "this kernel has no may_goto",
		"TestHand/later":    "needs kprobe: refused",
		"TestAlone":         "no PMU",
		"TestSilent":        "no reason given",
	}
	if len(r.skipped) != len(want) || r.passed != 1 || len(r.open)+len(r.failed) != 0 {
		t.Errorf("%+v", r)
	}
	for _, o := range r.skipped {
		if got := o.reason(); got != want[o.name] {
			t.Errorf("%s: %q, not %q", o.name, got, want[o.name])
		}
	}
}
