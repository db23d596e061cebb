package vm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/cavaliergopher/cpio"
)

// Files are what the guest's root directory holds, by slash-separated name. A name
// that begins with a slash or leads out is an error.
type Files map[string]File

// A File is the content of one file: bytes, or a file of the host.
type File struct {
	Data []byte
	Path string // of the host; used where it is not empty
	Exec bool
	// loaded: of an executable only what is loaded when it runs, without symbols and
	// debug information.
	loaded bool
}

// maxFiles is what an initramfs may hold in bytes.
const maxFiles = 512 << 20

// write writes an initramfs in the "newc" format.
//
// Note: it is not packed. Unpacking 14 MB costs the machine more instructions than
// reading them.
func (files Files) write(w io.Writer) error {
	c := cpio.NewWriter(w)
	made := map[string]bool{".": true}
	var total int64
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !fs.ValidPath(name) || name == "." {
			return fmt.Errorf("initramfs: %q is no name for a file", name)
		}
		for _, dir := range parents(name) {
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := c.WriteHeader(&cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755, Links: 2}); err != nil {
				return fmt.Errorf("initramfs: %w", err)
			}
		}
		n, err := files[name].write(c, name)
		if err != nil {
			return fmt.Errorf("initramfs: %s: %w", name, err)
		}
		if total += n; total > maxFiles {
			return fmt.Errorf("initramfs: more than %d MB", maxFiles>>20)
		}
	}
	return c.Close()
}

// parents are the directories above a name, the highest first.
func parents(name string) []string {
	var all []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		all = append(all, dir)
	}
	slices.Reverse(all)
	return all
}

func (f File) write(c *cpio.Writer, name string) (int64, error) {
	h := &cpio.Header{Name: name, Mode: cpio.TypeReg | 0o644, Links: 1, Size: int64(len(f.Data))}
	if f.Exec {
		h.Mode |= 0o111
	}
	if f.Path == "" {
		if err := c.WriteHeader(h); err != nil {
			return 0, err
		}
		_, err := c.Write(f.Data)
		return h.Size, err
	}
	in, err := os.Open(f.Path)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, errors.New("not a regular file")
	case info.Size() > maxFiles:
		return 0, fmt.Errorf("%d MB, at most %d", info.Size()>>20, maxFiles>>20)
	}
	var content io.Reader = in
	h.Size = info.Size()
	if f.loaded {
		if content, h.Size, err = loaded(in, h.Size); err != nil {
			return 0, err
		}
	}
	if err := c.WriteHeader(h); err != nil {
		return 0, err
	}
	_, err = io.CopyN(c, content, h.Size)
	return h.Size, err
}

// loaded is the part of an executable that is mapped when it runs: all up to the end
// of its last segment, under a header that promises no sections. Of a Go program that
// is two thirds, since symbols and debug information lie behind.
func loaded(in io.ReaderAt, size int64) (io.Reader, int64, error) {
	f, err := elf.NewFile(in)
	if err != nil {
		return nil, 0, err
	}
	end := uint64(0)
	for _, p := range f.Progs {
		end = max(end, p.Off+p.Filesz)
	}
	var header elf.Header64
	at := binary.Size(header)
	if f.Class != elf.ELFCLASS64 || end < uint64(at) || end > uint64(size) {
		return nil, 0, errors.New("an executable whose segments are not in it")
	}
	if err := binary.Read(io.NewSectionReader(in, 0, int64(at)), f.ByteOrder, &header); err != nil {
		return nil, 0, err
	}
	header.Shoff, header.Shnum, header.Shstrndx = 0, 0, 0
	var b bytes.Buffer
	if err := binary.Write(&b, f.ByteOrder, &header); err != nil {
		return nil, 0, err
	}
	return io.MultiReader(&b, io.NewSectionReader(in, int64(at), int64(end)-int64(at))), int64(end), nil
}

// Static tells why an executable cannot be a guest's init; nil is that it can: the
// guest has no library and no loader.
func Static(executable string) error {
	f, err := elf.Open(executable)
	if err != nil {
		return fmt.Errorf("%s: %w", executable, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errDynamic
		}
	}
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("it is for %s, and the machine is x86-64", f.Machine)
	}
	return nil
}

var errDynamic = errors.New("it is linked dynamically, and the guest has no libraries")
