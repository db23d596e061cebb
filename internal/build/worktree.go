package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

const (
	// scratchPrefix begins the name of every temporary directory of gate, so
	// that those of killed ones are recognised.
	scratchPrefix = "ebpf-bench-gate-"
	// worktreeName is the worktree's directory in it, and so the name of git's
	// record.
	worktreeName = "gate-base"
	lockName     = "lock"
)

// A scratch is a temporary directory that is ours while its lock is held.
type scratch struct {
	dir  string
	lock *os.File
}

func newScratch(o owner) (*scratch, error) {
	dir, err := os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	s := &scratch{dir: dir}
	// The lock gets its name only once it is held: whoever sees it free may
	// remove all.
	tmp := filepath.Join(dir, lockName+".new")
	s.lock, err = os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = tryLock(s.lock)
	}
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, lockName))
	}
	// git writes /tmp/x as its real path.
	if err == nil {
		s.dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		err = errors.Join(o.give(filepath.Join(dir, lockName)), o.give(dir))
	}
	if err != nil {
		s.dir = dir
		_ = s.remove()
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	return s, nil
}

func (s *scratch) worktree() string { return filepath.Join(s.dir, worktreeName) }

func (s *scratch) remove() error {
	err := removeAll(s.dir)
	if s.lock != nil {
		s.lock.Close()
	}
	return err
}

// removeAll removes a directory, also what lies in read-only ones, as in Go's
// module cache.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// abandoned tells that a scratch directory is nobody's any more. One that we
// may not look into is somebody's.
func abandoned(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|noFollow, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// The lock exists from the start; for a moment under another name.
		info, err := os.Stat(dir)
		return err == nil && time.Since(info.ModTime()) > forgetAfter
	}
	if err != nil {
		return false
	}
	defer f.Close()
	return tryLock(f) == nil
}

// forgetAfter is how old the record of a worktree whose directory we cannot see
// must be before it is removed: it may be in a container that is still running.
const forgetAfter = 24 * time.Hour

// sweep removes what killed gates left: temporary directories, and worktrees of
// the repository, if there is one. What it cannot remove stays for the next.
func sweep(r *repository) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	for _, dir := range left {
		// Those with a worktree are left to their repository, lest its record
		// outlives them.
		if _, err := os.Lstat(filepath.Join(dir, worktreeName)); err != nil && abandoned(dir) {
			_ = removeAll(dir)
		}
	}
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	common, err := r.git(ctx, "rev-parse", "--git-common-dir")
	if err != nil {
		return
	}
	if !filepath.IsAbs(common) {
		common = filepath.Join(r.root, common)
	}
	records, _ := filepath.Glob(filepath.Join(common, "worktrees", worktreeName+"*", "gitdir"))
	for _, record := range records {
		text, err := os.ReadFile(record)
		if err != nil {
			continue
		}
		worktree := filepath.Dir(strings.TrimSpace(string(text)))
		dir := filepath.Dir(worktree)
		if filepath.Base(worktree) != worktreeName || !strings.HasPrefix(filepath.Base(dir), scratchPrefix) {
			continue
		}
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			if info, err := os.Stat(record); err != nil || time.Since(info.ModTime()) < forgetAfter {
				continue
			}
		} else if !abandoned(dir) || removeAll(dir) != nil {
			continue
		}
		_ = r.forget(worktree)
	}
}

// checkout makes the tree of a commit in a temporary worktree.
func checkout(ctx context.Context, r *repository, rev bench.Revision) (_ *Tree, err error) {
	t := &Tree{Revision: rev, owner: r.owner, repo: r}
	if t.scratch, err = newScratch(r.owner); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	t.Root = t.scratch.worktree()
	if _, err = r.git(ctx, "worktree", "add", "--quiet", "--detach", "--", t.Root, rev.Commit); err != nil {
		return nil, fmt.Errorf("check out %s: %w", rev.Name, err)
	}
	t.Dir = filepath.Join(t.Root, r.prefix)
	real, err := filepath.EvalSymlinks(t.Dir)
	if err != nil || !inside(t.Root, real) {
		return nil, fmt.Errorf("%s has no directory %s", rev.Short(), r.prefix)
	}
	if t.Warnings, err = submodules(ctx, r.owner, r.root, t.Root); err != nil {
		return nil, err
	}
	return t, nil
}

// submodules fills the submodules of a worktree from those of the work tree
// that it came from, without any network, and names those that are not there.
//
// Note: git submodule update would clone each from its URL. A clone that shares
// the objects of the one at hand is quick, and goes away with the worktree.
func submodules(ctx context.Context, o owner, from, to string) (missing []string, err error) {
	if _, err := os.Lstat(filepath.Join(to, ".gitmodules")); err != nil {
		return nil, nil
	}
	list, err := o.git(ctx, to, "ls-tree", "-r", "-z", "--full-tree", "HEAD")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(list, "\x00") {
		meta, path, _ := strings.Cut(line, "\t")
		f := strings.Fields(meta) // mode, type, object
		if len(f) != 3 || f[1] != "commit" {
			continue
		}
		commit, src, dst := f[2], filepath.Join(from, path), filepath.Join(to, path)
		// The path is git's own, which holds no "..", but what it leads through
		// may be a symlink.
		real, err := filepath.EvalSymlinks(dst)
		if err == nil && !inside(to, real) {
			return nil, fmt.Errorf("submodule %s lies outside of the tree", path)
		}
		if _, err := os.Lstat(filepath.Join(src, ".git")); err != nil {
			missing = append(missing, fmt.Sprintf("submodule %s is not checked out: git submodule update --init", path))
			continue
		}
		if _, err := o.git(ctx, src, "cat-file", "-e", commit+"^{commit}"); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			missing = append(missing, fmt.Sprintf("submodule %s has no commit %.7s here: git -C %[1]s fetch origin %[2]s", path, commit))
			continue
		}
		if _, err := o.git(ctx, to, "clone", "--quiet", "--shared", "--no-checkout", "--", src, dst); err != nil {
			return nil, fmt.Errorf("submodule %s: %w", path, err)
		}
		if _, err := o.git(ctx, dst, "checkout", "--quiet", "--detach", commit); err != nil {
			return nil, fmt.Errorf("submodule %s: %w", path, err)
		}
		more, err := submodules(ctx, o, src, dst)
		if err != nil {
			return nil, err
		}
		missing = append(missing, more...)
	}
	return missing, nil
}
