package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"

	"github.com/ulikunitz/xz"
)

// An opener opens a regular file by its absolute path: in the process's root first, then in our
// own. It gives nil where there is none.
type opener func(name string) (data io.ReaderAt, size int64, close func() error)

// A debugFile holds what was stripped from an object.
type debugFile struct {
	elf   *elf.File
	close func() error
}

// debugRoot is where distributions put debug files.
const debugRoot = "/usr/lib/debug"

// openDebug finds the separate debug file of an object, by its build id or by the name and the
// checksum that the object gives, where gdb looks for it:
// https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html
func (o *object) openDebug() error {
	if o.debug != nil || o.open == nil {
		return nil
	}
	id := buildID(o.elf)
	if len(id) >= 2 && len(id) <= 64 {
		name := hex.EncodeToString(id)
		file := o.tryDebug(debugRoot+"/.build-id/"+name[:2]+"/"+name[2:]+".debug", func(f *elf.File, _ io.Reader) error {
			if !bytes.Equal(buildID(f), id) {
				return errors.New("it has another build id")
			}
			return nil
		})
		if file != nil {
			o.debug = file
			return nil
		}
	}
	s := o.elf.Section(".gnu_debuglink")
	if s == nil || s.Size > 4096 {
		return nil
	}
	link, err := s.Data()
	if err != nil {
		return err
	}
	name, rest, _ := bytes.Cut(link, []byte{0})
	if len(rest) < 4 || len(name) == 0 || bytes.ContainsRune(name, '/') || string(name) == ".." {
		return fmt.Errorf("its .gnu_debuglink makes no sense")
	}
	want := o.elf.ByteOrder.Uint32(link[len(link)-4:])
	dir := path.Dir(o.path)
	for _, place := range []string{dir, dir + "/.debug", debugRoot + dir} {
		file := o.tryDebug(path.Join(place, string(name)), func(_ *elf.File, r io.Reader) error {
			sum := crc32.NewIEEE()
			if _, err := io.Copy(sum, r); err != nil {
				return err
			}
			if sum.Sum32() != want {
				return errors.New("it belongs to another build: its checksum differs")
			}
			return nil
		})
		if file != nil {
			o.debug = file
			return nil
		}
	}
	return nil
}

// tryDebug opens what may be the debug file. One that turns out to be another's is told.
func (o *object) tryDebug(name string, check func(*elf.File, io.Reader) error) *debugFile {
	data, size, done := o.open(name)
	if data == nil {
		return nil
	}
	var file *elf.File
	err := guard(func() (err error) {
		if size > 16*o.limit {
			return errTooBig
		}
		if file, err = elf.NewFile(data); err != nil {
			return err
		}
		return check(file, io.NewSectionReader(data, 0, size))
	})
	if err != nil {
		o.doubts.add("%s: %s is not used: %v", o.path, name, err)
		_ = done()
		return nil
	}
	return &debugFile{elf: file, close: done}
}

// buildID is what the linker called this build: of its content, so the same file wherever it lies.
func buildID(f *elf.File) []byte {
	s := f.Section(".note.gnu.build-id")
	if s == nil || s.Size > 4096 {
		return nil
	}
	note, err := s.Data()
	if err != nil || len(note) < 16 {
		return nil
	}
	name, size := f.ByteOrder.Uint32(note), f.ByteOrder.Uint32(note[4:])
	if name != 4 || f.ByteOrder.Uint32(note[8:]) != 3 || uint64(size) > uint64(len(note)-16) {
		return nil
	}
	return note[16 : 16+size]
}

// maxMini is how big a symbol table may be that was compressed into an object, in bytes.
const maxMini = 64 << 20

// miniDebugInfo unpacks the symbol table that Fedora puts into stripped files: an ELF file of its
// own, as xz.
func (o *object) miniDebugInfo() (*elf.File, error) {
	s := o.elf.Section(".gnu_debugdata")
	if s == nil {
		return nil, nil
	}
	packed, err := o.section(o.elf, s)
	if err != nil {
		return nil, err
	}
	o.weight -= int64(len(packed))
	r, err := xz.ReaderConfig{DictCap: 8 << 20, SingleStream: true}.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf(".gnu_debugdata: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxMini+1))
	if err != nil {
		return nil, fmt.Errorf(".gnu_debugdata: %w", err)
	}
	if len(data) > maxMini {
		return nil, fmt.Errorf(".gnu_debugdata %w", errTooBig)
	}
	return elf.NewFile(bytes.NewReader(data))
}
