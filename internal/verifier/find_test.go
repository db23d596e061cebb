package verifier

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// header is the beginning of an ELF file.
func header(typ elf.Type, machine elf.Machine, order binary.ByteOrder) string {
	b := make([]byte, 64)
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	if order == binary.BigEndian {
		b[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	}
	order.PutUint16(b[16:], uint16(typ))
	order.PutUint16(b[18:], uint16(machine))
	return string(b)
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.o":         header(elf.ET_REL, elf.EM_BPF, binary.LittleEndian) + "a",
		"big.o":       header(elf.ET_REL, elf.EM_BPF, binary.BigEndian),
		"sub/a.o":     header(elf.ET_REL, elf.EM_BPF, binary.LittleEndian) + "sub/a",
		"sub/tool":    header(elf.ET_DYN, elf.EM_X86_64, binary.LittleEndian),
		"sub/crt.o":   header(elf.ET_REL, elf.EM_X86_64, binary.LittleEndian),
		"README":      "text",
		"empty.o":     "",
		"short.o":     elf.ELFMAG,
		"other/x.o":   header(elf.ET_REL, elf.EM_NONE, binary.LittleEndian),
		"other/a.o":   header(elf.ET_REL, elf.EM_BPF, binary.LittleEndian) + "other",
		"other/y.txt": "text",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a.o", filepath.Join(dir, "link.o")); err != nil {
		t.Skip("no symbolic links: ", err)
	}
	for _, tt := range []struct {
		args    []string
		want    string
		skipped int
		err     string
	}{
		{[]string{"."}, "a.o big.o other/a.o other/x.o sub/a.o sub/tool", 5, ""},
		{[]string{"sub", "other"}, "sub/a.o tool other/a.o x.o", 2, ""},
		{[]string{"a.o", "link.o", "./a.o"}, "a.o!", 0, ""},
		{[]string{"a.o", "."}, "a.o! big.o other/a.o other/x.o sub/a.o sub/tool", 5, ""},
		{[]string{"README"}, "README!", 0, ""},
		{[]string{"*.o"}, "a.o big.o", 2, ""}, // link.o is a.o
		{[]string{"*/*.o"}, "other/a.o x.o sub/a.o", 1, ""},
		{[]string{"*.x"}, "", 0, "no file matches *.x"},
		{[]string{"gone.o"}, "", 0, "there is no file gone.o"},
		{[]string{"[.o"}, "", 0, "syntax error in pattern"},
		{nil, "", 0, ""},
	} {
		t.Chdir(dir)
		found, skipped, err := Find(tt.args)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want %q", tt.args, err, tt.err)
			}
			continue
		}
		var names []string
		for _, s := range found {
			name := s.Name
			if s.Named {
				name += "!"
			}
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != tt.want || skipped != tt.skipped || err != nil {
			t.Errorf("%q: %q, %d skipped, %v; want %q, %d", tt.args, got, skipped, err, tt.want, tt.skipped)
		}
	}
}
