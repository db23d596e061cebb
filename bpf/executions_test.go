//go:build linux

package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// covered is what the inputs of some benchmarks execute of an object.
func covered(t *testing.T, s *Session, o *Object, benchmarks ...bench.Benchmark) []bench.ProgramCoverage {
	t.Helper()
	var all Executions
	for i, b := range benchmarks {
		b.Name = fmt.Sprint(b.Program, "/", i)
		e, err := s.Executions(b, Side{"head", o})
		if err != nil {
			t.Fatal(err)
		}
		all.Add(e)
	}
	runs, programs := all.Coverage()
	want := 0
	for _, b := range benchmarks {
		want += max(1, len(b.Packets))
	}
	if runs != uint64(want) {
		t.Errorf("%d runs of %d packets", runs, want)
	}
	return programs
}

func functionOf(t *testing.T, programs []bench.ProgramCoverage, program, name string) bench.FunctionCoverage {
	t.Helper()
	for _, p := range programs {
		for _, f := range p.Functions {
			if p.Program == program && f.Name == name {
				return f
			}
		}
	}
	t.Fatalf("no function %s of %s in %+v", name, program, programs)
	return bench.FunctionCoverage{}
}

// What inputs reach adds up over benchmarks; what they do not reach is 0 and there.
func TestCoverage(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/insns.bpf.c")
	packet := func(n byte) [][]byte { return [][]byte{frame(0x0800, n)} }
	none := covered(t, s, o, bench.Benchmark{Program: "xdp_tail", Packets: packet(0)})
	if f := functionOf(t, none, "xdp_callee", "step"); f.Calls != 0 || f.Reached != 0 || f.Size == 0 || f.Line == 0 || len(f.Lines) == 0 {
		t.Errorf("not called: %+v", f)
	}
	both := covered(t, s, o, bench.Benchmark{Program: "xdp_tail", Packets: packet(0)}, bench.Benchmark{Program: "xdp_tail", Packets: packet(1)}, bench.Benchmark{Program: "xdp_sub", Packets: packet(9)})
	if f := functionOf(t, both, "xdp_callee", "step"); f.Calls != 1 || f.Reached != f.Size || f.BlocksReached != f.Blocks {
		t.Errorf("called by the second: %+v", f)
	}
	if f := functionOf(t, both, "xdp_tail", "xdp_tail"); f.Calls != 2 {
		t.Errorf("entered twice: %+v", f)
	}
	step := functionOf(t, both, "xdp_sub", "step")
	for _, l := range step.Lines {
		if strings.Contains(l.Text, "asm volatile") && l.Executions != 9 {
			t.Errorf("called 9 times: %+v", l)
		}
	}
	lock := functionOf(t, covered(t, s, o, bench.Benchmark{Program: "xdp_lock", Packets: packet(2)}), "xdp_lock", "xdp_lock")
	if lock.Reached >= lock.Size || lock.Insns == 0 {
		t.Errorf("of an even number, all is reached: %+v", lock)
	}
	ways := 0
	for _, b := range lock.Branches {
		if !b.Known || b.Taken+b.Not > 1 {
			t.Errorf("a branch of one run: %+v", b)
		}
		ways += int(b.Taken + b.Not)
	}
	if ways == 0 {
		t.Errorf("no branch went any way: %+v", lock.Branches)
	}
}

// What a timer or a work queue does runs by itself, and is no part of the run that
// started it.
func TestBackground(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/insns.bpf.c")
	for program, callback := range map[string]string{"xdp_ticking": "tock", "sys_queue": "work"} {
		t.Run(program, func(t *testing.T) {
			l, err := o.Load(program, LoadOptions{})
			if err != nil {
				t.Skipf("this kernel does not take it: %v", err)
			}
			l.Close()
			b := bench.Benchmark{Program: program, Packets: ipv4(20)}
			if program == "sys_queue" {
				b.Packets = nil
			}
			in, all := insnsOf(t, s, o, b)
			total := 0.0
			for _, f := range in.Functions {
				total += f.Insns
				if f.Name != program && (f.Calls != 0 || f.Insns != 0) {
					t.Errorf("%+v is counted", f)
				}
			}
			if all.Noise != "" || total != in.Mean || in.Mean < 10 {
				t.Errorf("%v instructions, %v in functions, %q", in.Mean, total, all.Noise)
			}
			// It did run, in some load: at once, on this or another processor.
			for end := time.Now().Add(30 * time.Second); ; {
				programs := covered(t, s, o, b)
				back, step := functionOf(t, programs, program, callback), functionOf(t, programs, program, "step")
				if !back.Background || !step.Background || functionOf(t, programs, program, program).Background {
					t.Fatalf("%+v, %+v", back, step)
				}
				if back.Calls > 0 && step.Calls > 0 {
					break
				}
				if time.Now().After(end) {
					t.Skipf("%s never ran before its program was gone", callback)
				}
			}
		})
	}
}

// What differs between two objects, and whether anything of it is executed.
func TestChanges(t *testing.T) {
	s := newTestSession(t)
	const source = `#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
static __attribute__((noinline)) int odd(int n) {
	asm volatile("%0 += 1" : "+r"(n));
	return n;
}
static __attribute__((noinline)) int even(int n) {
	asm volatile("%0 += 2" : "+r"(n));
	return n;
}
SEC("xdp") int x(struct xdp_md *ctx) {
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 30 > end)
		return XDP_ABORTED;
	if (data[29] & 1)
		return odd(1);
	return even(2);
}
char _license[] SEC("license") = "GPL";
`
	object := func(edits ...string) *Object {
		t.Helper()
		src := filepath.Join(t.TempDir(), "t.bpf.c")
		if err := os.WriteFile(src, []byte(strings.NewReplacer(edits...).Replace(source)), 0o600); err != nil {
			t.Fatal(err)
		}
		return compile(t, src)
	}
	executed := func(o *Object) *Executions {
		t.Helper()
		in, err := s.Insns(bench.Benchmark{Name: "x/even", Program: "x", Packets: [][]byte{frame(0x0800, 2)}}, Side{"head", o})
		if err != nil {
			t.Fatal(err)
		}
		return in.Sides[0].Executed
	}
	base := object()
	was := executed(base)
	for _, tt := range []struct {
		name              string
		edits             []string
		differs           bool
		reached, executed bool
		lines             []string
	}{
		{"nothing", nil, false, false, false, nil},
		{"comments and a name", []string{"even(int n)", "even(int n) /* of two */"}, false, false, false, nil},
		{"what is executed", []string{"+= 2", "+= 4"}, true, true, true, nil},
		{"what is not", []string{"+= 1", "+= 3"}, true, false, false, []string{`4 +asm volatile("%0 += 3" : "+r"(n));`, `4 -asm volatile("%0 += 1" : "+r"(n));`}},
		{"a line more", []string{"return n;\n}\nstatic", "asm volatile(\"%0 ^= 1\" : \"+r\"(n));\n\treturn n;\n}\nstatic"}, true, false, false, []string{`5 +asm volatile("%0 ^= 1" : "+r"(n));`}},
		{"a function that is called", []string{"even", "two"}, true, true, true, nil},
	} {
		o := object(tt.edits...)
		if same := base.SameInstructions(o, "x"); same == tt.differs {
			t.Errorf("%s: the same instructions: %v", tt.name, same)
		}
		changes := Changes(was, executed(o), false)
		if !tt.differs {
			if len(changes) != 0 {
				t.Errorf("%s: %+v", tt.name, changes)
			}
			continue
		}
		var lines []string
		for _, c := range changes {
			for _, l := range c.Lines {
				lines = append(lines, fmt.Sprintf("%d %s%s", l.Line, map[bool]string{true: "-", false: "+"}[l.Removed], l.Text))
			}
		}
		if len(changes) != 1 || changes[0].Program != "x" || changes[0].Reached != tt.reached || changes[0].Executed != tt.executed || !slices.Equal(lines, tt.lines) {
			t.Errorf("%s: %+v\nlines %q, want %q", tt.name, changes, lines, tt.lines)
		}
	}
	// Without line information, instructions tell.
	plain := func(o *Object) *Object {
		p := o.spec.Programs["x"]
		for i := range p.Instructions {
			p.Instructions[i] = p.Instructions[i].WithSource(nil)
		}
		return o
	}
	changes := Changes(executed(plain(object())), executed(plain(object("+= 1", "+= 3"))), false)
	if len(changes) != 1 || changes[0].Executed || changes[0].Reached || len(changes[0].Lines) == 0 || changes[0].Lines[0].Function != "odd" {
		t.Errorf("without lines: %+v", changes)
	}
}

// Jump tables are newer than what loads objects here: they are told as what they are,
// whether the object has a section of them or only the jump.
func TestJumpTables(t *testing.T) {
	const program = "SEC(\"xdp\") int x(struct xdp_md *c) { asm volatile(\"LOAD .byte 0x0d, 0x01, 0, 0, 0, 0, 0, 0\" ::: \"r1\"); return 2; }\n"
	const table = "asm(\".section .jumptables,\\\"\\\",@progbits\\nTABLE:\\n .quad 8\\n.text\\n\");\n"
	o := compileForTest(t, strings.Replace(program, "LOAD", "", 1))
	if _, err := o.instrument("x"); err == nil || !strings.Contains(err.Error(), "is an indirect jump (a jump table)") {
		t.Errorf("instrumented: %v", err)
	}
	file := compileFile(t, strings.Replace(program, "LOAD", "r1 = TABLE ll\\n", 1)+table)
	if _, err := OpenObject(file); err == nil || !strings.Contains(err.Error(), "has jump tables (Linux 6.19, clang 22), which this version of gate cannot load; compile with -mcpu=v3 or -fno-jump-tables") {
		t.Errorf("opened: %v", err)
	}
}

// Lines are told apart by a longest common subsequence, and what the compiler did to
// them by where they stand. A word is a line that has code, "-" one that has none.
func TestDifference(t *testing.T) {
	lines := func(s string) (out []*lineTotal) {
		for i, text := range strings.Fields(s) {
			if text != "-" {
				out = append(out, &lineTotal{lineKey: lineKey{file: "x.c", line: uint32(i + 1), function: "fn"}, text: "\t" + text})
			}
		}
		return out
	}
	for _, tt := range []struct{ name, a, b, gone, came string }{
		{"nothing", "", "", "", ""},
		{"the same", "a b c", "a b c", "", ""},
		{"a line more", "a b c", "a x b c", "", "2x"},
		{"a line less", "a b c", "a c", "2b", ""},
		{"another line", "a b c", "a d c", "2b", "2d"},
		{"one like others", "return return", "return return return", "", "3return"},
		{"two that change places", "a b c d e", "a c b d e", "2b", "3b"},
		{"all gone", "a b", "", "1a 2b", ""},
		{"all new", "", "a b", "", "1a 2b"},
		{"further down", "a b c", "- - a b c", "", ""},
		// The compiler's doing.
		{"a line without code now", "a b c", "a - c", "", ""},
		{"a line with code now", "a - c", "a b c", "", ""},
		{"another line, and one without code now", "a b c d", "a - x d", "3c", "3x"},
		{"a line more, and one without code now", "a b - c", "a - - x c", "", "4x"},
		{"a line less, and one with code now", "a - x c", "a b c", "3x", ""},
		{"a function's opening line", "fn(int a b", "- a b x", "", "4x"},
		{"a brace", "a } b", "a b", "", ""},
		{"one line made two", "a b c", "a x y c", "2b", "2x 3y"},
	} {
		var gone, came []*lineTotal
		for _, r := range difference(lines(tt.a), lines(tt.b)) {
			r = r.compilers()
			gone, came = append(gone, r.gone...), append(came, r.came...)
		}
		words := func(lines []*lineTotal) string {
			var s []string
			for _, l := range lines {
				s = append(s, fmt.Sprintf("%d%s", l.line, strings.TrimSpace(l.text)))
			}
			return strings.Join(s, " ")
		}
		if g, c := words(gone), words(came); g != tt.gone || c != tt.came {
			t.Errorf("%s: %q to %q: gone %q, came %q; want %q and %q", tt.name, tt.a, tt.b, g, c, tt.gone, tt.came)
		}
	}
}
