package symbol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// sane fails where a frame cannot be shown.
func sane(t *testing.T, frames []Frame) {
	t.Helper()
	if len(frames) == 0 || len(frames) > maxDepth+1 {
		t.Fatalf("%d frames", len(frames))
	}
	for _, f := range frames {
		for _, s := range []string{f.Function, f.Module, f.File} {
			if !utf8.ValidString(s) || len(s) > maxName+4 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u202e' }) {
				t.Fatalf("%+q", s)
			}
		}
	}
}

func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("7f0000001000 40 LazyCompile:*hot /a.js:3\n7f0000001000 80 again\nx\n0x7f0000002000 0x10 with prefix\n"))
	f.Add([]byte("ffffffffffffffff ffffffffffffffff wraps\n0 0 \x1b[31mred\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, _, err := parsePerfMap(bytes.NewReader(data))
		if err != nil {
			return
		}
		for i, e := range entries {
			if i > 0 && entries[i-1].start >= e.start {
				t.Fatal("not in order")
			}
			if frame, ok := entries.frame(e.start); ok != (e.size > 0) {
				t.Fatalf("%+v: %+v, %v", e, frame, ok)
			} else if ok {
				sane(t, []Frame{frame})
			}
		}
	})
}

func FuzzMaps(f *testing.F) {
	f.Add([]byte("00400000-00401000 r-xp 00000000 fe:01 1234                               /usr/bin/a b (deleted)\n7f0-7f8 rwxp 00000000 00:00 0 \n"))
	f.Add([]byte("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		maps, err := parseMaps(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, m := range maps {
			if m.start >= m.end {
				t.Fatalf("%+v", m)
			}
			find(maps, m.start)
			sane(t, []Frame{unnamed(&m, m.start)})
		}
	})
}

func FuzzKallsyms(f *testing.F) {
	f.Add([]byte("ffffffff81000000 T _stext\nffffffff81000000 t startup_64\nffffffffc0000010 t bpf_prog_6deef7357e7b4530_x\t[bpf]\nffffffffc0001000 d data\t[mod]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := parseKallsyms(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, s := range k.symbols {
			if frame, ok := k.frame(s.addr + 1); ok {
				sane(t, []Frame{frame})
			}
		}
	})
}

// FuzzELF changes bytes of real programs and asks for names all over them.
func FuzzELF(f *testing.F) {
	dir := f.TempDir()
	for i, args := range [][]string{
		{"gcc", "-O2", "-g", "-Wl,--build-id", "testdata/spin.c", "-lm"},
		{"gcc", "-O2", "-gdwarf-4", "-gz", "testdata/jit.c"},
		{"gcc", "-O2", "-s", "testdata/jit.c"},
		{"clang", "-O2", "-g", "testdata/spin.c", "-lm"},
	} {
		out := filepath.Join(dir, fmt.Sprint(i))
		if _, err := exec.LookPath(args[0]); err != nil {
			continue
		}
		if text, err := exec.Command(args[0], append(args[1:], "-o", out)...).CombinedOutput(); err != nil {
			f.Fatalf("%s: %v\n%s", args[0], err, text)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := opened(t, "/program", data)
		o.limit = 16 << 20
		for addr := uint64(0); addr < 0x5000; addr += 0x31 {
			sane(t, o.frames(addr))
			if at, ok := o.address(addr); ok {
				sane(t, o.frames(at))
			}
		}
		if o.lines != nil {
			for i, r := range o.lines.ranges {
				if i < 64 {
					sane(t, o.frames(r.low))
				}
			}
		}
	})
}

// TestBrokenELF changes and cuts a program at random: there is always an answer, and soon.
func TestBrokenELF(t *testing.T) {
	data := read(t, build(t, "gcc", "-O2", "-g", "testdata/spin.c", "-lm", "-o", "OUT"))
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		broken := bytes.Clone(data)
		for range 1 + r.IntN(30) {
			broken[r.IntN(len(broken))] = byte(r.Uint32())
		}
		if r.IntN(4) == 0 {
			broken = broken[:r.IntN(len(broken))]
		}
		o := opened(t, "/program", broken)
		o.limit = 16 << 20
		for addr := uint64(0); addr < 0x5000; addr += 0x31 {
			sane(t, o.frames(addr))
		}
	}
}

// TestSmallTable reads the table that the fuzzer starts from: g was inlined into f at its last bytes.
func TestSmallTable(t *testing.T) {
	table, err := parseGoTable(smallTable(), binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	table.trees = smallTrees()
	for addr, want := range map[uint64]string{
		3:  "[{main.f  a.go 7 3 false unknown}]",
		12: "[{main.g  a.go 8 12 false unknown} {main.f  a.go 7 12 false unknown}]",
		16: "[]",
	} {
		if got := fmt.Sprint(table.frames(addr)); got != want {
			t.Errorf("%d: %s, want %s", addr, got, want)
		}
	}
}

func FuzzGoTable(f *testing.F) {
	small := smallTable()
	f.Add(small)
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = guard(func() error {
			table, err := parseGoTable(data, binary.LittleEndian)
			if err != nil {
				return nil
			}
			table.trees = smallTrees()
			for addr := uint64(0); addr < 64; addr++ {
				if frames := table.frames(addr); frames != nil {
					sane(t, frames)
				}
			}
			return nil
		})
	})
}

// smallTable is a table of Go 1.20's layout with one function of 16 bytes.
func smallTable() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xfffffff1)
	b = append(b, 0, 0, 1, 8)
	names, units, files, values, funcs := uint64(80), uint64(96), uint64(104), uint64(112), uint64(136)
	for _, v := range []uint64{1, 1, 0, names, units, files, values, funcs} {
		b = le.AppendUint64(b, v)
	}
	put := func(at uint64, part []byte) { b = append(append(b, make([]byte, int(at)-len(b))...), part...) }
	put(names, []byte("\x00main.f\x00main.g\x00"))
	put(units, le.AppendUint32(nil, 1))
	put(files, []byte("\x00a.go\x00"))
	// From 1 on file 0; from 4 on line 7 for 8 bytes, then 8; from 9 on call -1 for 8 bytes, then 0.
	put(values, []byte{0, 2, 16, 0, 16, 8, 2, 8, 0, 0, 8, 2, 8, 0})
	var record []byte
	for _, v := range []uint32{0, 12, 16} { // functab: entry, record, end
		record = le.AppendUint32(record, v)
	}
	// entry, name, args, deferreturn, pcsp, pcfile, pcln, npcdata, unit, start line
	for _, v := range []uint32{0, 1, 0, 0, 0, 1, 4, 3, 0, 1} {
		record = le.AppendUint32(record, v)
	}
	record = append(record, 0, 0, 0, 4)
	for _, v := range []uint32{0, 0, 9, ^uint32(0), ^uint32(0), ^uint32(0), 0} {
		record = le.AppendUint32(record, v)
	}
	put(funcs, record)
	return b
}

// smallTrees says that main.g was called at byte 2.
func smallTrees() []byte {
	b := make([]byte, 16)
	binary.LittleEndian.PutUint32(b[4:], 8)
	binary.LittleEndian.PutUint32(b[8:], 2)
	return b
}
