//go:build linux

package programs

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// named loads a socket filter that passes, with its name in BTF too.
func named(t testing.TB, name string) *ebpf.Program {
	t.Helper()
	fn := &btf.Func{Name: name, Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
		Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Params: []btf.FuncParam{{Name: "skb", Type: &btf.Pointer{Target: &btf.Struct{Name: "__sk_buff"}}}},
	}}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 1).WithSymbol(name), fn), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func runs(t testing.TB, p *ebpf.Program, n int) {
	t.Helper()
	for range n {
		if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
			t.Fatal(err)
		}
	}
}

func costOf(t testing.TB, w *Watch, id uint32) *Cost {
	t.Helper()
	all, err := w.Read()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(c Cost) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func TestWatch(t *testing.T) {
	testkernel.Require(t, testkernel.BPF, testkernel.Stats)
	testkernel.NoLeaks(t)
	const long = "a_name_of_more_than_15_characters"
	old := named(t, long)
	w, err := NewWatch(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	runs(t, old, 3)
	c := costOf(t, w, testkernel.ProgramID(t, old))
	if c == nil || c.Name != long || c.Type != "socket_filter" || len(c.Tag) != 16 || c.Loaded <= 0 {
		t.Fatalf("%+v", c)
	}
	if c.Runs != 0 || c.Time != 0 || c.Over != 0 {
		t.Errorf("the first reading has nothing before it, and says %d runs in %v", c.Runs, c.Over)
	}
	if len(c.Holders) != 1 || c.Holders[0].PID != os.Getpid() || c.Holders[0].Command == "" {
		t.Errorf("held by %+v", c.Holders)
	}
	runs(t, old, 5)
	if c = costOf(t, w, testkernel.ProgramID(t, old)); c == nil || c.Runs != 5 || c.Time <= 0 || c.Over <= 0 || c.Time > c.Over {
		t.Errorf("after 5 runs: %+v", c)
	}
	// A program that is loaded in between ran what it has run.
	fresh := named(t, "fresh")
	runs(t, fresh, 7)
	w.next = w.next.AddDate(-1, 0, 0) // look for holders now
	if c = costOf(t, w, testkernel.ProgramID(t, fresh)); c == nil || c.Runs != 7 || c.Over <= 0 || c.Name != "fresh" {
		t.Errorf("after 7 runs of a new program: %+v", c)
	}
	// Watching holds nothing.
	id := testkernel.ProgramID(t, fresh)
	fresh.Close()
	if c = costOf(t, w, id); c != nil {
		t.Errorf("unloaded, and still there: %+v", c)
	}
	if len(w.known) == 0 || w.known[id].seen {
		t.Errorf("known: %+v", w.known)
	}
	if _, ok := w.known[id]; ok {
		t.Error("what was unloaded is remembered")
	}
}

// Links are holders too, and processes that hold nothing are none.
func TestHolders(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	p := named(t, "held")
	held, complete := Holders()
	if !complete || !slices.ContainsFunc(held[testkernel.ProgramID(t, p)], func(h Holder) bool { return h.PID == os.Getpid() }) {
		t.Errorf("complete %t, held by %+v", complete, held[testkernel.ProgramID(t, p)])
	}
	if held, complete = Holders(1 << 22); len(held) != 0 || !complete {
		t.Errorf("no process holds %+v", held)
	}
	if left := holdsOf(os.Getpid(), map[uint32][]Holder{}, 1); left != -1 {
		t.Errorf("stopped with %d left, not after one", left)
	}
}

func TestInfo(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	p := named(t, "a_name_of_more_than_15_characters")
	var info progInfo
	if err := info.read(p.FD()); err != nil {
		t.Fatal(err)
	}
	got := info.describe(p.FD())
	if got.Name != "a_name_of_more_than_15_characters" || got.ID != testkernel.ProgramID(t, p) {
		t.Errorf("%+v", got)
	}
	if err := info.read(0); err == nil {
		t.Error("standard input is a program")
	}
	if _, err := programFD(1<<31 - 1); err == nil {
		t.Error("there is a program of the last id")
	}
	if got := printable("a\x1b[31m\nbé\u202e"); got != "a?[31m?b??" {
		t.Errorf("%q", got)
	}
}

// BenchmarkWatch reads 500 programs. At one reading a second, 1% of a core is
// 10 ms.
func BenchmarkWatch(b *testing.B) {
	testkernel.Require(b, testkernel.BPF, testkernel.Stats)
	for i := range 500 {
		named(b, fmt.Sprintf("gate_watch_benchmark_%d", i))
	}
	w, err := NewWatch()
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Read(); err != nil {
		b.Fatal(err)
	}
	before := rusage()
	for b.Loop() {
		costs, err := w.Read()
		if err != nil || len(costs) < 500 {
			b.Fatal(len(costs), err)
		}
	}
	b.ReportMetric(float64(rusage()-before)/float64(b.N), "cpu-ns/op")
}

func rusage() int64 {
	var ru unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &ru)
	return ru.Utime.Nano() + ru.Stime.Nano()
}
