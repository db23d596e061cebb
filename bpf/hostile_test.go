//go:build linux

package bpf

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// FuzzObject is that no file takes the gate down before the kernel sees it: it is
// read, looked through and pruned, or refused.
func FuzzObject(f *testing.F) {
	for _, name := range []string{"xdp-dispatcher.o", "xdpfilt_alw_eth.o"} {
		found, err := filepath.Glob("/usr/lib/*/bpf/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range found {
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = objectSize(io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))))
		o, err := readObject("fuzzed", bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, p := range o.Programs() {
			_ = o.Digest(p)
			_, _ = o.tailCalls(p)
			g := newCallGraph(o.spec.Programs[p].Instructions)
			g.depths(make([]int, len(g)), g.async)
			if spec, err := o.prune(p); err == nil {
				shrink(spec)
			}
		}
	})
}

// TestHugeSections is that what a section claims is believed up to a point: zeros and
// compressed bytes take no room in a file, and overlapping sections share theirs.
func TestHugeSections(t *testing.T) {
	testkernel.Require(t, testkernel.Clang)
	path := compileFile(t, `
int zeros[4];
SEC("xdp") int p(struct xdp_md *c) { return zeros[1]; }
`)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const (
		shoff, shentsize, shnum = 40, 58, 60 // in the file's header
		shType, shSize, noBits  = 4, 32, 8   // in a section's
	)
	at := int(binary.LittleEndian.Uint64(b[shoff:]))
	size, n := int(binary.LittleEndian.Uint16(b[shentsize:])), int(binary.LittleEndian.Uint16(b[shnum:]))
	found := false
	for i := range n {
		section := b[at+i*size : at+(i+1)*size]
		if binary.LittleEndian.Uint32(section[shType:]) == noBits {
			binary.LittleEndian.PutUint64(section[shSize:], 1<<40)
			found = true
		}
	}
	if !found {
		t.Fatal("the object has no .bss")
	}
	if _, err := readObject("huge", bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), `section ".bss" has 1099511627776 bytes`) {
		t.Errorf("%v", err)
	}
}

// TestNoFile is that what is no file is refused before it is opened, which may never
// end.
func TestNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, "/dev/zero"} {
		if _, err := OpenObject(name); err == nil || !strings.Contains(err.Error(), "is no regular file") {
			t.Errorf("%v", err)
		}
		if _, err := Embedded(name); err == nil || !strings.Contains(err.Error(), "is no regular file") {
			t.Errorf("%v", err)
		}
	}
}
