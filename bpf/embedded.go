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
	all, err := EmbeddedBytes(path)
	if err != nil {
		return nil, err
	}
	var out []*Object
	var errs []error
	for i, data := range all {
		o, err := readObject(fmt.Sprintf("%s#%d", path, i), bytes.NewReader(data))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, o)
	}
	return out, errors.Join(errs...)
}

// EmbeddedBytes returns the objects inside an executable as they stand there, for
// tools that only read files. They share one array.
func EmbeddedBytes(path string) ([][]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxObjectSize))
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for at := 1; at < len(data); {
		i := bytes.Index(data[at:], []byte(elf.ELFMAG))
		if i < 0 {
			break
		}
		at += i
		if n := objectSize(data[at:]); n > 0 {
			out = append(out, data[at:at+n])
			at += n
			continue
		}
		at += len(elf.ELFMAG)
	}
	return out, nil
}

// objectSize is the length of the eBPF object at the start of data, or 0. A
// relocatable object ends with its section headers in what compilers write,
// but a section may stand behind them.
func objectSize(data []byte) int {
	if len(data) < 64 || data[elf.EI_CLASS] != byte(elf.ELFCLASS64) {
		return 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	if data[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
		order = binary.BigEndian
	}
	if elf.Type(order.Uint16(data[16:])) != elf.ET_REL || elf.Machine(order.Uint16(data[18:])) != elf.EM_BPF {
		return 0
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return 0
	}
	end := order.Uint64(data[40:]) + uint64(order.Uint16(data[58:]))*uint64(order.Uint16(data[60:]))
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS {
			end = max(end, s.Offset+s.FileSize)
		}
	}
	if end > uint64(len(data)) {
		return 0
	}
	return int(end)
}
