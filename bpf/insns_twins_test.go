//go:build linux

package bpf

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/org/ebpf-bench-gate/bench"
)

// twins are a program and those that differ from it in what is not executed, in the
// registers that the compiler took, in a constant that decides nothing: none of them
// executes an instruction more or less.
func twins(insns asm.Instructions) map[string]asm.Instructions {
	// Other than the registers that a call hands over, four may be exchanged.
	registers := slices.Clone(insns)
	other := func(r asm.Register) asm.Register {
		if r >= asm.R6 && r <= asm.R9 {
			return asm.R6 + (r-asm.R6+1)%4
		}
		return r
	}
	for i := range registers {
		ins := &registers[i]
		if ins.Src = other(ins.Src); ins.IsFunctionCall() {
			ins.Src = insns[i].Src // no register
		}
		ins.Dst = other(ins.Dst)
	}
	constant := slices.Clone(insns)
	first := slices.IndexFunc(constant, func(ins asm.Instruction) bool { return ins.OpCode.JumpOp() == asm.Exit })
	constant[first-1].Constant = 0x7f // of the answer's 0xff
	return map[string]asm.Instructions{
		"itself": insns, "registers": registers, "constant": constant,
		"cold code": withCold(insns, 1), "more cold code": withCold(insns, 60),
	}
}

// withCold has so many instructions that are never executed, behind a condition that
// the verifier cannot know: the interface has no such index.
func withCold(insns asm.Instructions, n int) asm.Instructions {
	out := asm.Instructions{
		asm.LoadMem(asm.R8, asm.R1, 12, asm.Word), // ingress_ifindex
		asm.JEq.Imm(asm.R8, 0x7ffffff0, "cold"),
	}
	for _, ins := range insns {
		if ins.Symbol() == "short" { // behind the program's exit
			cold := asm.Instructions{asm.Mov.Imm(asm.R0, 1).WithSymbol("cold")}
			for range n {
				cold = append(cold, asm.Add.Imm(asm.R0, 1))
			}
			out = append(append(out, cold...), asm.Return())
		}
		out = append(out, ins)
	}
	return out
}

// cold is what the condition of withCold itself executes.
const cold = 2

// Programs that execute the same have the same insns, whatever else is different.
func TestInsnsTwins(t *testing.T) {
	s := newTestSession(t)
	counted := 0
	for seed := range uint64(25) {
		insns, packets := randomProgram(1000+seed, 6+int(seed)), randomPackets(seed, 5)
		m, err := s.Micro(bench.Benchmark{Name: fmt.Sprint("x/", seed), Program: "x", Packets: packets}, Side{"base", assembled(slices.Clone(insns))})
		if err != nil {
			t.Logf("seed %d: without counters: %v", seed, err)
			continue
		}
		m.Close()
		mean, _ := insnsOf(t, s, assembled(slices.Clone(insns)), bench.Benchmark{Program: "x", Packets: packets})
		for name, twin := range twins(insns) {
			in, _ := insnsOf(t, s, assembled(slices.Clone(twin)), bench.Benchmark{Program: "x", Packets: packets})
			checkInterpreted(t, twin, packets, in)
			want := mean.Mean
			if name == "cold code" || name == "more cold code" {
				want += cold
			}
			if in.Mean != want {
				t.Errorf("seed %d, %s: %v instructions, the program itself %v", seed, name, in.Mean, want)
			}
		}
		if counted++; t.Failed() {
			t.FailNow()
		}
	}
	if counted < 20 {
		t.Errorf("only %d programs were counted", counted)
	}
}

// So is what the CPU executes of them.
func TestKernelInsnsTwins(t *testing.T) {
	s := newCountingSession(t)
	packets := randomPackets(7, 3)
	for seed := range uint64(4) {
		var names []string
		var objects []*Object
		for name, twin := range twins(randomProgram(2000+seed, 12)) {
			names, objects = append(names, name), append(objects, assembled(slices.Clone(twin)))
		}
		cpu, _ := kernelInsnsOf(t, s, packets, objects...)
		of := map[string]float64{}
		for i, name := range names {
			of[name] = cpu[i]
		}
		for _, same := range [][2]string{{"itself", "registers"}, {"itself", "constant"}, {"cold code", "more cold code"}} {
			if of[same[0]] != of[same[1]] {
				t.Errorf("seed %d: %s takes %v instructions, %s %v", seed, same[0], of[same[0]], same[1], of[same[1]])
			}
		}
	}
}

// Callees whose frames fill the stack together leave no room for counters that need
// it, which is told as what it is: every other measure stays.
func TestInsnsStackOfCallees(t *testing.T) {
	s := newTestSession(t)
	program := func(stack int16) asm.Instructions {
		insns := pressure(1)
		insns = append(insns[:len(insns)-1], asm.StoreImm(asm.RFP, -256, 0, asm.Byte), asm.Call.Label("sub"), asm.Return())
		return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol("sub"), asm.StoreImm(asm.RFP, -stack, 0, asm.Byte), asm.Return())
	}
	for _, stack := range []int16{8, 200, 256} {
		insns := program(stack)
		in, err := s.Insns(bench.Benchmark{Name: "x/y", Program: "x", Packets: ipv4(1)}, Side{"head", assembled(slices.Clone(insns))})
		switch {
		case stack < 256 && err != nil, stack == 256 && (err == nil || !strings.Contains(err.Error(), "rejects the program with its counters: combined stack size")):
			t.Errorf("%d bytes below 256: %v", stack, err)
		case err == nil:
			checkInterpreted(t, insns, ipv4(1), in.Sides[0])
		}
	}
}
