package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/store"
)

func (c Command) compare() *cobra.Command {
	var out output
	var file string
	cmd := &cobra.Command{
		Use:   "compare BASE HEAD",
		Short: "Judge two saved runs, without root and on any system",
		Long: `Compare judges the run file HEAD against the run file BASE. Two runs that were
measured side by side (one gate run) give the verdict that they gave then; runs
of different sessions are compared as two independent samples, with a warning.`,
		Example: `  gate compare base.json head.json
  gate compare --format json base.json.gz head.json.gz | jq .verdict`,
		Args: takes("BASE", "HEAD"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			policy := gate.DefaultPolicy()
			if file != "" {
				src, err := os.ReadFile(file)
				if err != nil {
					return usage("read config: %w", err)
				}
				if policy, err = config.ParsePolicy(file, src); err != nil {
					return err
				}
			}
			base, err := store.ReadFile(args[0])
			if err != nil {
				return &exitError{code: exitUnmeasured, err: fmt.Errorf("base: %w", err)}
			}
			head, err := store.ReadFile(args[1])
			if err != nil {
				return &exitError{code: exitUnmeasured, err: fmt.Errorf("head: %w", err)}
			}
			return out.print(c, gate.Compare(base, head, policy), 0)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "take the policy from `FILE` (default: the built-in policy)")
	out.flags(cmd.Flags())
	return cmd
}
