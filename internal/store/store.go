// Package store keeps runs, in a directory or in a bucket (S3, Google Cloud Storage,
// Azure Blob).
//
// A run is one immutable object under a name of its own. A baseline is a query over
// the objects; nothing is ever read, changed and written back, so nothing can be lost
// by two writers at once, nor by one that is killed. Runs lie by branch and testbed:
//
//	runs/<branch>/<testbed>/<time>-<id>.json.gz
//
// An index beside them (see [segment]) makes listing fast. It is a cache that readers
// write, and is never believed where it differs from the objects.
//
// The privileged half puts runs in; the pure half lists and loads them. What is
// not a run that this package wrote is named as a [Problem] and never counted.
// The package judges nothing.
//
// In the order of reading: store.go opens and puts, backend.go is what a store needs of
// the place it is in, dir.go and bucket.go are the two there are, read.go lists, index.go
// is the cache, keep.go prunes and copies; bundle.go is the one file of an artifact.
//
// Note: gzip, not zstd, which would be a tenth smaller: every machine has zcat,
// and a user who doubts a verdict wants to look at the numbers.
//
// Note: directories are not gocloud's fileblob: it follows links out of the store, does
// not write down to the disk, and keeps attributes in files of its own.
package store

import (
	"bytes"
	"context"
	"fmt"
	"path"

	"github.com/klauspost/compress/gzip" // twice as fast as the standard library's

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
	runsDir  = "runs"
	logsDir  = "logs"
	indexDir = "index"
	suffix   = ".json.gz"
	timeForm = "20060102-150405.000000000"
)

// A Store holds runs. Several processes may use one at once, and goroutines one Store.
type Store struct {
	b backend
	// Reading, where it is set, is called while runs are read that no index has.
	Reading func(done, of int)
}

// Open opens the store in a directory or at a URL; an empty name is [DefaultDir]. See
// [URLError] for the URLs that there are. A directory need not exist: an empty store is
// one, and the first Put makes it; a file in its place is an error. A bucket must
// exist, and is asked whether it does.
//
// Credentials are taken from the environment, as the clouds' own tools take them.
func Open(ctx context.Context, where string) (*Store, error) {
	b, err := openBackend(ctx, where)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &Store{b: b}, nil
}

// Close gives back what an open bucket holds.
func (s *Store) Close() error { return s.b.close() }

// String is the directory or the URL, without parameters.
func (s *Store) String() string { return s.b.where("") }

// Remote tells that the store is a bucket.
func (s *Store) Remote() bool {
	_, local := s.b.(*directory)
	return !local
}

// Put saves a run and returns where. The object appears whole or not at all,
// and never in place of another: a second Put of the same run is an error that
// wraps [fs.ErrExist].
func (s *Store) Put(ctx context.Context, r *bench.Run) (string, error) {
	key, data, err := Object(r)
	if err == nil {
		err = s.b.create(ctx, key, data)
	}
	if err != nil {
		return "", fmt.Errorf("save run %.40s: %w", r.ID, err)
	}
	return s.b.where(key), nil
}

// PutLog saves the log of a program that was rejected, and returns where.
func (s *Store) PutLog(ctx context.Context, name, text string) (string, error) {
	key := path.Join(logsDir, escape(name)+".log")
	if err := s.b.create(ctx, key, []byte(text)); err != nil {
		return "", fmt.Errorf("save log: %w", err)
	}
	return s.b.where(key), nil
}

// Object is what [Store.Put] saves of a run, and under which key.
func Object(r *bench.Run) (key string, data []byte, err error) {
	if key, err = place(r); err == nil {
		data, err = Encode(r)
	}
	return key, data, err
}

// place is the key of a run.
func place(r *bench.Run) (string, error) {
	branch, testbed := r.Revision.Branch, r.Testbed.Slug()
	if len(branch) > maxName || len(testbed) > maxName {
		return "", fmt.Errorf("the name of branch or testbed is longer than %d bytes", maxName)
	}
	return path.Join(runsDir, escape(branch), escape(testbed), r.Time.UTC().Format(timeForm)+"-"+r.ID+suffix), nil
}

// Encode is what the object of a run holds.
func Encode(r *bench.Run) ([]byte, error) {
	plain, err := bench.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(plain) > MaxSize {
		return nil, fmt.Errorf("%d MB, more than the %d that would be read again", len(plain)>>20, MaxSize>>20)
	}
	return pack(plain)
}

func pack(text []byte) ([]byte, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
