//go:build linux

package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bpf/programs"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// TestMacroKilled kills a process in the middle of a round. Its programs, which
// only links on its veth pairs held, must go, and the statistics with them.
func TestMacroKilled(t *testing.T) {
	const child = "GATE_TEST_MACRO_CHILD"
	if os.Getenv(child) != "" {
		macroForever(t)
		return
	}
	testkernel.Require(t, testkernel.BPF, testkernel.Stats, testkernel.Net, testkernel.Clang)
	testkernel.NoLeaks(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestMacroKilled$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []ebpf.ProgramID
	lines := bufio.NewScanner(out)
	for len(ids) < 3 && lines.Scan() {
		var id ebpf.ProgramID
		if _, err := fmt.Sscanf(lines.Text(), "attached %d", &id); err == nil {
			ids = append(ids, id)
		}
	}
	there := 0
	for _, id := range ids {
		if p, err := ebpf.NewProgramFromID(id); err == nil {
			there++
			p.Close()
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if there != 3 {
		t.Fatalf("%d of the programs %v were there before the kill, want 3", there, ids)
	}
	for end := time.Now().Add(time.Minute); len(ids) > 0; time.Sleep(10 * time.Millisecond) {
		p, err := ebpf.NewProgramFromID(ids[0])
		if errors.Is(err, fs.ErrNotExist) {
			ids = ids[1:]
			continue
		}
		if err == nil {
			p.Close()
		}
		if time.Now().After(end) {
			t.Fatalf("program %d outlived its process (%v)", ids[0], err)
		}
	}
	testkernel.StatsOff(t, "after the kill")
}

// macroForever attaches, says what, and goes on sending with the statistics on.
func macroForever(t *testing.T) {
	s, err := NewSession(1)
	if err != nil {
		t.Fatal(err)
	}
	o := macroObject(t, "v2_fizzbuzz")
	m, err := s.Macro(veth("native", 1000), Side{"base", o}, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	err = s.do(func() error {
		all := make([]*subject, 3)
		for i := range all {
			if all[i], err = m.load(i); err != nil {
				return err
			}
		}
		if err := m.place(all); err != nil {
			return err
		}
		stats, err := programs.EnableStats()
		if err != nil {
			return err
		}
		defer stats.Close()
		for _, x := range all {
			info, err := x.prog.Info()
			if err != nil {
				return err
			}
			id, _ := info.ID()
			fmt.Printf("attached %d\n", id)
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			for _, x := range all {
				if err := m.read(x, 256, 256); err != nil {
					return err
				}
			}
		}
		return errors.New("nobody killed this process")
	})
	t.Fatal(err)
}
