package store

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// An Entry is one stored run, without its samples.
type Entry struct {
	// Path is the file, for people and for [ReadFile].
	Path     string
	ID       string
	Time     time.Time
	Session  string
	Revision bench.Revision
	Testbed  bench.Testbed
	Results  int   // how many results the run has
	Size     int64 // of the file, in bytes
}

// A Problem is a file in the store that is not counted, and why.
type Problem struct {
	Path string
	Err  error
}

func (p Problem) Error() string { return p.Path + ": " + p.Err.Error() }

// A Filter chooses runs; its zero value is all of them.
type Filter struct {
	Branch  string // empty: any
	Testbed string // a [bench.Testbed.Slug]; empty: any
}

// List finds runs, oldest first. It reads every file whole: one that is torn,
// foreign, too big, from a later gate, or not where it belongs is a problem and
// no entry. A missing store is empty.
func (s *Store) List(f Filter) ([]Entry, []Problem) {
	l := lister{dir: s.dir}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.problem(".", err)
		}
		return nil, l.problems
	}
	defer root.Close()
	l.root = root
	for _, branch := range l.names(runsDir, "") {
		if f.Branch != "" && branch.name != f.Branch {
			continue
		}
		for _, testbed := range l.names(branch.path, "") {
			if f.Testbed == "" || testbed.name == f.Testbed {
				l.files(testbed.path)
			}
		}
	}
	slices.SortFunc(l.entries, func(a, b Entry) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID), strings.Compare(a.Path, b.Path))
	})
	return l.entries, l.problems
}

// Load reads the run of an entry.
func (s *Store) Load(e Entry) (*bench.Run, error) { return ReadFile(e.Path) }

// ReadFile reads a run from a file, as JSON or compressed by gzip. It reads at
// most [MaxSize] bytes of JSON; the errors of [bench.Decode] are wrapped.
func ReadFile(name string) (*bench.Run, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	defer f.Close()
	r, err := decode(f)
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", name, err)
	}
	return r, nil
}

// A lister gathers entries and problems.
type lister struct {
	dir      string
	root     *os.Root
	entries  []Entry
	problems []Problem
}

func (l *lister) problem(name string, err error) {
	// The path is told; the operating system's error repeats it.
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	l.problems = append(l.problems, Problem{filepath.Join(l.dir, filepath.FromSlash(name)), err})
}

// read lists a directory.
func (l *lister) read(dir string) []fs.DirEntry {
	d, err := l.root.Open(dir)
	if err == nil {
		defer d.Close()
		var list []fs.DirEntry
		if list, err = d.ReadDir(-1); err == nil {
			slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
			return list
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		l.problem(dir, err)
	}
	return nil
}

type named struct{ name, path string }

// names are the escaped names in a directory, long ones over several levels.
func (l *lister) names(dir, before string) []named {
	var found []named
	for _, e := range l.read(dir) {
		at := path.Join(dir, e.Name())
		switch {
		case !e.IsDir():
			l.problem(at, errors.New("not a directory of runs"))
		case strings.HasSuffix(e.Name(), more):
			found = append(found, l.names(at, before+e.Name()+"/")...)
		default:
			name, err := unescape(before + e.Name())
			if err != nil {
				l.problem(at, err)
				continue
			}
			found = append(found, named{name, at})
		}
	}
	return found
}

func (l *lister) files(dir string) {
	for _, e := range l.read(dir) {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			continue // another gate is writing it, or was killed while it did
		}
		at := path.Join(dir, e.Name())
		entry, err := l.file(at, e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another gate pruned it since
		}
		if err != nil {
			l.problem(at, err)
			continue
		}
		l.entries = append(l.entries, entry)
	}
}

func (l *lister) file(name string, e fs.DirEntry) (Entry, error) {
	// Not only symlinks: opening a pipe would wait forever.
	if !e.Type().IsRegular() {
		return Entry{}, errors.New("not a regular file")
	}
	if !strings.HasSuffix(name, suffix) {
		return Entry{}, errors.New("not a run: no name ending in " + suffix)
	}
	f, err := l.root.Open(name)
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Entry{}, err
	}
	r, err := decode(f)
	if err != nil {
		return Entry{}, err
	}
	// A copied or moved file would count twice, or for another branch.
	if want, err := place(r); err != nil || want != name {
		return Entry{}, fmt.Errorf("holds run %.40s of branch %.40q, which does not belong here", r.ID, r.Revision.Branch)
	}
	return Entry{
		Path: filepath.Join(l.dir, filepath.FromSlash(name)), ID: r.ID, Time: r.Time, Session: r.Session,
		Revision: r.Revision, Testbed: r.Testbed, Results: len(r.Results), Size: info.Size(),
	}, nil
}

// decode reads a run, compressed or not.
func decode(f io.Reader) (*bench.Run, error) {
	in := bufio.NewReader(f)
	var plain io.Reader = in
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, torn(err)
		}
		plain = z
	}
	// All of it first: a wrong checksum stands at the end, and a bomb need not
	// be parsed.
	text, err := io.ReadAll(io.LimitReader(plain, MaxSize+1))
	if err != nil {
		return nil, torn(err)
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("more than %d MB of JSON", MaxSize>>20)
	}
	r, err := bench.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, torn(err)
	}
	return r, nil
}

// torn says in words what a reader meant by unexpected EOF.
func torn(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the file is cut off: %w", err)
	}
	return err
}
