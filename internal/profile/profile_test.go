package profile

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"

	"github.com/org/ebpf-bench-gate/internal/symbol"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update accepts):\n%s", name, diff)
	}
}

// A book names addresses as it says, of every process alike.
type book map[uint64][]symbol.Frame

func (b book) Frames(addr uint64) []symbol.Frame {
	for at, frames := range b {
		if addr >= at && addr < at+0x100 {
			out := make([]symbol.Frame, len(frames))
			for i, f := range frames {
				f.Offset = addr - at
				out[i] = f
			}
			return out
		}
	}
	return []symbol.Frame{{Offset: addr}}
}

type users struct {
	book
	looked []int
}

func (u *users) Process(pid int) error                    { u.looked = append(u.looked, pid); return nil }
func (u *users) Frames(_ int, addr uint64) []symbol.Frame { return u.book.Frames(addr) }
func (u *users) Where(_ int, addr uint64) (*symbol.Segment, uint64) {
	switch {
	case addr >= stripped && addr < stripped+0x100:
		return &library, addr - stripped + library.Start
	case addr >= start && addr < jitted:
		return &busy, addr - start + busy.Start
	}
	return nil, 0
}

// Both files count from the same address, as most do.
var (
	busy    = symbol.Segment{File: "/usr/bin/busy", BuildID: "c0ffee", Start: 0x1000, Limit: 0x3000, Offset: 0x1000}
	library = symbol.Segment{File: "/usr/lib/lib.so", Start: 0x1000, Limit: 0x2000, Offset: 0x1000}
)

const (
	start = 0x1000 + 0x100*iota
	loop
	nap
	jitted
	stripped
	enter = 0xffffffff81000000 + 0x100*iota
	sleeps
	schedule
	toNext
	program
)

func user(f, file string, line int) symbol.Frame {
	return symbol.Frame{Function: f, Module: "/usr/bin/busy", File: file, Line: line, Kind: symbol.KindUser}
}

func kernelFrame(f string) symbol.Frame {
	return symbol.Frame{Function: f, Module: "[kernel]", Kind: symbol.KindKernel}
}

var (
	userBook = book{
		start: {user("main", "/src/busy.c", 9)},
		loop: {
			{Function: "square", Module: "/usr/bin/busy", File: "/src/busy.c", Line: 5, Inlined: true, Kind: symbol.KindUser},
			user("loop", "/src/busy.c", 6),
		},
		nap:      {user("nap", "", 0)},
		stripped: {{Module: "/usr/lib/lib.so", Kind: symbol.KindUser}},
	}
	kernelBook = book{
		enter: {kernelFrame("do_syscall_64")}, sleeps: {kernelFrame("do_nanosleep")},
		schedule: {kernelFrame("schedule")}, toNext: {kernelFrame("__schedule")},
		program: {{Function: "fun_xdp", Module: "bpf_prog_6deef7357e7b4530_fun_xdp", File: "fun_xdp.c", Line: 12, Kind: symbol.KindBPF}},
	}
	epoch = time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)
)

func collector(o Options) (*Collector, *users) {
	u := &users{book: userBook}
	o.Start = epoch
	return NewCollector(kernelBook, u, o), u
}

// samples are some of all kinds of code.
func samples() []Sample {
	s := Sample{Time: epoch, CPU: 1, PID: 7, TID: 8, Comm: "busy"}
	in := func(n int, kernel, user []uint64) (out []Sample) {
		s := s
		s.Kernel, s.User = kernel, user
		for range n {
			out = append(out, s)
		}
		return out
	}
	var all []Sample
	all = append(all, in(6, nil, []uint64{loop + 4, start + 8})...)
	all = append(all, in(1, nil, []uint64{loop + 8, start + 8})...) // another place on the same line
	all = append(all, in(2, []uint64{sleeps + 1, enter + 2}, []uint64{nap, start + 16})...)
	all = append(all, in(2, []uint64{program + 1, enter + 2}, nil)...)
	all = append(all, in(1, nil, []uint64{stripped + 3, 0xdead, 0xbeef, start + 16})...)
	return all
}

func collected(o Options, all []Sample) *Profile {
	c, _ := collector(o)
	for i := range all {
		c.Add(&all[i])
	}
	p := c.Profile()
	p.Took = 2 * time.Second
	return p
}

var atFifty = Options{Event: "cpu-clock", Period: 20 * time.Millisecond}

func TestOutputs(t *testing.T) {
	p := collected(atFifty, samples())
	p.Lost = 3
	for name, write := range map[string]func(io.Writer, *Profile) error{
		"folded.txt": Folded, "cpu.svg": SVG,
		"top.txt": func(w io.Writer, p *Profile) error { return Top(w, p, 0) },
	} {
		var b bytes.Buffer
		if err := write(&b, p); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
	c, _ := collector(atFifty)
	var list, extended strings.Builder
	all := samples()
	for _, i := range []int{0, 7, 9, 11} { // one of each kind
		s := all[i]
		list.WriteString(c.List(&s))
		extended.WriteString(c.Extended(&s))
	}
	golden(t, "list.txt", []byte(list.String()))
	golden(t, "extended.txt", []byte(extended.String()))
}

// waits are two of 5 ms and one of 1 ms.
func waits() []Sample {
	s := Sample{Time: epoch, PID: 7, TID: 8, Comm: "busy", Off: 5 * time.Millisecond,
		Kernel: []uint64{program, toNext + 9, schedule + 1, sleeps + 1, enter + 2}, User: []uint64{nap, start + 16}}
	short := s
	short.Off = time.Millisecond
	return []Sample{s, short, s}
}

func TestOffCPU(t *testing.T) {
	p := collected(Options{Type: OffCPU}, waits())
	if p.Value() != int64(11*time.Millisecond) || p.Count() != 3 {
		t.Errorf("%v in %d waits", time.Duration(p.Value()), p.Count())
	}
	var b bytes.Buffer
	if err := Folded(&b, p); err != nil {
		t.Fatal(err)
	}
	// The switch itself is nobody's business.
	if got, want := b.String(), "busy;main;nap;do_syscall_64;do_nanosleep;schedule 11000\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c, _ := collector(Options{Type: OffCPU})
	if got := c.List(&waits()[0]); !strings.Contains(got, " waited 5ms\nKernel:\n  0xffffffff81000701 schedule+0x1\n") {
		t.Error(got)
	}
	if got := c.Extended(&waits()[1]); !strings.HasSuffix(got, ";do_nanosleep_[k];schedule_[k] 1000\n") {
		t.Error(got)
	}
}

// Shares that grew are red, those that shrank blue, and what is gone is said.
func TestDiffSVG(t *testing.T) {
	base, head := samples(), samples()
	slower := head[0]
	slower.User = []uint64{nap, start + 16}
	for range 12 {
		head = append(head[:len(head):len(head)], slower)
	}
	gone := base[0]
	gone.Comm = "helper"
	var b bytes.Buffer
	if err := DiffSVG(&b, collected(atFifty, append(base, gone)), collected(atFifty, head)); err != nil {
		t.Fatal(err)
	}
	golden(t, "diff.svg", b.Bytes())
	box := func(name string) string {
		m := regexp.MustCompile(`<title>` + name + `\n[^<]*</title><rect [^>]*fill="(#[0-9a-f]*)"`).FindStringSubmatch(b.String())
		if m == nil {
			t.Fatalf("no box %s", name)
		}
		return m[1]
	}
	if c := box("nap"); c[:3] != "#ff" {
		t.Errorf("what grew is %s", c)
	}
	if c := box("loop"); c[5:] != "ff" || c[:3] == "#ff" {
		t.Errorf("what shrank is %s", c)
	}
	if !strings.Contains(b.String(), "no more: helper (7.7%)") {
		t.Error("what is gone is not said")
	}
}

// However strange a name is, a line stays a line, a stack its frames and a page a page.
func TestHostileNames(t *testing.T) {
	const evil = "<script>alert('x')</script>&;\n\x1b[31m\x00\u202e]]>\"\xff 5"
	b := userBook
	defer func() { userBook = b }()
	userBook = book{loop: {{Function: evil, Module: "/" + evil, File: evil, Line: 1, Inlined: true, Kind: symbol.KindUser}, {Function: evil, Module: evil, Kind: symbol.KindUser}}}
	s := Sample{Time: epoch, Comm: evil, PID: 1, User: []uint64{loop}}
	p := collected(atFifty, []Sample{s})

	var folded bytes.Buffer
	if err := Folded(&folded, p); err != nil {
		t.Fatal(err)
	}
	c, _ := collector(atFifty)
	for _, line := range []string{folded.String(), c.Extended(&s)} {
		stack, count, _ := cutLast(strings.TrimSuffix(line, "\n"), " ")
		if strings.ContainsAny(stack, "\n\x1b\x00\u202e") || count != "1" {
			t.Errorf("%q", line)
		}
	}
	if n := strings.Count(folded.String(), ";"); n != 2 {
		t.Errorf("%d semicolons in a stack of three: %q", n, folded.String())
	}
	if list := c.List(&s); strings.Count(list, "\n") != 5 || strings.ContainsAny(list, "\x1b\x00\u202e") {
		t.Errorf("%q", list)
	}
	for name, write := range map[string]func(io.Writer) error{
		"svg": func(w io.Writer) error { return SVG(w, p) }, "diff": func(w io.Writer) error { return DiffSVG(w, p, p) },
	} {
		var page bytes.Buffer
		if err := write(&page); err != nil {
			t.Fatal(err)
		}
		scripts, frames := 0, 0
		for d := xml.NewDecoder(&page); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok {
				switch e.Name.Local {
				case "script":
					scripts++
				case "g":
					frames++
				}
			}
		}
		if scripts != 1 || frames != 1+4 {
			t.Errorf("%s: %d scripts, %d groups", name, scripts, frames)
		}
	}
	if err := Pprof(io.Discard, p); err != nil {
		t.Error(err)
	}
	var top bytes.Buffer
	if err := Top(&top, p, 0); err != nil || strings.Count(top.String(), "\n") != 4 {
		t.Errorf("%q, %v", top.String(), err)
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func TestPprof(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool in PATH")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "busy.c")
	if err := os.WriteFile(source, []byte(strings.Repeat("// a line\n", 5)+"int loop(void);\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := userBook
	defer func() { userBook = b }()
	here := user("loop", source, 6)
	userBook = book{start: b[start], nap: b[nap], stripped: b[stripped], loop: {b[loop][0], here}}
	for _, tt := range []struct {
		p    *Profile
		args []string
		want []string
	}{
		{collected(atFifty, samples()), []string{"-top"}, []string{"Type: cpu", "140ms 58.33% 58.33%      140ms 58.33%  square (inline)", "Duration: 2s, Total samples = 240ms (12.00%)"}},
		{collected(atFifty, samples()), []string{"-list", "^loop$"}, []string{"6:int loop(void);"}},
		{collected(atFifty, samples()), []string{"-tags"}, []string{" thread: Total 240", " pid: Total 240"}},
		{collected(Options{Type: OffCPU}, waits()), []string{"-top"}, []string{"Type: off-cpu", "11ms   100%   100%       11ms   100%  schedule"}},
		{collected(Options{Type: OffCPU}, waits()), []string{"-top", "-sample_index=waits"}, []string{"3   100%   100%          3   100%  schedule"}},
	} {
		file := filepath.Join(dir, "p.pb.gz")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(Pprof(f, tt.p), f.Close()); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(tool, append(append([]string{"tool", "pprof"}, tt.args...), file)...)
		c.Env = append(os.Environ(), "PPROF_TMPDIR="+dir)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("pprof %v: %v\n%s", tt.args, err, out)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("pprof %v has no %q:\n%s", tt.args, want, out)
			}
		}
	}
}

// What is kept stays within its bounds, and nothing is lost from the sums.
func TestBounds(t *testing.T) {
	const most, n = 100, 10_000
	c, _ := collector(Options{Period: 1, Stacks: most})
	for i := range n {
		// Ever new processes with ever new stacks.
		comm := fmt.Sprint("p", i%3)
		if i >= n/2 {
			comm = fmt.Sprint("p", i) // that are not even of one name
		}
		c.Add(&Sample{Comm: comm, PID: uint32(i), User: []uint64{stripped, start + 4}})
	}
	p := c.Profile()
	if len(p.Stacks) != most+maxNames+1 || p.Count() != n || p.Value() != n || p.Coarse == 0 {
		t.Errorf("%d stacks, %d samples, %d coarse", len(p.Stacks), p.Count(), p.Coarse)
	}
	several := 0
	for _, s := range p.Stacks {
		if s.PID == 0 {
			several++
		}
	}
	if several == 0 {
		t.Error("no stack is of several processes")
	}
	// Addresses that nobody can name are one, however many there are.
	c, _ = collector(Options{Period: 1, Stacks: most})
	for i := range uint64(2 * maxPlaces) {
		c.Add(&Sample{Comm: "wild", PID: 1, User: []uint64{start + 4, 1<<40 + i, 1<<41 + i}})
	}
	if p := c.Profile(); len(p.Stacks) != 1 || len(p.Stacks[0].Locations) != 2 || c.held > maxPlaces || len(c.processes[1]) > maxPlaces {
		t.Errorf("%d stacks, %d addresses remembered", len(p.Stacks), c.held)
	}
}

// A process is looked at when it is first seen, and again when it runs another program or
// another has its number.
func TestProcesses(t *testing.T) {
	c, u := collector(atFifty)
	s := Sample{PID: 7, User: []uint64{start}}
	c.Add(&s)
	c.Add(&s)
	c.Exec(7)
	c.Add(&s)
	c.Exit(7)
	c.Add(&s)
	if want := []int{7, 7, 7}; !cmp.Equal(u.looked, want) { // seen, seen since it runs another, and the next of its number
		t.Errorf("looked at %v, want %v", u.looked, want)
	}
	if c.held != 1 {
		t.Errorf("%d addresses held", c.held)
	}
}

// The address after a call belongs to the caller.
func TestReturnAddresses(t *testing.T) {
	c, _ := collector(atFifty)
	text := c.List(&Sample{Time: epoch, User: []uint64{nap, loop}})
	if !strings.Contains(text, "nap+0x0") || strings.Contains(text, "loop") || !strings.Contains(text, "main+0x100") {
		t.Error(text)
	}
}

func BenchmarkAdd(b *testing.B) {
	c, _ := collector(atFifty)
	all := samples()
	for i := 0; b.Loop(); i++ {
		c.Add(&all[i%len(all)])
	}
}

// TestPprofAddresses has each address for itself, in mappings that do not overlap, though files count
// their addresses alike.
func TestPprofAddresses(t *testing.T) {
	c, _ := collector(Options{Addresses: true})
	for _, addrs := range [][]uint64{{loop + 1}, {loop + 2, start + 0x10}, {stripped + 5}, {jitted}} {
		c.Add(&Sample{PID: 7, Comm: "busy", User: addrs})
	}
	c.Add(&Sample{PID: 7, Comm: "busy", Kernel: []uint64{enter + 9, program + 3}})
	var out bytes.Buffer
	if err := Pprof(&out, c.Profile()); err != nil {
		t.Fatal(err)
	}
	p, err := pprof.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]uint64{}
	for _, l := range p.Location {
		m := l.Mapping
		got[m.File] = append(got[m.File], l.Address-m.Start+m.Offset)
		if l.Address != 0 && (l.Address < m.Start || l.Address >= m.Limit) {
			t.Errorf("%#x is not in %+v", l.Address, m)
		}
		if want := map[string]string{"/usr/bin/busy": "c0ffee"}[m.File]; m.BuildID != want {
			t.Errorf("%s has build id %q", m.File, m.BuildID)
		}
		for _, o := range p.Mapping {
			if o != m && m.Limit > 0 && o.Limit > 0 && m.Start < o.Limit && o.Start < m.Limit {
				t.Errorf("%+v lies on %+v", m, o)
			}
		}
	}
	for _, all := range got {
		slices.Sort(all)
	}
	want := map[string][]uint64{
		"/usr/bin/busy": {0x1000 + 0xf, 0x1000 + 0x101, 0x1000 + 0x102}, "/usr/lib/lib.so": {0x1005}, "": {0},
		"[kernel]": {0}, "bpf_prog_6deef7357e7b4530_fun_xdp": {0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLocationsAreBounded runs ever new programs: what is kept does not grow with them.
func TestLocationsAreBounded(t *testing.T) {
	c := NewCollector(nil, &strangers{}, Options{Stacks: 100})
	for i := range maxLocations + 5000 {
		c.Add(&Sample{PID: uint32(i), Comm: "new", User: []uint64{uint64(i)}})
		c.Exit(uint32(i))
	}
	if n := len(c.byID); n > maxLocations+1 {
		t.Errorf("%d locations, at most %d", n, maxLocations)
	}
	if n := len(c.stacks); n > 100+maxNames+1 {
		t.Errorf("%d stacks", n)
	}
	if p := c.Profile(); p.Count() != maxLocations+5000 || p.Coarse != maxLocations+5000-100 {
		t.Errorf("%d samples, %d without their stacks", p.Count(), p.Coarse)
	}
}

// strangers are processes each of whose functions is in a file of its own.
type strangers struct{}

func (strangers) Process(int) error { return nil }
func (strangers) Frames(pid int, _ uint64) []symbol.Frame {
	return []symbol.Frame{{Function: "main", Module: fmt.Sprint("/tmp/", pid), Kind: symbol.KindUser}}
}
func (strangers) Where(int, uint64) (*symbol.Segment, uint64) { return nil, 0 }
