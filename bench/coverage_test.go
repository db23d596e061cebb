package bench

import (
	"bytes"
	"strings"
	"testing"
)

// What a run says of changes is bounded.
func TestChangesInRuns(t *testing.T) {
	run := func(changes, lines int) *Run {
		r := &Run{Schema: SchemaVersion, ID: "x"}
		for range changes {
			r.Changes = append(r.Changes, Change{Program: "p", Lines: make([]ChangedLine, lines)})
		}
		return r
	}
	var buf bytes.Buffer
	if err := Encode(&buf, run(2, MaxLines)); err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(&buf); err != nil || len(got.Changes) != 2 || len(got.Changes[1].Lines) != MaxLines {
		t.Errorf("%+v, %v", got, err)
	}
	for want, r := range map[string]*Run{
		"1001 changes, at most 1000":        run(MaxChanges+1, 0),
		"change of p: 21 lines, at most 20": run(1, MaxLines+1),
	} {
		if err := Encode(&bytes.Buffer{}, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
