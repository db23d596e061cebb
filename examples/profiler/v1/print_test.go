package print

import (
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/examples/profiler/event"
)

type hex struct{}

func (hex) Append(b []byte, pid uint32, addr uint64) []byte {
	b = append(strconv.AppendUint(b, uint64(pid), 10), ':')
	return strconv.AppendUint(b, addr, 16)
}

func sample() *event.Sample {
	s := &event.Sample{Time: 12_345_678, PID: 42, TID: 43, CPU: 1, KernelBytes: 2 * 8, UserBytes: 3 * 8}
	copy(s.CommandName[:], "amicable")
	copy(s.KernelStack[:], []uint64{0xa1, 0xa2})
	copy(s.UserFrames[:], []uint64{0xb1, 0xb2, 0xb3})
	return s
}

func TestProcessSample(t *testing.T) {
	var out strings.Builder
	p := New(&out, hex{})
	broken := sample()
	broken.KernelBytes, broken.UserBytes = -14, 1<<30
	for _, s := range []*event.Sample{sample(), broken} {
		if err := p.ProcessSample(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = "12ms amicable pid 42 cpu 1\n\t0:a1\n\t0:a2\n\t42:b1\n\t42:b2\n\t42:b3\n"
	if got := out.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 6+1+event.MaxFrames {
		t.Errorf("%s", got)
	}
}

func BenchmarkProcessSample(b *testing.B) {
	p, s := New(io.Discard, hex{}), sample()
	b.ReportAllocs()
	for b.Loop() {
		if err := p.ProcessSample(s); err != nil {
			b.Fatal(err)
		}
	}
}
