//go:build linux

package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Embedded returns the eBPF objects inside an executable: libbpf skeletons and
// bpf2go both store the whole object in the program's data. Their order is that
// of the file. A file with none gives an empty result; objects that cannot be read
// are told in the error, which comes beside the others.
func Embedded(path string) ([]*Object, error) {
	var out []*Object
	var errs []error
	n := 0
	err := embedded(path, func(r *io.SectionReader) error {
		o, err := readObject(fmt.Sprintf("%s#%d", path, n), r)
		n++
		if err != nil {
			errs = append(errs, err)
		} else {
			out = append(out, o)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, errors.Join(errs...)
}

// EmbeddedBytes returns the objects inside an executable as they stand there, for
// tools that only read files.
func EmbeddedBytes(path string) (all [][]byte, err error) {
	err = embedded(path, func(r *io.SectionReader) error {
		b, err := io.ReadAll(r)
		all = append(all, b)
		return err
	})
	return all, err
}

// embedded finds the objects inside a file, which need not fit into memory.
func embedded(path string, found func(*io.SectionReader) error) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	size := min(st.Size(), MaxObjectSize)
	buf := make([]byte, 256<<10)
	for at := int64(1); at < size; {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		i := bytes.Index(buf[:n], []byte(elf.ELFMAG))
		switch {
		case n < len(elf.ELFMAG):
			return nil
		case i < 0:
			at += int64(n - len(elf.ELFMAG) + 1)
			continue
		}
		at += int64(i)
		n64 := objectSize(io.NewSectionReader(f, at, size-at))
		if n64 == 0 {
			at += int64(len(elf.ELFMAG))
			continue
		}
		if err := found(io.NewSectionReader(f, at, n64)); err != nil {
			return err
		}
		at += n64
	}
	return nil
}

// objectSize is the length of the eBPF object at the start of r, or 0. A
// relocatable object ends with its section headers in what compilers write,
// but a section may stand behind them.
func objectSize(r *io.SectionReader) int64 {
	var header [64]byte
	if _, err := r.ReadAt(header[:], 0); err != nil || header[elf.EI_CLASS] != byte(elf.ELFCLASS64) {
		return 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	if header[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
		order = binary.BigEndian
	}
	if elf.Type(order.Uint16(header[16:])) != elf.ET_REL || elf.Machine(order.Uint16(header[18:])) != elf.EM_BPF {
		return 0
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return 0
	}
	size := uint64(r.Size())
	headers := uint64(order.Uint16(header[58:])) * uint64(order.Uint16(header[60:]))
	end := order.Uint64(header[40:])
	if end > size || headers > size-end {
		return 0
	}
	end += headers
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		if s.Offset > size || s.FileSize > size-s.Offset {
			return 0
		}
		end = max(end, s.Offset+s.FileSize)
	}
	return int64(end)
}
