package cover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxSource is the size in bytes of the largest source file that is shown.
const maxSource = 4 << 20

// FindSources looks for the files of a report under the directories roots, and takes
// those that hold the lines that the object names: a file of that name that was
// changed since, or that is another one, is not shown. Symbolic links that lead out
// of a root are not followed.
//
// A path is tried as it is relative to a root, and then without its first names, as
// objects are often compiled elsewhere.
func (r *Report) FindSources(roots ...string) {
	seen := map[string]bool{}
	for _, dir := range roots {
		abs, err := filepath.Abs(dir)
		if err != nil || seen[abs] {
			continue
		}
		seen[abs] = true
		root, err := os.OpenRoot(abs)
		if err != nil {
			continue
		}
		for _, f := range r.Files {
			if f.Text == nil {
				r.find(f, root, abs)
			}
		}
		root.Close()
	}
}

func (r *Report) find(f *File, root *os.Root, dir string) {
	name := f.Path
	if path.IsAbs(name) {
		if rel, err := filepath.Rel(dir, filepath.FromSlash(name)); err == nil && filepath.IsLocal(rel) {
			name = filepath.ToSlash(rel)
		}
	}
	for name = strings.TrimLeft(name, "/"); name != "" && name != "."; {
		lines, err := read(root, name)
		switch {
		case err == nil && f.fits(lines):
			f.Text, f.Source = lines, filepath.Join(dir, filepath.FromSlash(name))
			return
		case err == nil:
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s is not what was compiled: its lines are others", filepath.Join(dir, filepath.FromSlash(name))))
			return
		case !errors.Is(err, fs.ErrNotExist):
			r.Warnings = append(r.Warnings, fmt.Sprintf("source %s: %v", name, err))
			return
		}
		_, name, _ = strings.Cut(name, "/")
	}
}

func read(root *os.Root, name string) ([]string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, fs.ErrNotExist
	}
	info, err := root.Stat(name)
	if err != nil {
		// A part of the path may be a file, or lead out of the root.
		return nil, fs.ErrNotExist
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fs.ErrNotExist
	case info.Size() > maxSource:
		return nil, fmt.Errorf("%d MB, at most %d", info.Size()>>20, maxSource>>20)
	}
	in, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxSource+1))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), nil
}

// fits tells that the lines are those that the object names.
func (f *File) fits(lines []string) bool {
	for n, l := range f.Lines {
		if n > len(lines) || l.Text != "" && strings.TrimSpace(lines[n-1]) != strings.TrimSpace(l.Text) {
			return false
		}
	}
	return true
}
