package testkernel

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// recorder stands in for a test, to see what happens to it. Cleanups are run by
// finish, last first as a test does.
type recorder struct {
	testing.TB
	failed, skipped string
	fatal           func() // leaves the goroutine
	cleanups        []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Setenv(string, string)     {}
func (r *recorder) Error(a ...any)            { r.failed += fmt.Sprintln(a...) }
func (r *recorder) Errorf(f string, a ...any) { r.failed += fmt.Sprintf(f+"\n", a...) }
func (r *recorder) Fatal(a ...any)            { r.Error(a...); r.fatal() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); r.fatal() }
func (r *recorder) Skipf(f string, a ...any) {
	r.skipped += fmt.Sprintf(f, a...)
	runtime.Goexit()
}

func (r *recorder) run(f func(testing.TB)) *recorder {
	done := make(chan struct{})
	go func() { defer close(done); f(r) }()
	<-done
	r.finish()
	return r
}

func (r *recorder) finish() {
	for _, c := range slices.Backward(r.cleanups) {
		c()
	}
}

func TestRequire(t *testing.T) {
	const missing Feature = "missing"
	probes[missing] = func() error { return errors.New("out of stock") }
	t.Cleanup(func() { delete(probes, missing) })
	const there Feature = "there"
	probes[there] = func() error { return nil }
	t.Cleanup(func() { delete(probes, there) })

	for _, tt := range []struct {
		name           string
		require, allow string
		features       []Feature
		skip, fail     string
	}{
		{name: "there", require: "1", features: []Feature{there}},
		{name: "skip", features: []Feature{there, missing}, skip: "needs missing: out of stock"},
		{name: "fail", require: "1", features: []Feature{there, missing}, fail: "no missing: out of stock"},
		{name: "allowed", require: "1", allow: "kprobe,missing", features: []Feature{missing}, skip: "out of stock"},
		{name: "other allowed", require: "1", allow: "kprobe", features: []Feature{missing}, fail: "out of stock"},
		{name: "mistyped", allow: "kprobes", features: []Feature{there}, fail: `"kprobes" is none of`},
		{name: "unknown", require: "1", features: []Feature{"warp"}, fail: `no feature "warp"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(EnvRequire, tt.require)
			t.Setenv(EnvAllow, tt.allow)
			r := (&recorder{TB: t, fatal: runtime.Goexit}).run(func(tb testing.TB) { Require(tb, tt.features...) })
			if !strings.Contains(r.skipped, tt.skip) || (r.skipped == "") != (tt.skip == "") {
				t.Errorf("skipped %q, want %q", r.skipped, tt.skip)
			}
			if !strings.Contains(r.failed, tt.fail) || (r.failed == "") != (tt.fail == "") {
				t.Errorf("failed %q, want %q", r.failed, tt.fail)
			}
		})
	}
}

// TestFeatures says in the test log what this host can do, and that every
// feature answers.
func TestFeatures(t *testing.T) {
	for _, f := range Features() {
		if err := Probe(f); err != nil {
			if err.Error() == "" {
				t.Errorf("%s is missing without a reason", f)
			}
			t.Logf("%-12s no: %v", f, err)
		} else {
			t.Logf("%-12s yes", f)
		}
	}
	if len(Features()) < 14 {
		t.Errorf("only the features %v", Features())
	}
}
