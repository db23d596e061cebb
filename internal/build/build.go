// Package build turns a revision into files: a tree of sources, the build
// commands run in it, and eBPF objects.
//
// The flow, in order:
//
//  1. [Open] makes a [Tree] of the head (the working directory) and another of
//     the base: a git ref, checked out in a temporary worktree, or a file or
//     directory that the user has.
//  2. [Tree.Run] runs the project's own build commands in a tree.
//  3. [Tree.Object] gives the path of an object: one that the build made, or one
//     compiled here from a C source.
//  4. [Tree.Close] leaves nothing behind. What a killed gate left is removed by
//     the next [Open].
//
// Where gate runs as root, everything that the package starts runs as the owner
// of the tree: build commands and sources are as trustworthy as whoever wrote
// them. The package loads nothing into a kernel and knows no config file.
package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/org/ebpf-bench-gate/bench"
)

// A Tree is the sources of one revision. [Open] makes it. Close may be called
// more than once.
type Tree struct {
	// Dir is the absolute path of the directory that all paths are relative
	// to: where the config lies in this tree.
	Dir string
	// Root is the top of the work tree that Dir is in; Dir outside git.
	Root string
	// File is the one source or object that the user named, relative to Dir.
	// Empty: the tree is a whole directory.
	File     string
	Revision bench.Revision
	// Warnings say what is missing in the tree, such as a submodule.
	Warnings []string

	owner owner
	// other is the tree that paths were shared from; nil: none.
	other *Tree

	mu      sync.Mutex
	scratch *scratch
	repo    *repository       // whose worktree this is; nil: the user's own directory
	objects map[string]string // by source and flags
}

// An Error is a failure with advice.
type Error struct {
	Err    error
	Advice string // what to do about it
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint is what to do about the error.
func (e *Error) Hint() string { return e.Advice }

// advise adds advice to an error, where there is any.
func advise(err error, advice string) error {
	if advice == "" {
		return err
	}
	return &Error{err, advice}
}

// Open makes the tree of one revision. An empty ref is dir as it is. Otherwise
// ref is one of:
//
//   - a git ref of the repository that dir is in ("main", "HEAD~1"), or
//     "merge-base:REF", where head's branch left REF. It is checked out in a
//     temporary worktree, and Dir is where dir is in that. A branch that only
//     the remote "origin" has is found too.
//   - a file or directory, relative to the current directory. A ref of the same
//     name is preferred, as git does; "./main" is always the file.
//
// Errors with a Hint method say what to do about them.
func Open(ctx context.Context, dir, ref string) (*Tree, error) {
	if ref == "" {
		return local(ctx, dir, "HEAD")
	}
	if strings.HasPrefix(ref, "-") || strings.ContainsFunc(ref, isControl) {
		return nil, fmt.Errorf("%q is neither a git ref nor a path", ref)
	}
	if isPath(ref) {
		return local(ctx, ref, ref)
	}
	repo, err := openRepository(ctx, dir)
	if err == nil {
		sweep(repo)
		var rev bench.Revision
		if rev, err = repo.resolve(ctx, ref); err == nil {
			return checkout(ctx, repo, rev)
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("open %s: %w", ref, ctx.Err())
	}
	if _, statErr := os.Stat(ref); statErr == nil {
		return local(ctx, ref, ref)
	}
	if errors.Is(err, errNoRepository) {
		return nil, advise(fmt.Errorf("%q is neither a git ref nor a file: %w", ref, err), "name a file or a directory, or run gate in a git repository")
	}
	return nil, err
}

func isPath(ref string) bool {
	return ref == "." || ref == ".." || filepath.IsAbs(ref) ||
		strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../")
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// local is the tree of a file or directory as it is.
func local(ctx context.Context, path, name string) (*Tree, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// Symlinks are followed now, since git names the top of a work tree by its
	// real path.
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Unwrap(err))
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Unwrap(err))
	}
	sweep(nil)
	t := &Tree{Dir: abs, Root: abs, Revision: bench.Revision{Name: name}}
	switch {
	case info.Mode().IsRegular():
		t.Dir, t.File = filepath.Split(abs)
		t.Dir = filepath.Clean(t.Dir)
		t.Root = t.Dir
	case !info.IsDir():
		return nil, fmt.Errorf("open %s: neither a file nor a directory", path)
	}
	t.owner = ownerOf(t.Dir)
	repo, err := openRepository(ctx, t.Dir)
	if err != nil {
		// Gate measures what is there without git as well, only nameless.
		if name == "HEAD" {
			t.Revision.Name = filepath.Base(abs)
		}
		return t, ctx.Err()
	}
	sweep(repo)
	t.Root = repo.root
	if t.File == "" {
		// A file's own name says which one it is; the commit that HEAD happens
		// to be would make two files one revision.
		rev, err := repo.head(ctx)
		if err != nil {
			return nil, err
		}
		rev.Name = name
		t.Revision = rev
	}
	return t, nil
}

// In is the same tree seen from another of its directories, which is given relative to
// Root, slash-separated. It builds and compiles by itself and has a Close of its own,
// but what the receiver checked out goes with the receiver. The error wraps
// [fs.ErrNotExist] where the revision has no such directory.
func (t *Tree) In(dir string) (*Tree, error) {
	at := filepath.Join(t.Root, filepath.FromSlash(dir))
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return nil, fmt.Errorf("%s has no directory %s: %w", t.Revision.Short(), dir, errors.Unwrap(err))
	}
	if !inside(t.Root, at) || !inside(t.Root, real) || !isDir(real) {
		return nil, fmt.Errorf("%s is no directory of %s", dir, t.Revision.Short())
	}
	return &Tree{Dir: at, Root: t.Root, Revision: t.Revision, owner: t.owner}, nil
}

// Close removes what Open and Object made: the worktree with git's record of
// it, and compiled objects. The working directory stays as it is.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scratch == nil {
		return nil
	}
	err := t.scratch.remove()
	if t.repo != nil {
		err = errors.Join(err, t.repo.forget(t.scratch.worktree()))
	}
	if err != nil {
		return fmt.Errorf("remove the tree of %s: %w", t.Revision.Name, err)
	}
	t.scratch, t.objects = nil, nil
	return nil
}

// path is the absolute path of name, which is relative to Dir and slash-
// separated. It refuses names that lead out of Root, and symlinks to what the
// owner of the tree could not read himself or to the other tree: a base that
// is the head in disguise would always pass.
func (t *Tree) path(name string) (string, error) {
	abs := filepath.Join(t.Dir, filepath.FromSlash(name))
	if filepath.IsAbs(name) || !inside(t.Root, abs) {
		return "", fmt.Errorf("%q leads out of the tree", name)
	}
	info, err := os.Stat(abs)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	target, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}
	switch {
	case t.other != nil && inside(t.other.Root, target) && !inside(t.Root, target):
		return "", fmt.Errorf("%s is shared with %s: both sides would be the same file", name, t.other.Revision.Name)
	case !inside(t.Root, target) && !t.owner.mayRead(info):
		return "", fmt.Errorf("%s is a symlink to a file that the owner of the tree may not read", name)
	}
	return abs, nil
}

// inside tells that path is dir or below it. Both are absolute and clean.
func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
