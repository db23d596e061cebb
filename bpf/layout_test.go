//go:build linux

package bpf

import (
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// One load tells how long the code is in every layout: what is loaded for a round is
// as long as was foretold, and fills its last 64 bytes.
func TestTailsAreForetold(t *testing.T) {
	s := newTestSession(t)
	for _, o := range []*Object{macroObject(t, "v1_basic"), macroObject(t, "v3_fibonacci"), Reference()} {
		program := o.Programs()[0]
		m, err := s.Micro(bench.Benchmark{Name: program + "/x", Program: program, Packets: ipv4(1)}, Side{"head", o})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		err = s.do(func() error {
			for phase := range cacheLine {
				x, _, err := m.place(0, phase, -1)
				if err != nil {
					return err
				}
				p := &m.placers[0]
				front, _ := fit(phase)
				if p.hopeless || front > 0 && p.tails[front] == 0 && (p.code+front+packSlack)%cacheLine != 0 {
					t.Fatalf("%s: phase %d: %+v", o.Path, phase, p)
				}
				if want, got := p.code+front+p.tails[front], x.load.length(); got != want || (got+packSlack)%cacheLine != 0 {
					t.Errorf("%s: phase %d: %d bytes, foretold were %d", o.Path, phase, got, want)
				}
				x.close()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// How often a load is made again depends on what the slowest side's takes, and so is
// the same for all.
func TestRetries(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		fastest []time.Duration // by side; 0: not loaded yet
		want    int
	}{
		{nil, 24}, {[]time.Duration{0, 0}, 24}, {[]time.Duration{ms, 0}, 24}, {[]time.Duration{ms, 4 * ms}, 10},
		{[]time.Duration{20 * ms, ms / 2}, 2}, {[]time.Duration{ms, 41 * ms}, 0}, {[]time.Duration{time.Minute}, 0},
	} {
		m := &Micro{}
		for _, d := range c.fastest {
			m.placers = append(m.placers, placer{fastest: d})
		}
		if got := m.retries(); got != c.want {
			t.Errorf("%v: %d retries, want %d", c.fastest, got, c.want)
		}
	}
}
