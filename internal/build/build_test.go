package build

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ebpf-bench-gate/bench"
)

func TestOpenHead(t *testing.T) {
	r := newRepo(t)
	first := r.commit("a", "1")
	r.git("checkout", "-q", "-b", "feat/x")
	r.write("untracked", "x")

	tree := r.open("")
	if tree.Dir != r.dir || tree.Root != r.dir {
		t.Errorf("Dir %q, Root %q, want %q", tree.Dir, tree.Root, r.dir)
	}
	want := bench.Revision{Name: "HEAD", Commit: first, Branch: "feat/x"}
	if d := cmp.Diff(want, tree.Revision); d != "" {
		t.Error(d)
	}
	r.write("a", "2")
	if !r.open("").Revision.Dirty {
		t.Error("a changed tracked file is not told")
	}
	r.git("checkout", "-q", "--detach")
	if b := r.open("").Revision.Branch; b != "" {
		t.Errorf("detached: branch %q", b)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	if got := read(t, r.dir, "a"); got != "2" {
		t.Errorf("Close changed the working directory: %q", got)
	}
	r.wantClean()
}

func TestOpenRef(t *testing.T) {
	r := newRepo(t)
	first := r.commit("sub/a", "1")
	second := r.commit("sub/a", "2")
	r.git("checkout", "-q", "-b", "feat/x", first)
	r.commit("sub/a", "3")
	fourth := r.commit("sub/a", "4")
	// A branch that only the remote has, as in the checkout of a pull request.
	r.git("update-ref", "refs/remotes/origin/upstream", second)
	r.git("tag", "-a", "v1", "-m", "v1", first)
	// A hook would be a way to run code at the wrong moment.
	r.write(".git/hooks/post-checkout", "#!/bin/sh\ntouch "+filepath.Join(r.dir, "hook-ran"))
	if err := os.Chmod(filepath.Join(r.dir, ".git/hooks/post-checkout"), 0o755); err != nil {
		t.Fatal(err)
	}
	// A gate that a git hook started inherits these.
	t.Setenv("GIT_DIR", "/nowhere")
	t.Setenv("GIT_INDEX_FILE", "/nowhere")
	defer os.Unsetenv("GIT_DIR")

	for _, tt := range []struct {
		ref  string
		want bench.Revision
		text string
	}{
		{"main", bench.Revision{Name: "main", Commit: second, Branch: "main"}, "2"},
		{"HEAD", bench.Revision{Name: "HEAD", Commit: fourth, Branch: "feat/x"}, "4"},
		{"HEAD~2", bench.Revision{Name: "HEAD~2", Commit: first}, "1"},
		{"feat/x", bench.Revision{Name: "feat/x", Commit: fourth, Branch: "feat/x"}, "4"},
		{"upstream", bench.Revision{Name: "upstream", Commit: second, Branch: "upstream"}, "2"},
		{"origin/upstream", bench.Revision{Name: "origin/upstream", Commit: second, Branch: "upstream"}, "2"},
		{"v1", bench.Revision{Name: "v1", Commit: first}, "1"},
		{second[:9], bench.Revision{Name: second[:9], Commit: second}, "2"},
		{"merge-base:main", bench.Revision{Name: "merge-base:main", Commit: first, Branch: "main"}, "1"},
	} {
		tree, err := Open(context.Background(), filepath.Join(r.dir, "sub"), tt.ref)
		if err != nil {
			t.Errorf("%s: %v", tt.ref, err)
			continue
		}
		if d := cmp.Diff(tt.want, tree.Revision); d != "" {
			t.Errorf("%s: %s", tt.ref, d)
		}
		if got := read(t, tree.Dir, "a"); got != tt.text {
			t.Errorf("%s: file holds %q, want %q", tt.ref, got, tt.text)
		}
		if tree.Dir != filepath.Join(tree.Root, "sub") {
			t.Errorf("%s: Dir %s, Root %s", tt.ref, tree.Dir, tree.Root)
		}
		for range 2 {
			if err := tree.Close(); err != nil {
				t.Errorf("%s: %v", tt.ref, err)
			}
		}
	}
	os.Unsetenv("GIT_DIR")
	os.Unsetenv("GIT_INDEX_FILE")
	if _, err := os.Stat(filepath.Join(r.dir, "hook-ran")); err == nil {
		t.Error("a hook of the repository was run")
	}
	r.wantClean()
}

func TestOpenPath(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	t.Chdir(r.dir)
	r.write("v2.bpf.c", "")
	r.write("main/b", "")

	file := r.openIn(".", "v2.bpf.c")
	if file.Dir != r.dir || file.File != "v2.bpf.c" || file.Revision != (bench.Revision{Name: "v2.bpf.c"}) {
		t.Errorf("file: %q %q %+v", file.Dir, file.File, file.Revision)
	}
	// As git has it, a ref is preferred to a path of the same name.
	if tree := r.openIn(".", "main"); tree.Dir == filepath.Join(r.dir, "main") {
		t.Error("main is the directory, want the branch")
	}
	if tree := r.openIn(".", "./main"); tree.Dir != filepath.Join(r.dir, "main") {
		t.Errorf("./main is %s", tree.Dir)
	}
	outside := tempDir(t)
	tree := r.openIn(outside, "")
	if tree.Revision != (bench.Revision{Name: filepath.Base(outside)}) {
		t.Errorf("outside git: %+v", tree.Revision)
	}
}

func TestOpenErrors(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.commit("sub/a", "1")
	deep := tempDir(t)
	clone := filepath.Join(deep, "clone")
	r.git("clone", "-q", "--depth=1", "file://"+r.dir, clone)
	r.write("untracked-dir/a", "")
	outside := tempDir(t)
	for _, tt := range []struct{ dir, ref, text, hint string }{
		{r.dir, "--upload-pack=touch x", "neither a git ref nor a path", ""},
		{r.dir, "merge-base:--all", "neither a git ref nor a file", "git branch"},
		{r.dir, "merge-base:", "neither a git ref nor a file", "git branch"},
		{r.dir, "a\nb", "neither a git ref nor a path", ""},
		{r.dir, "nosuch", `neither a git ref nor a file "nosuch"`, "git branch --all"},
		{r.dir, "HEAD:a", "neither a git ref nor a file", "git branch"},
		{r.dir, "./nosuch", "no such file", ""},
		{clone, "HEAD~1", "neither a git ref", "git fetch --deepen="},
		{clone, "other", "neither a git ref", "git fetch --depth=1 origin other:"},
		{outside, "nope", `"nope" is neither a git ref nor a file: ` + outside + " is not in a git repository", "name a file"},
		{filepath.Join(r.dir, "untracked-dir"), "HEAD", "has no directory untracked-dir", ""},
		{filepath.Join(r.dir, "nosuch"), "", "no such file", ""},
	} {
		tree, err := Open(context.Background(), tt.dir, tt.ref)
		if err == nil {
			tree.Close()
		}
		t.Run(tt.ref, func(t *testing.T) { wantError(t, err, tt.text, tt.hint) })
	}
	// git has this variable for its own tests of another user's repository.
	t.Setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
	_, err := Open(context.Background(), r.dir, "HEAD")
	wantError(t, err, "git does not trust the owner", "safe.directory "+r.dir)
	os.Unsetenv("GIT_TEST_ASSUME_DIFFERENT_OWNER")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, r.dir, "HEAD"); err == nil {
		t.Error("cancelled: no error")
	}
	r.wantClean()
}

func TestOpenLeavesUnrelatedHistory(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.git("checkout", "-q", "--orphan", "other")
	r.commit("b", "1")
	_, err := Open(context.Background(), r.dir, "merge-base:main")
	wantError(t, err, "no commit in common", "")
}

func TestSubmodules(t *testing.T) {
	lib := newRepo(t)
	old := lib.commit("lib.h", "old")
	lib.commit("lib.h", "new")
	r := repo{t, tempDir(t)}
	r.git("init", "-q", "-b", "main")
	r.git("submodule", "--quiet", "add", lib.dir, "libs/here")
	r.git("submodule", "--quiet", "add", lib.dir, "libs/gone")
	r.git("-C", "libs/here", "checkout", "-q", old)
	r.git("add", ".")
	r.git("commit", "-q", "-m", "submodules")
	r.git("submodule", "--quiet", "deinit", "libs/gone")

	tree := r.open("HEAD")
	if got := read(t, tree.Dir, "libs/here/lib.h"); got != "old" {
		t.Errorf("submodule holds %q, want that of its commit", got)
	}
	if len(tree.Warnings) != 1 || !strings.Contains(tree.Warnings[0], "libs/gone is not checked out") {
		t.Errorf("warnings %q, want one about libs/gone", tree.Warnings)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	r.wantClean()
}

// A killed gate cannot clean up; the next one does. It leaves a running one
// alone.
func TestKilledGateIsSwept(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	start := func() (*exec.Cmd, string) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "BUILD_TEST_OPEN="+r.dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return cmd, strings.TrimSpace(line)
	}
	kill := func(cmd *exec.Cmd) {
		cmd.Process.Kill()
		cmd.Wait()
	}
	killed, killedDir := start()
	kill(killed)
	running, runningDir := start()
	defer kill(running)

	if _, err := os.Stat(killedDir); err == nil {
		t.Errorf("the next gate left the killed one's %s", killedDir)
	}
	tree := r.open("HEAD")
	if _, err := os.Stat(filepath.Join(runningDir, "a")); err != nil {
		t.Errorf("the running gate lost its tree: %v", err)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(r.git("worktree", "list"), "\n"); n != 1 {
		t.Errorf("%d worktrees, want the running gate's alone:\n%s", n, r.git("worktree", "list"))
	}
	kill(running)
	// A reboot that empties /tmp leaves git's record alone. It may also be in
	// a container that still runs, so only an old one goes.
	if err := os.RemoveAll(filepath.Dir(runningDir)); err != nil {
		t.Fatal(err)
	}
	r.open("HEAD").Close()
	if list := r.git("worktree", "list"); !strings.Contains(list, runningDir) {
		t.Errorf("a young record was removed:\n%s", list)
	}
	old := time.Now().Add(-2 * forgetAfter)
	record := filepath.Join(r.dir, ".git/worktrees", worktreeName, "gitdir")
	if err := os.Chtimes(record, old, old); err != nil {
		t.Fatal(err)
	}
	r.open("HEAD").Close()
	r.wantClean()
}

func TestSweepLeavesUsersWorktrees(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	own := filepath.Join(tempDir(t), worktreeName)
	r.git("worktree", "add", "-q", "--detach", own)
	r.open("HEAD").Close()
	if _, err := os.Stat(filepath.Join(own, "a")); err != nil {
		t.Errorf("a worktree of the user: %v", err)
	}
}
