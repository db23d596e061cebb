//go:build linux

package bpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// An acceptance is how many programs the kernel takes with counters, of those
// that it takes without.
type acceptance struct {
	programs        int // of which the kernel takes plain ones
	plain, accepted int
	blocks, spills  int
	growth          []float64 // of verified instructions
	largest         float64   // of these, without counters
	refused         []string
}

func (a *acceptance) add(t testing.TB, objects []*Object, cache *btf.Cache) {
	t.Helper()
	for _, o := range objects {
		for _, p := range o.Programs() {
			a.programs++
			plain, err := o.Load(p, LoadOptions{Cache: cache, Stats: true})
			if err != nil {
				continue
			}
			a.plain++
			before, _ := parseLog(plain.Log)
			a.largest = max(a.largest, before.values[bench.VerifiedInsns])
			plain.Close()
			in, err := o.instrument(p)
			if err == nil {
				in.quiet = false // for the statistics
				var l *Loaded
				if l, err = in.Load(p, LoadOptions{Cache: cache, Stats: true}); err == nil {
					after, _ := parseLog(l.Log)
					a.growth = append(a.growth, after.values[bench.VerifiedInsns]/before.values[bench.VerifiedInsns])
					a.accepted++
					l.Close()
				}
			}
			if err != nil {
				reason := err
				if in != nil {
					reason = in.rejection(err)
				}
				a.refused = append(a.refused, fmt.Sprintf("%s %s (%s): %v", filepath.Base(o.Path), p, o.Type(p), oneLine(reason)))
				continue
			}
			for _, c := range in.programs {
				for _, bl := range c.flow.blocks {
					a.blocks++
					if _, code, _ := c.flow.counter(bl, 0); len(code) > 3 {
						a.spills++
					}
				}
			}
		}
	}
}

func (a *acceptance) log(t testing.TB, name string) {
	slices.Sort(a.growth)
	most := 0.0
	if n := len(a.growth); n > 0 {
		most = a.growth[n-1]
	}
	t.Logf("%s: %d of %d programs accepted with counters (of %d there are); %d blocks, %d with spills; verified instructions ×%.2f (median), ×%.2f (most), the largest program %.0f without",
		name, a.accepted, a.plain, a.programs, a.blocks, a.spills, median(a.growth), most, a.largest)
	for _, r := range a.refused {
		t.Logf("   refused: %s", r)
	}
	if a.accepted*100 < a.plain*95 {
		t.Errorf("%s: fewer than 95%% are accepted", name)
	}
}

// TestInsnsDistribution instruments every program of the objects that
// distributions ship, and has the verifier take it.
func TestInsnsDistribution(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.XDPTools)
	testkernel.NoLeaks(t)
	cache := btf.NewCache()
	var xdp acceptance
	xdp.add(t, xdpToolsObjects(t), cache)
	xdp.log(t, "xdp-tools")
	t.Run("libbpf-tools", func(t *testing.T) {
		testkernel.Require(t, testkernel.BPFTools)
		var tools acceptance
		tools.add(t, embeddedObjects(t), cache)
		tools.log(t, "libbpf-tools")
	})
	t.Run("cilium/ebpf", func(t *testing.T) {
		// Its tests and examples: kfuncs, maps of maps, subprograms, newer compilers.
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cilium/ebpf").Output()
		if err != nil {
			t.Skipf("no Go command to find the module: %v", err)
		}
		var others acceptance
		for _, pattern := range []string{"testdata/*-el.elf", "examples/*/*_bpfel.o", "*/testdata/*-el.elf"} {
			found, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), pattern))
			for _, path := range found {
				if o, err := OpenObject(path); err == nil {
					others.add(t, []*Object{o}, cache)
				}
			}
		}
		others.log(t, "cilium/ebpf")
	})
	t.Run("others", func(t *testing.T) {
		patterns := os.Getenv("GATE_OBJECTS")
		if patterns == "" {
			t.Skip("GATE_OBJECTS names no objects: globs of objects, or of files that hold some, separated by colons; TYPE=GLOB for those whose sections say no type")
		}
		for _, pattern := range filepath.SplitList(patterns) {
			var a acceptance
			typ, glob, typed := strings.Cut(pattern, "=")
			if !typed {
				glob = pattern
			}
			found, err := filepath.Glob(glob)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range found {
				o, err := OpenObject(path)
				in := []*Object{o}
				if err != nil {
					if in, _ = Embedded(path); len(in) == 0 {
						t.Logf("not opened: %v", err)
					}
				}
				for _, o := range in {
					for _, p := range o.spec.Programs {
						if typed && p.Type == ebpf.UnspecifiedProgram {
							if err := retype(p, bench.Program{Type: typ}); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				a.add(t, in, cache)
			}
			a.log(t, pattern)
		}
	})
}
