//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// A survey counts what of many objects this kernel takes.
type survey struct {
	name             string
	objects, whole   int // whole: every program that this kernel can take is loaded
	programs, loaded int
	refused          map[string]int      // programs by class of reason
	examples         map[string]string   // one of each class
	failed           map[string][]string // programs that gate, not the host, cannot load
}

// The classes of reasons why a program does not load. Those of the host are
// what the same program meets with any loader.
const (
	hostFentry  = "host: refuses fentry and fexit"
	hostTarget  = "host: has no such function or tracepoint"
	hostType    = "host: its types lack a field or enumerator (CO-RE)"
	hostOption  = "host: built without what the type needs"
	otherReason = "gate"
)

// classify tells whether the host refuses a program or gate fails on it.
func classify(err error) string {
	var ve *ebpf.VerifierError
	switch {
	case errors.Is(err, unix.EPERM) && strings.Contains(err.Error(), "refuses to load fentry") && testkernel.Probe(testkernel.Fentry) != nil:
		return hostFentry
	case strings.Contains(err.Error(), "bad CO-RE relocation"):
		return hostType // libbpf's own loader says the same
	case errors.As(err, &ve):
		return otherReason + ": rejected by the verifier"
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return hostTarget
	case errors.Is(err, ebpf.ErrNotSupported):
		return hostOption
	}
	return otherReason
}

func runSurvey(name string, objects []*Object, cache *btf.Cache) survey {
	s := survey{name: name, refused: map[string]int{}, examples: map[string]string{}, failed: map[string][]string{}}
	for _, o := range objects {
		s.objects++
		whole := true
		for _, p := range o.Programs() {
			s.programs++
			l, err := o.Load(p, LoadOptions{Cache: cache})
			if err == nil {
				s.loaded++
				l.Close()
				continue
			}
			class := classify(err)
			s.refused[class]++
			s.examples[class] = fmt.Sprintf("%s %s: %v", filepath.Base(o.Path), p, oneLine(err))
			if strings.HasPrefix(class, otherReason) {
				whole = false
				s.failed[o.Path] = append(s.failed[o.Path], fmt.Sprintf("%s (%s): %v", p, o.Type(p), err))
			}
		}
		if whole {
			s.whole++
		}
	}
	return s
}

func (s survey) log(t testing.TB) {
	t.Logf("%s: %d of %d objects, %d of %d programs", s.name, s.whole, s.objects, s.loaded, s.programs)
	for _, class := range slices.Sorted(maps.Keys(s.refused)) {
		t.Logf("%6d %s (%s)", s.refused[class], class, s.examples[class])
	}
}

// xdpToolsObjects opens what xdp-tools installs.
func xdpToolsObjects(t testing.TB) []*Object {
	t.Helper()
	var all []*Object
	for _, path := range distributionObjects(t) {
		o, err := OpenObject(path)
		if err != nil {
			t.Errorf("open: %v", err)
			continue
		}
		all = append(all, o)
	}
	return all
}

// embeddedObjects opens what the binaries of libbpf-tools carry.
func embeddedObjects(t testing.TB) []*Object {
	t.Helper()
	binaries, err := filepath.Glob("/usr/sbin/*")
	if err != nil {
		t.Fatal(err)
	}
	var all []*Object
	for _, path := range binaries {
		if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() || !fromLibbpfTools(path) {
			continue
		}
		found, err := Embedded(path)
		if err != nil {
			t.Errorf("embedded: %v", err)
		}
		all = append(all, found...)
	}
	return all
}

// fromLibbpfTools asks dpkg's list; elsewhere, every binary that has an object
// counts.
func fromLibbpfTools(path string) bool {
	list, err := os.ReadFile("/var/lib/dpkg/info/libbpf-tools.list")
	return err != nil || strings.Contains(string(list), "\n"+path+"\n")
}

// TestDistributionObjects loads every program of the objects that distributions
// ship: written by others, for loaders of their own.
func TestDistributionObjects(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.XDPTools)
	testkernel.NoLeaks(t)
	cache := btf.NewCache()

	objects := xdpToolsObjects(t)
	if len(objects) < 15 {
		t.Errorf("xdp-tools installs only %d objects", len(objects))
	}
	s := runSurvey("xdp-tools", objects, cache)
	s.log(t)
	if s.whole != s.objects {
		t.Errorf("%d of %d objects of xdp-tools do not load: %v", s.objects-s.whole, s.objects, s.failed)
	}
	if n := s.refused[hostFentry]; s.loaded+n != s.programs {
		t.Errorf("%d of %d programs loaded, %d refused as fentry or fexit", s.loaded, s.programs, n)
	}

	t.Run("libbpf-tools", func(t *testing.T) {
		testkernel.Require(t, testkernel.BPFTools)
		objects := embeddedObjects(t)
		s := runSurvey("libbpf-tools", objects, cache)
		s.log(t)
		if len(objects) < 20 {
			t.Errorf("only %d objects in libbpf-tools", len(objects))
		}
		for path, programs := range s.failed {
			for _, p := range programs {
				t.Errorf("%s: %s", filepath.Base(path), p)
			}
		}
	})
}

// BenchmarkSurvey prints the figures of the survey.
func BenchmarkSurvey(b *testing.B) {
	testkernel.Require(b, testkernel.BPF, testkernel.XDPTools, testkernel.BPFTools)
	for name, objects := range map[string][]*Object{"xdp-tools": xdpToolsObjects(b), "libbpf-tools": embeddedObjects(b)} {
		b.Run(name, func(b *testing.B) {
			cache := btf.NewCache()
			var s survey
			for range b.N {
				s = runSurvey(name, objects, cache)
			}
			b.ReportMetric(float64(s.whole), "objects")
			b.ReportMetric(float64(s.objects), "objects/all")
			b.ReportMetric(float64(s.loaded), "programs")
			b.ReportMetric(float64(s.programs), "programs/all")
			s.log(b)
		})
	}
}
