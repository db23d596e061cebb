//go:build linux

package bpf

import (
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// insnsOf counts one program on packets.
func insnsOf(t *testing.T, s *Session, o *Object, b bench.Benchmark) (SideInsns, *Insns) {
	t.Helper()
	b.Name = b.Program + "/" + t.Name()
	in, err := s.Insns(b, Side{"head", o})
	if err != nil {
		t.Fatal(err)
	}
	return in.Sides[0], in
}

// assembled is an object with one XDP program.
func assembled(insns asm.Instructions) *Object {
	insns[0] = insns[0].WithSymbol("x")
	return &Object{Path: "assembled", spec: &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{},
		Programs: map[string]*ebpf.ProgramSpec{"x": {
			Name: "x", Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "GPL", Instructions: insns,
		}},
		ByteOrder: nativeOrder(),
	}}
}

func everyAddress() [][]byte {
	var all [][]byte
	for i := range 256 {
		all = append(all, frame(0x0800, byte(i)))
	}
	return all
}

// The example's programs, against an interpreter.
func TestInsnsExample(t *testing.T) {
	s := newTestSession(t)
	packets := everyAddress()
	for version, worst := range map[string]uint64{"v1_basic": 26, "v2_fizzbuzz": 46, "v3_fibonacci": 3479, "v4_lookup": 57} {
		o := compile(t, "../examples/fun-xdp/"+version+".bpf.c")
		in, _ := insnsOf(t, s, o, bench.Benchmark{Program: "fun_xdp", Packets: packets, Drain: []string{"SOURCE_ADDR_QUEUE"}})
		checkInterpreted(t, o.spec.Programs["fun_xdp"].Instructions, packets, in)
		t.Logf("%s: %v on average, at most %d (packet %d)", version, in.Mean, in.Worst, in.WorstPacket)
		if in.Worst != worst {
			t.Logf("%s: clang 14's code takes %d for the worst packet", version, worst)
		}
		lines := 0.0
		for _, l := range in.Lines {
			lines += l.Insns
		}
		if d := lines - in.Mean; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s: lines have %v instructions of %v", version, lines, in.Mean)
		}
	}
}

// checkInterpreted holds counts against an interpreter's.
func checkInterpreted(t *testing.T, insns asm.Instructions, packets [][]byte, in SideInsns) {
	t.Helper()
	var total, worst uint64
	for i, p := range packets {
		_, run, err := interpret(insns, p)
		if err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		total, worst = total+run.count, max(worst, run.count)
	}
	if want := float64(total) / float64(len(packets)); in.Mean != want || in.Worst != worst || in.Packets != len(packets) {
		t.Errorf("%v on average, at most %d, of %d packets; an interpreter counts %v and %d", in.Mean, in.Worst, in.Packets, want, worst)
	}
}

// Counted by hand.
func TestInsnsByHand(t *testing.T) {
	s := newTestSession(t)
	for _, tt := range []struct {
		name  string
		insns asm.Instructions
		want  float64
	}{
		{"straight", asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, 2},
		{"a 64-bit constant is one", asm.Instructions{asm.LoadImm(asm.R0, 1<<40+2, asm.DWord), asm.Return()}, 2},
		{"reference", Reference().spec.Programs[ReferenceProgram].Instructions, 7 + 24*3 + 3},
		{"loop", asm.Instructions{
			asm.Mov.Imm(asm.R0, 0),
			asm.Add.Imm(asm.R0, 1).WithSymbol("again"),
			asm.JLT.Imm(asm.R0, 10, "again"),
			asm.Return(),
		}, 1 + 10*2 + 1},
		{"code that is jumped over", asm.Instructions{
			asm.LoadMem(asm.R1, asm.R1, 0, asm.Word),
			asm.Mov.Imm(asm.R0, 2),
			asm.JEq.Imm(asm.R1, 0, "never"),
			asm.Ja.Label("out"),
			asm.Mov.Imm(asm.R0, 1).WithSymbol("never"),
			asm.Return().WithSymbol("out"),
		}, 5},
		{"may_goto", asm.Instructions{
			asm.Mov.Imm(asm.R0, 0),
			asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JCOND), Offset: 2},
			asm.Add.Imm(asm.R0, 1),
			asm.JLT.Imm(asm.R0, 5, "again"),
			asm.Return(),
		}, 1 + 5*3 + 1},
		{"no register is free", pressure(8), 10 + 1 + 2*5 + 9 + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "may_goto" {
				testkernel.Require(t, testkernel.BPF)
				needsLinux(t, 6, 9)
				tt.insns[1] = tt.insns[1].WithSymbol("again")
			}
			in, _ := insnsOf(t, s, assembled(tt.insns), bench.Benchmark{Program: "x", Packets: ipv4(2)})
			if in.Mean != tt.want || in.Worst != uint64(tt.want) {
				t.Errorf("%v, at most %d; by hand %v", in.Mean, in.Worst, tt.want)
			}
		})
	}
}

// pressure is a program with a loop in which all ten registers hold something
// that is read at its end, and with so many bytes of stack in use.
func pressure(stack int) asm.Instructions {
	var insns asm.Instructions
	for r := asm.R0; r <= asm.R9; r++ {
		insns = append(insns, asm.Mov.Imm(r, int32(r)))
	}
	insns = append(insns,
		asm.StoreImm(asm.RFP, -int16(stack), 0, asm.Byte),
		asm.Add.Imm(asm.R0, 1).WithSymbol("again"),
		asm.JLT.Imm(asm.R0, 5, "again"),
	)
	for r := asm.R1; r <= asm.R9; r++ {
		insns = append(insns, asm.Add.Reg(asm.R0, r))
	}
	return append(insns, asm.Return())
}

// A program that leaves neither registers nor stack says so.
func TestInsnsNoRoom(t *testing.T) {
	s := newTestSession(t)
	for stack, ok := range map[int]bool{1: true, 496: true, 497: false, 512: false} {
		_, err := s.Insns(bench.Benchmark{Name: "x/y", Program: "x", Packets: ipv4(1)}, Side{"head", assembled(pressure(stack))})
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "no register is free and the stack is full") {
			t.Errorf("%d bytes of stack: %v", stack, err)
		}
	}
}

// Whatever calls them: functions run as often as the kernel calls them.
func TestInsnsCalls(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/insns.bpf.c")
	for _, tt := range []struct {
		program, function string
		n                 byte
		calls             float64
	}{
		{"xdp_sub", "step", 9, 9},
		{"xdp_loop", "once", 11, 11},
		{"xdp_each", "each", 0, 4},
		{"xdp_lock", "xdp_lock", 3, 1},
		{"xdp_iter", "step", 6, 6},
		{"xdp_tail", "xdp_callee", 1, 1},
		{"xdp_tail", "xdp_callee", 0, 0},
		{"xdp_timer", "tick", 0, 0},
		{"sys_loop", "once", 0, 7},
		{"sys_kptr", "step", 0, 1},
		{"xdp_dynptr", "step", 5, 5},
		{"xdp_throw", "maybe", 2, 1},
		{"xdp_throw", "maybe", 3, 1},
	} {
		t.Run(tt.program, func(t *testing.T) {
			l, err := o.Load(tt.program, LoadOptions{})
			if err != nil {
				t.Skipf("this kernel does not take it: %v", err)
			}
			l.Close()
			b := bench.Benchmark{Program: tt.program, Packets: [][]byte{frame(0x0800, tt.n)}}
			in, _ := insnsOf(t, s, o, b)
			t.Logf("%v insns: %v, calls %v", in.Mean, in.Functions, in.Counts)
			found := false
			total := 0.0
			for _, f := range in.Functions {
				total += f.Insns
				if f.Name == tt.function {
					if found = true; f.Calls != tt.calls {
						t.Errorf("%s was called %v times, want %v", f.Name, f.Calls, tt.calls)
					}
				}
			}
			if !found || total != in.Mean {
				t.Errorf("functions %v have %v of %v instructions", in.Functions, total, in.Mean)
			}
		})
	}
}

// What is not exact says so, and names what makes it so: the call that decides, and
// no other.
func TestInsnsNotExact(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/insns.bpf.c")
	for program, want := range map[string]string{
		"xdp_random":  "it uses bpf_get_prandom_u32 (insns.bpf.c:",
		"xdp_sampled": "it uses bpf_get_prandom_u32 (insns.bpf.c:",
		"xdp_late":    "it uses bpf_ktime_get_ns (insns.bpf.c:",
		"xdp_often":   "it uses bpf_get_prandom_u32 (insns.bpf.c:",
	} {
		in, err := s.Insns(bench.Benchmark{Name: "x/y", Program: program, Packets: ipv4(40)}, Side{"head", o})
		if err != nil {
			t.Errorf("%s: %v", program, err)
			continue
		}
		if !strings.HasPrefix(in.Noise, "head: two loads of the same executed ") || !strings.Contains(in.Noise, want) || strings.Count(in.Noise, "bpf_") != 1 {
			t.Errorf("%s: %q, want %q and no other helper", program, in.Noise, want)
		}
	}
	// Answers at random, and executes always the same.
	if in, all := insnsOf(t, s, o, bench.Benchmark{Program: "xdp_whim", Packets: ipv4(3)}); all.Noise != "" || in.Mean != 2 {
		t.Errorf("xdp_whim: %v instructions, %q", in.Mean, all.Noise)
	}
	in, all := insnsOf(t, s, o, bench.Benchmark{Program: "xdp_stateful", Packets: ipv4(3)})
	if len(all.Warnings) != 1 || !strings.Contains(all.Warnings[0], "those of the first pass") {
		t.Errorf("warnings %q of %v", all.Warnings, in)
	}
	warm, all := insnsOf(t, s, o, bench.Benchmark{Program: "xdp_stateful", Packets: ipv4(3), Warm: 1})
	if len(all.Warnings) != 0 || warm.Mean >= in.Mean {
		t.Errorf("warmed: %v, cold: %v; warnings %q", warm.Mean, in.Mean, all.Warnings)
	}
}

// Two loads may by chance execute every block as often, for other packets.
func TestSuspectsOfEqualCounts(t *testing.T) {
	in, err := compile(t, "testdata/insns.bpf.c").instrument("xdp_late")
	if err != nil {
		t.Fatal(err)
	}
	all := make([]uint64, in.counters)
	for i := range all {
		all[i] = 40
	}
	if got := in.suspects(all, all); !strings.Contains(got, "bpf_ktime_get_ns (insns.bpf.c:") || strings.Count(got, "bpf_") != 1 {
		t.Errorf("suspects %q, want bpf_ktime_get_ns alone", got)
	}
}

// One more instruction on the path is one more for each of its executions.
func TestInsnsOneMore(t *testing.T) {
	s := newTestSession(t)
	program := func(more bool) *Object {
		insns := asm.Instructions{
			asm.LoadMem(asm.R1, asm.R1, 12, asm.Word),
			asm.Mov.Imm(asm.R0, 0),
			asm.Add.Imm(asm.R0, 1).WithSymbol("again"),
		}
		if more {
			insns = append(insns, asm.Xor.Imm(asm.R1, 0))
		}
		return assembled(append(insns, asm.JLT.Imm(asm.R0, 37, "again"), asm.Return()))
	}
	in, err := s.Insns(bench.Benchmark{Name: "x/y", Program: "x", Packets: ipv4(3)}, Side{"base", program(false)}, Side{"head", program(true)})
	if err != nil {
		t.Fatal(err)
	}
	if base, head := in.Sides[0].Mean, in.Sides[1].Mean; base != 2+2*37+1 || head-base != 37 {
		t.Errorf("base %v, head %v, want %d and 37 more", base, head, 2+2*37+1)
	}
}

// Loads from the packet that end the program when they fail, as classic filters
// make them.
func TestInsnsLegacyLoads(t *testing.T) {
	s := newTestSession(t)
	for at, want := range map[int32]float64{0: 5, 10_000: 3, -1: 5, -10_000: 3} {
		load := asm.LoadAbs(at, asm.Byte)
		if at < 0 {
			load = asm.LoadInd(asm.R0, asm.R2, -at, asm.Byte)
		}
		o := assembled(asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.Mov.Imm(asm.R2, 0),
			load,
			asm.Mov.Imm(asm.R0, 5),
			asm.Return(),
		})
		o.spec.Programs["x"].Type, o.spec.Programs["x"].AttachType = ebpf.SocketFilter, ebpf.AttachNone
		in, _ := insnsOf(t, s, o, bench.Benchmark{Program: "x", Packets: ipv4(1)})
		if in.Mean != want {
			t.Errorf("load at %d: %v instructions, by hand %v", at, in.Mean, want)
		}
	}
}

// Equal to the digit, on busy cores, in sessions of other seeds, and where the
// order of a hash map matters.
func TestInsnsRepeated(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.TestRun, testkernel.Net)
	testkernel.NoLeaks(t)
	v3, own := compile(t, "../examples/fun-xdp/v3_fibonacci.bpf.c"), compile(t, "testdata/insns.bpf.c")
	for range runtime.NumCPU() {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		}()
	}
	var first []SideInsns
	for i := range 20 {
		s, err := NewSession(uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		fib, _ := insnsOf(t, s, v3, bench.Benchmark{Program: "fun_xdp", Packets: everyAddress()[240:], Drain: []string{"SOURCE_ADDR_QUEUE"}})
		order, _ := insnsOf(t, s, own, bench.Benchmark{Program: "xdp_order", Packets: ipv4(1)})
		s.Close()
		if now := []SideInsns{fib, order}; first == nil {
			first = now
		} else if !reflect.DeepEqual(first, now) {
			t.Fatalf("repetition %d: %v, at first %v", i, now, first)
		}
	}
	t.Logf("20 × %v and %v", first[0].Mean, first[1].Mean)
}

// However the program is driven, the number is the same.
func TestInsnsPaths(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/types.bpf.c")
	for _, program := range []string{"xdp_parity", "tc_protocol"} {
		b := bench.Benchmark{Program: program, Packets: ipv4(3)}
		driven, _ := insnsOf(t, s, o, b)
		b.KeepPacket = true
		kept, _ := insnsOf(t, s, o, b)
		if !reflect.DeepEqual(driven, kept) {
			t.Errorf("%s: by the driver %+v, without %+v", program, driven, kept)
		}
	}
	for _, program := range []string{"xdp_encap", "xdp_shrink", "xdp_frags", "tc_encap", "socket_len", "cgroup_pass", "lwt_pass", "dissect", "lookup", "filter", "raw_switch", "sys"} {
		if program == "filter" && thisHost().kernel().less(version{6, 4}) {
			continue // Linux 6.4 has them
		}
		b := bench.Benchmark{Program: program, Packets: ipv4(3)}
		if strings.HasPrefix(o.Type(program), "raw") || program == "lookup" || program == "sys" {
			b.Packets = nil
		}
		in, all := insnsOf(t, s, o, b)
		t.Logf("%s: %v %v", program, in.Mean, all.Warnings)
		if in.Mean < 2 {
			t.Errorf("%s: %v instructions", program, in.Mean)
		}
	}
}

// What the verifier cannot take with counters is told in its words.
func TestInsnsRejected(t *testing.T) {
	if testing.Short() {
		t.Skip("a million instructions in the verifier")
	}
	s := newTestSession(t)
	o := assembled(asm.Instructions{
		asm.Mov.Imm(asm.R0, 0),
		asm.Add.Imm(asm.R0, 1).WithSymbol("again"),
		asm.JLT.Imm(asm.R0, 300_000, "again"),
		asm.Return(),
	})
	_, err := s.Insns(bench.Benchmark{Name: "x/y", Program: "x", Packets: ipv4(1)}, Side{"head", o})
	const want = "executed instructions of head: this kernel rejects the program with its counters: the verifier would have to process more than 1,000,000 instructions"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// Calls and operations on maps, by hand.
func TestInsnsCounts(t *testing.T) {
	s := newTestSession(t)
	o := compile(t, "testdata/insns.bpf.c")
	for program, want := range map[string]map[string]float64{
		"xdp_maps": {
			"calls[bpf_map_lookup_elem]": 4, "calls[bpf_map_update_elem]": 1, "calls[bpf_map_delete_elem]": 1,
			"calls[bpf_map_push_elem]": 3, "calls[bpf_map_pop_elem]": 1, "calls[bpf_ringbuf_output]": 2,
			"map_lookup[four]": 1, "map_lookup[outer]": 1, "map_lookup[inner of outer]": 1, "map_lookup[unknown map]": 1,
			"map_update[seen]": 1, "map_update[backlog]": 3, "map_delete[seen]": 1, "map_delete[backlog]": 1, "map_output[events]": 2,
		},
		"xdp_order": {"calls[bpf_map_update_elem]": 48, "calls[bpf_for_each_map_elem]": 1, "map_update[seen]": 48},
		"xdp_tail":  {"calls[bpf_tail_call]": 1},
	} {
		in, _ := insnsOf(t, s, o, bench.Benchmark{Program: program, Packets: ipv4(1), Drain: drains(program)})
		got := map[string]float64{}
		for _, n := range in.Counts {
			got[n.Measure] = n.Mean
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\nwant %v", program, got, want)
		}
	}
}

func drains(program string) []string {
	if program == "xdp_maps" {
		return []string{"backlog", "events"}
	}
	return nil
}
