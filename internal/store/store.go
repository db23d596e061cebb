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
package store

import (
	"errors"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
)

// DefaultDir is where runs are kept, relative to the top of the repository or
// the config's directory.
const DefaultDir = ".ebpf-bench"

// A Store is a directory of runs.
type Store struct{ dir string }

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

// A Filter chooses runs; its zero value is all of them.
type Filter struct {
	Branch  string // empty: any
	Testbed string // a [bench.Testbed.Slug]; empty: any
}

// A Retention says which runs [Store.Prune] removes: those that are not among
// the newest Keep of their branch and testbed, and older than Before where that
// is set.
type Retention struct {
	Keep   int
	Before time.Time
	DryRun bool // remove nothing, only tell
}

// Open names a store. The directory need not exist; the first Put makes it.
func Open(dir string) (*Store, error) { return &Store{dir}, nil }

// Put saves a run and returns its file. It never overwrites: a second Put of
// the same run is an error that wraps [fs.ErrExist].
func (s *Store) Put(r *bench.Run) (string, error) { return "", errors.New("not implemented") }

// List finds runs, oldest first, and names what it could not read. A missing
// store is empty.
func (s *Store) List(f Filter) ([]Entry, []Problem) { return nil, nil }

// Load reads the run of an entry.
func (s *Store) Load(e Entry) (*bench.Run, error) { return nil, errors.New("not implemented") }

// Prune removes old runs and returns them. It never removes what List names as
// a problem.
func (s *Store) Prune(r Retention) ([]Entry, error) { return nil, errors.New("not implemented") }

// ReadFile reads a run from a file, compressed or not.
func ReadFile(path string) (*bench.Run, error) { return nil, errors.New("not implemented") }
