package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/org/ebpf-bench-gate/docs"
)

// help is gate help: of a verb, or a page of the documentation.
func (c Command) help() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB|TOPIC]",
		Short: "Help about a verb, or a page of the documentation",
		Long: `Help shows the help of a verb (gate help run), or a page of the documentation of this
version (gate help statistics). Pages: ` + strings.Join(topics(), ", ") + `.`,
		Example: `  gate help run
  gate help config
  gate help topics`,
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			names := topics()
			for _, v := range cmd.Root().Commands() {
				if v.IsAvailableCommand() {
					names = append(names, v.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch {
			case len(args) == 0:
				return root.Help()
			case len(args) == 1 && args[0] == "topics":
				for _, name := range topics() {
					fmt.Fprintf(c.Stdout, "%-14s %s\n", name, title(name))
				}
				return nil
			}
			// A page says more than the verb of its name; --help is for the verb.
			if len(args) == 1 && slices.Contains(topics(), args[0]) {
				text, err := docs.Files.ReadFile(args[0] + ".md")
				if err == nil {
					_, err = c.Stdout.Write(text)
				}
				return err
			}
			found, rest, err := root.Find(args)
			if err != nil || found == root || len(rest) > 0 {
				return &exitError{code: exitUsage, err: fmt.Errorf("no verb or topic %q", strings.Join(args, " ")), hint: "gate help topics lists the pages, gate help the verbs"}
			}
			return found.Help()
		},
	}
}

// topics are the pages of the documentation.
func topics() []string {
	files, _ := fs.Glob(docs.Files, "[a-z]*.md") // not the table of contents
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".md")
	}
	return files
}

// title is the heading of a page.
func title(topic string) string {
	text, _ := docs.Files.ReadFile(topic + ".md")
	head, _, _ := strings.Cut(string(text), "\n")
	return strings.ReplaceAll(strings.TrimLeft(head, "# "), "`", "")
}

func (c Command) man() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write man pages",
		Long:    "Man writes a man page of each verb into DIRECTORY: gate.1, gate-run.1, …",
		Example: `  gate man /usr/local/share/man/man1`,
		Args:    takes("DIRECTORY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err != nil || !info.IsDir() {
				return usage("there is no directory %s", args[0])
			}
			var day time.Time // the same pages of the same version
			root := cmd.Root()
			root.DisableAutoGenTag = true
			err := doc.GenManTree(root, &doc.GenManHeader{Title: "GATE", Section: "1", Source: "ebpf-bench-gate " + version(), Manual: "ebpf-bench-gate", Date: &day}, args[0])
			if err != nil {
				return &exitError{code: exitUnmeasured, err: err}
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "gate*.1"))
			if err == nil {
				fmt.Fprintf(c.Stdout, "wrote %d pages\n", len(pages))
			}
			return err
		},
	}
}
