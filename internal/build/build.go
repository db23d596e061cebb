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
//     compiled here from a .bpf.c source.
//  4. [Tree.Close] leaves nothing behind. What a killed gate left is removed by
//     the next [Open].
//
// Everything it starts runs as the owner of the tree, not as root, where gate
// itself runs as root. The package loads nothing into a kernel and knows no
// config file.
package build

import (
	"context"
	"errors"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// A Tree is the sources of one revision. Its methods may be called from several
// goroutines; Close may be called more than once.
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
}

// Commands say how the objects of a tree are made.
type Commands struct {
	// Run is given to sh -c in the tree's Dir; empty runs nothing.
	Run string
	// Share are untracked paths, relative to Dir, that are symlinked from
	// another tree.
	Share []string
	// Outputs are globs, relative to Dir, each of which must match something
	// after Run.
	Outputs []string
	// Timeout ends Run; 0 is [DefaultTimeout].
	Timeout time.Duration
}

// DefaultTimeout is the time that a build may take.
const DefaultTimeout = 30 * time.Minute

// Open makes the tree of one revision. An empty ref is dir as it is. Otherwise
// ref is a file or directory that exists, relative to the current directory, or
// a git ref ("main", "HEAD~1", "merge-base:main") of the repository that dir is
// in, checked out in a temporary worktree.
func Open(ctx context.Context, dir, ref string) (*Tree, error) {
	return nil, errors.New("not implemented")
}

// Run links what is shared from the tree from (nil: shares nothing), runs the
// commands, and checks the outputs.
func (t *Tree) Run(ctx context.Context, c Commands, from *Tree) error {
	return errors.New("not implemented")
}

// Object returns the absolute path of an object: path itself, or what clang
// makes of it where it is a C source. The path is relative to Dir.
func (t *Tree) Object(ctx context.Context, path string, cflags []string) (string, error) {
	return "", errors.New("not implemented")
}

// Close removes what Open made. The working directory stays as it is.
func (t *Tree) Close() error { return nil }

// ClangVersion is the version of the clang that [Tree.Object] uses, such as
// "14.0.6".
func ClangVersion(ctx context.Context) (string, error) { return "", errors.New("not implemented") }
