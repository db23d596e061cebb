package adapter

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// Every parser either makes a run that bench accepts, or tells a mistake of the file.

func FuzzBMF(f *testing.F)       { fuzz(f, "bmf") }
func FuzzBpftool(f *testing.F)   { fuzz(f, "bpftool") }
func FuzzCallgrind(f *testing.F) { fuzz(f, "callgrind") }
func FuzzCatch2(f *testing.F)    { fuzz(f, "catch2") }
func FuzzCriterion(f *testing.F) { fuzz(f, "criterion") }
func FuzzDHAT(f *testing.F)      { fuzz(f, "dhat") }
func FuzzGobench(f *testing.F)   { fuzz(f, "gobench") }
func FuzzGoogle(f *testing.F)    { fuzz(f, "google") }
func FuzzGungraun(f *testing.F)  { fuzz(f, "gungraun") }
func FuzzHyperfine(f *testing.F) { fuzz(f, "hyperfine") }
func FuzzJMH(f *testing.F)       { fuzz(f, "jmh") }
func FuzzKatran(f *testing.F)    { fuzz(f, "katran") }
func FuzzXDPBench(f *testing.F)  { fuzz(f, "xdp-bench") }
func FuzzLibtest(f *testing.F)   { fuzz(f, "libtest") }
func FuzzPytest(f *testing.F)    { fuzz(f, "pytest") }
func FuzzVeristat(f *testing.F)  { fuzz(f, "veristat") }

func fuzz(f *testing.F, format string) {
	for _, file := range files {
		if file.format != format {
			continue
		}
		name := filepath.Join("testdata", file.name)
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	parser, ok := Lookup(format)
	if !ok {
		f.Fatalf("no format %s", format)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		Detect(text)
		set, err := Read(bytes.NewReader(text), parser, Options{File: "f"})
		var d *bench.Diagnostic
		switch {
		case err == nil:
		case !errors.As(err, &d):
			t.Fatalf("no diagnostic: %v", err)
		case d.Pos.Line < 0 || d.Pos.Line > 0 && d.Pos.Col < 1 || d.Pos.Line > bytes.Count(text, []byte("\n"))+1:
			t.Fatalf("%v is no place in the file", d.Pos)
		default:
			return
		}
		run, err := set.Run(bench.Revision{Name: "x"}, "lab", time.Unix(0, 0), "")
		if err != nil {
			// Units can be declared so that two measures become one.
			if format == "gobench" {
				return
			}
			t.Fatal(err)
		}
		var out bytes.Buffer
		for _, write := range []error{WriteBMF(&out, run), WriteBenchfmt(&out, run), bench.Encode(&out, run)} {
			if write != nil {
				t.Fatal(write)
			}
		}
	})
}
