package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
)

// testCapture writes a capture of n packets of 14 bytes into dir.
func testCapture(t *testing.T, dir, name string, n int) {
	t.Helper()
	b := []byte("\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\x01\x00\x00\x00")
	for range n {
		b = append(b, "\x00\x00\x00\x00\x00\x00\x00\x00\x0e\x00\x00\x00\x0e\x00\x00\x0012345612345678"...)
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// The reference shows no config that cannot be read, and leaves no measure and
// no answer of the language out.
func TestDocs(t *testing.T) {
	dir := t.TempDir()
	testCapture(t, dir, "testdata/imix.pcap", 3)
	var doc []byte
	for name, least := range map[string]int{"config.md": 5, "macro.md": 2, "userspace.md": 2} {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if fences := strings.Count(string(text), "```"); len(blocks) < least || fences != 2*len(blocks) {
			t.Fatalf("%s: %d YAML blocks in %d fences; every block is to be one", name, len(blocks), fences)
		}
		for _, block := range blocks {
			if _, err := Parse(filepath.Join(dir, FileName), []byte(block[1])); err != nil {
				t.Errorf("%s: %v\nin\n%s", name, err, block[1])
			}
		}
		if name == "config.md" {
			doc = text
		}
	}
	for _, m := range bench.Measures() {
		if !strings.Contains(string(doc), "`"+m.Name+"`") {
			t.Errorf("the measure %s is not in the reference", m.Name)
		}
	}
}

// The running example stays readable.
func TestExample(t *testing.T) {
	s, err := Load("../../examples/fun-xdp/ebpf-bench.yml")
	if err != nil {
		t.Fatal(err)
	}
	packets := map[string]int{"fun_xdp/addresses": 256, "fun_xdp/worst": 1, "fun_xdp/veth": 256}
	for _, b := range s.Benchmarks {
		want, ok := packets[b.Name]
		if !ok {
			continue
		}
		delete(packets, b.Name)
		if len(b.Packets) != want {
			t.Errorf("%s: %d packets, want %d", b.Name, len(b.Packets), want)
		}
		if macro := b.Name == "fun_xdp/veth"; (b.Veth != nil) != macro {
			t.Errorf("%s: veth %v", b.Name, b.Veth)
		}
	}
	if len(packets) > 0 {
		t.Errorf("not in the example: %v", packets)
	}
	first, last := s.Benchmarks[0].Packets[0], s.Benchmarks[0].Packets[255]
	const source = 14 + 12
	if got := string(first[source:source+4]) + string(last[source:source+4]); got != "\x01\x00\x00\x00\x01\x00\x00\xff" {
		t.Errorf("addresses from and to %x", got)
	}
}
