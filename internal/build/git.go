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
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// A repository is a git work tree, spoken to by the git command.
type repository struct {
	root   string // top of the work tree, real path
	prefix string // of the directory that was opened, relative to root
	owner  owner
}

var errNoRepository = errors.New("not in a git repository")

// openRepository finds the work tree that dir is in.
func openRepository(ctx context.Context, dir string) (*repository, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	r := &repository{root: abs, owner: ownerOf(abs)}
	root, err := r.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		if strings.Contains(err.Error(), "not a git repository") {
			return nil, fmt.Errorf("%s is %w", abs, errNoRepository)
		}
		return nil, err
	}
	prefix, err := r.git(ctx, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	r.root, r.prefix = filepath.FromSlash(root), filepath.FromSlash(strings.TrimSuffix(prefix, "/"))
	return r, nil
}

// git runs git in the repository and returns what it printed, without the last
// newline. No hook is run, and nothing is asked.
func (r *repository) git(ctx context.Context, args ...string) (string, error) {
	return r.owner.git(ctx, r.root, args...)
}

func (o owner) git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := o.command(ctx, dir, "git", append([]string{"-c", "core.hooksPath=" + os.DevNull}, args...)...)
	// Messages are matched, so they have to be in English.
	cmd.Env = append(cmd.Env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	err := run(ctx, cmd)
	if err == nil {
		return strings.TrimSuffix(out.String(), "\n"), nil
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", advise(fmt.Errorf("git %s: %w", args[0], err), "install git")
	}
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(msg.String()), "fatal: "))
	advice := ""
	if strings.Contains(text, "dubious ownership") {
		text = "git does not trust the owner of " + dir
		advice = "git config --global --add safe.directory " + dir
	}
	if text == "" {
		text = err.Error()
	}
	return "", advise(fmt.Errorf("git %s: %s", args[0], text), advice)
}

// head is the revision of the working directory. A repository without commits
// has no commit.
func (r *repository) head(ctx context.Context) (bench.Revision, error) {
	var rev bench.Revision
	rev.Commit, _ = r.git(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	rev.Branch, _ = r.git(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	status, err := r.git(ctx, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return rev, err
	}
	rev.Dirty = status != ""
	return rev, nil
}

// mergeBase is the prefix of a ref that means the place where head left it.
const mergeBase = "merge-base:"

// resolve finds the commit of a ref.
func (r *repository) resolve(ctx context.Context, ref string) (bench.Revision, error) {
	name := strings.TrimPrefix(ref, mergeBase)
	commit, err := r.commit(ctx, name)
	if err != nil {
		if ctx.Err() != nil {
			return bench.Revision{}, err
		}
		return bench.Revision{}, r.missing(ctx, name)
	}
	rev := bench.Revision{Name: ref, Commit: commit, Branch: r.branch(ctx, name)}
	if name == ref {
		return rev, nil
	}
	if rev.Commit, err = r.git(ctx, "merge-base", "HEAD", commit); err != nil {
		advice := ""
		if r.shallow(ctx) {
			advice = "this is a shallow clone: git fetch --deepen=100 origin"
		}
		return rev, advise(fmt.Errorf("head and %s have no commit in common here", name), advice)
	}
	return rev, nil
}

// commit is the object name of a ref, also of a branch that only origin has,
// as in the checkout of a pull request.
func (r *repository) commit(ctx context.Context, ref string) (string, error) {
	if ref == "" || strings.HasPrefix(ref, "-") {
		return "", fmt.Errorf("%q is not a git ref", ref)
	}
	parse := func(ref string) (string, error) {
		return r.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	}
	commit, err := parse(ref)
	if err != nil {
		if c, err := parse("refs/remotes/origin/" + ref); err == nil {
			return c, nil
		}
	}
	return commit, err
}

// branch is the branch that a ref names; empty where it names something else.
func (r *repository) branch(ctx context.Context, ref string) string {
	if ref == "HEAD" {
		b, _ := r.git(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
		return b
	}
	short := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(ref, "refs/"), "heads/"), "remotes/")
	short = strings.TrimPrefix(short, "origin/")
	for _, full := range []string{"refs/heads/" + short, "refs/remotes/origin/" + short} {
		if _, err := r.git(ctx, "show-ref", "--verify", "--quiet", full); err == nil {
			return short
		}
	}
	return ""
}

func (r *repository) shallow(ctx context.Context) bool {
	s, _ := r.git(ctx, "rev-parse", "--is-shallow-repository")
	return s == "true"
}

// missing says that there is no such ref, and how it may be had.
func (r *repository) missing(ctx context.Context, ref string) error {
	err := fmt.Errorf("there is neither a git ref nor a file %q here", ref)
	switch {
	case !r.shallow(ctx):
		return advise(err, "git branch --all lists the branches")
	case strings.ContainsAny(ref, "~^@"):
		return advise(err, "this is a shallow clone: git fetch --deepen=10 origin")
	default:
		return advise(err, fmt.Sprintf("this is a shallow clone: git fetch --depth=1 origin %s:refs/remotes/origin/%[1]s", ref))
	}
}

// forget removes git's record of a worktree whose files are gone.
func (r *repository) forget(worktree string) error {
	// The caller's context may be cancelled already; this has to be done yet.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := r.git(ctx, "worktree", "remove", "--force", "--", worktree)
	if err != nil && strings.Contains(err.Error(), "is not a working tree") {
		return nil // it was never added, or somebody pruned it
	}
	return err
}
