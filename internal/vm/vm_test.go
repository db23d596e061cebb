package vm

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"
)

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	want := []frame{{progress, []byte("load")}, {output, nil}, {result, bytes.Repeat([]byte{0xff}, 100)}}
	for _, f := range want {
		if err := writeFrame(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	whole := b.Bytes()
	r := bufio.NewReader(bytes.NewReader(whole))
	for _, w := range want {
		f, err := readFrame(r, 100)
		if err != nil || f.kind != w.kind || !bytes.Equal(f.payload, w.payload) {
			t.Fatalf("%v, %v; want %v", f, err, w)
		}
	}
	if _, err := readFrame(r, 100); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	for name, b := range map[string][]byte{
		"unknown": append([]byte{'x'}, whole[1:]...),
		"short":   whole[:10],
		"header":  whole[:4],
		"damaged": append(bytes.Clone(whole[:9]), "laod"...),
		"long":    append(binary.BigEndian.AppendUint32([]byte{'r'}, 1<<31), make([]byte, 100)...),
	} {
		if f, err := readFrame(bufio.NewReader(bytes.NewReader(b)), 100); err == nil {
			t.Errorf("%s: %v", name, f)
		}
	}
}

func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	_ = writeFrame(&b, frame{result, []byte("{}")})
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		for {
			fr, err := readFrame(r, 1000)
			if err != nil {
				return
			}
			if most, ok := fr.kind.most(1000); !ok || len(fr.payload) > most {
				t.Fatalf("read %d bytes of %q", len(fr.payload), fr.kind)
			}
		}
	})
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		release, want string
		fits          bool
	}{
		{"6.1.0-56-cloud-amd64", "6.1", true},
		{"6.12.117+deb12-cloud-amd64", "6.1", false},
		{"6.12.117+deb12-cloud-amd64", "6.12", true},
		{"6.12.117+deb12-cloud-amd64", "6.12.117", true},
		{"6.12.117+deb12-cloud-amd64", "6.12.11", false},
		{"6.12", "6.12", true},
	} {
		if got := fits(tt.release, tt.want); got != tt.fits {
			t.Errorf("%s for %s: %v", tt.release, tt.want, got)
		}
	}
	for _, tt := range [][2]string{
		{"6.12.117", "6.12.99"}, {"6.1.0-56", "6.1.0-9"}, {"6.10", "6.9.3"}, {"6.1.1", "6.1"}, {"6.01.3", "6.1.2"},
	} {
		if newer(tt[0], tt[1]) <= 0 || newer(tt[1], tt[0]) >= 0 {
			t.Errorf("%s is not newer than %s", tt[0], tt[1])
		}
	}
	for name, want := range map[string]bool{"6.12": true, "6.1.0-56-cloud-amd64": true, "6.12.117+deb12": true, "6": false, "": false, "../6.1": false, "6.1/..": false, "vmlinuz-6.1": false, "6.1 x": false, "6.1\n": false} {
		if IsVersion(name) != want {
			t.Errorf("%q is a version: %v", name, !want)
		}
	}
}

func TestChoose(t *testing.T) {
	const list = `linux-image-6.12-cloud-amd64-dbg - x
linux-image-6.12.107+deb12-cloud-amd64-unsigned - x
linux-image-6.12.117+deb12-rt-amd64 - x
linux-image-6.12.117+deb12-amd64 - x
linux-image-6.12.9+deb12-cloud-amd64 - x
linux-image-6.12.113+deb12-cloud-amd64 - x
linux-image-6.12.113+deb12-cloud-amd64-dbg - x
linux-image-6.120.1-cloud-amd64 - x
linux-image-unsigned-6.8.0-45-generic - x
linux-image-6.8.0-100-generic - x
linux-image-6.8.0-40-kvm - x
`
	for want, name := range map[string]string{
		"6.12":     "linux-image-6.12.113+deb12-cloud-amd64",
		"6.12.107": "linux-image-6.12.107+deb12-cloud-amd64-unsigned",
		"6.12.117": "linux-image-6.12.117+deb12-amd64",
		"6.8":      "linux-image-6.8.0-40-kvm",
		"6.8.0-45": "linux-image-unsigned-6.8.0-45-generic",
		"6.1":      "",
	} {
		if got := choose(list, want); got != name {
			t.Errorf("%s: %q, want %q", want, got, name)
		}
	}
}

// bzImage wraps a payload as the boot protocol says.
func bzImage(payload []byte, size uint32) []byte {
	const sects = 2
	b := make([]byte, (sects+1)*512, (sects+1)*512+16+len(payload)+4)
	b[0x1f1] = sects
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(b[0x248:], 16)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload)+4))
	b = slices.Concat(b, make([]byte, 16), payload)
	return binary.LittleEndian.AppendUint32(b, size)
}

func TestUnpackImage(t *testing.T) {
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write([]byte("not an ELF file"))
	z.Close()
	good := bzImage(packed.Bytes(), 15)
	payload, size, err := payloadOf(good)
	if err != nil || size != 15 {
		t.Fatalf("%d, %v", size, err)
	}
	if b, err := inflate(payload, size); err != nil || string(b) != "not an ELF file" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := inflate(payload, 16); err == nil {
		t.Error("a payload that is shorter than it says")
	}
	if _, err := inflate(payload, 1<<31); err == nil {
		t.Error("a payload that says it has 2 GB")
	}
	// What cannot be started as it is, is booted packed.
	if b, err := unpackImage(good); err != nil || !bytes.Equal(b, good) {
		t.Errorf("without an entry: %v", err)
	}
	for name, b := range map[string][]byte{"empty": nil, "text": []byte(strings.Repeat("x", 2000)), "cut": good[:len(good)-5]} {
		if _, err := unpackImage(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzImage(f *testing.F) {
	f.Add(bzImage([]byte("\x28\xb5\x2f\xfd"), 15))
	f.Add(bzImage([]byte("\x02\x21\x4c\x18"), 15))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if payload, size, err := payloadOf(b); err == nil && size < 1<<20 {
			if v, err := inflate(payload, size); err == nil {
				_ = hasPVH(v)
			}
		}
		_ = hasPVH(b)
	})
}

func TestFiles(t *testing.T) {
	var b bytes.Buffer
	files := Files{"init": {Data: []byte("#!"), Exec: true}, "a/b/c": {Data: []byte("x")}, "a/b/d": {Data: nil}}
	if err := files.write(&b); err != nil {
		t.Fatal(err)
	}
	r := cpio.NewReader(&b)
	var got []string
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name+" "+h.Mode.String())
	}
	if s := strings.Join(got, ", "); s != "a 040755, a/b 040755, a/b/c 0100644, a/b/d 0100644, init 0100755" {
		t.Error(s)
	}
	for _, name := range []string{"/etc/passwd", "../x", "a/../b", "", ".", "a//b"} {
		if err := (Files{name: {}}).write(io.Discard); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
	if err := (Files{"x": {Path: t.TempDir()}}).write(io.Discard); err == nil {
		t.Error("a directory: no error")
	}
}

// TestLoaded has the executable of these tests without what is not loaded: its
// segments are the same, and it is shorter.
func TestLoaded(t *testing.T) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	defer self.Close()
	whole, err := io.ReadAll(self)
	if err != nil {
		t.Fatal(err)
	}
	r, size, err := loaded(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	short, err := io.ReadAll(r)
	if err != nil || int64(len(short)) != size || len(short) >= len(whole) {
		t.Fatalf("%d of %d bytes, announced %d: %v", len(short), len(whole), size, err)
	}
	a, err := elf.NewFile(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	b, err := elf.NewFile(bytes.NewReader(short))
	if err != nil || len(b.Sections) != 0 || b.Entry != a.Entry || len(b.Progs) != len(a.Progs) {
		t.Fatalf("%+v, %v", b, err)
	}
	for i, p := range a.Progs {
		x, errA := io.ReadAll(p.Open())
		y, errB := io.ReadAll(b.Progs[i].Open())
		if errA != nil || errB != nil || p.ProgHeader != b.Progs[i].ProgHeader {
			t.Fatalf("segment %d: %+v, %v, %v", i, b.Progs[i], errA, errB)
		}
		if p.Off > 0 && !bytes.Equal(x, y) { // the first holds the header
			t.Errorf("segment %d differs", i)
		}
	}
	for name, b := range map[string][]byte{"cut": whole[:len(short)-1], "text": []byte("#!/bin/sh"), "empty": nil} {
		if _, _, err := loaded(bytes.NewReader(b), int64(len(b))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCache keeps a kernel, finds it again, and boots none that was tampered with.
func TestCache(t *testing.T) {
	cache := t.TempDir()
	for _, release := range []string{"6.12.9-x", "6.12.10-x", "6.1.3"} {
		if _, err := save(cache, manifest{Release: release, Source: "p_" + release}, map[string][]byte{bootFile: []byte(release), "modules/veth.ko.xz": []byte("m")}); err != nil {
			t.Fatal(err)
		}
	}
	// The same once more is as good.
	if _, err := save(cache, manifest{Release: "6.1.3"}, map[string][]byte{bootFile: []byte("other")}); err != nil {
		t.Fatal(err)
	}
	k := cached(cache, "6.12")
	if k == nil || k.Release != "6.12.10-x" || k.Name != "6.12" || k.Source != "p_6.12.10-x" || filepath.Base(k.Modules()["veth"]) != "veth.ko.xz" {
		t.Fatalf("%+v", k)
	}
	var b bytes.Buffer
	if err := k.write(&b); err != nil || b.String() != "6.12.10-x" {
		t.Errorf("%q, %v", b.String(), err)
	}
	if err := os.WriteFile(filepath.Join(k.dir, bootFile), []byte("evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.write(io.Discard); err == nil || !strings.Contains(err.Error(), "not what was fetched") {
		t.Errorf("tampered with: %v", err)
	}
	if k := cached(cache, "6.2"); k != nil {
		t.Errorf("6.2: %+v", k)
	}
	dir := filepath.Join(cache, "6.3.1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, manifestFile), []byte(`{"release":"6.3.1","files":{"kernel":"x","../../x":"y"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if k := cached(cache, "6.3"); k != nil {
		t.Errorf("a name that leads out: %+v", k)
	}
}

func TestConsole(t *testing.T) {
	c := &tail{}
	for range 1000 {
		_, _ = c.Write([]byte("noise \x1b[31mred\x07\n"))
	}
	if l := c.lines(); len(l) != consoleLines || l[0] != "noise [31mred" {
		t.Errorf("%d lines, %q", len(l), l[0])
	}
	_, _ = c.Write([]byte("[ 1.0] Kernel panic - not syncing: x\n[ 1.0] Call Trace:\n"))
	if l := c.lines(); !strings.Contains(l[len(l)-1], panicked) {
		t.Errorf("%q", l[len(l)-1])
	}
}
