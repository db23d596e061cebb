package adapter

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkGobench reads benchfmt: a tenth of a gigabyte has a million lines.
func BenchmarkGobench(b *testing.B) {
	var text bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintf(&text, "BenchmarkThing/case=%d-8   \t%8d\t%10.1f ns/op\t%8d B/op\t%6d allocs/op\n", i%2000, i, float64(i)/7, i%9999, i%99)
	}
	f, _ := Lookup("gobench")
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(io.MultiReader(bytes.NewReader(text.Bytes())), f, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCriterionDir reads a directory of a large project: a thousand benchmarks of a
// hundred samples.
func BenchmarkCriterionDir(b *testing.B) {
	dir := b.TempDir()
	var sample bytes.Buffer
	sample.WriteString(`{"sampling_mode":"Linear","iters":[`)
	for _, part := range []string{"%d", `],"times":[`, "%d.5"} {
		if part[0] == ']' {
			sample.WriteString(part)
			continue
		}
		for i := range 100 {
			if i > 0 {
				sample.WriteByte(',')
			}
			fmt.Fprintf(&sample, part, 1000*(i+1))
		}
	}
	sample.WriteString("]}")
	for i := range 1000 {
		at := filepath.Join(dir, fmt.Sprintf("group%d", i%10), fmt.Sprint(i), "new")
		if err := os.MkdirAll(at, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "sample.json"), sample.Bytes(), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(1000 * sample.Len()))
	b.ReportAllocs()
	for b.Loop() {
		set, _, err := ReadFile(dir, "", Options{})
		if err != nil || set.Benchmarks() != 1000 {
			b.Fatal(set, err)
		}
	}
}
