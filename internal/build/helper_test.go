package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary stand in for a gate that is killed: with
// BUILD_TEST_OPEN it opens a tree, prints where, and waits.
func TestMain(m *testing.M) {
	if dir := os.Getenv("BUILD_TEST_OPEN"); dir != "" {
		t, err := Open(context.Background(), dir, "HEAD")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(t.Root)
		time.Sleep(time.Minute)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A repo is a real repository in a temporary directory.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T) repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "test")
		t.Setenv("GIT_"+who+"_EMAIL", "test@example.com")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// What is left in TempDir is looked for, so it must be this test's alone.
	t.Setenv("TMPDIR", tempDir(t))
	r := repo{t, dir}
	r.git("init", "-q", "-b", "main")
	return r
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "protocol.file.allow=always"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repo) write(name, text string) {
	r.t.Helper()
	write(r.t, filepath.Join(r.dir, name), text)
}

// commit commits one file and returns the commit.
func (r repo) commit(name, text string) string {
	r.t.Helper()
	r.write(name, text)
	r.git("add", "-f", "--", name)
	r.git("commit", "-q", "-m", name)
	return r.git("rev-parse", "HEAD")
}

func (r repo) open(ref string) *Tree { return r.openIn(r.dir, ref) }

func (r repo) openIn(dir, ref string) *Tree {
	r.t.Helper()
	tree, err := Open(context.Background(), dir, ref)
	if err != nil {
		r.t.Fatalf("Open(%q): %v", ref, err)
	}
	r.t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			r.t.Errorf("Close: %v", err)
		}
	})
	return tree
}

// wantClean checks that nothing of gate is left.
func (r repo) wantClean() {
	r.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
		r.t.Errorf("left in the temporary directory: %q", left)
	}
	if list := r.git("worktree", "list"); strings.Contains(list, "\n") {
		r.t.Errorf("worktrees left:\n%s", list)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(b))
}

// wantError checks an error's text and its hint.
func wantError(t *testing.T, err error, text, hint string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", text)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("error %q lacks %q", err, text)
	}
	var h interface{ Hint() string }
	got := ""
	if errors.As(err, &h) {
		got = h.Hint()
	}
	if !strings.Contains(got, hint) || hint == "" && got != "" {
		t.Errorf("hint %q, want %q", got, hint)
	}
}
