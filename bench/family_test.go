package bench

import (
	"slices"
	"testing"
)

func TestFamilies(t *testing.T) {
	name := Member(Calls, "bpf_redirect")
	if f, m, ok := SplitMember(name); f != Calls || m != "bpf_redirect" || !ok {
		t.Errorf("%s is %q and %q, %v", name, f, m, ok)
	}
	m, ok := LookupMeasure(name)
	if !ok || m.Name != name || m.Unit != "count" || !m.Exact || m.Better != Lower {
		t.Errorf("%+v, %v", m, ok)
	}
	for _, bad := range []string{"calls[]", "calls[x", "callsx]", "[x]", "latency[x]", "x[y]"} {
		if m, ok := LookupMeasure(bad); ok {
			t.Errorf("%s is a measure: %+v", bad, m)
		}
	}
	for _, m := range Measures() {
		if got, ok := LookupMeasure(m.Name); !ok || got != m {
			t.Errorf("%s: %+v", m.Name, got)
		}
	}
	names := []string{"z", Member(MapLookup, "a"), Runs, Member(Calls, "b"), Latency, Member(Calls, "a"), Insns, "a"}
	slices.SortFunc(names, MeasureOrder)
	want := []string{Latency, Insns, "calls[a]", "calls[b]", "map_lookup[a]", Runs, "a", "z"}
	if !slices.Equal(names, want) {
		t.Errorf("order %q, want %q", names, want)
	}
}
