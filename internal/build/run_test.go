package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	r := newRepo(t)
	r.commit("src", "base")
	r.commit("src", "head")
	r.write("deps/lib", "dependency")
	head, base := r.open(""), r.open("HEAD~1")
	c := Commands{
		Run:     "mkdir -p out && cat src deps/lib > out/a.o",
		Share:   []string{"deps"},
		Outputs: []string{"out/*.o"},
	}
	for _, tree := range []*Tree{head, base} {
		for range 2 { // a second build finds the first one's links
			if err := tree.Run(context.Background(), c, head); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := read(t, base.Dir, "out/a.o"); got != "basedependency" {
		t.Errorf("base built %q", got)
	}
	if len(base.Warnings) > 0 {
		t.Errorf("warnings %q", base.Warnings)
	}
	if err := base.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, r.dir, "deps/lib"); got != "dependency" {
		t.Errorf("Close followed a shared link: %q", got)
	}
}

func TestRunErrors(t *testing.T) {
	r := newRepo(t)
	r.commit("src", "x")
	// A revision whose symlinks lead out.
	outside := tempDir(t)
	if err := os.Symlink(outside, filepath.Join(r.dir, "link")); err != nil {
		t.Fatal(err)
	}
	r.git("add", "link")
	r.git("commit", "-q", "-m", "link")
	r.write("dir/obj.o", "head's")
	r.write("link/deps/x", "")
	for _, tt := range []struct {
		name       string
		c          Commands
		text, hint string
	}{
		{"failing", Commands{Run: "echo out; echo err >&2; exit 3"}, "exit status 3\n  out\n  err", ""},
		{"long output", Commands{Run: "seq 100000; exit 1"}, "the last 40 lines:\n  99961\n", ""},
		{"timeout", Commands{Run: "sleep 30", Timeout: 50 * time.Millisecond}, "took longer than 50ms", "build.timeout"},
		{"no stdin", Commands{Run: "read x || exit 4"}, "exit status 4", ""},
		{"no output", Commands{Run: "true", Outputs: []string{"out/*.o"}}, "matches no file", "build.outputs"},
		{"output outside", Commands{Outputs: []string{"../*"}}, "leads out of the tree", ""},
		{"absolute output", Commands{Outputs: []string{"/etc/passwd"}}, "leads out of the tree", ""},
		{"bad glob", Commands{Outputs: []string{"["}}, "syntax error", ""},
		{"output is head's", Commands{Share: []string{"dir"}, Outputs: []string{"dir/*.o"}}, "both sides would be the same file", ""},
		{"share outside", Commands{Share: []string{"../x"}}, "leads out of the tree", ""},
		{"share all", Commands{Share: []string{"."}}, "leads out of the tree", ""},
		{"share absolute", Commands{Share: []string{"/etc"}}, "leads out of the tree", ""},
		{"share nothing", Commands{Share: []string{"nosuch"}}, "has no such path", "run what makes it"},
		{"share through a symlink", Commands{Share: []string{"link/deps"}}, "escapes", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head, base := r.open(""), r.open("HEAD")
			defer base.Close()
			wantError(t, base.Run(context.Background(), tt.c, head), tt.text, tt.hint)
		})
	}
	if left, _ := filepath.Glob(filepath.Join(outside, "*")); len(left) != 1 {
		t.Errorf("written outside of the tree: %q", left)
	}
}

func TestShareKeepsTracked(t *testing.T) {
	r := newRepo(t)
	r.commit("deps/lib", "tracked")
	head, base := r.open(""), r.open("HEAD")
	r.write("deps/lib", "changed")
	if err := base.Run(context.Background(), Commands{Share: []string{"deps"}}, head); err != nil {
		t.Fatal(err)
	}
	if got := read(t, base.Dir, "deps/lib"); got != "tracked" {
		t.Errorf("base has head's file: %q", got)
	}
	if len(base.Warnings) != 1 || !strings.Contains(base.Warnings[0], "its own deps") {
		t.Errorf("warnings %q", base.Warnings)
	}
}

// Ctrl-C must end the build with all that it started, also what ignores being
// asked.
func TestRunCancelKillsAll(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	tree := r.open("")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for { // until the grandchild is up
			if _, err := os.Stat(filepath.Join(r.dir, "up")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	const most = 1200
	err := tree.Run(ctx, Commands{Run: fmt.Sprintf(`
		sh -c 'trap "" TERM; touch up; for i in $(seq %d); do echo x >> alive; sleep 0.05; done' &
		wait; wait`, most)}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want that of the context", err)
	}
	// The kill is sent before Run returns; a dying process writes no more.
	before := read(t, r.dir, "alive")
	if strings.Count(before, "x") == most {
		t.Error("it was waited for a grandchild")
	}
	time.Sleep(300 * time.Millisecond)
	if after := read(t, r.dir, "alive"); after != before {
		t.Error("a grandchild is still running")
	}
}

func TestRunsAsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	const nobody = 65534
	r := newRepo(t)
	r.commit("src.bpf.c", "int x;")
	// Temporary directories of tests are root's alone; nobody has to get in.
	for dir := r.dir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
	for dir := os.TempDir(); len(dir) > 4; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
	if err := filepath.WalkDir(r.dir, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, nobody, nobody))
	}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", "/root") // which nobody may not read
	r.write("deps/lib", "")
	head, base := r.open(""), r.open("HEAD")
	for _, tree := range []*Tree{head, base} {
		if err := tree.Run(context.Background(), Commands{Run: "id -u > who && test $HOME != /root", Share: []string{"deps"}}, head); err != nil {
			t.Fatal(err)
		}
		if got := read(t, tree.Dir, "who"); got != "65534" {
			t.Errorf("built by user %s", got)
		}
	}
	if _, err := exec.LookPath("clang"); err == nil {
		if _, err := base.Object(context.Background(), "src.bpf.c", nil); err != nil {
			t.Error(err)
		}
	}
	// A pull request must not make root read what its author may not.
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(r.dir, "leak.o")); err != nil {
		t.Fatal(err)
	}
	_, err := head.Object(context.Background(), "leak.o", nil)
	wantError(t, err, "may not read", "")
	if err := base.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestTail(t *testing.T) {
	var out tail
	for range 3000 {
		out.Write(bytes.Repeat([]byte("x"), 99))
		out.Write([]byte("\n"))
	}
	if len(out.buf) != tailBytes {
		t.Errorf("keeps %d bytes, want %d", len(out.buf), tailBytes)
	}
	if got := strings.Count(out.lines(5), "\n"); got != 6 {
		t.Errorf("%d lines, want a heading and 5", got)
	}
}
