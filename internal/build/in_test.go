package build

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestIn(t *testing.T) {
	r := newRepo(t)
	r.commit("lb/a.txt", "old")
	if err := os.Symlink("/", filepath.Join(r.dir, "out")); err != nil {
		t.Fatal(err)
	}
	r.commit("lb/a.txt", "new")
	base := r.open("HEAD~1")
	lb, err := base.In("lb")
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, lb.Dir, "a.txt"); got != "old" || lb.Root != base.Root || lb.Revision != base.Revision {
		t.Errorf("%q, %+v", got, lb)
	}
	if err := lb.Run(t.Context(), Commands{Run: "cp a.txt made.txt", Outputs: []string{"*.txt"}}, nil); err != nil {
		t.Error(err)
	}
	if got := read(t, base.Root, "lb", "made.txt"); got != "old" {
		t.Errorf("built %q", got)
	}
	if err := lb.Close(); err != nil {
		t.Error(err)
	}
	if got := read(t, base.Root, "lb", "made.txt"); got != "old" {
		t.Error("closing it removed the tree")
	}
	if _, err := base.In("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such directory: %v", err)
	}
	head := r.open("")
	for _, bad := range []string{"..", "../..", "out", "lb/a.txt", "out/etc"} {
		if in, err := head.In(bad); err == nil {
			t.Errorf("%s: %+v", bad, in)
		}
	}
	if err := base.Close(); err != nil {
		t.Error(err)
	}
	r.wantClean()
}
