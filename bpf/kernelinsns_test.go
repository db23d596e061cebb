//go:build linux

package bpf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/org/ebpf-bench-gate/bench"
)

// newCountingSession skips where the clock counts something else than instructions:
// make test-kernels has machines where it does not.
func newCountingSession(t *testing.T) *Session {
	t.Helper()
	s := newTestSession(t)
	if err := s.CountsInstructions(); err != nil {
		t.Skip(err)
	}
	return s
}

// kernelInsnsOf are the executed instructions of programs, the CPU's without the
// floor, and BPF's.
func kernelInsnsOf(t *testing.T, s *Session, packets [][]byte, programs ...*Object) (cpu, bpf []float64) {
	t.Helper()
	var sides []Side
	for i, o := range programs {
		sides = append(sides, Side{fmt.Sprint(i), o})
	}
	m, err := s.Micro(bench.Benchmark{Name: "x/" + t.Name(), Program: "x", Packets: packets}, sides...)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, err := m.Insns()
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.KernelInsns()
	if err != nil {
		t.Fatal(err)
	}
	if k.Noise != "" {
		t.Fatal(k.Noise)
	}
	for i := range programs {
		cpu = append(cpu, k.Sides[i].Mean-k.Sides[i].Floor)
		bpf = append(bpf, in.Sides[i].Mean)
	}
	return cpu, bpf
}

// tenRounds is a loop of ten rounds with n additions each.
func tenRounds(n int) *Object {
	insns := asm.Instructions{asm.Mov.Imm(asm.R1, 10), asm.Mov.Imm(asm.R0, 0)}
	first := len(insns)
	insns = append(insns, asm.Sub.Imm(asm.R1, 1))
	for range n {
		insns = append(insns, asm.Add.Imm(asm.R0, 1))
	}
	insns[first] = insns[first].WithSymbol("again")
	return assembled(append(insns, asm.JNE.Imm(asm.R1, 0, "again"), asm.Mov.Imm(asm.R0, 2), asm.Return()))
}

// One more instruction on the path changes both numbers by exactly its executions.
func TestKernelInsnsAdded(t *testing.T) {
	s := newCountingSession(t)
	cpu, bpf := kernelInsnsOf(t, s, ipv4(3), tenRounds(0), tenRounds(1), tenRounds(2), tenRounds(9))
	for i, n := range []float64{0, 1, 2, 9} {
		if got := cpu[i] - cpu[0]; got != 10*n {
			t.Errorf("%v additions in ten rounds: %v instructions of the CPU more", n, got)
		}
		if got := bpf[i] - bpf[0]; got != 10*n {
			t.Errorf("%v additions in ten rounds: %v instructions of BPF more", n, got)
		}
	}
	t.Logf("without: %v of the CPU, %v of BPF", cpu[0], bpf[0])
}

// onCPU is how many instructions the x86-64 JIT makes of one of BPF's, of those that
// these tests use (arch/x86/net/bpf_jit_comp.c): a conditional jump is a comparison
// and a jump; all else is one.
func onCPU(ins *asm.Instruction) float64 {
	switch op := ins.OpCode.JumpOp(); {
	case !ins.OpCode.Class().IsJump():
		return 1
	case op == asm.Exit:
		return 0 // as in the empty program
	case op == asm.Ja:
		return 1
	}
	return 2
}

// The CPU's instructions of programs without helpers are those that an interpreter
// counts, each for what the JIT makes of it, and the frame: one for the stack, two for
// each register that is saved.
func TestKernelInsnsOfJIT(t *testing.T) {
	s := newCountingSession(t)
	const empty = 1 // mov r0, 2
	for _, tt := range []struct {
		name  string
		frame float64
		insns asm.Instructions
	}{
		{"pass", 0, asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}},
		{"arithmetic", 0, asm.Instructions{
			asm.Mov.Imm(asm.R0, 7), asm.Mov.Imm(asm.R2, 3), asm.Add.Reg(asm.R0, asm.R2), asm.Xor.Imm(asm.R0, 5), asm.And.Imm(asm.R0, 0),
			asm.Or.Imm(asm.R0, 2), asm.Add.Imm32(asm.R0, 0), asm.LSh.Imm(asm.R2, 3), asm.LoadImm(asm.R3, 1<<40, asm.DWord), asm.Return(),
		}},
		{"stack", 1, asm.Instructions{
			asm.Mov.Imm(asm.R1, 2), asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord), asm.LoadMem(asm.R0, asm.RFP, -8, asm.DWord), asm.Return(),
		}},
		{"saved", 4, asm.Instructions{
			asm.Mov.Imm(asm.R6, 1), asm.Mov.Imm(asm.R7, 1), asm.Mov.Reg(asm.R0, asm.R6), asm.Add.Reg(asm.R0, asm.R7), asm.Return(),
		}},
		{"loop", 0, tenRounds(3).spec.Programs["x"].Instructions},
		{"packet", 0, asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, xdpData, asm.Word), asm.LoadMem(asm.R3, asm.R1, xdpDataEnd, asm.Word),
			asm.Mov.Imm(asm.R0, 2), asm.Mov.Reg(asm.R4, asm.R2), asm.Add.Imm(asm.R4, 30), asm.JGT.Reg(asm.R4, asm.R3, "out"),
			asm.LoadMem(asm.R4, asm.R2, 29, asm.Byte), asm.JGT.Imm(asm.R4, 1, "out"), asm.Add.Imm(asm.R4, 1),
			asm.Return().WithSymbol("out"),
		}},
	} {
		o := assembled(tt.insns)
		var packets = ipv4(3)
		want, bpfWant := 0.0, 0.0
		for _, p := range packets {
			_, in, err := interpret(tt.insns, p)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range in.ran {
				want += float64(n) * onCPU(&tt.insns[i])
				bpfWant += float64(n)
			}
		}
		want = want/float64(len(packets)) - empty + tt.frame
		cpu, bpf := kernelInsnsOf(t, s, packets, o)
		// Of all packets, which is a whole number.
		n := float64(len(packets))
		if math.Round(cpu[0]*n) != math.Round(want*n) || math.Round(bpf[0]*n) != bpfWant {
			t.Errorf("%s: %v instructions of the CPU, %v of BPF; by the JIT's rules %v and %v", tt.name, cpu[0], bpf[0], want, bpfWant/n)
		}
	}
}

// Programs of random control flow, too.
func TestKernelInsnsRandom(t *testing.T) {
	s := newCountingSession(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20 {
		insns := branches(rng)
		_, in, err := interpret(insns, ipv4(1)[0])
		if err != nil {
			t.Fatal(err)
		}
		// Without the mov of the empty program. Three loads find an ifindex.
		want := -1.0 + 2
		for i, n := range in.ran {
			want += float64(n) * onCPU(&insns[i])
		}
		if cpu, _ := kernelInsnsOf(t, s, ipv4(1), assembled(insns)); cpu[0] != want {
			t.Errorf("program %d: %v instructions, by the JIT's rules %v", i, cpu[0], want)
		}
	}
}

// branches is a program of forward jumps on numbers that the verifier does not know.
func branches(rng *rand.Rand) asm.Instructions {
	const blocks = 12
	label := func(n int) string { return fmt.Sprintf("b%d", n) }
	insns := asm.Instructions{
		asm.LoadMem(asm.R3, asm.R1, 12, asm.Word), // ingress_ifindex: some number
		asm.Mov.Imm(asm.R0, 0), asm.Mov.Imm(asm.R2, int32(rng.IntN(8))),
	}
	for b := range blocks {
		at := len(insns)
		for range 1 + rng.IntN(4) {
			insns = append(insns, asm.Add.Imm(asm.R2, int32(1+rng.IntN(5))))
		}
		insns = append(insns, asm.Xor.Reg(asm.R2, asm.R3), asm.Xor.Reg(asm.R2, asm.R3))
		if to := b + 1 + rng.IntN(blocks-b); to > b+1 {
			insns = append(insns, asm.JGT.Imm(asm.R2, int32(rng.IntN(60)), label(to)))
		}
		insns[at] = insns[at].WithSymbol(label(b))
	}
	return append(insns, asm.Mov.Imm(asm.R0, 2).WithSymbol(label(blocks)), asm.Return())
}
