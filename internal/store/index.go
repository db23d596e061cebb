package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/ebpf-bench-gate/bench"
)

const (
	// fewRuns are read faster than an index, and are not worth one.
	fewRuns = 64
	// fullRows and fullValues are where a segment ends, and maySegments how many that
	// have not come so far there may be.
	fullRows, fullValues = 8192, 1 << 20
	maySegments          = 8
	maxSegment           = 128 << 20 // bytes of JSON

	indexSchema = 1
)

// A segment holds what lists and histories need of some runs: an immutable object in
// index/, in columns, since a hundred thousand small objects of JSON take a second to
// decode and ten columns do not.
//
// Who lists a store reads the runs that no segment has a row for, and leaves the rows
// in a new segment if they are many. Who finds many small segments makes one of them,
// and removes those last. Writers of runs know nothing of all this, so one that is
// killed leaves no row without a run or a run that cannot be found. A row counts where
// the store lists an object of its key, size and tag; two that race write the same rows
// twice; and a store without index/ is as good as one with it, but slower.
type segment struct {
	Schema int `json:"schema"`
	// Runs is [bench.SchemaVersion] of the reader: a later one understands more.
	Runs     int             `json:"runs"`
	Testbeds []bench.Testbed `json:"testbeds"`
	Measures []measured      `json:"measures"`

	// Of each row:
	Keys     []string       `json:"keys"`
	Sizes    []int64        `json:"sizes"`
	Tags     []string       `json:"tags"`
	Problems map[int]string `json:"problems"` // why it is no run
	Sessions []string       `json:"sessions"`
	Names    []string       `json:"names"` // of revisions
	Commits  []string       `json:"commits"`
	Dirty    []bool         `json:"dirty"`
	Testbed  []int          `json:"testbed"` // in Testbeds
	Results  []int          `json:"results"`
	Ends     []int          `json:"ends"` // of its medians in the columns below

	Of     []int     `json:"of"` // in Measures
	Values []float64 `json:"values"`

	testbeds map[bench.Testbed]int
	measures map[measured]int
	name     string // of the object; empty: it has none yet
}

// measured is what a median is one of.
type measured struct {
	Benchmark string       `json:"benchmark"`
	Program   string       `json:"program"`
	Measure   string       `json:"measure"`
	Kind      bench.Kind   `json:"kind"`
	Unit      string       `json:"unit,omitempty"`
	Better    bench.Better `json:"better,omitempty"`
	Noisy     string       `json:"noisy,omitempty"`
}

func newSegment() *segment {
	return &segment{
		Schema: indexSchema, Runs: bench.SchemaVersion, Problems: map[int]string{},
		testbeds: map[bench.Testbed]int{}, measures: map[measured]int{},
	}
}

func (g *segment) rows() int  { return len(g.Keys) }
func (g *segment) full() bool { return g.rows() >= fullRows || len(g.Values) >= fullValues }

// at finds x in a list, or appends it.
func at[T comparable](list *[]T, known map[T]int, x T) int {
	i, ok := known[x]
	if !ok {
		i = len(*list)
		known[x] = i
		*list = append(*list, x)
	}
	return i
}

// row appends what every row has.
func (g *segment) row(o object, session string, rev bench.Revision, testbed bench.Testbed, results int) {
	g.Keys, g.Sizes, g.Tags = append(g.Keys, o.key), append(g.Sizes, o.size), append(g.Tags, o.tag)
	g.Sessions, g.Names = append(g.Sessions, session), append(g.Names, rev.Name)
	g.Commits, g.Dirty = append(g.Commits, rev.Commit), append(g.Dirty, rev.Dirty)
	g.Testbed = append(g.Testbed, at(&g.Testbeds, g.testbeds, testbed))
	g.Results = append(g.Results, results)
}

// add appends the row of an object that was read.
func (g *segment) add(o object, r *bench.Run, problem error) {
	if problem != nil {
		g.Problems[g.rows()] = problem.Error()
		r = &bench.Run{}
	}
	g.row(o, r.Session, r.Revision, r.Testbed, len(r.Results))
	for i := range r.Results {
		res := &r.Results[i]
		if len(res.Samples) == 0 {
			continue
		}
		v := median(res.Samples, func(s bench.Sample) float64 { return s.Value })
		if math.IsInf(v, 0) || math.IsNaN(v) {
			continue
		}
		m := measured{res.Benchmark, res.Program, res.Measure, res.Kind, res.Unit, res.Better, res.Noisy}
		g.Of, g.Values = append(g.Of, at(&g.Measures, g.measures, m)), append(g.Values, v)
	}
	g.Ends = append(g.Ends, len(g.Of))
}

// copyRow appends a row of another segment.
func (g *segment) copyRow(from *segment, i int) {
	if p, ok := from.Problems[i]; ok {
		g.Problems[g.rows()] = p
	}
	g.row(object{key: from.Keys[i], size: from.Sizes[i], tag: from.Tags[i]}, from.Sessions[i],
		bench.Revision{Name: from.Names[i], Commit: from.Commits[i], Dirty: from.Dirty[i]}, from.Testbeds[from.Testbed[i]], from.Results[i])
	start, end := from.medians(i)
	for k := start; k < end; k++ {
		g.Of, g.Values = append(g.Of, at(&g.Measures, g.measures, from.Measures[from.Of[k]])), append(g.Values, from.Values[k])
	}
	g.Ends = append(g.Ends, len(g.Of))
}

func (g *segment) medians(i int) (start, end int) {
	if i > 0 {
		start = g.Ends[i-1]
	}
	return start, g.Ends[i]
}

// holds tells that a row is of the object as it is now.
func (g *segment) holds(i int, o object) bool { return g.Sizes[i] == o.size && g.Tags[i] == o.tag }

// entry is that of a row that is a run.
func (g *segment) entry(i int, where spot) (Entry, error) {
	t, id, err := where.id()
	if err != nil {
		return Entry{}, err
	}
	e := Entry{
		ID: id, Time: t, Session: g.Sessions[i], Testbed: g.Testbeds[g.Testbed[i]], Results: g.Results[i], Size: g.Sizes[i],
		Revision: bench.Revision{Name: g.Names[i], Commit: g.Commits[i], Branch: where.branch, Dirty: g.Dirty[i]},
		key:      g.Keys[i], in: g,
	}
	e.from, e.to = g.medians(i)
	return e, nil
}

func (g *segment) encode() ([]byte, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	if len(text) > maxSegment {
		return nil, tooLarge(maxSegment)
	}
	return pack(text)
}

// decodeSegment believes nothing: whoever can write runs can write a segment.
func decodeSegment(data []byte) (*segment, error) {
	text, err := inflate(bytes.NewReader(data), maxSegment)
	if err != nil {
		return nil, err
	}
	g := &segment{}
	if err := json.Unmarshal(text, g); err != nil {
		return nil, err
	}
	if g.Schema > indexSchema || g.Runs > bench.SchemaVersion {
		return nil, bench.ErrFuture
	}
	if g.Schema < indexSchema || g.Runs < bench.SchemaVersion {
		return nil, fmt.Errorf("schema %d of runs of schema %d", g.Schema, g.Runs)
	}
	n := g.rows()
	for _, l := range []int{len(g.Sizes), len(g.Tags), len(g.Sessions), len(g.Names), len(g.Commits), len(g.Dirty), len(g.Testbed), len(g.Results), len(g.Ends)} {
		if l != n {
			return nil, errors.New("columns of different lengths")
		}
	}
	outside := func(list []int, most int) bool {
		return slices.ContainsFunc(list, func(i int) bool { return i < 0 || i >= most })
	}
	if len(g.Of) != len(g.Values) || outside(g.Of, len(g.Measures)) || outside(g.Testbed, len(g.Testbeds)) ||
		!slices.IsSorted(g.Ends) || outside(g.Ends, len(g.Of)+1) {
		return nil, errors.New("columns that do not fit each other")
	}
	return g, nil
}

// fill makes entries of what was asked for: from the index where there are many, and
// from the runs themselves.
func (l *listing) fill(ctx context.Context, index func() ([]*segment, []string, error)) error {
	var have []*segment
	var broken []string
	if len(l.unread) > fewRuns {
		var err error
		if have, broken, err = index(); err != nil {
			return err
		}
		for _, g := range have {
			l.take(g)
		}
	}
	var objects []object
	for _, key := range slices.Sorted(maps.Keys(l.unread)) {
		objects = append(objects, l.unread[key].object)
	}
	fresh := newSegment()
	for done := 0; done < len(objects); {
		some := objects[done:min(done+fullRows, len(objects))]
		read := done
		err := l.s.readRuns(ctx, some, func(o object, r *bench.Run, err error) {
			fresh.add(o, r, err)
			if read++; l.s.Reading != nil && len(objects) > fewRuns {
				l.s.Reading(read, len(objects))
			}
			if fresh.full() {
				fresh = l.keep(ctx, fresh)
			}
		})
		l.take(fresh)
		if err != nil {
			return err
		}
		done += len(some)
	}
	if fresh.rows() >= fewRuns {
		have = append(have, fresh)
	}
	l.compact(ctx, have, broken)
	return nil
}

// keep writes a full segment and begins another one.
func (l *listing) keep(ctx context.Context, g *segment) *segment {
	l.take(g)
	_ = l.s.writeSegment(ctx, g)
	return newSegment()
}

// compact writes what is new, together with small segments where they are many, and
// removes what nobody needs any more. Nothing of it matters to who lists: where it
// cannot be done, as with credentials that may only read, the next one tries again.
func (l *listing) compact(ctx context.Context, have []*segment, broken []string) {
	small, useless := 0, map[*segment]bool{}
	for _, g := range have {
		dead := 0
		for i := range g.Keys {
			if !l.alive(g, i) {
				dead++
			}
		}
		useless[g] = dead > g.rows()/2
		if !g.full() || useless[g] {
			small++
		}
	}
	join := small > maySegments || slices.ContainsFunc(have, func(g *segment) bool { return useless[g] })
	for _, name := range broken {
		_ = l.s.b.remove(ctx, name)
	}
	out := newSegment()
	var done []string
	seen := map[string]bool{}
	for _, g := range have {
		switch {
		case g.full() && !useless[g]:
			continue
		case !join && g.name != "":
			continue
		}
		for i, key := range g.Keys {
			if seen[key] || !l.alive(g, i) {
				continue
			}
			seen[key] = true
			if out.copyRow(g, i); out.full() {
				if l.s.writeSegment(ctx, out) != nil {
					return
				}
				out = newSegment()
			}
		}
		if g.name != "" {
			done = append(done, g.name)
		}
	}
	if out.rows() > 0 && l.s.writeSegment(ctx, out) != nil {
		return
	}
	// Last: until now no row was away.
	for _, name := range done {
		_ = l.s.b.remove(ctx, name)
	}
}

// alive tells that a row is of an object that is there, or may be: where only a part
// of the store was listed.
func (l *listing) alive(g *segment, i int) bool {
	if !strings.HasPrefix(g.Keys[i], l.prefix) {
		return true
	}
	c, ok := l.listed[g.Keys[i]]
	return ok && g.holds(i, c.object)
}

func (s *Store) writeSegment(ctx context.Context, g *segment) error {
	data, err := g.encode()
	if err != nil {
		return err
	}
	return s.b.create(ctx, fmt.Sprintf("%s/%s-%s%s", indexDir, time.Now().UTC().Format("20060102-150405"), strings.ToLower(rand.Text()), suffix), data)
}

// segments reads the index, and the names of those of its objects that are none.
func (s *Store) segments(ctx context.Context) (have []*segment, broken []string, err error) {
	// One that is gone was joined to others since, which another look finds.
	for range 3 {
		var gone bool
		if have, broken, gone, err = s.someSegments(ctx); err != nil || !gone {
			break
		}
	}
	return have, broken, err
}

func (s *Store) someSegments(ctx context.Context) (have []*segment, broken []string, gone bool, err error) {
	var objects []object
	err = s.b.list(ctx, indexDir+"/", func(o object) {
		if o.err == nil && strings.HasSuffix(o.key, suffix) && o.size <= maxSegment {
			objects = append(objects, o)
		}
	})
	if err != nil {
		return nil, nil, false, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	var mu sync.Mutex
	for _, o := range objects {
		group.Go(func() error {
			data, err := s.b.read(ctx, o.key, maxSegment)
			var g *segment
			var lost lostError
			if err == nil {
				g, err = decodeSegment(data)
				if err != nil {
					err = lostError{err}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				g.name = o.key
				have = append(have, g)
			case errors.Is(err, fs.ErrNotExist):
				gone = true
			case errors.Is(err, bench.ErrFuture): // another gate's
			case errors.As(err, &lost):
				broken = append(broken, o.key)
			default:
				return fmt.Errorf("%s: %w", s.b.where(o.key), err)
			}
			return nil
		})
	}
	err = group.Wait()
	slices.SortFunc(have, func(a, b *segment) int { return strings.Compare(a.name, b.name) })
	return have, broken, gone, err
}
