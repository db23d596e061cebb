//go:build linux

package bpf

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

const twoPrograms = `
struct value { __u32 hits; __u16 port; };
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct value);
	__uint(max_entries, 16);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 4);
} totals SEC(".maps");
const volatile __u32 limit = 10;
SEC("xdp") int first(struct xdp_md *c) {
	__u32 key = 1;
	struct value *v = bpf_map_lookup_elem(&flows, &key);
	return v && v->hits == limit ? XDP_DROP : XDP_PASS;
}
SEC("mine/of/my/loader") int second(struct __sk_buff *c) {
	__u32 key = 0;
	__u64 *v = bpf_map_lookup_elem(&totals, &key);
	return v ? *v : 0;
}
`

func TestOpenObject(t *testing.T) {
	good := compileFile(t, twoPrograms)
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	huge := write("huge.o", nil)
	if err := os.Truncate(huge, MaxObjectSize+1); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, want string }{
		{"not there", filepath.Join(dir, "absent.o"), "no such file"},
		{"empty", write("empty.o", nil), "is empty"},
		{"directory", dir, "is a directory"},
		{"source", write("a.c", []byte("int main;\n")), "is not an ELF file: give an object (.o) or a C source"},
		{"two bytes", write("two.o", []byte("\x7fE")), "is not an ELF file"},
		{"half", write("half.o", data[:len(data)/2]), "truncated?"},
		{"an executable", self, "eBPF"},
		{"huge", huge, "more than"},
	} {
		o, err := OpenObject(tt.path)
		if o != nil || err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("%s: %v, %v, want %q", tt.name, o, err, tt.want)
		}
	}

	o, err := OpenObject(good)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Programs(); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("programs %v", got)
	}
	if !o.Has("first") || o.Has("third") || o.Type("first") != "xdp" || o.Type("third") != "" || o.Section("second") != "mine/of/my/loader" {
		t.Errorf("first %q, second in %q", o.Type("first"), o.Section("second"))
	}
}

// TestTornObject cuts and damages an object everywhere: whatever comes of it, it
// is no panic.
func TestTornObject(t *testing.T) {
	data, err := os.ReadFile(compileFile(t, twoPrograms))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for n := 0; n < len(data); n += 53 {
		if _, err := readObject("torn.o", bytes.NewReader(data[:n])); err != nil {
			refused++
		}
		broken := slices.Clone(data)
		broken[n] ^= 0xff
		_, _ = readObject("broken.o", bytes.NewReader(broken))
		objectSize(io.NewSectionReader(bytes.NewReader(broken), 0, int64(len(broken))))
	}
	if want := len(data)/53 + 1; refused != want {
		t.Errorf("%d of %d torn objects are refused", refused, want)
	}
}

// TestConfigure is that names which the object does not have are told where they
// were written, all of them.
func TestConfigure(t *testing.T) {
	o := compileForTest(t, twoPrograms)
	pos := func(line int) bench.Pos { return bench.Pos{File: "t.yml", Line: line, Col: 1} }
	err := o.Configure([]bench.Program{
		{Name: "frist", Object: "t.o", Pos: pos(1)},
		{Name: "first", Object: "t.o", Pos: pos(2)},
		{Name: "second", Object: "t.o", Type: "no such", Pos: pos(3)},
	})
	for _, want := range []string{`t.yml:1:1: t.o has no program "frist"`, `t.yml:3:1: unknown program type "no such"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	var d *bench.Diagnostic
	if !errors.As(err, &d) || d.Hint != "it has first, second" {
		t.Errorf("hint of %+v", d)
	}

	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	one := func(p bench.Program) []bench.Program { return []bench.Program{p} }
	for _, tt := range []struct {
		name     string
		programs []bench.Program
		load     string
		want     string // diagnostic
		hint     string
	}{
		{
			"variable", one(bench.Program{Name: "first", Constants: []bench.Constant{{Name: "limmit", Value: val(num(1)), Pos: pos(4)}}}), "first",
			`t.yml:4:1`, "it has limit",
		},
		{
			"variable too small", one(bench.Program{Name: "first", Constants: []bench.Constant{{Name: "limit", Value: val(num(1 << 40)), Pos: pos(4)}}}), "first",
			`t.yml:7:3: 1099511627776 does not fit`, "",
		},
		{"map", one(bench.Program{Name: "first", Maps: []bench.MapSetup{{Name: "flow", Pos: pos(5)}}}), "first", `t.yml:5:1`, "flows, totals"},
		{
			"field", one(bench.Program{Name: "first", Maps: []bench.MapSetup{{Name: "flows", Entries: []bench.Entry{{Key: val(num(1)), Value: val(fieldsOf("hit", num(1)))}}}}}), "first",
			`t.yml:8:0: no field "hit"`, "it has hits, port",
		},
		{
			"key outside of the array",
			one(bench.Program{Name: "second", Type: "tc", Maps: []bench.MapSetup{{Name: "totals", Entries: []bench.Entry{{Key: val(num(4)), Value: val(num(1))}}}}}), "second",
			`t.yml:7:3: map totals`, "",
		},
		{"type", nil, "second", "write `type: xdp`", ""},
		{"program", nil, "third", `no program "third"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := compileForTest(t, twoPrograms)
			if err := o.Configure(tt.programs); err != nil {
				t.Fatal(err)
			}
			l, err := o.Load(tt.load, LoadOptions{})
			if err == nil {
				l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			var d *bench.Diagnostic
			if errors.As(err, &d) && !strings.Contains(d.Hint, tt.hint) {
				t.Errorf("hint %q, want %q", d.Hint, tt.hint)
			} else if tt.hint != "" && d == nil {
				t.Errorf("%v is no diagnostic", err)
			}
		})
	}
}

// TestConfigured is that what the config says is in the kernel, and that a map
// which the object pins is not.
func TestConfigured(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	o := compileForTest(t, twoPrograms)
	err := o.Configure([]bench.Program{{
		Name: "first", Constants: []bench.Constant{{Name: "limit", Value: val(num(77))}},
		Maps: []bench.MapSetup{
			{Name: "flows", MaxEntries: 6000, Entries: []bench.Entry{
				{Key: val(bench.Range{First: 0, Last: 4999}), Value: val(fieldsOf("hits", bench.Variable{Name: "key"}, "port", call("be", num(80))))},
				{Key: val(num(9000)), Value: val(fieldsOf("hits", num(7)))},
			}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := o.Load("first", LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Maps(); !slices.Contains(got, "flows") || slices.Contains(got, "totals") {
		t.Errorf("maps %v: want flows, and not totals, which first does not use", got)
	}
	flows := l.coll.Maps["flows"]
	if flows.MaxEntries() != 6000 || flows.IsPinned() {
		t.Errorf("flows has %d entries at most, pinned %v", flows.MaxEntries(), flows.IsPinned())
	}
	n, want := 0, map[uint32][]byte{0: {0, 0, 0, 0, 0, 80, 0, 0}, 4999: {0x87, 0x13, 0, 0, 0, 80, 0, 0}, 9000: {7, 0, 0, 0, 0, 0, 0, 0}}
	var key uint32
	var value []byte
	for it := flows.Iterate(); it.Next(&key, &value); n++ {
		if w, ok := want[key]; ok && !bytes.Equal(w, value) {
			t.Errorf("flows[%d] = %x, want %x", key, value, w)
		}
	}
	if n != 5001 {
		t.Errorf("%d entries, want 5001", n)
	}
	var limit []byte
	if err := l.coll.Maps[".rodata"].Lookup(uint32(0), &limit); err != nil || !bytes.HasPrefix(limit, []byte{77, 0, 0, 0}) {
		t.Errorf(".rodata %x, %v", limit, err)
	}
}

func TestEmbedded(t *testing.T) {
	data, err := os.ReadFile(compileFile(t, twoPrograms))
	if err != nil {
		t.Fatal(err)
	}
	torn := slices.Clone(data)
	// A machine that is eBPF, and sections that are not.
	i := bytes.Index(torn, []byte(".BTF\x00"))
	if i < 0 {
		t.Fatal("no .BTF in the object")
	}
	j := bytes.Index(torn, []byte{0x9f, 0xeb}) // magic of BTF
	torn[j] = 0
	var file []byte
	for _, part := range [][]byte{[]byte("\x7fELF is what it begins with"), data, []byte("between"), torn, data, data[:200]} {
		file = append(file, part...)
	}
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := Embedded(path)
	if len(found) != 2 {
		t.Fatalf("%d objects, want 2: %v", len(found), err)
	}
	if found[0].Path != path+"#0" || found[1].Path != path+"#2" {
		t.Errorf("%s and %s", found[0].Path, found[1].Path)
	}
	if err == nil || !strings.Contains(err.Error(), path+"#1") {
		t.Errorf("error %v: want the damaged one", err)
	}
	for _, o := range found {
		if !slices.Equal(o.Programs(), []string{"first", "second"}) {
			t.Errorf("%s has %v", o.Path, o.Programs())
		}
	}
	// However the pieces fall in which the file is read.
	for before := 256<<10 - 5; before < 256<<10+5; before++ {
		if err := os.WriteFile(path, slices.Concat(make([]byte, before), data, []byte("behind")), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := EmbeddedBytes(path); err != nil || len(all) != 1 || !bytes.Equal(all[0], data) {
			t.Errorf("behind %d bytes: %d objects, %v", before, len(all), err)
		}
	}
	if err := os.WriteFile(path, []byte("nothing here"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := Embedded(path); len(found) != 0 || err != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// TestWeakMap is that a map of libbpf's usdt.bpf.h loads.
func TestWeakMap(t *testing.T) {
	testkernel.Require(t, testkernel.BPF)
	testkernel.NoLeaks(t)
	o := compileForTest(t, `
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 4);
} shared SEC(".maps") __weak;
SEC("xdp") int prog(struct xdp_md *c) {
	__u32 key = 0;
	return bpf_map_lookup_elem(&shared, &key) ? XDP_PASS : XDP_ABORTED;
}
`)
	l, err := o.Load("prog", LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if v, err := l.Program.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil || v != 2 {
		t.Errorf("answers %d, %v", v, err)
	}
}

// TestDigest is what a program's digest holds, and what it does not.
func TestDigest(t *testing.T) {
	digest := func(source, program string, edit ...func(*Object)) string {
		o := compileForTest(t, source)
		for _, e := range edit {
			e(o)
		}
		return o.Digest(program)
	}
	configure := func(p bench.Program) func(*Object) {
		return func(o *Object) {
			if err := o.Configure([]bench.Program{p}); err != nil {
				t.Fatal(err)
			}
		}
	}
	of := digest(twoPrograms, "first")
	if len(of) != 32 {
		t.Fatalf("digest %q", of)
	}
	replace := func(old, replacement string) string {
		if !strings.Contains(twoPrograms, old) {
			t.Fatalf("no %q to replace", old)
		}
		return strings.Replace(twoPrograms, old, replacement, 1)
	}
	for _, tt := range []struct {
		name string
		got  string
		same bool
	}{
		{"compiled again", digest(twoPrograms, "first"), true},
		{"other lines", digest("\n\n// a comment\n"+twoPrograms, "first"), true},
		{"another program of the object", digest(replace("*v : 0", "*v + 1 : 0"), "first"), true},
		{"a map that it does not use", digest(replace("max_entries, 4", "max_entries, 8"), "first"), true},
		{"the other program", digest(twoPrograms, "second"), false},
		{"another answer", digest(replace("XDP_DROP :", "XDP_TX :"), "first"), false},
		{"initial value", digest(replace("limit = 10", "limit = 11"), "first"), false},
		{"map size", digest(replace("max_entries, 16", "max_entries, 17"), "first"), false},
		{"map type", digest(replace("MAP_TYPE_HASH", "MAP_TYPE_LRU_HASH"), "first"), false},
		{"configured constant", digest(twoPrograms, "first", configure(bench.Program{Name: "first", Constants: []bench.Constant{{Name: "limit", Value: val(num(11))}}})), false},
		{"configured to what it is", digest(twoPrograms, "first", configure(bench.Program{Name: "first", Constants: []bench.Constant{{Name: "limit", Value: val(num(10))}}})), true},
		{"configured map size", digest(twoPrograms, "first", configure(bench.Program{Name: "first", Maps: []bench.MapSetup{{Name: "flows", MaxEntries: 99}}})), false},
		{"configured entries", digest(twoPrograms, "first", configure(bench.Program{Name: "first", Maps: []bench.MapSetup{{Name: "flows", Entries: []bench.Entry{{Key: val(num(1)), Value: val(fieldsOf("hits", num(3)))}}}}})), false},
		{"another type", digest(twoPrograms, "second", configure(bench.Program{Name: "second", Type: "tc"})), false},
	} {
		if (tt.got == of) != tt.same {
			t.Errorf("%s: same digest %v, want %v", tt.name, !tt.same, tt.same)
		}
	}
	if d := digest(twoPrograms, "third"); d != "" {
		t.Errorf("a program that is not there: %q", d)
	}
	for _, path := range distributionObjects(t) {
		a, errA := OpenObject(path)
		b, errB := OpenObject(path)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		for _, p := range a.Programs() {
			if x, y := a.Digest(p), b.Digest(p); x != y || x == "" {
				t.Errorf("%s %s: %q and %q", path, p, x, y)
			}
		}
	}
}
