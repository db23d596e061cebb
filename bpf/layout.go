//go:build linux

package bpf

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Where the JIT puts a program is the biggest leak of a comparison: a loop that
// happens to cross a cache line may be a third slower, and code that is never
// executed moves everything behind it. That is a real difference in time, it is
// nobody's regression, and more rounds of the same two layouts do not make it go
// away.
//
// So every round is measured in another layout, the same for all sides, and the
// estimate is an average over layouts, as Stabilizer's is for user space (Curtsinger
// and Berger, ASPLOS 2013). A program is loaded with two blocks of code that is
// never executed:
//
//	entry:  if fp != 1 goto body    never equal, and the verifier does not decide it
//	        front                   moves body to where the round wants it
//	        goto tail
//	body:   …
//	tail:   …                       fills the program up to a full 64 bytes
//	        return 0
//
// The kernel draws the start of a program from the room that is left in its last
// 64 bytes (bpf_jit_binary_pack_alloc, 33c9805860e5, Linux 5.18), so tail leaves
// as little as it can: four places. A load that starts elsewhere than the other
// side's is made again. What is executed for all this is one jump at the entry,
// on every side.

// A layout is where a round wants a program's code.
type layout struct {
	front, tail int // bytes of code that is never executed
	// rng draws the padding behind subprograms and tail-called programs, which
	// are placed by themselves.
	rng *rand.Rand
}

// cacheLine is what layouts repeat after, in bytes; packSlack is what the kernel
// adds to a program's length before it rounds up: header and trap instructions.
const (
	cacheLine = 64
	packSlack = 8 + 16
)

// fillers returns instructions of so many bytes of machine code, or false where
// the JIT of this architecture has none of that length. They only write R0.
func fillers(n int) (asm.Instructions, bool) {
	var out asm.Instructions
	add := func(ins asm.Instruction, size int) {
		out, n = append(out, ins), n-size
	}
	switch runtime.GOARCH {
	case "amd64":
		// mov $1,%eax is 5 bytes, mov %rbp,%rax 3, xor %eax,%eax 2.
		if n == 1 {
			return nil, false
		}
		for n >= 7 || n == 5 {
			add(asm.Mov.Imm32(asm.R0, 1), 5)
		}
		for ; n%2 == 1; n -= 3 {
			out = append(out, asm.Mov.Reg(asm.R0, asm.RFP))
		}
		for n > 0 {
			add(asm.Mov.Imm(asm.R0, 0), 2)
		}
		return out, true
	case "arm64":
		if n%4 != 0 {
			return nil, false
		}
		for n > 0 {
			add(asm.Mov.Imm32(asm.R0, 1), 4)
		}
		return out, true
	}
	return nil, false
}

// fit is the fewest bytes, n or n and whole cache lines, that fillers can make.
func fit(n int) (int, bool) {
	for _, m := range []int{n, n + cacheLine} {
		if _, ok := fillers(m); ok {
			return m, true
		}
	}
	return 0, false
}

// apply lays the program out; its callees get a random tail each.
func (y layout) apply(spec *ebpf.ProgramSpec) {
	var out asm.Instructions
	insns := spec.Instructions
	for start := 0; start < len(insns); {
		end := start + 1
		for end < len(insns) && btf.FuncMetadata(&insns[end]) == nil {
			end++
		}
		front, tail := y.front, y.tail
		if start > 0 {
			front, tail = 0, y.draw()
		}
		out = append(out, layOut(insns[start:end], front, tail)...)
		start = end
	}
	spec.Instructions = out
}

// draw is a random length of code for which there are fillers.
func (y layout) draw() int {
	n, _ := fit(y.rng.IntN(cacheLine))
	return n
}

func layOut(insns asm.Instructions, front, tail int) asm.Instructions {
	before, _ := fillers(front)
	behind, _ := fillers(tail)
	length := 0
	for i := range insns {
		length += int(insns[i].Size()) / asm.InstructionSize
	}
	const far = 1 << 15 // what a jump reaches
	if length >= far {
		return insns
	}
	entry, first := enter(insns[0], asm.Instruction{OpCode: asm.JNE.Op(asm.ImmSource), Dst: asm.RFP, Constant: 1, Offset: int16(len(before) + 1)})
	out := append(make(asm.Instructions, 0, len(insns)+len(before)+len(behind)+4), entry)
	out = append(out, before...)
	out = append(out, asm.Instruction{OpCode: asm.Ja.Op(asm.ImmSource), Offset: int16(length)}, first)
	out = append(out, insns[1:]...)
	out = append(out, behind...)
	return append(out, asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// enter puts an instruction in front of the first one of a function. Symbol and
// function go over to it. Jumps within the function are relative, and those to
// its first instruction still reach that.
func enter(first, ins asm.Instruction) (entry, rest asm.Instruction) {
	entry = ins.WithSymbol(first.Symbol()).WithSource(first.Source())
	if f := btf.FuncMetadata(&first); f != nil {
		entry = btf.WithFuncMetadata(entry, f)
		first = btf.WithFuncMetadata(first, nil)
	}
	return entry, first.WithSymbol("")
}

// Shifted is the object with its code moved by n bytes (0 to 63) in every layout,
// against where the other sides have theirs: as an edit of code that is never
// executed moves it, and without executing anything for it.
func (o *Object) Shifted(n int) *Object {
	s := *o
	s.shift = n
	return &s
}

// Twin is the object with n more instructions at the entry of the program that
// are never executed: an edit of cold code. All that it can change is where the
// program's code lies, so a difference between an object and its twin is one of
// layout. Both execute the same instructions where both are twins.
func (o *Object) Twin(program string, n int) *Object {
	twin := &Object{Path: o.Path, spec: o.spec.Copy(), programs: o.programs}
	p := twin.spec.Programs[program]
	if p == nil {
		return twin
	}
	n = max(1, n)
	entry, first := enter(p.Instructions[0], asm.Instruction{OpCode: asm.JNE.Op(asm.ImmSource), Dst: asm.RFP, Constant: 1, Offset: int16(n)})
	out := asm.Instructions{entry}
	for range n {
		out = append(out, asm.Mov.Imm32(asm.R0, 1))
	}
	p.Instructions = append(append(out, first), p.Instructions[1:]...)
	return twin
}

// A placer loads one side in the layouts that the rounds want.
type placer struct {
	// code is how long the machine code is without front and tail, in bytes, found
	// by loading once; 0: not known yet. tails by front follow from it.
	code  int
	tails map[int]int
	// fastest is the shortest time that a load took.
	fastest time.Duration
	// hopeless tells that layouts cannot be had: an unknown JIT, unreadable
	// lengths, or a program too long. Loads are then padded at random.
	hopeless bool
}

// place loads one side with its body at phase, and starting at offset start of
// its cache line; start -1 takes what comes, and tells it.
func (m *Micro) place(side, phase, start int) (t *target, at int, err error) {
	if t, at, err = m.lay(side, phase, start); err != nil {
		return nil, -1, err
	}
	if err := m.addDrains(t); err != nil {
		return nil, -1, err
	}
	return t, at, nil
}

// lay is place without the drainers, which only the load that stays needs.
func (m *Micro) lay(side, phase, start int) (t *target, at int, err error) {
	p := &m.placers[side]
	if m.s.Unpadded || m.byLoader() {
		t, err = m.loadAt(side, nil)
		return t, -1, err
	}
	y := layout{rng: m.rng}
	front, ok := fit((phase + m.sides[side].Object.shift) % cacheLine)
	if ok && !p.hopeless {
		y.front = front
		if y.tail, err = m.tail(side, p, y); err != nil {
			return nil, -1, err
		}
	}
	if !ok || p.hopeless {
		y = layout{rng: m.rng, tail: layout{rng: m.rng}.draw()}
		t, err = m.loadAt(side, &y)
		return t, -1, err
	}
	for try := 0; ; try++ {
		if err := m.s.stopped(); err != nil {
			return nil, -1, err
		}
		if t, err = m.timed(side, y); err != nil {
			return nil, -1, err
		}
		at = t.load.offset()
		if start < 0 || at == start || at < 0 || try >= m.retries() {
			return t, at, nil
		}
		t.close()
	}
}

// retryTime is what a load may be made again for, in every round, to start where the
// other side's does.
const retryTime = 40 * time.Millisecond

// retries is how often a load may be made again. Each try hits one of four places;
// before Linux 5.18, one of sixteen. A program of 100,000 verified instructions takes
// 100 ms to load: with 24 retries it was given fewer than ten rounds, which decide
// nothing, and so it is taken where it comes to lie.
//
// The number is the same for all sides of a round, that of the one which is slowest to
// load: otherwise base and head would not be drawn alike. The shortest time is that
// without the host's other work.
func (m *Micro) retries() int {
	const most = 24
	slowest := time.Duration(0)
	for i := range m.placers {
		slowest = max(slowest, m.placers[i].fastest)
	}
	if slowest == 0 {
		return most
	}
	return int(min(most, retryTime/slowest))
}

// timed loads one side, and notes how long that took.
func (m *Micro) timed(side int, y layout) (*target, error) {
	start := time.Now()
	t, err := m.loadAt(side, &y)
	p := &m.placers[side]
	if d := time.Since(start); err == nil && (p.fastest == 0 || d < p.fastest) {
		p.fastest = d
	}
	return t, err
}

// tail is the length of the tail block that leaves the start of the program the
// fewest places.
func (m *Micro) tail(side int, p *placer, y layout) (int, error) {
	if n, ok := p.tails[y.front]; ok {
		return n, nil
	}
	if p.code == 0 {
		t, err := m.timed(side, y)
		if err != nil {
			return 0, err
		}
		defer t.close()
		n := t.load.length()
		if n <= y.front {
			p.hopeless = true
			return 0, nil
		}
		p.code = n - y.front
	}
	// What fillers make has the length that they say, and the jump over front is a
	// short one, so that the code is as long in every layout.
	n, ok := fit((cacheLine - (p.code+y.front+packSlack)%cacheLine) % cacheLine)
	if !ok {
		p.hopeless = true
		return 0, nil
	}
	if p.tails == nil {
		p.tails = make(map[int]int)
	}
	p.tails[y.front] = n
	return n, nil
}

// phase is where the next round wants the code within a cache line. Sixteen
// rounds visit all sixteenths of it, in random order, so that few rounds are
// already an average over layouts.
func (m *Micro) phase() int {
	const step = 4
	if len(m.phases) == 0 {
		m.phases = m.rng.Perm(cacheLine / step)
	}
	n := m.phases[0] * step
	m.phases = m.phases[1:]
	if runtime.GOARCH == "amd64" {
		n += m.rng.IntN(step)
	}
	return n
}
