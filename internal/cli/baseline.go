package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// baselineFlags are those of every verb of gate baseline.
type baselineFlags struct{ store, branch, testbed string }

func (f *baselineFlags) filter() store.Filter {
	return store.Filter{Branch: f.branch, Testbed: f.testbed}
}

func (c Command) baseline() *cobra.Command {
	var f baselineFlags
	cmd := &cobra.Command{
		Use:   "baseline",
		Short: "List, show, prune, copy, pull and push stored runs",
		Long: `Runs are stored in a directory, or in a bucket: s3://BUCKET?region=R (with
endpoint=URL also of other servers than Amazon's), gs://BUCKET, azblob://CONTAINER; a
path is a prefix of the names of objects. Credentials are read from the environment, as
the clouds' own tools read them: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,
GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, …`,
		Args: takesVerb,
		RunE: showHelp,

		DisableFlagsInUseLine: true,
	}
	fl := cmd.PersistentFlags()
	storeFlag(fl, &f.store)
	fl.StringVar(&f.branch, "branch", "", "only runs of this branch")
	fl.StringVar(&f.testbed, "testbed", "", "only runs of this testbed")
	cmd.AddCommand(c.baselineList(&f), c.baselineShow(&f), c.baselinePrune(&f), c.baselineSync(&f))
	cmd.AddCommand(c.baselinePull(&f.store, &f.branch), c.baselinePush(&f.store, &f.branch, &f.testbed))
	return cmd
}

func (c Command) baselineList(f *baselineFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List stored runs, newest last", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.openStore(cmd, f.store)
			if err != nil {
				return err
			}
			defer s.Close()
			entries, problems, err := s.List(cmd.Context(), f.filter())
			if err != nil {
				return unmeasured(err)
			}
			c.uncounted(problems)
			if len(entries) == 0 {
				fmt.Fprintf(c.Stderr, "no runs in %s; gate run makes some\n", s)
				return nil
			}
			w := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tTIME\tBRANCH\tREVISION\tTESTBED\tRESULTS")
			for _, e := range entries {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", e.ID, e.Time.Local().Format(time.DateTime),
					plain(orDash(e.Revision.Branch)), plain(e.Revision.Short()), plain(e.Testbed.Slug()), e.Results)
			}
			return w.Flush()
		},
	}
}

func (c Command) baselineShow(f *baselineFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Print one stored run as JSON", Args: takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.openStore(cmd, f.store)
			if err != nil {
				return err
			}
			defer s.Close()
			r, err := s.Find(cmd.Context(), args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return &exitError{code: exitUsage, err: fmt.Errorf("no run %q in %s", args[0], s), hint: "gate baseline list"}
			}
			if err != nil {
				return unmeasured(err)
			}
			return bench.Encode(c.Stdout, r)
		},
	}
}

func (c Command) baselinePrune(f *baselineFlags) *cobra.Command {
	var keep int
	var age time.Duration
	var asJSON, dry bool
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove old runs", Args: takes(),
		Long: "Prune removes runs that are neither among the newest --keep of their branch and testbed\nnor younger than --younger-than.",
		Example: `  gate baseline prune --dry-run
  gate baseline prune --keep 200 --younger-than 2160h`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.openStore(cmd, f.store)
			if err != nil {
				return err
			}
			defer s.Close()
			r := store.Retention{Filter: f.filter(), Keep: keep, DryRun: dry}
			if age > 0 {
				r.Before = time.Now().Add(-age)
			}
			removed, err := s.Prune(cmd.Context(), r)
			if asJSON && err == nil {
				return json.NewEncoder(c.Stdout).Encode(removed)
			}
			for _, e := range removed {
				fmt.Fprintln(c.Stdout, plain(e.Path))
			}
			word := "removed"
			if dry {
				word = "would remove"
			}
			fmt.Fprintf(c.Stderr, "%s %d runs\n", word, len(removed))
			return unmeasured(err)
		},
	}
	cmd.Flags().IntVar(&keep, "keep", 64, "keep the newest `N` runs of each branch and testbed")
	cmd.Flags().DurationVar(&age, "younger-than", 0, "keep runs younger than `DURATION` whatever their number")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was removed as JSON")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "remove nothing, only tell")
	return cmd
}

func (c Command) baselineSync(f *baselineFlags) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "sync FROM TO", Short: "Copy the runs that a store lacks from another one", Args: takes("FROM", "TO"),
		Long: `Sync copies the runs of the store FROM that the store TO does not have, each as it is.
It removes and replaces nothing, so that it can be interrupted and repeated. What is no
run is told and stays behind.`,
		Example: `  gate baseline sync .ebpf-bench s3://BUCKET?region=eu-central-1
  gate baseline sync --branch main s3://BUCKET ./copy`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.store != "" {
				return usage("--store: sync copies from FROM to TO")
			}
			var stores [2]*store.Store
			for i, where := range args {
				s, err := c.openStoreAt(cmd.Context(), where)
				if err != nil {
					return err
				}
				defer s.Close()
				stores[i] = s
			}
			copied, size := 0, int64(0)
			had, problems, err := store.Sync(cmd.Context(), stores[0], stores[1], f.filter(), dry, func(o store.Copied) {
				fmt.Fprintln(c.Stdout, plain(o.To))
				copied++
				size += o.Size
			})
			c.uncounted(problems)
			word := "copied"
			if dry {
				word = "would copy"
			}
			fmt.Fprintf(c.Stderr, "%s %d runs, %.1f MB; %d were there\n", word, copied, float64(size)/1e6, had)
			return unmeasured(err)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "copy nothing, only tell")
	return cmd
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
