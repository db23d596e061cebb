package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/config"
)

// complete tells shells what may follow: the benchmarks of the config that is here, and
// what flags with few words take.
func complete(root *cobra.Command) {
	words := map[string][]string{
		"on-inconclusive": {"pass", "fail"},
	}
	for _, cmd := range append(root.Commands(), root) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch {
			case f.Name == "only":
				_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
					file, _ := cmd.Flags().GetString("config")
					return benchmarkNames(file), cobra.ShellCompDirectiveNoFileComp
				})
			case f.Name == "measure":
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(measureNames(), cobra.ShellCompDirectiveNoFileComp))
			case words[f.Name] != nil:
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words[f.Name], cobra.ShellCompDirectiveNoFileComp))
			}
		})
	}
}

// benchmarkNames are those of a config, or of the one that is here; none where it
// has mistakes.
func benchmarkNames(file string) []string {
	if file == "" {
		file, _ = config.Find(".")
	}
	s, err := config.Load(file)
	if err != nil {
		return nil
	}
	var names []string
	for _, b := range s.Benchmarks {
		names = append(names, b.Name)
	}
	return names
}

func measureNames() []string {
	var names []string
	for _, m := range bench.Measures() {
		names = append(names, m.Name+"\t"+m.Help)
	}
	return names
}

// keyPaths are the keys that may follow the last dot of what was typed.
func keyPaths(typed string) []string {
	above, _, all := "", "", config.Language().All()
	if i := strings.LastIndexByte(typed, '.'); i >= 0 {
		k, err := config.Lookup(typed[:i])
		if err != nil {
			return nil
		}
		above, all = typed[:i+1], k.Shape.All()
	}
	var paths []string
	for _, k := range all {
		if p := above + k.Name; !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// envPrefix begins the variables that stand for flags: GATE_ON_INCONCLUSIVE=fail is
// --on-inconclusive fail.
const envPrefix = "GATE_"

// fromEnvironment sets the flags that were not given from variables: what is written
// on the command line comes before these, these before the config, and the config
// before what is built in.
//
// Commands of the action have inputs of their own in such variables, and are left alone.
func fromEnvironment(cmd *cobra.Command) error {
	if cmd.Hidden || cmd.Name() == "report" || cmd.HasParent() && cmd.Parent().Hidden {
		return nil
	}
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := os.LookupEnv(name)
		if !ok || value == "" || f.Changed || err != nil || f.Name == "help" {
			return
		}
		if e := cmd.Flags().Set(f.Name, value); e != nil {
			err = &exitError{code: exitUsage, err: fmt.Errorf("$%s: %w", name, e), hint: "it stands for --" + f.Name + " of " + cmd.CommandPath()}
		}
	})
	return err
}
