package gate

import (
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
)

// A preset changes limits of its own alone, and is a policy that can be judged by.
func TestPresets(t *testing.T) {
	const none = -1
	want := map[string]struct{ latency, insns float64 }{
		"default": {0.05, 0.05}, "strict": {0.02, 0}, "exact": {none, 0}, "observe": {none, none},
	}
	margin := func(m *Margin) float64 {
		if m == nil {
			return none
		}
		return m.Ratio
	}
	for _, q := range Presets() {
		p := q.Policy()
		if err := p.Check(); err != nil {
			t.Errorf("%s: %v", q.Name, err)
		}
		w, ok := want[q.Name]
		if l, i := margin(p.Limits[bench.Latency].Fail), margin(p.Limits[bench.Insns].Fail); !ok || l != w.latency || i != w.insns {
			t.Errorf("%s: latency fails at %v, insns at %v, want %v", q.Name, l, i, w)
		}
		if p.Limits["verified_insns"].MaxWarn == nil {
			t.Errorf("%s does not warn of the kernel's limits", q.Name)
		}
	}
	if l := DefaultPolicy().Limits[bench.Latency].Fail; l == nil || l.Ratio != 0.05 {
		t.Errorf("presets changed the default: %v", l)
	}
}
