package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/internal/english"
	"github.com/org/ebpf-bench-gate/internal/site"
	"github.com/org/ebpf-bench-gate/internal/store"
)

func (c Command) site() *cobra.Command {
	var dir, branch, testbed string
	var o site.Options
	cmd := &cobra.Command{
		Use:   "site [STORE]",
		Short: "Write a static site of all stored runs",
		Long: `Site writes pages of the histories in STORE (a directory or a URL; default: .ebpf-bench at
the top of the repository) for GitHub Pages or any other server of files: an index, a page
for each benchmark with its series and where they changed, badges, and a feed of alerts.
Pages have no script and load nothing. The same runs make the same files.`,
		Example: `  gate site -o public
  gate site s3://BUCKET -o public --url https://ORG.github.io/PROJECT/`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			where := ""
			if len(args) > 0 {
				where = args[0]
			}
			spacious()
			s, err := c.openStore(cmd, where)
			if err != nil {
				return err
			}
			defer s.Close()
			entries, problems, err := s.List(cmd.Context(), store.Filter{Branch: branch, Testbed: testbed})
			if err != nil {
				return unmeasured(err)
			}
			c.uncounted(problems)
			var all []site.History
			for _, h := range chronicles(entries) {
				all = append(all, site.History{Branch: h.Branch, Testbed: h.Testbed, Runs: h.Runs, Series: h.Series})
			}
			err = site.Write(dir, all, o)
			if errors.Is(err, site.ErrOccupied) {
				return &exitError{code: exitUsage, err: err, hint: "-o DIRECTORY: an empty one, or one that does not exist"}
			}
			if err != nil {
				return unmeasured(err)
			}
			histories := "histories"
			if len(all) == 1 {
				histories = "history"
			}
			fmt.Fprintf(c.Stderr, "%d %s of %s\n", len(all), histories, english.Count(len(entries), "run"))
			fmt.Fprintln(c.Stdout, filepath.Join(dir, "index.html"))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&dir, "output", "o", "site", "write to `DIRECTORY`")
	f.StringVar(&o.Title, "title", "", "`TITLE` of the site (default: Benchmarks)")
	f.StringVar(&o.URL, "url", "", "`URL` that the site will have, for the links of the feed")
	f.StringVar(&branch, "branch", "", "only runs of this branch")
	f.StringVar(&testbed, "testbed", "", "only runs of this testbed")
	return cmd
}
