package english

import (
	"strings"
	"testing"
)

func TestNear(t *testing.T) {
	known := []string{"sched/sched_switch", "sched/sched_wakeup", "xdp", "tc"}
	for word, want := range map[string]string{
		"sched/sched_swich":      "sched/sched_switch", // dropped
		"SCHED/sched_wakeup":     "sched/sched_wakeup", // in another case
		"xpd":                    "xdp",                // swapped
		"tcc":                    "tc",                 // added
		"kprobe":                 "",
		"":                       "",
		strings.Repeat("x", 101): "",
	} {
		got, ok := Near(word, known)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v; want %q", word, got, ok, want)
		}
	}
	if got, ok := Near("xdp", nil); ok {
		t.Errorf("%q of nothing", got)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 branches", 1: "1 branch", -1: "-1 branches", 1000: "1000 branches"} {
		if got := Count(n, "branch"); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	if got := Count(uint64(2), "run"); got != "2 runs" {
		t.Error(got)
	}
}
