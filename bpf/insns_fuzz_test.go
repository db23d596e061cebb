//go:build linux

package bpf

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// Objects come from anybody: whatever stands in them is instrumented or refused,
// and what comes out is what went in, with counters in between and every jump
// going where it went.
func FuzzInstrument(f *testing.F) {
	for seed := range uint64(4) {
		var buf bytes.Buffer
		if err := randomProgram(seed, 12).Marshal(&buf, nativeOrder()); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		insns, err := asm.AppendInstructions(nil, bytes.NewReader(data), nativeOrder(), "linux")
		if err != nil || len(insns) == 0 {
			return
		}
		original := slices.Clone(insns)
		flow, err := newFlow(insns)
		if err != nil {
			return
		}
		_, _ = flow.events(nil), flow.background(nil)
		counts := make([]uint64, len(flow.blocks))
		for b := range counts {
			counts[b] = uint64(len(data)+b*b) % 5 // of no real run
		}
		for e, n := range flow.edges(counts) {
			if n > counts[e.from] {
				t.Fatalf("%d of %d executions of block %d went on to %d", n, counts[e.from], e.from, e.to)
			}
		}
		out, err := flow.rewrite(0)
		if err != nil {
			return
		}
		after, err := newFlow(out)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%v\n%v", err, original, out)
		}
		// Take the counters out again. A block's counter ends with its add.
		counters := 0
		at := make([]int, 0, len(out)) // place of the original instruction in out
		for i := range out {
			if out[i].Reference() == counterMap {
				counters++
			}
		}
		if counters != len(flow.blocks) {
			t.Fatalf("%d counters in %d blocks", counters, len(flow.blocks))
		}
		for i, j := 0, 0; i < len(original); i++ {
			for j < len(out) && !same(original[i], out[j], flow.targets[i] >= 0) {
				j++
			}
			if j == len(out) {
				t.Fatalf("instruction %d (%v) is lost", i, original[i])
			}
			at = append(at, j)
			j++
		}
		for i, to := range flow.targets {
			if to < 0 || out[at[i]].OpCode != original[i].OpCode {
				continue
			}
			// From the target on, the next original instruction is the target.
			if got := after.targets[at[i]]; got > at[to] || to > 0 && got <= at[to-1] && to-1 != i {
				t.Fatalf("jump %d to %d goes to %d, which is not before %d", i, to, got, at[to])
			}
		}
	})
}

// same tells whether an instruction is the original one; a jump's distance may
// have changed.
func same(a, b asm.Instruction, jump bool) bool {
	if jump {
		return a.OpCode == b.OpCode && a.Dst == b.Dst && a.Src == b.Src
	}
	return a.OpCode == b.OpCode && a.Dst == b.Dst && a.Src == b.Src && a.Offset == b.Offset && a.Constant == b.Constant
}
