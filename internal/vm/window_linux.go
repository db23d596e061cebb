package vm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cavaliergopher/cpio"
	"golang.org/x/sys/unix"
)

// The window is memory of the guest's init into which the host writes the guest's
// files while the machine stands still. Init tells where it lies in the machine's
// memory, and has the machine stopped; it finds the files when it goes on. No device
// is in the way, whose answer would come at a time of the host's.
//
// What is in the window is one frame; its payload is an archive as an initramfs is.

// windowed is the variable by which the init knows that it has a window, and its bytes.
const windowed = "GATE_WINDOW"

const pageSize = 4096

// An extent is a part of the machine's memory, in bytes.
type extent struct {
	At   int64 `json:"at"`
	Size int64 `json:"size"`
}

// await stops the machine until the host has given it its files.
func (p *Port) await(size int) error {
	w, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE|unix.MAP_LOCKED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	defer func() { _ = unix.Munmap(w) }()
	where, err := physical(w)
	if err != nil {
		return err
	}
	var b []byte
	for _, e := range where {
		b = binary.BigEndian.AppendUint64(b, uint64(e.At))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Size))
	}
	if len(b) > maxOutput {
		return fmt.Errorf("the window is in %d pieces", len(where))
	}
	if err := p.send(asking, b); err != nil {
		return err
	}
	if err := unix.IoctlSetInt(int(p.f.Fd()), unix.TCSBRK, 1); err != nil { // as tcdrain
		return os.NewSyscallError("tcdrain", err)
	}
	if err := halt(); err != nil {
		return err
	}
	f, err := readFrame(bufio.NewReader(bytes.NewReader(w)), size)
	if err == nil && f.kind != given {
		err = errNoise
	}
	if err != nil {
		return fmt.Errorf("what the host wrote into the window: %w", err)
	}
	return unpackFiles("/", bytes.NewReader(f.payload))
}

// physical tells where memory of this process lies in the machine's.
func physical(mem []byte) ([]extent, error) {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const present, frame = 1 << 63, 1<<55 - 1
	entries := make([]byte, len(mem)/pageSize*8)
	first := int64(addressOf(mem)) / pageSize
	if _, err := f.ReadAt(entries, first*8); err != nil {
		return nil, err
	}
	var all []extent
	for ; len(entries) > 0; entries = entries[8:] {
		e := binary.NativeEndian.Uint64(entries)
		if e&present == 0 || e&frame == 0 {
			return nil, errors.New("a page of the window is nowhere")
		}
		at := int64(e&frame) * pageSize
		if n := len(all); n > 0 && all[n-1].At+all[n-1].Size == at {
			all[n-1].Size += pageSize
			continue
		}
		all = append(all, extent{at, pageSize})
	}
	return all, nil
}

func addressOf(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

// unpackFiles writes the files of an archive below a directory.
func unpackFiles(dir string, r io.Reader) error {
	in := cpio.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := filepath.Join(dir, h.Name)
		if h.Mode.IsDir() {
			err = os.MkdirAll(at, h.FileInfo().Mode().Perm())
		} else {
			err = writeFile(at, h.FileInfo().Mode().Perm(), in)
		}
		if err != nil {
			return err
		}
	}
}

func writeFile(name string, mode os.FileMode, r io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// readWindow is what a guest says of where its window is. All of it has to be in the
// machine's memory, of which nothing is above the hole for devices.
func readWindow(b []byte, memory int64) ([]extent, error) {
	var all []extent
	for ; len(b) >= 16; b = b[16:] {
		e := extent{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
		if e.At < 0 || e.Size <= 0 || e.At > memory || e.Size > memory-e.At {
			return nil, errNoise
		}
		all = append(all, e)
	}
	if len(b) > 0 {
		return nil, errNoise
	}
	return all, nil
}

// A pane writes into the window, from its beginning on.
type pane struct {
	memory io.WriterAt
	left   []extent
}

func (p *pane) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		if len(p.left) == 0 {
			return done, io.ErrShortWrite
		}
		e := &p.left[0]
		n, err := p.memory.WriteAt(b[done:done+int(min(e.Size, int64(len(b)-done)))], e.At)
		done += n
		if err != nil {
			return done, err
		}
		if e.At, e.Size = e.At+int64(n), e.Size-int64(n); e.Size == 0 {
			p.left = p.left[1:]
		}
	}
	return done, nil
}
