package adapter

import (
	"bytes"
	"fmt"
	"io"
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
