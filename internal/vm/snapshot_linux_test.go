package vm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
)

// stand is a snapshot of a machine that never was: a few pages, and a state.
func stand(t *testing.T) *snapshot {
	t.Helper()
	s, err := newSnapshot(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	s.window = []extent{{3 * pageSize, pageSize}, {9 * pageSize, 2 * pageSize}}
	for _, at := range []int64{0, 5, pageSize, 7 * pageSize, 64<<20 - 1} {
		if _, err := s.memory.WriteAt([]byte{byte(at) | 1}, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.memory.WriteAt(make([]byte, 3*pageSize), 20<<20); err != nil { // nothing, but written
		t.Fatal(err)
	}
	if _, err := s.state.WriteString("the state"); err != nil {
		t.Fatal(err)
	}
	return s
}

func content(t *testing.T, f *os.File) []byte {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSnapshot stores a snapshot and gets it back, and nothing of it that was changed
// on the way.
func TestSnapshot(t *testing.T) {
	dir, s := filepath.Join(t.TempDir(), "new", "dir"), stand(t)
	if err := s.store(dir, "one"); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "one")
	back, err := openSnapshot(name)
	if err != nil {
		t.Fatal(err)
	}
	defer back.close()
	if !bytes.Equal(content(t, back.memory), content(t, s.memory)) || string(content(t, back.state)) != "the state" || !reflect.DeepEqual(back.window, s.window) {
		t.Error("it is not what was stored")
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if most := 6 * pageSize; len(whole) > most {
		t.Errorf("%d bytes, more than the pages that hold something", len(whole))
	}
	broken := func(what string, b []byte) {
		t.Helper()
		at := filepath.Join(dir, "broken")
		if err := os.WriteFile(at, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := openSnapshot(at); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, %v", what, s, err)
		}
	}
	for _, n := range []int{0, 10, snapshotFixed, snapshotFixed + 9, len(whole) - 1} {
		broken(fmt.Sprintf("the first %d bytes", n), whole[:n])
	}
	broken("a byte too many", append(slices.Clone(whole), 0))
	for at := 0; at < len(whole); at += 61 {
		b := slices.Clone(whole)
		b[at] ^= 0x40
		broken(fmt.Sprintf("byte %d", at), b)
	}
}

// TestSnapshotHeader has headers that promise what cannot be.
func TestSnapshotHeader(t *testing.T) {
	good := snapshotHeader{Memory: 4 * pageSize, State: 10, Filled: []extent{{0, 1}, {8, 2}}, Window: []extent{{pageSize, pageSize}}}
	if !good.fits(13) {
		t.Fatal("a good header does not fit")
	}
	for what, change := range map[string]func(h *snapshotHeader){
		"no memory":             func(h *snapshotHeader) { h.Memory = 0 },
		"much memory":           func(h *snapshotHeader) { h.Memory = 1 << 40 },
		"less than no state":    func(h *snapshotHeader) { h.State = -1 },
		"other bytes":           func(h *snapshotHeader) { h.State = 11 },
		"much state":            func(h *snapshotHeader) { h.State = 1 << 40 },
		"parts that overlap":    func(h *snapshotHeader) { h.Filled[0].Size = 9 },
		"a part that is empty":  func(h *snapshotHeader) { h.Filled[0].Size = 0 },
		"a part outside":        func(h *snapshotHeader) { h.Filled[1].At = 4*pageSize - 1 },
		"a part far outside":    func(h *snapshotHeader) { h.Filled[1].Size = 1<<63 - 1 },
		"a window outside":      func(h *snapshotHeader) { h.Window[0].At = 4 * pageSize },
		"a window below":        func(h *snapshotHeader) { h.Window[0].At = -1 },
		"a window without size": func(h *snapshotHeader) { h.Window[0].Size = 0 },
	} {
		h := good
		h.Filled, h.Window = slices.Clone(good.Filled), slices.Clone(good.Window)
		change(&h)
		if h.fits(13) {
			t.Errorf("%s fits", what)
		}
	}
}

// TestKeep keeps what was used last, and files that are being written.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"c", "a", unfinished + "1", "e", "b", "d"} {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(1_000_000+int64(i), 0)
		if err := os.Chtimes(at, when, when); err != nil {
			t.Fatal(err)
		}
	}
	keep(dir, 3)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := []string{unfinished + "1", "b", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWindow hands files over through a window in pieces.
func TestWindow(t *testing.T) {
	s, err := newSnapshot(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	window := []extent{{5 * pageSize, pageSize}, {2 * pageSize, 2 * pageSize}}
	big := bytes.Repeat([]byte("0123456789abcdef"), 2*pageSize/16)
	var archive bytes.Buffer
	if err := (Files{"a/b/c": {Data: big}, "run": {Data: []byte("#!"), Exec: true}}).write(&archive); err != nil {
		t.Fatal(err)
	}
	if err := writeFrame(&pane{s.memory, slices.Clone(window)}, frame{given, archive.Bytes()}); err != nil {
		t.Fatal(err)
	}
	if n, err := (&pane{s.memory, []extent{{0, 4}}}).Write([]byte("12345")); n != 4 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("more than a window holds: %d, %v", n, err)
	}
	var seen []io.Reader
	for _, e := range window {
		seen = append(seen, io.NewSectionReader(s.memory, e.At, e.Size))
	}
	f, err := readFrame(bufio.NewReader(io.MultiReader(seen...)), 3*pageSize)
	if err != nil || f.kind != given {
		t.Fatalf("%c, %v", f.kind, err)
	}
	dir := t.TempDir()
	if err := unpackFiles(dir, bytes.NewReader(f.payload)); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a", "b", "c")); err != nil || !bytes.Equal(b, big) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if info, err := os.Stat(filepath.Join(dir, "run")); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestReadWindow believes no guest that its window is outside of its memory.
func TestReadWindow(t *testing.T) {
	entry := func(at, size uint64) []byte {
		var b []byte
		for _, n := range []uint64{at, size} {
			for shift := 56; shift >= 0; shift -= 8 {
				b = append(b, byte(n>>shift))
			}
		}
		return b
	}
	if w, err := readWindow(append(entry(4096, 4096), entry(0, 10)...), 8192); err != nil || !slices.Equal(w, []extent{{4096, 4096}, {0, 10}}) {
		t.Errorf("%v, %v", w, err)
	}
	for _, b := range [][]byte{entry(4097, 4096), entry(8193, 1), entry(0, 0), entry(1<<63, 1), entry(1, 1<<63), entry(0, 1<<63-1), entry(0, 1)[:15]} {
		if w, err := readWindow(b, 8192); !errors.Is(err, errNoise) {
			t.Errorf("% x: %v, %v", b, w, err)
		}
	}
}

// TestPhysical finds memory of this process where the kernel lets it look.
func TestPhysical(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root sees physical addresses")
	}
	mem := make([]byte, 8*pageSize)
	for i := range mem {
		mem[i] = 1
	}
	start := pageSize - int(addressOf(mem)%pageSize)
	where, err := physical(mem[start : start+4*pageSize])
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, e := range where {
		total += e.Size
	}
	if total != 4*pageSize {
		t.Errorf("%v", where)
	}
}
