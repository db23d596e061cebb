package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/internal/config"
)

func (c Command) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a config, and say what its keys mean and who sets what",
		RunE:  showHelp,
		Args:  takesVerb,
	}
	cmd.AddCommand(c.configCheck(), c.configExplain(), c.configSchema())
	return cmd
}

func (c Command) configCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]...",
		Short: "Tell all mistakes of a config, and build, load and measure nothing",
		Long: `Check reads configs (default: the ebpf-bench.yml here or above) as gate run does, and
tells all mistakes of all of them. Exit codes: 0 none, 2 some.`,
		Example: `  gate config check
  gate config check */ebpf-bench.yml`,
		RunE: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				file, err := config.Find(".")
				if err != nil {
					return usage("%w", err)
				}
				files = []string{file}
			}
			var bad []error
			for _, file := range files {
				s, err := config.Load(file)
				if err != nil {
					bad = append(bad, err)
					continue
				}
				fmt.Fprintf(c.Stdout, "%s: ok: %s\n", file, contents(s))
			}
			if err := errors.Join(bad...); err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			return nil
		},
	}
}

// contents counts what a config has.
func contents(s *config.Suite) string {
	var parts []string
	for _, n := range []struct {
		n    int
		what string
	}{
		{len(s.Programs), "program"}, {len(s.Agents), "agent"}, {len(s.Benchmarks), "benchmark"},
		{len(s.Policy.Overrides), "override"}, {len(s.Policy.Waivers), "waiver"},
	} {
		switch {
		case n.n == 1:
			parts = append(parts, "1 "+n.what)
		case n.n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", n.n, n.what))
		}
	}
	if parts == nil {
		return "nothing to measure"
	}
	return strings.Join(parts, ", ")
}

func (c Command) configExplain() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "explain [KEY|BENCHMARK]",
		Short: "Say what a key means, or how a benchmark is measured and judged, and who says so",
		Long: `Explain says of a key of the language what it is, what it has by default and which keys
are below it: policy.latency.fail, benchmarks.work; names of yours may stand between.
Of a benchmark (its name has a slash) it says everything that holds for it, and which line
of the config says so. Without an argument, the keys at the top.`,
		Example: `  gate config explain policy.waivers
  gate config explain benchmarks.packets.ipv4
  gate config explain fun_xdp/worst`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				c.explainKeys(config.Language().All())
				return nil
			case strings.Contains(args[0], "/") && !strings.Contains(args[0], "."):
				return c.explainBenchmark(file, args[0])
			}
			k, err := config.Lookup(args[0])
			if err != nil {
				if strings.Contains(args[0], "/") {
					return c.explainBenchmark(file, args[0])
				}
				return &exitError{code: exitUsage, err: err}
			}
			about := k.About
			if k.Default != "" {
				about += "\ndefault: " + k.Default
			}
			if k.Required {
				about += "\nmust be there"
			}
			fmt.Fprintf(c.Stdout, "%s: %s\n", args[0], unmarked(about))
			for _, alt := range k.Shape.Alternatives() {
				if len(alt.Words) > 0 {
					fmt.Fprintf(c.Stdout, "one of: %s\n", strings.Join(alt.Words, ", "))
				}
			}
			c.explainKeys(k.Shape.All())
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return append(benchmarkNames(file), keyPaths(typed)...), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "read `FILE` (default: ebpf-bench.yml here or above)")
	return cmd
}

func (c Command) explainBenchmark(file, name string) error {
	if file == "" {
		var err error
		if file, err = config.Find("."); err != nil {
			return usage("%w", err)
		}
	}
	src, err := readConfig(file)
	if err != nil {
		return usage("read config: %w", err)
	}
	settings, err := config.Explain(file, src, name)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	rows := [][3]string{{"KEY", "VALUE", "FROM"}}
	for _, s := range settings {
		rows = append(rows, [3]string{s.Key, s.Value, s.From})
	}
	return aligned(c.Stdout, rows)
}

func readConfig(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, config.MaxSize+1))
}

// explainKeys lists keys with the first sentence of each.
func (c Command) explainKeys(all []config.Key) {
	if len(all) == 0 {
		return
	}
	rows := [][3]string{{"KEY", "DEFAULT", "WHAT IT IS"}}
	for _, k := range all {
		def := unmarked(k.Default)
		if k.Required {
			def = "required"
		}
		about, _, _ := strings.Cut(k.About, ". ")
		rows = append(rows, [3]string{k.Name, def, unmarked(about)})
	}
	fmt.Fprintln(c.Stdout)
	_ = aligned(c.Stdout, rows)
}

func aligned(to io.Writer, rows [][3]string) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r[0], r[1], r[2])
	}
	return w.Flush()
}

// unmarked is markdown for a terminal: without code marks, and of links the text.
func unmarked(s string) string {
	s = strings.ReplaceAll(s, "`", "")
	for {
		i := strings.Index(s, "](")
		if i < 0 {
			return s
		}
		open, end := strings.LastIndexByte(s[:i], '['), strings.IndexByte(s[i:], ')')
		if open < 0 || end < 0 {
			return s
		}
		s = s[:open] + s[open+1:i] + s[i+end+1:]
	}
}

func (c Command) configSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configs, for editors",
		Long: `Schema prints the JSON Schema of ` + config.FileName + ` as this version of gate reads it.
Files that gate init writes name the published one in their first line, which editors
with a YAML language server complete by.`,
		Example: `  gate config schema > ebpf-bench.schema.json`,
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			_, err := c.Stdout.Write(config.JSONSchema())
			return err
		},
	}
}
