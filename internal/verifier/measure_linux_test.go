package verifier

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// xdpTools is the directory of the objects that xdp-tools installs.
func xdpTools(t *testing.T) string {
	t.Helper()
	testkernel.Require(t, testkernel.XDPTools)
	for _, pattern := range []string{"/usr/lib/*/bpf", "/usr/lib/bpf", "/usr/lib64/bpf"} {
		if found, _ := filepath.Glob(pattern + "/xdp*.o"); len(found) > 0 {
			return filepath.Dir(found[0])
		}
	}
	t.Fatal("no objects")
	return ""
}

func copyFile(t *testing.T, to, from string, most int) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b[:min(len(b), most)], 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMeasure looks at good, broken and hostile files, many at a time.
func TestMeasure(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	dir, from := t.TempDir(), filepath.Join(xdpTools(t), "xdp-dispatcher.o")
	copyFile(t, filepath.Join(dir, "good.o"), from, 1<<20)
	copyFile(t, filepath.Join(dir, "a\x1b[31m,b.o"), from, 1<<20)
	copyFile(t, filepath.Join(dir, "torn.o"), from, 900)
	copyFile(t, filepath.Join(dir, "tool"), "/proc/self/exe", 1<<16) // an executable that holds none
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	sources, _, err := Find([]string{dir, pipe})
	if err != nil || len(sources) != 5 {
		t.Fatalf("%+v, %v", sources, err)
	}
	var seen []string
	rows, skips, err := Measure(t.Context(), sources, Options{Jobs: 3, Progress: func(name string) { seen = append(seen, name) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != len(sources) {
		t.Errorf("told of %q", seen)
	}
	told := map[string]string{}
	for _, s := range skips {
		told[s.Source.Name] = s.Err.Error()
	}
	if len(told) != 3 || !strings.Contains(told["pipe"], "no regular file") || !strings.Contains(told["torn.o"], "not a readable eBPF object") || told["tool"] != ErrNone.Error() {
		t.Errorf("skipped %q", told)
	}
	if len(rows) != 4 {
		t.Fatalf("rows %+v", rows)
	}
	for _, r := range rows {
		if !r.Accepted || r.Outcome != bench.Accepted || r.Values["total_insns"] == 0 || r.Values["prog_size_jited"] == 0 || r.Type != "xdp" {
			t.Errorf("%+v", r)
		}
	}

	rows, _, err = Measure(t.Context(), sources, Options{Jobs: 1, Wants: func(file, program string) bool {
		return file == "good.o" && (program == "" || program == "xdp_pass")
	}})
	if err != nil || len(rows) != 1 || rows[0].Program != "xdp_pass" {
		t.Errorf("%+v, %v", rows, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Measure(ctx, sources, Options{Jobs: 2}); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
}

// TestVeristatReads holds rows against those of veristat on this kernel, and has
// veristat read gate's CSV.
func TestVeristatReads(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Veristat, testkernel.BPFTools)
	testkernel.NoLeaks(t)
	dir := t.TempDir()
	objects, err := filepath.Glob(filepath.Join(xdpTools(t), "*.o"))
	if err != nil {
		t.Fatal(err)
	}
	tools, err := filepath.Glob("/usr/sbin/*snoop")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		in, err := bpf.EmbeddedBytes(tool)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range in {
			name := filepath.Join(dir, filepath.Base(tool)+".o")
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			objects = append(objects, name)
		}
	}
	veristat := func(args ...string) []byte {
		t.Helper()
		var stderr bytes.Buffer
		cmd := exec.Command("veristat", args...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("veristat %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return out
	}
	theirs, err := Read(veristat(append([]string{"-q", "-o", "csv"}, objects...)...))
	if err != nil {
		t.Fatal(err)
	}
	sources, _, err := Find(objects)
	if err != nil {
		t.Fatal(err)
	}
	ours, skips, err := Measure(t.Context(), sources, Options{Jobs: 2})
	if err != nil || len(skips) > 0 || len(ours) != len(theirs) {
		t.Fatalf("%d rows, %d of veristat; %+v, %v", len(ours), len(theirs), skips, err)
	}
	compared := 0
	for _, p := range Join(theirs, ours) {
		if p.Base == nil || p.Head == nil {
			t.Errorf("%s/%s is in one of them", p.File, p.Program)
			continue
		}
		if !p.Base.Accepted && p.Head.Accepted {
			continue // gate gives a map its size that veristat does not
		}
		for i := range stats {
			s := &stats[i]
			want, ok := p.Base.Values[s.Name()]
			if !ok || s.Name() == "duration" || want == 0 && !p.Base.Accepted {
				continue
			}
			if got := p.Head.Values[s.Name()]; got != want {
				t.Errorf("%s/%s: %s %v, veristat says %v", p.File, p.Program, s.Name(), got, want)
			}
			compared++
		}
		if p.Base.Accepted != p.Head.Accepted || p.Base.Type != p.Head.Type {
			t.Errorf("%s/%s: accepted %v, %s; veristat says %v, %s", p.File, p.Program, p.Head.Accepted, p.Head.Type, p.Base.Accepted, p.Base.Type)
		}
	}
	if compared < 100 {
		t.Errorf("only %d numbers were compared", compared)
	}

	var csv bytes.Buffer
	q := &Query{}
	if err := q.WriteCSV(&csv, q.Select(Alone(append(ours, hostile())))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "ours.csv")
	if err := os.WriteFile(file, csv.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Read(veristat("-R", file, "-o", "csv"))
	if err != nil || len(again) != len(ours)+1 {
		t.Errorf("veristat read %d of %d rows back: %v", len(again), len(ours)+1, err)
	}
	if out := string(veristat("-C", file, file)); !strings.Contains(out, "MATCH") || strings.Contains(out, "MISMATCH") {
		t.Errorf("veristat compares a file with itself:\n%s", out)
	}
}
