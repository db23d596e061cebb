//go:build linux

package bpf

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/org/ebpf-bench-gate/bench"
)

// A generator writes programs of random control flow: conditions on the packet's
// bytes, nested; loops of known length; subprograms; every register in use.
type generator struct {
	*rand.Rand
	out    asm.Instructions
	labels int
	loops  int // nested
	depth  int
	subs   int // that may be called
	called map[int]bool
	// next is a label for the next instruction.
	next string
}

func (g *generator) emit(ins asm.Instruction) {
	if g.next != "" {
		ins, g.next = ins.WithSymbol(g.next), ""
	}
	g.out = append(g.out, ins)
}

func (g *generator) label() string {
	g.labels++
	return fmt.Sprint("l", g.labels)
}

// here puts a label at the next instruction.
func (g *generator) here(label string) {
	if g.next != "" { // two labels at one place
		g.emit(asm.Mov.Reg(asm.R0, asm.R0))
	}
	g.next = label
}

func (g *generator) reg() asm.Register { return asm.Register(g.IntN(10)) }

func (g *generator) arithmetic() {
	ops := []asm.ALUOp{asm.Add, asm.Sub, asm.Mul, asm.Or, asm.And, asm.Xor, asm.Mov, asm.RSh, asm.LSh, asm.ArSh, asm.Div, asm.Mod}
	op := ops[g.IntN(len(ops))]
	imm := int32(g.IntN(1<<16) + 1)
	if op == asm.RSh || op == asm.LSh || op == asm.ArSh {
		imm = int32(g.IntN(32))
	}
	ins := asm.Instruction{OpCode: op.Op(asm.ImmSource), Dst: g.reg(), Constant: int64(imm)}
	if g.IntN(2) == 0 && op != asm.RSh && op != asm.LSh && op != asm.ArSh {
		ins.OpCode, ins.Src, ins.Constant = op.Op(asm.RegSource), g.reg(), 0
	}
	if g.IntN(3) == 0 {
		ins.OpCode = ins.OpCode&^7 | asm.OpCode(asm.ALUClass)
	}
	g.emit(ins)
}

func (g *generator) condition(to string) asm.Instruction {
	ops := []asm.JumpOp{asm.JEq, asm.JNE, asm.JGT, asm.JGE, asm.JLT, asm.JLE, asm.JSet, asm.JSGT, asm.JSLE}
	op := ops[g.IntN(len(ops))]
	switch g.IntN(3) {
	case 0:
		return op.Reg(g.reg(), g.reg(), to)
	case 1:
		return op.Imm32(g.reg(), int32(g.IntN(256)), to)
	}
	return op.Imm(g.reg(), int32(g.IntN(1<<10)), to)
}

func (g *generator) block(statements int) {
	g.depth++
	defer func() { g.depth-- }()
	for range statements {
		switch k := g.IntN(12); {
		case k < 6 || g.depth > 4:
			g.arithmetic()
		case k < 8: // if
			end := g.label()
			g.emit(g.condition(end))
			g.block(1 + g.IntN(3))
			g.here(end)
		case k < 9: // if, else
			other, end := g.label(), g.label()
			g.emit(g.condition(other))
			g.block(1 + g.IntN(2))
			g.emit(asm.Ja.Label(end))
			g.here(other)
			g.block(1 + g.IntN(2))
			g.here(end)
		case k < 10 && g.loops < 2: // loop
			slot := int16(-8 * (g.loops + 1))
			again, r := g.label(), g.reg()
			g.emit(asm.StoreImm(asm.RFP, slot, 0, asm.Word))
			g.loops++
			g.here(again)
			g.block(1 + g.IntN(2))
			g.loops--
			g.emit(asm.LoadMem(r, asm.RFP, slot, asm.Word))
			g.emit(asm.Add.Imm(r, 1))
			g.emit(asm.StoreMem(asm.RFP, slot, r, asm.Word))
			g.emit(asm.JLT.Imm(r, int32(1+g.IntN(4)), again))
		case k < 11 && g.subs > 0:
			sub := g.IntN(g.subs)
			g.called[sub] = true
			g.emit(asm.Call.Label(fmt.Sprint("sub", sub)))
			for r := asm.R1; r <= asm.R5; r++ {
				g.emit(asm.Mov.Imm(r, int32(g.IntN(99))))
			}
		default:
			g.arithmetic()
		}
	}
}

// finish answers with something that every register has a part in.
func (g *generator) finish() {
	for r := asm.R1; r <= asm.R9; r++ {
		g.emit(asm.Xor.Reg(asm.R0, r))
	}
	g.emit(asm.And.Imm(asm.R0, 0xff))
	g.emit(asm.Return())
}

func randomProgram(seed uint64, statements int) asm.Instructions {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), subs: 2, called: map[int]bool{}}
	for _, ins := range []asm.Instruction{
		asm.LoadMem(asm.R6, asm.R1, 0, asm.Word),
		asm.LoadMem(asm.R7, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R0, asm.R6),
		asm.Add.Imm(asm.R0, 60),
		asm.JGT.Reg(asm.R0, asm.R7, "short"),
	} {
		g.emit(ins)
	}
	for _, r := range []asm.Register{0, 1, 2, 3, 4, 5, 7, 8, 9, 6} {
		g.emit(asm.LoadMem(r, asm.R6, int16(g.IntN(50)), asm.Byte))
	}
	g.block(statements)
	g.finish()
	g.emit(asm.Mov.Imm(asm.R0, 0).WithSymbol("short"))
	g.emit(asm.Return())
	subs := g.subs
	for i := range subs {
		if !g.called[i] {
			continue // the kernel takes no function that nobody calls
		}
		g.next, g.subs, g.depth = fmt.Sprint("sub", i), 0, 2
		for _, r := range []asm.Register{0, 6, 7, 8, 9} {
			g.emit(asm.Mov.Reg(r, asm.Register(1+g.IntN(5))))
		}
		g.block(2 + g.IntN(4))
		g.finish()
	}
	return g.out
}

func randomPackets(seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 2))
	var out [][]byte
	for range n {
		p := make([]byte, 64)
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		out = append(out, p)
	}
	return out
}

// Programs whose control flow nobody thought of, against an interpreter.
func TestInsnsRandom(t *testing.T) {
	s := newTestSession(t)
	const programs = 100
	counted, refused := 0, 0
	branches, open := 0, 0
	for seed := range uint64(programs) {
		insns, packets := randomProgram(seed, 6+int(seed%30)), randomPackets(seed, 5)
		o := assembled(insns)
		m, err := s.Micro(bench.Benchmark{Name: fmt.Sprint("x/", seed), Program: "x", Packets: packets}, Side{"head", o})
		if err != nil {
			refused++
			t.Logf("seed %d: without counters: %v", seed, err)
			continue
		}
		in, err := m.Insns()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkInterpreted(t, insns, packets, in.Sides[0])
		known, unknown := checkBranches(t, insns, packets, in.Sides[0].Executed)
		branches, open = branches+known, open+unknown
		for i, p := range packets {
			if answer, _, _ := interpret(insns, p); answer != m.answers[0][i] {
				t.Errorf("seed %d, packet %d: the kernel answers %d, the interpreter %d", seed, i, m.answers[0][i], answer)
			}
		}
		m.Close()
		if counted++; t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d programs counted, %d refused by the kernel as they are; the ways of %d branches known, of %d not", counted, refused, branches, open)
	if counted < programs*9/10 {
		t.Errorf("only %d of %d programs were counted", counted, programs)
	}
}

// checkBranches holds which way jumps went against an interpreter.
func checkBranches(t *testing.T, insns asm.Instructions, packets [][]byte, e *Executions) (known, unknown int) {
	t.Helper()
	took, ran := make([]uint64, len(insns)), make([]uint64, len(insns))
	for _, p := range packets {
		_, run, err := interpret(insns, p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range insns {
			took[i], ran[i] = took[i]+run.took[i], ran[i]+run.ran[i]
		}
	}
	_, programs := e.Coverage()
	for _, fn := range programs[0].Functions {
		for _, b := range fn.Branches {
			if !b.Known {
				unknown++
				continue
			}
			known++
			const times = insnsLoads * insnsPasses
			if want := took[b.Insn] * times; b.Taken != want || b.Not != ran[b.Insn]*times-want {
				t.Errorf("instruction %d jumped %d times and did not %d times, want %d and %d", b.Insn, b.Taken, b.Not, want, ran[b.Insn]*times-want)
			}
		}
	}
	return known, unknown
}

// Jumps that become too far for 16 bits.
func TestInsnsFarJumps(t *testing.T) {
	s := newTestSession(t)
	g := &generator{Rand: rand.New(rand.NewPCG(1, 1))}
	g.emit(asm.LoadMem(asm.R1, asm.R1, 12, asm.Word)) // interface index
	g.emit(asm.Mov.Imm(asm.R0, 2))
	g.emit(asm.Mov.Imm(asm.R2, 0))
	g.here("again")
	g.emit(asm.JEq.Imm(asm.R1, 0, "out"))
	g.emit(asm.JEq.Imm(asm.R2, 1, "far"))
	g.emit(asm.Ja.Label("near"))
	g.here("far")
	g.emit(asm.Ja.Label("out"))
	g.here("near")
	for range 4200 { // each a block of four
		next := g.label()
		g.emit(asm.JEq.Imm(asm.R1, 0x7fff, next))
		g.here(next)
		g.emit(asm.Add.Imm(asm.R0, 2))
		g.emit(asm.Sub.Imm(asm.R0, 1))
		g.emit(asm.Sub.Imm(asm.R0, 1))
	}
	g.emit(asm.Add.Imm(asm.R2, 1))
	g.emit(asm.JLE.Imm(asm.R2, 1, "again"))
	g.here("out")
	g.emit(asm.Return())
	packets := ipv4(2)
	in, _ := insnsOf(t, s, assembled(g.out), bench.Benchmark{Program: "x", Packets: packets})
	// The interpreter's interface index is 0; by hand it is another.
	const want = 3 + 3 + 4200*4 + 2 + 3 + 1
	if in.Mean != want {
		t.Errorf("%v instructions, by hand %d", in.Mean, want)
	}
}
