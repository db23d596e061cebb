package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// A File is one of several configs that make one report.
type File struct {
	// Suite is the name under which the report has it: its directory, or, where the
	// file is not called [FileName], its path without the extension. It does not
	// depend on what other configs there are, since histories and waivers hold it.
	Suite string
	Path  string // slash-separated
}

// IsPattern tells that a config's name is a pattern of several, as in [path.Match].
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// Select finds the configs that a pattern names among slash-separated paths, in the
// order of their names. No pattern may name more than [bench.MaxSuites].
func Select(paths []string, pattern string) ([]File, error) {
	pattern = path.Clean(pattern)
	var found []File
	for _, p := range paths {
		ok, err := path.Match(pattern, p)
		if err != nil {
			return nil, fmt.Errorf("%q is not a pattern", pattern)
		}
		if ok {
			f := File{suiteName(p), p}
			if err := bench.CheckSuite(f.Suite); err != nil {
				return nil, fmt.Errorf("%.200q: %w", p, err)
			}
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b File) int { return cmp.Compare(a.Suite, b.Suite) })
	for i := 1; i < len(found); i++ {
		if a, b := found[i-1], found[i]; a.Suite == b.Suite {
			return nil, fmt.Errorf("%s and %s would both be the suite %s", a.Path, b.Path, a.Suite)
		}
	}
	if len(found) > bench.MaxSuites {
		return nil, fmt.Errorf("%q names %d configs, at most %d make one report", pattern, len(found), bench.MaxSuites)
	}
	return found, nil
}

// Files finds the configs below dir that a pattern names. Their suites are named by
// the paths from root, which dir lies in. The error wraps [fs.ErrNotExist] where there
// is none.
func Files(root, dir, pattern string) ([]File, error) {
	slashed := path.Clean(filepath.ToSlash(pattern))
	if !fs.ValidPath(slashed) {
		return nil, fmt.Errorf("%q: a pattern is relative, and does not lead upwards", pattern)
	}
	inside, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(inside) {
		return nil, fmt.Errorf("%s does not lie in %s", dir, root)
	}
	paths, err := fs.Glob(os.DirFS(dir), slashed)
	if err != nil {
		return nil, fmt.Errorf("%q is not a pattern", pattern)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(p)))
		return err != nil || !info.Mode().IsRegular()
	})
	for i, p := range paths {
		paths[i] = path.Join(filepath.ToSlash(inside), p)
	}
	found, err := Select(paths, path.Join(literal(filepath.ToSlash(inside)), slashed))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no file is called %s: %w", pattern, fs.ErrNotExist)
	}
	return found, err
}

// literal is the pattern of a path itself.
func literal(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

func suiteName(p string) string {
	if path.Base(p) == FileName {
		return path.Dir(p)
	}
	return strings.TrimSuffix(p, path.Ext(p))
}

// Root is the top of the repository that dir is in, else dir: where the names of
// suites begin.
func Root(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", err
	}
	for at := abs; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at, nil
		} else if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return abs, nil
		}
	}
}
