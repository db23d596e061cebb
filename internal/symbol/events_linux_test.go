package symbol

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// Of a process that nobody could look at, what was told of it gives names.
func TestEvents(t *testing.T) {
	text, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	maps, err := parseMaps(text)
	if err != nil {
		t.Fatal(err)
	}
	pc := uint64(reflect.ValueOf(TestEvents).Pointer())
	self := find(maps, pc)
	if self == nil {
		t.Fatal("this function is nowhere")
	}
	const gone, child = 1<<22 - 1, 1<<22 - 2
	told := Mapping{Start: self.start, End: self.end, Offset: self.offset, Inode: self.inode, Path: self.path}
	u := NewUsers(Options{})
	defer u.Close()
	expect := func(pid int, want string) {
		t.Helper()
		if got := u.Frames(pid, pc); !strings.HasSuffix(got[len(got)-1].Function, want) || want == "" && got[0].Function != "" {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	expect(gone, "")
	u.Mapped(gone, told)
	expect(gone, "symbol.TestEvents")
	u.Forked(child, gone)
	expect(child, "symbol.TestEvents")
	// Something else lies there now, and the child's is another's.
	u.Mapped(gone, Mapping{Start: told.Start, End: told.End})
	expect(gone, "")
	expect(child, "symbol.TestEvents")
	// What ran before an exec is asked about for a while.
	u.Execed(child)
	expect(child, "symbol.TestEvents")
	u.Execed(child)
	expect(child, "")
	// A number that is used again is another process.
	u.Mapped(child, told)
	u.Forked(child, 1)
	expect(child, "")
	// Another file at its place is not taken for it.
	told.Inode++
	u.Mapped(gone, told)
	expect(gone, "")
}

// What is held of processes is bounded in bytes, however many begin, map files and end; those that
// were told of last are known.
func TestProcessesAreBounded(t *testing.T) {
	const memory = 1 << 20
	u := NewUsers(Options{Memory: memory})
	defer u.Close()
	for pid := 1 << 23; pid < 1<<23+5000; pid++ {
		u.Forked(pid, pid-1)
		for i := range uint64(20) {
			u.Mapped(pid, Mapping{Start: 0x1000 * (2*i + 1), End: 0x1000 * (2*i + 2), Inode: 1 << 40, Path: fmt.Sprint("/tmp/build-", pid, "/", i)})
		}
		if u.held > memory/4 {
			t.Fatalf("%d bytes of %d processes", u.held, len(u.processes))
		}
	}
	if n := len(u.processes); n < 50 || n > 5000/4 || u.processes[1<<23+4999] == nil || u.processes[1<<23] != nil {
		t.Errorf("%d processes", n)
	}
	sum := int64(0)
	for _, p := range u.processes {
		sum += p.weight
	}
	if sum != u.held {
		t.Errorf("they hold %d bytes, and it is said %d", sum, u.held)
	}
}
