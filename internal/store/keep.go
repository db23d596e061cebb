package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Retention says which runs [Store.Prune] removes: those that are neither
// among the newest Keep of their branch and testbed nor younger than Before.
type Retention struct {
	Filter
	// Keep is 0 or more.
	Keep int
	// Before is the time since which every run stays. Zero: age protects none.
	Before time.Time
	// DryRun removes nothing, and only tells.
	DryRun bool
}

// abandoned is the age of a file that is still being written, after which its writer
// is taken for dead.
const abandoned = 24 * time.Hour

// Prune removes old runs and returns them, oldest first. What [Store.List] names
// as a problem is not ours, and stays. A Retention that would remove everything
// is an error.
func (s *Store) Prune(ctx context.Context, keep Retention) ([]Entry, error) {
	if keep.Keep <= 0 && keep.Before.IsZero() {
		return nil, errors.New("prune: neither a number of runs to keep nor an age")
	}
	entries, _, err := s.List(ctx, keep.Filter)
	if err != nil {
		return nil, err
	}
	type place struct{ branch, testbed string }
	newer := map[place]int{}
	var old []Entry
	for _, e := range slices.Backward(entries) {
		p := place{e.Revision.Branch, e.Testbed.Slug()}
		newer[p]++
		if newer[p] > keep.Keep && (keep.Before.IsZero() || e.Time.Before(keep.Before)) {
			old = append(old, e)
		}
	}
	slices.Reverse(old)
	if keep.DryRun {
		return old, nil
	}
	failed := make([]error, len(old))
	group, some := errgroup.WithContext(ctx)
	group.SetLimit(s.b.parallel())
	for i := range old {
		group.Go(func() error {
			// Another gate may prune at the same time.
			if err := s.b.remove(some, old[i].key); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed[i] = fmt.Errorf("prune: %w", err)
			}
			return some.Err()
		})
	}
	_ = group.Wait() // each has its error
	removed := slices.Collect(func(yield func(Entry) bool) {
		for i, e := range old {
			if failed[i] == nil && !yield(e) {
				return
			}
		}
	})
	err = s.b.sweep(ctx, time.Now().Add(-abandoned))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // there is no such directory
	} else if err != nil {
		err = fmt.Errorf("prune: %w", err)
	}
	return removed, errors.Join(errors.Join(failed...), err, ctx.Err())
}

// A Copied is what [Sync] did with a run.
type Copied struct {
	From, To string
	Size     int64
}

// Sync copies the runs that to lacks, each as it is, and returns how many it had
// already. Nothing is ever removed or replaced, so that it can be interrupted, repeated
// and done by several at once. What is no run is a problem and stays behind, as is a run
// of which to has another version. Done, where it is set, is called for each run that
// was copied (or with dry, would be), one at a time.
func Sync(ctx context.Context, from, to *Store, f Filter, dry bool, done func(Copied)) (had int, problems []Problem, err error) {
	there := map[string]int64{}
	if err := to.b.list(ctx, f.prefix(), func(o object) {
		if o.err == nil {
			there[o.key] = o.size
		}
	}); err != nil {
		return 0, nil, fmt.Errorf("list %s: %w", to, err)
	}
	var missing []object
	err = from.b.list(ctx, f.prefix(), func(o object) {
		at, err := spot{}, o.err
		if err == nil {
			at, err = locate(o.key)
		}
		size, has := there[o.key]
		switch {
		case err == nil && !f.has(at):
		case err == nil && !has:
			missing = append(missing, o)
		case err == nil && size != o.size:
			problems = append(problems, Problem{from.b.where(o.key), fmt.Errorf("%s is another one", to.b.where(o.key))})
		case err == nil:
			had++
		default:
			problems = append(problems, Problem{from.b.where(o.key), err})
		}
	})
	if err != nil {
		return 0, nil, fmt.Errorf("list %s: %w", from, err)
	}
	slices.SortFunc(missing, func(a, b object) int { return bytes.Compare([]byte(a.key), []byte(b.key)) })
	var mu sync.Mutex
	group, some := errgroup.WithContext(ctx)
	group.SetLimit(min(16, max(from.b.parallel(), to.b.parallel())))
	for _, o := range missing {
		group.Go(func() error {
			err := copyRun(some, from, to, o, dry)
			var lost lostError
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && done != nil:
				done(Copied{from.b.where(o.key), to.b.where(o.key), o.size})
			case err == nil:
			case errors.Is(err, fs.ErrExist):
				had++ // another gate copied it since
			case errors.Is(err, fs.ErrNotExist): // another gate pruned it since
			case errors.As(err, &lost):
				problems = append(problems, Problem{from.b.where(o.key), err})
			default:
				return fmt.Errorf("copy %s: %w", from.b.where(o.key), err)
			}
			return nil
		})
	}
	err = group.Wait()
	return had, problems, err
}

// copyRun copies an object that holds the run that it should.
func copyRun(ctx context.Context, from, to *Store, o object, dry bool) error {
	if o.size > MaxSize {
		return lostError{tooLarge(MaxSize)}
	}
	data, err := from.b.read(ctx, o.key, MaxSize)
	if err != nil {
		return err
	}
	if _, err := checked(o.key, data); err != nil {
		return lostError{err}
	}
	if dry {
		return nil
	}
	return to.b.create(ctx, o.key, data)
}
