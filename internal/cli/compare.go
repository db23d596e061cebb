package cli

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/config"
)

func (c Command) compare() *cobra.Command {
	var out output
	var file, format, where string
	cmd := &cobra.Command{
		Use:   "compare BASE HEAD",
		Short: "Judge two saved runs, without root and on any system",
		Long: `Compare judges the run file HEAD against the run file BASE. Two runs that were
measured side by side (one gate run) give the verdict that they gave then; runs
of different sessions are compared as two independent samples, with a warning.
BASE and HEAD may also be results of other tools; gate import --help lists them.

The page of --format html also shows what the store has of base's branch and testbed,
if there is one; the verdict does not depend on it.`,
		Example: `  gate compare base.json head.json
  gate compare --format json base.json.gz head.json.gz | jq .verdict
  gate compare old.txt new.txt    # go test -bench . -count 10`,
		Args: takes("BASE", "HEAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			of, err := policies(file, &out)
			if err != nil {
				return err
			}
			if err := checkAdapter(format); err != nil {
				return err
			}
			if where != "" && out.format != "html" {
				return usage("--store is for the history of --format html: no other format shows one")
			}
			base, err := c.readRun("base", args[0], format)
			if err != nil {
				return err
			}
			head, err := c.readRun("head", args[1], format)
			if err != nil {
				return err
			}
			j := judged{report: gate.CompareSuites(base, head, of), base: base, head: head}
			if out.format == "html" {
				if j.history, err = c.pastOf(cmd, where, base, head); err != nil {
					return err
				}
			}
			return out.print(c, j, 0)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "take the policy from `FILE` (default: the built-in policy); of several suites, from those that a pattern names")
	adapterFlag(cmd, &format)
	storeFlag(cmd.Flags(), &where)
	out.flags(cmd.Flags())
	return cmd
}

// A suiteFile is one of several configs, and its name as the user would write it.
type suiteFile struct {
	config.File
	here string
}

// suiteFiles are the configs that a pattern names, from the current directory.
func suiteFiles(pattern string) ([]suiteFile, error) {
	root, err := config.Root(".")
	if err != nil {
		return nil, unmeasured(err)
	}
	here, err := filepath.Abs(".")
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return nil, unmeasured(err)
	}
	files, err := config.Files(root, here, pattern)
	if err != nil {
		return nil, usage("--config: %w", err)
	}
	out := make([]suiteFile, len(files))
	for i, f := range files {
		out[i].File = f
		if out[i].here, err = filepath.Rel(here, filepath.Join(root, filepath.FromSlash(f.Path))); err != nil {
			return nil, unmeasured(err)
		}
	}
	return out, nil
}

// policies are those of a config for every suite, or of those that a pattern names each
// for its own; of a suite without one, the built-in one. The empty name is built in. The
// output is told where the policies come from.
func policies(file string, out *output) (func(suite string) gate.Policy, error) {
	read := func(file string) (gate.Policy, error) {
		src, err := os.ReadFile(file)
		if err != nil {
			return gate.Policy{}, usage("read config: %w", err)
		}
		return config.ParsePolicy(file, src)
	}
	all := map[string]gate.Policy{}
	if _, err := os.Stat(file); err == nil || !config.IsPattern(file) {
		policy := gate.DefaultPolicy()
		if file != "" {
			if policy, err = read(file); err != nil {
				return nil, err
			}
			out.configOf = func(string) string { return filepath.ToSlash(file) }
		}
		return func(string) gate.Policy { return policy }, nil
	}
	files, err := suiteFiles(file)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, f := range files {
		if all[f.Suite], err = read(f.here); err != nil {
			return nil, err
		}
		paths[f.Suite] = filepath.ToSlash(f.here)
	}
	out.configFlag, out.configOf = file, func(suite string) string { return cmp.Or(paths[suite], config.FileName) }
	return func(suite string) gate.Policy {
		if p, ok := all[suite]; ok {
			return p
		}
		return gate.DefaultPolicy()
	}, nil
}
