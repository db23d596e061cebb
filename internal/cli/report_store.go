package cli

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/github"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// inStore tells that runs are kept in a store of its own, and not as artifacts.
func (f *reportFlags) inStore() bool { return strings.Contains(f.store, "://") }

// openStore opens the store that runs are kept in. Of one that cannot be reached the
// report says so; a name that is none is the error.
func (r *reporting) openStore(ctx context.Context) error {
	var wrong *store.URLError
	if r.store, r.storeErr = store.Open(ctx, r.f.store); errors.As(r.storeErr, &wrong) {
		return r.storeErr
	}
	return nil
}

func (r *reporting) closeStore() {
	if r.store != nil {
		_ = r.store.Close()
	}
}

const (
	// maxStored is the number of runs of a testbed that a history is made of, as of
	// artifacts.
	maxStored = github.DefaultHistory
	// maxAsked is what finding out which commits belong to a branch may cost of the API.
	maxAsked = 10
)

// storedHistory finds the baseline in the store. Whoever may write there is believed in
// what was measured, and at which commit; the API says whether that commit still belongs
// to the branch.
func (r *reporting) storedHistory(ctx context.Context, q github.HistoryQuery) (*github.History, error) {
	if r.storeErr != nil {
		return nil, r.storeErr
	}
	entries, problems, err := r.store.List(ctx, store.Filter{Branch: q.Branch})
	if err != nil {
		return nil, err
	}
	h := &github.History{}
	for _, p := range problems {
		h.Problems = append(h.Problems, p)
	}
	before := r.client.Requests()
	commits := r.client.Ancestors(q.Base, maxAsked/2)
	of := map[string]int{} // by testbed
	for _, e := range slices.Backward(entries) {
		testbed := e.Testbed.Slug()
		if of[testbed] == maxStored || e.Revision.Dirty {
			continue
		}
		if r.client.Requests()-before >= maxAsked {
			r.note("older stored runs were left out: too many are of commits that %s does not have", q.Branch)
			break
		}
		ok, err := commits.Has(ctx, e.Revision.Commit)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		run := &bench.Run{}
		if of[testbed] > 0 {
			e.Outline(run)
		} else if run, err = r.store.Load(ctx, e); err != nil { // of the newest, programs count, too
			h.Problems = append(h.Problems, err)
			continue
		}
		of[testbed]++
		if h.Newest == "" {
			h.Newest = e.Revision.Commit
		}
		h.Runs = append(h.Runs, run)
	}
	return h, nil
}

// keep puts what was measured on a branch into the store. A run is there already where
// its job reports once more.
func (r *reporting) keep(ctx context.Context, j *judgement) error {
	if r.storeErr != nil {
		return r.storeErr
	}
	for _, x := range j.reports {
		if _, err := r.store.Put(ctx, j.of[x].head); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
