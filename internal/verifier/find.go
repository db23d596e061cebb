package verifier

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Source is a file whose programs are looked at.
type Source struct {
	Path string
	// Name is how the file is called in rows: its name, or its path below the
	// directory that was named; the whole path where two files would share it.
	Name string
	Size int64 // bytes
	// Named tells that somebody asked for this very file, so that it must hold
	// programs.
	Named bool
}

// Find turns arguments into sources: files, patterns of files, and directories, below
// which every object and every executable that may hold one counts. A file that is
// reached twice is taken once. skipped counts the files of directories and patterns
// that hold no programs, as far as can be told without reading them.
func Find(args []string) (found []Source, skipped int, err error) {
	seen := map[int64][]fs.FileInfo{} // by size
	add := func(path, name string, named bool) error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !named && !mayHold(path, st) {
			skipped++
			return nil
		}
		if slices.ContainsFunc(seen[st.Size()], func(i fs.FileInfo) bool { return os.SameFile(i, st) }) {
			return nil
		}
		seen[st.Size()] = append(seen[st.Size()], st)
		found = append(found, Source{Path: path, Name: name, Size: st.Size(), Named: named})
		return nil
	}
	for _, arg := range args {
		st, err := os.Stat(arg)
		switch {
		case err == nil && st.IsDir():
			err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					if path == arg {
						return err
					}
					skipped++ // what may not be read is no reason to stop
					return nil
				}
				if d.IsDir() || !d.Type().IsRegular() {
					return nil
				}
				name, err := filepath.Rel(arg, path)
				if err != nil {
					return err
				}
				return add(path, filepath.ToSlash(name), false)
			})
		case err == nil:
			err = add(arg, filepath.Base(arg), true)
		case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(arg, "*?["):
			var matches []string
			if matches, err = filepath.Glob(arg); err == nil && len(matches) == 0 {
				err = fmt.Errorf("no file matches %s", arg)
			}
			for _, m := range matches {
				if err == nil {
					err = add(m, filepath.Base(m), false)
				}
			}
		case errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("there is no file %s", arg)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	distinguish(found)
	return found, skipped, nil
}

// distinguish gives sources that share a name their whole paths.
func distinguish(found []Source) {
	count := map[string]int{}
	for _, s := range found {
		count[s.Name]++
	}
	for i := range found {
		if s := &found[i]; count[s.Name] > 1 {
			s.Name = filepath.ToSlash(filepath.Clean(s.Path))
		}
	}
}

// mayHold tells by its first bytes whether a file is an object for BPF, or an
// executable or library, which may hold some.
func mayHold(path string, st fs.FileInfo) bool {
	if !st.Mode().IsRegular() {
		return false
	}
	switch typ, machine := kind(path); typ {
	case elf.ET_REL:
		return machine == elf.EM_BPF || machine == elf.EM_NONE // which old compilers wrote
	case elf.ET_EXEC, elf.ET_DYN:
		return true
	}
	return false
}

// executable tells that a file is an executable or a library.
func executable(path string) bool {
	typ, _ := kind(path)
	return typ == elf.ET_EXEC || typ == elf.ET_DYN
}

// kind is what the first bytes of a regular file say that it is.
func kind(path string) (typ elf.Type, machine elf.Machine) {
	f, err := os.Open(path)
	if err != nil {
		return elf.ET_NONE, elf.EM_NONE
	}
	defer f.Close()
	var b [20]byte // up to e_machine
	if _, err := io.ReadFull(f, b[:]); err != nil || !bytes.HasPrefix(b[:], []byte(elf.ELFMAG)) {
		return elf.ET_NONE, elf.EM_NONE
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if b[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
		order = binary.BigEndian
	}
	return elf.Type(order.Uint16(b[16:])), elf.Machine(order.Uint16(b[18:]))
}
