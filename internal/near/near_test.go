package near

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
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
		got, ok := Word(word, known)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v; want %q", word, got, ok, want)
		}
	}
	if got, ok := Word("xdp", nil); ok {
		t.Errorf("%q of nothing", got)
	}
}
