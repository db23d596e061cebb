package store

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/org/ebpf-bench-gate/bench"
)

// maxFlight is how many bytes of objects are read at once. One that is small may
// inflate to [MaxSize]; of those there are no more at once than processors.
const maxFlight = 256 << 20

// An Entry is one stored run, without its samples.
type Entry struct {
	// Path is the file or the object's URL, for people.
	Path     string
	ID       string
	Time     time.Time // in UTC
	Session  string
	Revision bench.Revision
	Testbed  bench.Testbed
	Results  int   // how many results the run has
	Size     int64 // of the object, in bytes

	key      string
	in       *segment // that holds the medians
	from, to int
}

// Outline makes of r the run with one sample a result, the median, and without all
// that a history is not made of: programs, warnings, lines. Results that have no sample
// are left out. What r holds is used again.
func (e *Entry) Outline(r *bench.Run) {
	results := slices.Grow(r.Results[:0], e.to-e.from)
	*r = bench.Run{Schema: bench.SchemaVersion, ID: e.ID, Time: e.Time, Session: e.Session, Revision: e.Revision, Testbed: e.Testbed}
	samples := make([]bench.Sample, e.to-e.from)
	for i := range samples {
		m := &e.in.Measures[e.in.Of[e.from+i]]
		samples[i] = bench.Sample{Value: e.in.Values[e.from+i], Offset: -1}
		results = append(results, bench.Result{
			Benchmark: m.Benchmark, Program: m.Program, Measure: m.Measure, Kind: m.Kind, Unit: m.Unit, Better: m.Better, Noisy: m.Noisy,
			Samples: samples[i : i+1 : i+1],
		})
	}
	r.Results = results
}

// Outlines are the outlines of entries. Each is there until the next.
func Outlines(entries []*Entry) iter.Seq[*bench.Run] {
	return func(yield func(*bench.Run) bool) {
		var r bench.Run
		for _, e := range entries {
			if e.Outline(&r); !yield(&r) {
				return
			}
		}
	}
}

// A Problem is an object in the store that is not counted, and why.
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

// prefix is where all that a filter chooses lies.
func (f Filter) prefix() string {
	switch {
	case f.Branch == "":
		return runsDir + "/"
	case f.Testbed == "":
		return runsDir + "/" + escape(f.Branch) + "/"
	}
	return runsDir + "/" + escape(f.Branch) + "/" + escape(f.Testbed) + "/"
}

func (f Filter) has(s spot) bool {
	return (f.Branch == "" || f.Branch == s.branch) && (f.Testbed == "" || f.Testbed == s.testbed)
}

// A listing is one List in the making.
type listing struct {
	s        *Store
	prefix   string
	listed   map[string]*candidate // by their keys
	unread   map[string]*candidate // those that were asked for and have no row yet
	entries  []Entry
	problems []Problem
}

// A candidate is an object that lies where a run does.
type candidate struct {
	object
	spot
}

func (l *listing) problem(key string, err error) {
	l.problems = append(l.problems, Problem{l.s.b.where(key), err})
}

// List finds runs, oldest first. One that is torn, foreign, too big, from a later gate,
// or not where it belongs is a problem and no entry. What no index has is read whole;
// the others are as they were when they were, as far as size and time, or checksum, of
// the object tell. An empty store has none. An error is that the store could not be
// listed, and neither entries nor problems are all then.
func (s *Store) List(ctx context.Context, f Filter) ([]Entry, []Problem, error) {
	l := &listing{s: s, prefix: f.prefix(), listed: map[string]*candidate{}, unread: map[string]*candidate{}}
	// Of all branches there are many runs sooner than of one: both are asked for at once.
	index := func() ([]*segment, []string, error) { return s.segments(ctx) }
	if f.Branch == "" {
		index = ahead(index)
	}
	if err := l.find(ctx, f); err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", s, err)
	}
	if err := l.fill(ctx, index); err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", s, err)
	}
	slices.SortFunc(l.problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return oldestFirst(l.entries), l.problems, nil
}

// oldestFirst sorts entries, which are large, by moving each of them once.
func oldestFirst(entries []Entry) []Entry {
	if len(entries) == 0 {
		return nil
	}
	order := make([]*Entry, len(entries))
	for i := range entries {
		order[i] = &entries[i]
	}
	slices.SortFunc(order, func(a, b *Entry) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID), strings.Compare(a.key, b.key))
	})
	sorted := make([]Entry, len(entries))
	for i, e := range order {
		sorted[i] = *e
	}
	return sorted
}

// ahead begins to read the index, and returns what waits for it.
func ahead(index func() ([]*segment, []string, error)) func() ([]*segment, []string, error) {
	type answer struct {
		have   []*segment
		broken []string
		err    error
	}
	got := make(chan answer, 1)
	go func() {
		have, broken, err := index()
		got <- answer{have, broken, err}
	}()
	return func() ([]*segment, []string, error) {
		a := <-got
		return a.have, a.broken, a.err
	}
}

// find lists the objects.
func (l *listing) find(ctx context.Context, f Filter) error {
	// Most runs lie beside others, whose directory need not be understood again.
	known := map[string]spot{}
	return l.s.b.list(ctx, l.prefix, func(o object) {
		dir, file := path.Split(o.key)
		at, ok := known[dir]
		if at.file = file; !ok || o.err != nil || !strings.HasSuffix(file, suffix) {
			err := o.err
			if err == nil {
				at, err = locate(o.key)
			}
			if err != nil {
				l.problem(o.key, err)
				return
			}
			known[dir] = at
		}
		c := &candidate{o, at}
		l.listed[o.key] = c
		if f.has(at) {
			l.unread[o.key] = c
		}
	})
}

// take makes entries of the rows of a segment that are asked for and still hold.
func (l *listing) take(g *segment) {
	if l.entries == nil && len(l.unread) > 0 { // nearly all, mostly
		l.entries = make([]Entry, 0, len(l.unread))
	}
	for i, key := range g.Keys {
		c, ok := l.unread[key]
		if !ok || !g.holds(i, c.object) {
			continue
		}
		delete(l.unread, key)
		if p, ok := g.Problems[i]; ok {
			l.problem(key, errors.New(p))
			continue
		}
		e, err := g.entry(i, c.spot)
		if err != nil {
			l.problem(key, err)
			continue
		}
		e.Path = l.s.b.where(key)
		l.entries = append(l.entries, e)
	}
}

// readRuns reads objects and calls done, one at a time, with each that still is there: with its
// run, or with why there is none. An error is that the store cannot be read.
func (s *Store) readRuns(ctx context.Context, objects []object, done func(object, *bench.Run, error)) error {
	type read struct {
		object
		run *bench.Run
		err error
	}
	out := make(chan read)
	group, some := errgroup.WithContext(ctx)
	group.SetLimit(s.b.parallel())
	flight := semaphore.NewWeighted(maxFlight)
	processors := semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0)))
	finished := make(chan error, 1)
	go func() {
		for _, o := range objects {
			weight := min(max(o.size, 1), maxFlight)
			if flight.Acquire(some, weight) != nil {
				break
			}
			group.Go(func() error {
				defer flight.Release(weight)
				run, err := s.load(some, o, processors)
				var lost lostError
				switch {
				case errors.Is(err, fs.ErrNotExist):
					return nil // another gate pruned it since
				case err != nil && !errors.As(err, &lost):
					return fmt.Errorf("%s: %w", s.b.where(o.key), err)
				}
				select {
				case out <- read{o, run, err}:
					return nil
				case <-some.Done():
					return some.Err()
				}
			})
		}
		finished <- group.Wait()
		close(out)
	}()
	for r := range out {
		done(r.object, r.run, r.err)
	}
	if err := <-finished; err != nil {
		return err
	}
	return context.Cause(ctx)
}

// load reads one run. What is wrong with it is a lost error.
func (s *Store) load(ctx context.Context, o object, processors *semaphore.Weighted) (*bench.Run, error) {
	if o.size > MaxSize {
		return nil, lostError{tooLarge(MaxSize)}
	}
	data, err := s.b.read(ctx, o.key, MaxSize)
	if err != nil {
		return nil, err
	}
	if processors != nil {
		if err := processors.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer processors.Release(1)
	}
	r, err := checked(o.key, data)
	if err != nil {
		return nil, lostError{err}
	}
	return r, nil
}

// checked is the run in an object.
func checked(key string, data []byte) (*bench.Run, error) {
	r, err := decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	// A copied or moved object would count twice, or for another branch.
	if want, err := place(r); err != nil || want != key {
		return nil, fmt.Errorf("holds run %.40s of branch %.40q, which does not belong here", r.ID, r.Revision.Branch)
	}
	return r, nil
}

// Load reads the run of an entry.
func (s *Store) Load(ctx context.Context, e Entry) (*bench.Run, error) {
	r, err := s.load(ctx, object{key: e.key, size: e.Size}, nil)
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", e.Path, err)
	}
	return r, nil
}

// Find reads the run with an ID, which is looked for in the names of the objects alone;
// one that no readable object has is [fs.ErrNotExist].
func (s *Store) Find(ctx context.Context, id string) (*bench.Run, error) {
	var found []object
	err := s.b.list(ctx, runsDir+"/", func(o object) {
		if at, err := locate(o.key); o.err == nil && err == nil {
			if _, is, err := at.id(); err == nil && is == id {
				found = append(found, o)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", s, err)
	}
	err = fmt.Errorf("no run %.140q in %s: %w", id, s, fs.ErrNotExist)
	for _, o := range found {
		var r *bench.Run
		if r, err = s.load(ctx, o, nil); err == nil {
			return r, nil
		}
		err = fmt.Errorf("read run %s: %w", s.b.where(o.key), err)
	}
	return nil, err
}

// History reads the runs that judging another one by is done with, oldest first, each
// [Compact]; those before the newest [MaxHistory] are outlines, see [Entry.Outline].
func (s *Store) History(ctx context.Context, f Filter) ([]*bench.Run, []Problem, error) {
	entries, problems, err := s.List(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	old := max(0, len(entries)-MaxHistory)
	var runs []*bench.Run
	for i := range entries[:old] {
		r := &bench.Run{}
		entries[i].Outline(r)
		runs = append(runs, r)
	}
	var objects []object
	for _, e := range entries[old:] {
		objects = append(objects, object{key: e.key, size: e.Size})
	}
	err = s.readRuns(ctx, objects, func(o object, r *bench.Run, err error) {
		if err != nil {
			problems = append(problems, Problem{s.b.where(o.key), err})
			return
		}
		runs = append(runs, Compact(r))
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", s, err)
	}
	slices.SortStableFunc(runs, func(a, b *bench.Run) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID))
	})
	return runs, problems, nil
}

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

// decode reads a run, compressed or not.
func decode(f io.Reader) (*bench.Run, error) {
	text, err := inflate(f, MaxSize)
	if err != nil {
		return nil, err
	}
	r, err := bench.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, torn(err)
	}
	return r, nil
}

// inflate reads text, compressed or not. All of it before anything is parsed: a wrong
// checksum stands at the end, and a bomb need not be parsed.
func inflate(f io.Reader, most int64) ([]byte, error) {
	in := bufio.NewReader(f)
	var plain io.Reader = in
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, torn(err)
		}
		plain = z
	}
	text, err := io.ReadAll(io.LimitReader(plain, most+1))
	if err != nil {
		return nil, torn(err)
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("more than %d MB of JSON", most>>20)
	}
	return text, nil
}

// torn says in words what a reader meant by unexpected EOF.
func torn(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the file is cut off: %w", err)
	}
	return err
}
