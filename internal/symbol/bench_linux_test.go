package symbol

import (
	"cmp"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// BenchmarkGo names 100,000 addresses all over a Go program, drawn so that half of them are among
// the hottest 2,000: what it takes from the file on, and how much it holds then. The program is
// GATE_SYMBOL_BINARY, or the linter of this repository (make lint builds it), else Go's compiler.
func BenchmarkGo(b *testing.B) {
	path := os.Getenv("GATE_SYMBOL_BINARY")
	if path == "" {
		out, _ := exec.Command("go", "tool", "-n", "-modfile=../../tools.mod", "golangci-lint").Output()
		path = strings.TrimSpace(string(out))
	}
	if path == "" {
		out, _ := exec.Command("go", "tool", "-n", "compile").Output()
		path = strings.TrimSpace(string(out))
	}
	benchmarkNames(b, path)
}

// BenchmarkNative names addresses of a program with DWARF: GATE_SYMBOL_NATIVE.
func BenchmarkNative(b *testing.B) {
	path := os.Getenv("GATE_SYMBOL_NATIVE")
	if path == "" {
		b.Skip("needs GATE_SYMBOL_NATIVE, a program with debug data")
	}
	benchmarkNames(b, path)
}

func benchmarkNames(b *testing.B, path string) {
	const samples = 100_000
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		b.Fatal(err)
	}
	var held uint64
	named, frames := 0, 0
	for b.Loop() {
		before := heap()
		o := &object{path: filepath.Base(path), data: file, limit: 512 << 20, kind: KindUser, doubts: &doubts{}}
		o.load()
		if o.broken != nil {
			b.Fatal(o.broken)
		}
		text := o.elf.Section(".text")
		r := rand.New(rand.NewPCG(1, 2))
		hot := make([]uint64, 2000)
		for i := range hot {
			hot[i] = text.Addr + r.Uint64N(text.Size)
		}
		named, frames = 0, 0
		for i := range samples {
			addr := hot[r.IntN(len(hot))]
			if i%2 == 0 {
				addr = text.Addr + r.Uint64N(text.Size)
			}
			for _, f := range o.frames(addr) {
				frames++
				if f.Function != "" {
					named++
				}
			}
		}
		held = max(held, heap()-before)
		runtime.KeepAlive(o)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/samples, "ns/sample")
	b.ReportMetric(float64(held)/(1<<20), "MB-held")
	b.ReportMetric(float64(peak())/(1<<10), "MB-peak")
	b.ReportMetric(float64(info.Size())/(1<<20), "MB-file")
	b.ReportMetric(100*float64(named)/float64(cmp.Or(frames, 1)), "%named")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
