// Package store keeps runs in a directory.
//
// A run is one immutable file. A baseline is a query over the files; nothing is
// ever read, changed and written back, so nothing can be lost by two writers at
// once. Runs lie by branch and testbed:
//
//	.ebpf-bench/runs/<branch>/<testbed>/<time>-<id>.json.gz
//
// The privileged half puts runs in; the pure half lists and loads them. What is
// not a run that this package wrote is named as a [Problem] and never counted.
// The package judges nothing.
//
// Note: gzip, not zstd, which would be a tenth smaller: every machine has zcat,
// and a user who doubts a verdict wants to look at the numbers.
package store

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// DefaultDir is where runs are kept, relative to the top of the repository or
// the config's directory.
const DefaultDir = ".ebpf-bench"

// MaxSize limits a run in bytes, before compression. A file may come from
// anybody, and a small one can inflate to anything.
const MaxSize = 50 << 20

// maxName limits the names of branch and testbed in bytes.
const maxName = 1024

const (
	runsDir = "runs"
	logsDir = "logs"
	suffix  = ".json.gz"
	// tempPrefix begins the names of files that are still being written.
	tempPrefix = ".tmp-"
)

// A Store is a directory of runs. Several processes may use one at once.
type Store struct{ dir string }

// Open names a store. The directory need not exist: an empty store is one, and
// the first Put makes it. A file in its place is an error.
func Open(dir string) (*Store, error) {
	if dir == "" {
		dir = DefaultDir
	}
	info, err := os.Stat(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("open store: %s is not a directory", dir)
	}
	return &Store{dir}, nil
}

// Dir is the store's directory.
func (s *Store) Dir() string { return s.dir }

// Put saves a run and returns its file. The file appears whole or not at all,
// and never in place of another: a second Put of the same run is an error that
// wraps [fs.ErrExist].
func (s *Store) Put(r *bench.Run) (string, error) {
	file, err := s.put(r)
	if err != nil {
		return "", fmt.Errorf("save run %.40s: %w", r.ID, err)
	}
	return filepath.Join(s.dir, filepath.FromSlash(file)), nil
}

func (s *Store) put(r *bench.Run) (string, error) {
	file, err := place(r)
	if err != nil {
		return "", err
	}
	data, err := encode(r)
	if err != nil {
		return "", err
	}
	root, err := s.make()
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := mkdirAll(root, path.Dir(file)); err != nil {
		return "", err
	}
	temp := path.Join(path.Dir(file), tempPrefix+rand.Text())
	if err := writeNew(root, temp, data); err != nil {
		_ = root.Remove(temp)
		return "", err
	}
	// A link, unlike a rename, fails where the name is taken.
	err = root.Link(temp, file)
	_ = root.Remove(temp)
	switch {
	case err == nil:
		return file, syncDir(root, path.Dir(file))
	case errors.Is(err, fs.ErrExist):
		return "", err
	}
	// Some file systems have no links. A crash may then leave a torn file,
	// which readers name and skip.
	if err := writeNew(root, file, data); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			_ = root.Remove(file)
		}
		return "", err
	}
	return file, syncDir(root, path.Dir(file))
}

// PutLog saves the log of a program that was rejected, and returns its file.
func (s *Store) PutLog(name, text string) (string, error) {
	root, err := s.make()
	if err != nil {
		return "", err
	}
	defer root.Close()
	file := path.Join(logsDir, escape(name)+".log")
	if err := mkdirAll(root, path.Dir(file)); err != nil {
		return "", err
	}
	if err := writeNew(root, file, []byte(text)); err != nil {
		return "", err
	}
	return filepath.Join(s.dir, filepath.FromSlash(file)), nil
}

// place is the file of a run, relative to the store and slash-separated.
func place(r *bench.Run) (string, error) {
	branch, testbed := r.Revision.Branch, r.Testbed.Slug()
	if len(branch) > maxName || len(testbed) > maxName {
		return "", fmt.Errorf("the name of branch or testbed is longer than %d bytes", maxName)
	}
	name := r.Time.UTC().Format("20060102-150405.000000000") + "-" + r.ID + suffix
	return path.Join(runsDir, escape(branch), escape(testbed), name), nil
}

func encode(r *bench.Run) ([]byte, error) {
	var plain, packed bytes.Buffer
	if err := bench.Encode(&plain, r); err != nil {
		return nil, err
	}
	if plain.Len() > MaxSize {
		return nil, fmt.Errorf("%d MB, more than the %d that would be read again", plain.Len()>>20, MaxSize>>20)
	}
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain.Bytes()); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// make opens the store's directory, which it makes where it does not exist. In a
// Root no symlink of a stranger's checkout leads out.
func (s *Store) make() (*os.Root, error) {
	parent := filepath.Dir(filepath.Clean(s.dir))
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.dir, 0o777); err == nil {
		giveLike(parent, s.dir)
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	// Runs are no sources. Who wants to commit them removes the file's line;
	// the file itself is not made again.
	if _, err := root.Lstat(runsDir); errors.Is(err, fs.ErrNotExist) {
		if err := writeNew(root, ".gitignore", []byte("*\n")); err != nil && !errors.Is(err, fs.ErrExist) {
			root.Close()
			return nil, err
		}
	}
	return root, nil
}

// mkdirAll makes directories that belong to whom the store belongs: a gate that
// was started by sudo should leave no files that its user cannot remove.
func mkdirAll(root *os.Root, dir string) error {
	if _, err := root.Stat(dir); err == nil {
		return nil
	}
	if err := mkdirAll(root, path.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o777); err != nil {
		if errors.Is(err, fs.ErrExist) { // another writer was quicker
			return nil
		}
		return err
	}
	giveLikeRoot(root, dir)
	return nil
}

// writeNew writes a file that does not exist yet, down to the disk.
func writeNew(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	giveLikeRoot(root, name)
	return err
}

// syncDir makes a new name in a directory last.
func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return err
	}
	return nil
}

// A Retention says which runs [Store.Prune] removes: those that are neither
// among the newest Keep of their branch and testbed nor younger than Before.
type Retention struct {
	// Keep is 0 or more.
	Keep int
	// Before is the time since which every run stays. Zero: age protects none.
	Before time.Time
	// DryRun removes nothing, and only tells.
	DryRun bool
}

// Prune removes old runs and returns them, oldest first. What [Store.List] names
// as a problem is not ours, and stays. A Retention that would remove everything
// is an error.
func (s *Store) Prune(keep Retention) ([]Entry, error) {
	if keep.Keep <= 0 && keep.Before.IsZero() {
		return nil, errors.New("prune: neither a number of runs to keep nor an age")
	}
	entries, _ := s.List(Filter{})
	type place struct{ branch, testbed string }
	newer := map[place]int{}
	var old []Entry
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		p := place{e.Revision.Branch, e.Testbed.Slug()}
		newer[p]++
		if newer[p] > keep.Keep && (keep.Before.IsZero() || e.Time.Before(keep.Before)) {
			old = append(old, e)
		}
	}
	var errs []error
	var removed []Entry
	for i := len(old) - 1; i >= 0; i-- {
		if !keep.DryRun {
			// Another gate may prune at the same time.
			if err := os.Remove(old[i].Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("prune: %w", err))
				continue
			}
		}
		removed = append(removed, old[i])
	}
	return removed, errors.Join(errs...)
}
