//go:build unix

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/org/ebpf-bench-gate/internal/packet"
)

// What strangers write costs little. That is held by what is allocated, which is the same
// on a busy host; what takes time without it would be over with the test's own limit.
func TestHostile(t *testing.T) {
	full := func(s string) string { return strings.Repeat(s, MaxSize/len(s)) }
	bomb := "version: 1\nbuild:\n  share: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("k%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	sources := "version: 1\nprograms: {p: {object: o}}\nbenchmarks:\n"
	for i := range 5000 {
		sources += fmt.Sprintf("  p/c%d: {packets: {udp: {sport: 0..65535}}}\n", i)
	}
	for _, c := range []struct{ name, src, want string }{
		{"large", full("a: b\n") + "more than it", "more than 1048576 bytes"},
		{"deep lists", "version: 1\nbuild: " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), "nested deeper than 40 levels"},
		{"deep, open", full("["), "exceeded max depth"},
		{"deep mappings", full("{a: "), "exceeded max depth"},
		{"deep blocks", full("- "), "exceeded max depth"},
		{"open quote", "a: \"" + full("x")[4:], "unexpected end of stream"},
		{"bomb", bomb, "more than 200000 values"},
		{"wide", "version: 1\nbuild: {share: [" + full("a,")[100:] + "]}", "more than 200000 values"},
		{"cycle", "version: 1\nprograms: &a {p: {maps: *a}}", "the anchor &a holds itself"},
		{"key of keys", "version: 1\n? [" + full("a,")[100:] + "]\n: b", "a key must be a word"},
		{"packets everywhere", sources, "packets: more than"},
		{"nested calls", "version: 1\nprograms: {p: {object: o, constants: {c: " + strings.Repeat("u8(", 1<<17) + strings.Repeat(")", 1<<17) + "}}}", "functions within functions"},
		{"calls", "version: 1\nprograms: {p: {object: o, constants: {c: " + strings.Repeat("u8(", 1<<17) + "}}}", "starts as a function"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse("f", []byte(c.src))
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.300v, want %s", err, c.want)
			}
			// The most that is seen is 533 MiB in all; the square of the size would be 1 TiB.
			const most = 2 << 30
			if n := after.TotalAlloc - before.TotalAlloc; n > most {
				t.Errorf("allocated %d MiB", n>>20)
			}
		})
	}
}

// Aliases of an honest size work, and a mistake behind one is told once.
func TestAliases(t *testing.T) {
	const src = `version: 1
programs: {p: {object: o}}
benchmarks:
  p/a: {packets: &x {udp: {dport: 1..3}}}
  p/b: {packets: *x}
  p/c: {packets: [*x, *x]}
`
	s, err := Parse("f", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{3, 3, 6} {
		if got := len(s.Benchmarks[i].Packets); got != want {
			t.Errorf("%s: %d packets, want %d", s.Benchmarks[i].Name, got, want)
		}
	}
	_, err = Parse("f", []byte(strings.Replace(src, "dport", "dprt", 1)))
	if want := `f:4:28: unknown key "dprt" in udp`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A capture is a file below the config's directory, by whatever way the path
// and the links on it lead.
func TestCaptures(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "project")
	testCapture(t, top, "outside.pcap", 1)
	testCapture(t, dir, "in/side.PCAP", 2)
	for name, target := range map[string]string{
		"out.pcap": "../outside.pcap", "abs.pcap": filepath.Join(top, "outside.pcap"), "inner.pcap": "in/side.PCAP",
		"loop.pcap": "loop.pcap", "passwd.pcap": "/etc/passwd", "up": "..",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.pcap"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.pcap"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text.pcap"), []byte("root:x:0:0"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"in/side.PCAP":         "",
		"./in/../in/side.PCAP": "",
		"inner.pcap":           "",
		"out.pcap":             "out.pcap: path escapes",
		"abs.pcap":             "abs.pcap: path escapes",
		"passwd.pcap":          "passwd.pcap: path escapes",
		"up/outside.pcap":      "up/outside.pcap: path escapes",
		"loop.pcap":            "loop.pcap: ",
		"dir.pcap":             "dir.pcap: not a regular file",
		"pipe.pcap":            "pipe.pcap: not a regular file",
		"text.pcap":            "text.pcap: not a capture",
		"../outside.pcap":      "leads out of",
	} {
		src := "version: 1\nprograms: {p: {object: o}}\nbenchmarks: {p/c: {packets: " + name + "}}"
		s, err := Parse(filepath.Join(dir, FileName), []byte(src))
		switch {
		case want == "" && (err != nil || len(s.Benchmarks[0].Packets) != 2):
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte("version: 1\nprograms: {p: &p {object: o, maps: {m: [{key: 1..3, value: [u16(be(1)), hex(0a), 1.2.3.$key]}]}}}"))
	f.Add([]byte("version: 1\nprograms: {p: {object: o}}\nbenchmarks: {p/c: {packets: [{vlan: [{id: 1..9}], ipv6: {src: '::/127'}, icmp: {}, size: 200}]}}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Parse("f", src)
		if (s == nil) == (err == nil) {
			t.Fatalf("suite %v and error %v", s, err)
		}
		if err == nil {
			for _, b := range s.Benchmarks {
				if len(b.Packets) > packet.DefaultLimits.Packets {
					t.Fatalf("%d packets", len(b.Packets))
				}
				for _, p := range b.Packets {
					if len(p) < packet.MinFrame || len(p) > packet.MaxFrame {
						t.Fatalf("a frame of %d bytes", len(p))
					}
				}
			}
			return
		}
		var ds Diagnostics
		if !errors.As(err, &ds) || len(ds) == 0 || len(ds) > maxFound {
			t.Fatalf("not diagnostics: %v", err)
		}
		// YAML's line breaks are more than one.
		lines := 1
		for _, b := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
			lines += strings.Count(string(src), b)
		}
		for i, d := range ds {
			if d.Pos.Line < 1 || d.Pos.Line > lines || d.Pos.Col < 1 || d.Message == "" {
				t.Fatalf("a mistake at %v: %q", d.Pos, d.Message)
			}
			if i > 0 && d.Pos.Line < ds[i-1].Pos.Line {
				t.Fatalf("mistakes out of order:\n%v", ds)
			}
		}
		var b strings.Builder
		if err := ds.Format(&b, src, false); err != nil || strings.ContainsAny(b.String(), "\x1b\r\x00") {
			t.Fatalf("printed %q, %v", b.String(), err)
		}
	})
}
