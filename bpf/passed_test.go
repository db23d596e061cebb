//go:build linux

package bpf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The lines of a log of Linux 6.18, of an older one without places, and of a text
// that looks like a place and is none.
func TestMostPassed(t *testing.T) {
	const log = `func#0 @0
0: R1=ctx() R10=fp0
; int n = 0; @ a.c:3
0: (b7) r0 = 0                        ; R0_w=0
; while (n < 3) @ a.c:4
1: (07) r0 += 1
; n++; @ b.h:9
2: (07) r0 += 1
; while (n < 3) @ a.c:4
1: (07) r0 += 1
; mail@example.org @ home: yes
; mail@example.org @ home: yes
;  @ d.c:118
;  @ d.c:118
; while (n < 3) @ a.c:4
processed 7 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
`
	want := []PassedLine{
		{3, "a.c", 4, "while (n < 3)"},
		{2, "", 0, "mail@example.org @ home: yes"},
		{2, "d.c", 118, ""},
	}
	if d := cmp.Diff(want, mostPassed(strings.Lines(log), 3)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := mostPassed(strings.Lines("processed 2 insns"), 5); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
