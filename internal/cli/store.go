package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// storeFlag is --store of every verb that has one.
func storeFlag(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "store", "", "the store: a directory, `s3://BUCKET`, gs://BUCKET or azblob://CONTAINER (default: .ebpf-bench at the top of the repository)")
}

// openStore opens the store that a flag names, or the one of the repository
// that the current directory is in. The caller closes it.
func (c Command) openStore(cmd *cobra.Command, where string) (*store.Store, error) {
	if where == "" {
		t, err := build.Open(cmd.Context(), ".", "")
		if err != nil {
			return nil, unmeasured(err)
		}
		defer t.Close()
		where = filepath.Join(t.Root, store.DefaultDir)
	}
	return c.openStoreAt(cmd.Context(), where)
}

// openStoreAt opens a store, and shows on a terminal how it is read for the first time.
func (c Command) openStoreAt(ctx context.Context, where string) (*store.Store, error) {
	s, err := store.Open(ctx, where)
	var misnamed *store.URLError
	if errors.As(err, &misnamed) {
		return nil, &exitError{code: exitUsage, err: err}
	}
	if err != nil {
		return nil, unmeasured(err)
	}
	if isTerminal(c.Stderr) {
		var last time.Time
		s.Reading = func(done, of int) {
			switch {
			case done == of:
				fmt.Fprint(c.Stderr, "\r\033[K")
			case time.Since(last) > 100*time.Millisecond:
				last = time.Now()
				fmt.Fprintf(c.Stderr, "\rreading runs that no index has: %d of %d", done, of)
			}
		}
	}
	return s, nil
}

// pastOf are the stored runs of base's branch and testbed, or of head's where base is
// nil. Where nobody named a store there need not be one, nor one that can be read.
func (c Command) pastOf(cmd *cobra.Command, where string, base, head *bench.Run) ([]*bench.Run, error) {
	s, err := c.openStore(cmd, where)
	if err != nil {
		if where == "" {
			return nil, nil
		}
		return nil, err
	}
	defer s.Close()
	whose := head
	if base != nil {
		whose = base
	}
	past, problems, err := s.History(cmd.Context(), store.Filter{Branch: whose.Revision.Branch, Testbed: whose.Testbed.Slug()})
	c.uncounted(problems)
	if err != nil && where == "" && cmd.Context().Err() == nil {
		fmt.Fprintf(c.Stderr, "warning: no history: %s\n", plain(err.Error()))
		return nil, nil
	}
	return past, unmeasured(err)
}

// uncounted names what lies in a store and is no run: told, never counted.
func (c Command) uncounted(problems []store.Problem) {
	const most = 20
	for i, p := range problems {
		if i == most {
			fmt.Fprintf(c.Stderr, "warning: not counted: %d more like these\n", len(problems)-most)
			break
		}
		fmt.Fprintf(c.Stderr, "warning: not counted: %s\n", plain(p.Error()))
	}
}
