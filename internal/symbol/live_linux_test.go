package symbol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// A stack is what one sample of a process holds, innermost first.
type stack []uint64

// A ring is where the kernel puts the samples of one thread.
type ring struct {
	fd   int
	meta *unix.PerfEventMmapPage
	data []byte
	at   uint64
}

// sample takes stacks of all threads of a process by cpu-clock and frame pointers until it
// has n, or a minute has gone: a busy host gives a process little of itself.
func sample(t testing.TB, pid, n int) []stack {
	t.Helper()
	rings := map[string]*ring{}
	defer func() {
		for _, r := range rings {
			unix.Close(r.fd)
		}
	}()
	var stacks []stack
	for end := time.Now().Add(time.Minute); len(stacks) < n && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		// Threads begin as it runs; a Go program's loop need not be in the first.
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			if rings[thread.Name()] != nil {
				continue
			}
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				t.Fatal(err)
			}
			r, err := newRing(t, tid)
			if errors.Is(err, unix.ESRCH) {
				continue // it has ended meanwhile
			}
			if err != nil {
				t.Skip(err)
			}
			rings[thread.Name()] = r
		}
		for _, r := range rings {
			stacks = append(stacks, r.stacks()...)
		}
	}
	return stacks
}

func newRing(t testing.TB, tid int) (*ring, error) {
	const pages = 64
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: 999,
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_CALLCHAIN, Bits: unix.PerfBitFreq | unix.PerfBitExcludeKernel}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("perf_event_open: %w", err)
	}
	size := os.Getpagesize()
	b, err := unix.Mmap(fd, 0, (1+pages)*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mmap: %w", err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return &ring{fd: fd, meta: (*unix.PerfEventMmapPage)(unsafe.Pointer(&b[0])), data: b[size:]}, nil
}

// stacks are those that came since the last call.
func (r *ring) stacks() (all []stack) {
	for head := r.meta.Data_head; r.at < head; {
		header := make([]byte, 8)
		for i := range header {
			header[i] = r.data[(r.at+uint64(i))%uint64(len(r.data))]
		}
		record := make([]byte, binary.NativeEndian.Uint16(header[6:]))
		for i := range record {
			record[i] = r.data[(r.at+uint64(i))%uint64(len(r.data))]
		}
		r.at += uint64(len(record))
		if binary.NativeEndian.Uint32(record) != unix.PERF_RECORD_SAMPLE {
			continue
		}
		var s stack
		for i := range binary.NativeEndian.Uint64(record[16:]) {
			addr := binary.NativeEndian.Uint64(record[24+8*i:])
			if int64(addr) < 0 && int64(addr) > -4096 {
				continue // PERF_CONTEXT_USER
			}
			if len(s) > 0 {
				addr-- // where the call is
			}
			s = append(s, addr)
		}
		all = append(all, s)
	}
	r.meta.Data_tail = r.at
	return all
}

// start runs a program that goes on until its input is closed.
func start(t testing.TB, cmd *exec.Cmd) int {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// TestShare tells how many frames of running programs have names: of those with symbols at
// least 95 of 100.
func TestShare(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	for _, tt := range []struct {
		name, compiler string
		args           []string
		want           []string // functions that are on the stacks
	}{
		{"C", "gcc", []string{"-O1", "-g", "-fno-omit-frame-pointer", "testdata/spin.c", "-lm"}, []string{"step", "steps", "sorted", "clocks", "main"}},
		{"C static", "gcc", []string{"-O1", "-g", "-fno-omit-frame-pointer", "-static", "testdata/spin.c", "-lm"}, []string{"step", "sorted", "main"}},
		{"C not PIE", "gcc", []string{"-O1", "-g", "-fno-omit-frame-pointer", "-no-pie", "testdata/spin.c", "-lm"}, []string{"step", "sorted", "main"}},
		{"C without lines", "gcc", []string{"-O1", "-fno-omit-frame-pointer", "testdata/spin.c", "-lm"}, []string{"sorted", "main"}},
		{"C++", "g++", []string{"-O2", "-g", "-fno-omit-frame-pointer", "testdata/spin.cc"}, []string{"spin::(anonymous namespace)::turn", "main"}},
		{"Rust", "rustc", []string{"-O", "-g", "-Cforce-frame-pointers=yes", "testdata/spin.rs"}, []string{"spin::spin_turn", "<spin::Ring as spin::Mix>::mix"}},
		{"Go", "go", []string{"build", "testdata/spin.go"}, []string{"main.step", "main.main", "sort.Slice"}},
		{"Go stripped", "go", []string{"build", "-ldflags=-s -w", "testdata/spin.go"}, []string{"main.step", "main.main", "sort.Slice"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append(slices.Clone(tt.args), "-o", "OUT")
			if tt.compiler == "go" {
				args = append([]string{"build", "-o", "OUT"}, tt.args[1:]...)
			}
			pid := start(t, exec.Command(build(t, tt.compiler, args...)))
			stacks := sample(t, pid, 500)
			users := NewUsers(Options{})
			defer users.Close()
			frames, named, lines, wild := 0, 0, 0, 0
			seen := map[string]bool{}
			unnamed := map[string]int{}
			for _, s := range stacks {
				for _, addr := range s {
					for _, f := range users.Frames(pid, addr) {
						// libm uses the frame pointer for numbers, which the kernel takes for frames.
						if f.Kind == KindUnknown {
							wild++
							continue
						}
						frames++
						if f.Line > 0 {
							lines++
						}
						if f.Function == "" {
							unnamed[fmt.Sprintf("%s+%#x", f.Module, f.Offset)]++
							continue
						}
						named++
						seen[f.Function] = true
					}
				}
			}
			if len(stacks) < 50 {
				t.Fatalf("%d samples", len(stacks))
			}
			share := 100 * float64(named) / float64(frames)
			t.Logf("%d samples, %d frames: %.1f%% with names, %.1f%% with lines; %d addresses in no mapping", len(stacks), frames, share, 100*float64(lines)/float64(frames), wild)
			if share < 95 {
				t.Errorf("unnamed: %v; %q", unnamed, users.Doubts())
			}
			for _, name := range tt.want {
				if !seen[name] {
					t.Errorf("%s is on no stack of %v", name, seen)
				}
			}
		})
	}
}

// TestStripped has the names of what is exported, and says what is missing.
func TestStripped(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	pid := start(t, exec.Command(build(t, "gcc", "-O1", "-s", "-fno-omit-frame-pointer", "-rdynamic", "testdata/spin.c", "-lm", "-o", "OUT")))
	users := NewUsers(Options{})
	defer users.Close()
	seen := map[string]bool{}
	for _, s := range sample(t, pid, 300) {
		for _, addr := range s {
			for _, f := range users.Frames(pid, addr) {
				seen[f.Function] = true
			}
		}
	}
	if !seen["sorted"] || seen["compare"] { // static, and in the gap after no function
		t.Errorf("%v", seen)
	}
	if !strings.Contains(strings.Join(users.Doubts(), "\n"), "is stripped: only what it exports has names") {
		t.Errorf("%q", users.Doubts())
	}
}

// TestDebugFile finds what was split off, beside the program and by its build id, and refuses that
// of another build.
func TestDebugFile(t *testing.T) {
	if _, err := exec.LookPath("objcopy"); err != nil {
		t.Skip("needs objcopy")
	}
	full := build(t, "gcc", "-O2", "-g", "testdata/spin.c", "-lm", "-o", "OUT", "-Wl,--build-id")
	other := build(t, "gcc", "-O1", "-g", "testdata/spin.c", "-lm", "-o", "OUT", "-Wl,--build-id")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	dir := t.TempDir()
	debug, thin := filepath.Join(dir, "program.debug"), filepath.Join(dir, "program")
	run("objcopy", "--only-keep-debug", full, debug)
	run("objcopy", "--strip-all", "--add-gnu-debuglink="+debug, full, thin)
	whole := opened(t, full, read(t, full))
	whole.load()
	var at uint64
	for _, s := range whole.tables[0].list {
		if whole.tables[0].name(s) == "sorted" {
			at = s.value + 20
		}
	}
	want := fmt.Sprint(whole.frames(at))
	mini := filepath.Join(dir, "mini")
	run("sh", "-c", `objcopy --only-keep-debug --remove-section=.debug_* "$1" "$2.symbols" && xz -k "$2.symbols" && objcopy --strip-all --add-section .gnu_debugdata="$2.symbols.xz" "$1" "$2"`, "sh", full, mini)
	host, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for _, tt := range []struct {
		name string
		path string
		open func(name string) string // where a name really is
		want string
	}{
		{"beside it", thin, func(name string) string { return name }, want},
		{"by build id", thin, func(name string) string {
			if strings.Contains(name, "/.build-id/") {
				return debug
			}
			return "/nowhere"
		}, want},
		{"another build", thin, func(string) string { return other }, ""},
		{"a directory", thin, func(string) string { return dir }, ""},
		{"MiniDebugInfo", mini, func(string) string { return "/nowhere" }, "sorted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := opened(t, thin, read(t, tt.path))
			o.open = func(name string) (io.ReaderAt, int64, func() error) { return openDebugFile(host, tt.open(name)) }
			got := o.frames(at)
			switch {
			case tt.want == "" && got[0].Function != "":
				t.Errorf("%v", got)
			case tt.want == "sorted" && got[0].Function != "sorted":
				t.Errorf("%v; %q", got, o.doubts.list())
			case tt.want == want && strings.ReplaceAll(fmt.Sprint(got), thin, full) != want:
				t.Errorf("%v, want %s; %q", got, want, o.doubts.list())
			}
			if tt.name == "another build" && !strings.Contains(strings.Join(o.doubts.list(), "\n"), "another build") {
				t.Errorf("%q", o.doubts.list())
			}
		})
	}
}

// TestGone names functions of a process that has ended, whose program is deleted.
func TestGone(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	program := build(t, "gcc", "-O1", "-g", "-fno-omit-frame-pointer", "testdata/spin.c", "-lm", "-o", "OUT")
	cmd := exec.Command(program)
	in, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stacks := sample(t, cmd.Process.Pid, 100)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	users := NewUsers(Options{})
	defer users.Close()
	if err := users.Process(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	in.Close()
	cmd.Wait()
	if err := users.Process(cmd.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that ended: %v", err)
	}
	seen := map[string]bool{}
	for _, s := range stacks {
		for _, addr := range s {
			f := users.Frames(cmd.Process.Pid, addr)
			seen[f[len(f)-1].Function+" "+filepath.Base(f[len(f)-1].File)] = true
		}
	}
	if !seen["sorted spin.c"] || !seen["main spin.c"] {
		t.Errorf("%v", seen)
	}
}

// TestElsewhere names functions of a process in another mount namespace, whose program is at a path
// that is something else here, and which has a perf map in its own /tmp, under its own number.
func TestElsewhere(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	program := build(t, "gcc", "-O1", "-g", "-static", "-fno-omit-frame-pointer", "testdata/spin.c", "-lm", "-o", "OUT")
	jit := build(t, "gcc", "-O1", "testdata/jit.c", "-o", "OUT")
	for _, tt := range []struct {
		program string
		want    string
	}{{program, "sorted"}, {jit, "hot_<script>"}} {
		dir := t.TempDir()
		cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
			`mount -t tmpfs none "$1" && cp "$2" "$1/here" && mount -t tmpfs none /tmp -o mode=1777 2>/dev/null; exec "$1/here"`, "sh", "/mnt", tt.program)
		cmd.Dir = dir
		parent := start(t, cmd)
		var pid int
		for range 200 {
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
			if fmt.Sscan(string(children), &pid); pid > 0 {
				if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(comm) == "here\n" {
					break
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		stacks := sample(t, pid, 100)
		users := NewUsers(Options{})
		seen := map[string]bool{}
		for _, s := range stacks {
			for _, addr := range s {
				f := users.Frames(pid, addr)
				seen[f[len(f)-1].Function] = true
			}
		}
		if !seen[tt.want] {
			t.Errorf("%s: %v; %q", tt.want, seen, users.Doubts())
		}
		users.Close()
	}
}
