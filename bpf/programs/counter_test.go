//go:build linux

package programs

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// A round counts what ran in it and nothing else, of programs by handle and by id,
// and of one that comes while it goes on; and leaves the statistics off.
func TestCounter(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Stats)
	testkernel.NoLeaks(t)
	a, b, late := empty(t, ebpf.XDP), empty(t, ebpf.XDP), empty(t, ebpf.XDP)
	c := &Counter{}
	t.Cleanup(func() { c.Close() })
	if _, err := c.AddProgram(a); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Add(ebpf.ProgramID(testkernel.ProgramID(t, b))); err != nil {
		t.Fatal(err)
	}
	runs(t, a, 2) // nobody counts yet
	for round, want := range [][]uint64{{3, 5, 4}, {1, 0, 2}} {
		got, err := c.Round(func() error {
			runs(t, a, int(want[0]))
			runs(t, b, int(want[1]))
			if round == 0 {
				runs(t, late, 9)
				if _, err := c.Add(ebpf.ProgramID(testkernel.ProgramID(t, late))); err != nil {
					t.Fatal(err)
				}
			}
			runs(t, late, int(want[2]))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if g := got[i]; g.Runs != w || (g.Time == 0) != (w == 0) || g.Misses != 0 || g.Name != "gate_empty" || g.Type != "xdp" {
				t.Errorf("round %d: %+v, want %d runs", round, g, w)
			}
		}
		testkernel.StatsOff(t, "after a round")
	}
	// The program of a process that has ended: the counter still has it.
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Round(func() error { return nil }); err != nil {
		t.Error(err)
	}
	failed := errors.New("failed")
	if _, err := c.Round(func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error %v, want work's own", err)
	}
	testkernel.StatsOff(t, "after work that failed")
	if _, err := c.Add(1 << 31); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}
