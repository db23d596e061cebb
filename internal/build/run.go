package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// Commands say how the objects of a tree are made. All paths are local to the
// tree's Dir and slash-separated.
type Commands struct {
	// Run is given to sh -c in Dir, with gate's environment; empty runs nothing.
	Run string
	// Share are untracked paths that are symlinked from another tree, such as
	// downloaded dependencies.
	Share []string
	// Outputs are globs as in [path.Match], each of which must match a file
	// after Run.
	Outputs []string
	// Timeout ends Run; 0 is [DefaultTimeout].
	Timeout time.Duration
}

// DefaultTimeout is the time that a build may take.
const DefaultTimeout = 30 * time.Minute

// outputLines is how much of a failed command's output an error shows.
const outputLines = 40

// Run links what is shared from the tree from (nil: nothing is shared), runs the
// commands as the tree's owner, and checks the outputs. The error of a failed
// command holds the end of its output. A cancelled context ends the commands
// with everything they started.
func (t *Tree) Run(ctx context.Context, c Commands, from *Tree) error {
	if t.File != "" {
		return fmt.Errorf("build %s: a single file has no build commands", t.File)
	}
	if from != nil && from != t && from.Root != t.Root {
		t.other = from
		for _, name := range c.Share {
			if err := t.share(name, from); err != nil {
				return fmt.Errorf("build %s: share %s: %w", t.Revision.Short(), name, err)
			}
		}
	}
	if c.Run != "" {
		if err := t.shell(ctx, c); err != nil {
			return err
		}
	}
	for _, glob := range c.Outputs {
		if _, err := t.outputs(glob); err != nil {
			return fmt.Errorf("build %s: output %s: %w", t.Revision.Short(), glob, err)
		}
	}
	return nil
}

func (t *Tree) shell(ctx context.Context, c Commands) error {
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	late := fmt.Errorf("took longer than %v", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	var out tail
	cmd := t.owner.command(ctx, t.Dir, "sh", "-c", c.Run)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := run(ctx, cmd)
	if err == nil {
		return nil
	}
	advice := ""
	var exit *exec.ExitError
	switch {
	case errors.Is(err, late):
		advice = "set build.timeout in the config"
	case errors.As(err, &exit) && exit.ExitCode() == 127 && t.owner.switched:
		advice = "sudo may have replaced PATH: sudo env PATH=\"$PATH\" gate …"
	}
	return advise(fmt.Errorf("build %s: %q: %w%s", t.Revision.Short(), c.Run, err, out.lines(outputLines)), advice)
}

// share links one path of the other tree into this one. What this tree has
// already is its own, and stays.
func (t *Tree) share(name string, from *Tree) error {
	name = filepath.FromSlash(name)
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
		return errors.New("leads out of the tree")
	}
	source := filepath.Join(from.Dir, name)
	if _, err := os.Stat(source); err != nil {
		return advise(fmt.Errorf("%s has no such path", from.Revision.Short()), "it has to exist before the build: run what makes it first")
	}
	// A revision may hold symlinks that lead anywhere; a Root follows none out.
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat(name); err == nil {
		if old, err := root.Readlink(name); err != nil || old != source {
			t.Warnings = append(t.Warnings, fmt.Sprintf("%s has its own %s: not shared", t.Revision.Short(), filepath.ToSlash(name)))
		}
		return nil
	}
	for at := name; filepath.Dir(at) != "."; {
		at = filepath.Dir(at)
		if _, err := root.Lstat(at); err == nil {
			break
		}
		defer t.owner.giveIn(root, at)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	if err := root.Symlink(source, name); err != nil {
		return err
	}
	t.owner.giveIn(root, name)
	return nil
}

// Outputs are the files that the globs match, relative to Dir and slash-separated.
func (t *Tree) Outputs(globs []string) ([]string, error) {
	var all []string
	for _, glob := range globs {
		found, err := t.outputs(glob)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", glob, err)
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// outputs are the files that a glob matches.
func (t *Tree) outputs(glob string) ([]string, error) {
	if !filepath.IsLocal(filepath.FromSlash(glob)) {
		return nil, errors.New("leads out of the tree")
	}
	if _, err := path.Match(glob, ""); err != nil {
		return nil, err
	}
	found, err := fs.Glob(os.DirFS(t.Dir), glob)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, advise(errors.New("matches no file after the build"), "see build.outputs in the config")
	}
	for _, f := range found {
		if _, err := t.path(f); err != nil {
			return nil, err
		}
	}
	return found, nil
}
