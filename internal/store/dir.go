package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tempPrefix begins the names of files that are still being written.
const tempPrefix = ".tmp-"

// A directory keeps objects in files. In an [os.Root] no symlink of a stranger's
// checkout leads out of it.
type directory struct{ dir string }

func openDirectory(dir string) (*directory, error) {
	info, err := os.Stat(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	return &directory{dir}, nil
}

func (d *directory) close() error            { return nil }
func (d *directory) parallel() int           { return runtime.GOMAXPROCS(0) }
func (d *directory) where(key string) string { return filepath.Join(d.dir, filepath.FromSlash(key)) }

func (d *directory) list(ctx context.Context, prefix string, found func(object)) error {
	root, err := os.OpenRoot(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return walk(ctx, root, path.Clean(prefix), found)
}

// walk lists the files in a directory and those below it. What cannot be listed costs
// itself.
func walk(ctx context.Context, root *os.Root, dir string, found func(object)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := readDir(root, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		found(object{key: dir, err: bare(err)})
	}
	for _, e := range entries {
		o := object{key: path.Join(dir, e.Name())}
		switch {
		case strings.HasPrefix(e.Name(), tempPrefix):
			continue // another gate is writing it, or was killed while it did
		case e.IsDir():
			if strings.HasPrefix(o.key, runsDir+"/") {
				_, o.err = directories(o.key)
			}
			if o.err == nil {
				if err := walk(ctx, root, o.key, found); err != nil {
					return err
				}
				continue
			}
		case !e.Type().IsRegular():
			// Not only symlinks: opening a pipe would wait forever.
			o.err = errors.New("not a regular file")
		default:
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // another gate pruned it since
			}
			if err != nil {
				o.err = bare(err)
				break
			}
			o.size, o.tag = info.Size(), strconv.FormatInt(info.ModTime().UnixNano(), 36)
		}
		found(o)
	}
	return nil
}

func readDir(root *os.Root, dir string) ([]fs.DirEntry, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// bare is an error without the path, which is told beside it.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func (d *directory) read(_ context.Context, key string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Lstat first: opening a pipe would wait forever, and a symlink is followed.
	info, err := root.Lstat(key)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, lostError{errors.New("not a regular file")}
	}
	f, err := root.Open(key)
	if err != nil {
		return nil, lostError{bare(err)}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = tooLarge(most)
	}
	if err != nil {
		return nil, lostError{bare(err)}
	}
	return data, nil
}

func tooLarge(most int64) error { return fmt.Errorf("more than %d MB", most>>20) }

func (d *directory) create(_ context.Context, key string, data []byte) error {
	root, err := d.make()
	if err != nil {
		return err
	}
	defer root.Close()
	dir := path.Dir(key)
	if err := mkdirAll(root, dir); err != nil {
		return err
	}
	temp := path.Join(dir, tempPrefix+rand.Text())
	if err := writeNew(root, temp, data); err != nil {
		_ = root.Remove(temp)
		return err
	}
	// A link, unlike a rename, fails where the name is taken.
	err = root.Link(temp, key)
	_ = root.Remove(temp)
	switch {
	case err == nil:
		return syncDir(root, dir)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	// Some file systems have no links. A crash may then leave a torn file,
	// which readers name and skip.
	if err := writeNew(root, key, data); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			_ = root.Remove(key)
		}
		return err
	}
	return syncDir(root, dir)
}

func (d *directory) remove(_ context.Context, key string) error {
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Remove(key)
}

func (d *directory) sweep(_ context.Context, before time.Time) error {
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var errs []error
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), tempPrefix) {
			return nil // told by those who list
		}
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// make opens the store's directory, which it makes where it does not exist.
func (d *directory) make() (*os.Root, error) {
	parent := filepath.Dir(filepath.Clean(d.dir))
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return nil, err
	}
	if err := os.Mkdir(d.dir, 0o777); err == nil {
		giveLike(parent, d.dir)
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := os.OpenRoot(d.dir)
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
