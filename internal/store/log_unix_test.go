//go:build unix

package store

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A log belongs to whom the store belongs, as runs do, and so does a store that a log
// is the first thing in. It is written nowhere else, whatever its name or a link says.
func TestPutLog(t *testing.T) {
	parent := t.TempDir()
	const nobody = 65534
	if root := os.Geteuid() == 0; root && os.Chown(parent, nobody, nobody) != nil {
		t.Fatal("chown")
	}
	s, err := Open(t.Context(), filepath.Join(parent, "store"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := s.PutLog(t.Context(), "20260102t030405-head-../bad", "the log\n")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "the log\n" || filepath.Dir(file) != filepath.Join(s.String(), "logs") {
		t.Errorf("%s: %q, %v", file, text, err)
	}
	if runtime.GOOS == "linux" && os.Geteuid() == 0 {
		for _, p := range []string{s.String(), filepath.Dir(file), file} {
			info, err := os.Stat(p)
			if err != nil {
				t.Fatal(err)
			}
			if uid := info.Sys().(*syscall.Stat_t).Uid; uid != nobody {
				t.Errorf("%s belongs to %d, not to the store's owner", p, uid)
			}
		}
	}
	elsewhere := t.TempDir()
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if file, err := s.PutLog(t.Context(), "x", "x"); err == nil {
		t.Errorf("written through a link: %s", file)
	}
}
