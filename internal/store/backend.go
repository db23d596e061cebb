package store

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"
)

// A backend keeps objects under slash-separated keys, whatever bytes those hold.
// Errors wrap [fs.ErrNotExist] and [fs.ErrExist] where they mean that.
type backend interface {
	// list calls found with every object below a prefix that ends where a part of the
	// keys does, in any order. A prefix without any is no error.
	list(ctx context.Context, prefix string, found func(object)) error
	// read reads a whole object, of which more than most bytes are an error.
	read(ctx context.Context, key string, most int64) ([]byte, error)
	// create makes an object, whole or not at all, and never in place of another.
	create(ctx context.Context, key string, data []byte) error
	remove(ctx context.Context, key string) error
	// sweep removes what writers that were killed before a time left behind.
	sweep(ctx context.Context, before time.Time) error
	// where names an object to people, or with an empty key the store.
	where(key string) string
	// parallel is how many objects are well read at once.
	parallel() int
	close() error
}

// An object is one that a backend lists.
type object struct {
	key  string
	size int64
	tag  string // another one after any change of the content
	err  error  // why it is none that could be read
}

// A lost error is one that costs an object and not the whole store.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// A spot is where an object lies, by its key.
type spot struct{ branch, testbed, file string }

var errNoDirectory = errors.New("not a directory of runs")

// locate takes the key of a run apart.
func locate(key string) (spot, error) {
	dir, file := path.Split(key)
	names, err := directories(strings.TrimSuffix(dir, "/"))
	switch {
	case err != nil:
		return spot{}, err
	case len(names) < 2:
		return spot{}, errNoDirectory
	case !strings.HasSuffix(file, suffix):
		return spot{}, errors.New("not a run: no name ending in " + suffix)
	}
	return spot{names[0], names[1], file}, nil
}

// directories are the names that the parts of a directory below runs stand for, at
// most branch and testbed. What begins with a name that goes on below has it not yet.
func directories(dir string) ([]string, error) {
	dir, ok := strings.CutPrefix(dir, runsDir)
	if !ok {
		return nil, errNoDirectory
	}
	var names []string
	name := ""
	for part := range strings.SplitSeq(strings.TrimPrefix(dir, "/"), "/") {
		if dir == "" {
			break
		}
		name += part
		if strings.HasSuffix(part, more) {
			name += "/"
			continue
		}
		plain, err := unescape(name)
		if err != nil {
			return nil, err
		}
		if names, name = append(names, plain), ""; len(names) > 2 {
			return nil, errors.New("not a regular file")
		}
	}
	return names, nil
}

// id is the time and the ID that the name of a run's object holds.
func (s spot) id() (time.Time, string, error) {
	name := strings.TrimSuffix(s.file, suffix)
	if len(name) <= len(timeForm)+1 || name[len(timeForm)] != '-' {
		return time.Time{}, "", errors.New("not a run: no time and ID in its name")
	}
	t, err := time.Parse(timeForm, name[:len(timeForm)])
	if err != nil {
		return time.Time{}, "", errors.New("not a run: no time in its name")
	}
	return t, name[len(timeForm)+1:], nil
}
