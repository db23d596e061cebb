package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// openStore opens the store that a flag names, or the one of the repository
// that the current directory is in.
func openStore(cmd *cobra.Command, dir string) (*store.Store, error) {
	if dir == "" {
		t, err := build.Open(cmd.Context(), ".", "")
		if err != nil {
			return nil, err
		}
		defer t.Close()
		dir = filepath.Join(t.Root, store.DefaultDir)
	}
	return store.Open(dir)
}

func (c Command) baseline() *cobra.Command {
	var dir, branch, testbed string
	cmd := &cobra.Command{
		Use:   "baseline",
		Short: "List, show, prune, pull and push stored runs",
		Args:  takesVerb,
		RunE:  showHelp,

		DisableFlagsInUseLine: true,
	}
	f := cmd.PersistentFlags()
	f.StringVar(&dir, "store", "", "the store's `DIRECTORY` (default: .ebpf-bench at the top of the repository)")
	f.StringVar(&branch, "branch", "", "only runs of this branch")
	f.StringVar(&testbed, "testbed", "", "only runs of this testbed")

	// problems names what lies in the store and is no run: told, never counted.
	problems := func(ps []store.Problem) {
		for _, p := range ps {
			fmt.Fprintf(c.Stderr, "warning: not counted: %v\n", p)
		}
	}
	list := &cobra.Command{
		Use: "list", Short: "List stored runs, newest last", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := openStore(cmd, dir)
			if err != nil {
				return unmeasured(err)
			}
			entries, ps := s.List(store.Filter{Branch: branch, Testbed: testbed})
			problems(ps)
			if len(entries) == 0 {
				fmt.Fprintf(c.Stderr, "no runs in %s; gate run makes some\n", s.Dir())
				return nil
			}
			w := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tTIME\tBRANCH\tREVISION\tTESTBED\tRESULTS")
			for _, e := range entries {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", e.ID, e.Time.Local().Format(time.DateTime),
					orDash(e.Revision.Branch), e.Revision.Short(), e.Testbed.Slug(), e.Results)
			}
			return w.Flush()
		},
	}
	show := &cobra.Command{
		Use: "show ID", Short: "Print one stored run as JSON", Args: takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := openStore(cmd, dir)
			if err != nil {
				return unmeasured(err)
			}
			entries, ps := s.List(store.Filter{})
			problems(ps)
			for _, e := range entries {
				if e.ID != args[0] {
					continue
				}
				r, err := s.Load(e)
				if err != nil {
					return unmeasured(err)
				}
				return bench.Encode(c.Stdout, r)
			}
			return &exitError{code: exitUsage, err: fmt.Errorf("no run %q in %s", args[0], s.Dir()), hint: "gate baseline list"}
		},
	}
	var keep int
	var age time.Duration
	var asJSON bool
	prune := &cobra.Command{
		Use: "prune", Short: "Remove old runs", Args: takes(),
		Long: "Prune removes runs that are neither among the newest --keep of their branch and testbed\nnor younger than --younger-than.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := openStore(cmd, dir)
			if err != nil {
				return unmeasured(err)
			}
			r := store.Retention{Keep: keep}
			if age > 0 {
				r.Before = time.Now().Add(-age)
			}
			removed, err := s.Prune(r)
			if err != nil {
				return unmeasured(err)
			}
			if asJSON {
				return json.NewEncoder(c.Stdout).Encode(removed)
			}
			for _, e := range removed {
				fmt.Fprintln(c.Stdout, e.Path)
			}
			fmt.Fprintf(c.Stderr, "removed %d runs\n", len(removed))
			return nil
		},
	}
	prune.Flags().IntVar(&keep, "keep", 64, "keep the newest `N` runs of each branch and testbed")
	prune.Flags().DurationVar(&age, "younger-than", 0, "keep runs younger than `DURATION` whatever their number")
	prune.Flags().BoolVar(&asJSON, "json", false, "print what was removed as JSON")
	cmd.AddCommand(list, show, prune, c.baselinePull(&dir, &branch), c.baselinePush(&dir, &branch, &testbed))
	return cmd
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
