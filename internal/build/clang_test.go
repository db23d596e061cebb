package build

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

func needClang(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("clang"); err != nil {
		t.Skip("clang is not installed")
	}
}

const source = `
#include "value.h"
__attribute__((section("xdp"), used)) int prog(void *ctx) { const char *f = __FILE__; return f[0] + VALUE; }
char LICENSE[] __attribute__((section("license"))) = "GPL";
`

func TestObjectCompiles(t *testing.T) {
	needClang(t)
	r := newRepo(t)
	r.commit("sub/value.h", "#ifndef VALUE\n#define VALUE 1\n#endif")
	r.commit("include/unused.h", "")
	r.commit("sub/x.bpf.c", source)
	head, base := r.openIn(filepath.Join(r.dir, "sub"), ""), r.openIn(filepath.Join(r.dir, "sub"), "HEAD")
	ctx := context.Background()

	objects := map[*Tree][]byte{}
	for _, tree := range []*Tree{head, base} {
		obj, err := tree.Object(ctx, "x.bpf.c", []string{"-I../include"})
		if err != nil {
			t.Fatal(err)
		}
		if objects[tree], err = os.ReadFile(obj); err != nil {
			t.Fatal(err)
		}
		if again, err := tree.Object(ctx, "x.bpf.c", []string{"-I../include"}); err != nil || again != obj {
			t.Errorf("the second time: %q, %v", again, err)
		}
		other, err := tree.Object(ctx, "x.bpf.c", []string{"-DVALUE=2"})
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(other); other == obj || bytes.Equal(b, objects[tree]) {
			t.Error("other flags gave the same object")
		}
	}
	if !bytes.HasPrefix(objects[head], []byte("\x7fELF")) {
		t.Error("no ELF file")
	}
	if !bytes.Equal(objects[head], objects[base]) {
		t.Error("one source in two trees gave different objects")
	}
	if bytes.Contains(objects[head], []byte(r.dir)) {
		t.Error("the object holds the name of its tree")
	}
	if files, _ := filepath.Glob(filepath.Join(r.dir, "sub", "*")); len(files) != 2 {
		t.Errorf("written beside the source: %q", files)
	}
	for _, tree := range []*Tree{head, base} {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	}
	r.wantClean()
}

func TestObjectErrors(t *testing.T) {
	needClang(t)
	r := newRepo(t)
	r.write("broken.bpf.c", "int f( {")
	r.write("core.bpf.c", `#include "vmlinux.h"`)
	r.write("helpers.bpf.c", `#include "bpf/bpf_helpers.h"`)
	r.write("-x.bpf.c", "int x;")
	tree := r.open("")
	ctx := context.Background()
	for _, tt := range []struct {
		name       string
		flags      []string
		text, hint string
	}{
		{"broken.bpf.c", nil, "broken.bpf.c:1:8: error:", ""},
		{"core.bpf.c", nil, "'vmlinux.h' file not found", "bpftool btf dump"},
		{"helpers.bpf.c", []string{"-nostdinc"}, "file not found", "libbpf-dev"},
		{"../x.o", nil, "leads out of the tree", ""},
		{"/etc/passwd", nil, "leads out of the tree", ""},
		{".", nil, "not a regular file", ""},
	} {
		_, err := tree.Object(ctx, tt.name, tt.flags)
		t.Run(tt.name, func(t *testing.T) { wantError(t, err, tt.text, tt.hint) })
	}
	if _, err := tree.Object(ctx, "nosuch.o", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v, want fs.ErrNotExist", err)
	}
	if _, err := tree.Object(ctx, "-x.bpf.c", nil); err != nil {
		t.Errorf("a name like a flag: %v", err)
	}
	_, err := tree.Object(ctx, "broken.bpf.c", nil)
	wantError(t, err, "compile broken.bpf.c of "+tree.Revision.Short()+": ", "")
	// The user named a file, which is told as such, once.
	file := r.open(filepath.Join(r.dir, "broken.bpf.c"))
	_, err = file.Object(ctx, file.File, nil)
	wantError(t, err, "compile "+filepath.Join(r.dir, "broken.bpf.c")+": ", "")
	t.Chdir(filepath.Dir(r.dir))
	_, err = file.Object(ctx, file.File, nil)
	wantError(t, err, "compile "+filepath.Join(filepath.Base(r.dir), "broken.bpf.c")+": ", "")

	t.Setenv("CLANG", "no-such-clang")
	_, err = tree.Object(ctx, "core.bpf.c", nil)
	wantError(t, err, "no-such-clang is not installed", "apt install clang")
	if _, err := ClangVersion(ctx); err == nil {
		t.Error("the version of a missing clang")
	}
}

func TestObjectAsItIs(t *testing.T) {
	r := newRepo(t)
	r.write("a.o", "x")
	got, err := r.open("").Object(context.Background(), "a.o", nil)
	if err != nil || got != filepath.Join(r.dir, "a.o") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFindVersionedClang(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"clang-9", "clang-18", "clang-format-19", "clang-tidy"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("CLANG", "")
	if got, err := findClang(); err != nil || got != filepath.Join(dir, "clang-18") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestClangVersion(t *testing.T) {
	needClang(t)
	v, err := ClangVersion(context.Background())
	if err != nil || !regexp.MustCompile(`^\d+\.\d+`).MatchString(v) {
		t.Errorf("%q, %v", v, err)
	}
}
