package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bpf"
)

func (c Command) doctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can measure, what not, and what to do about it",
		Long: `Doctor tries what measuring needs, and says what it found. It changes nothing and
leaves nothing behind. The exit code is 3 where eBPF programs cannot be measured
here at all.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := bpf.Doctor(cmd.Context())
			if asJSON {
				e := json.NewEncoder(c.Stdout)
				e.SetIndent("", " ")
				if err := e.Encode(checks); err != nil {
					return unmeasured(err)
				}
			} else {
				c.printChecks(checks)
			}
			for _, k := range checks {
				if k.Group == "measures" && k.State != bpf.CheckMissing {
					return nil
				}
			}
			return verdictError{exitUnmeasured}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the checks as JSON")
	return cmd
}

func (c Command) printChecks(checks []bpf.Check) {
	paint := func(code, s string) string {
		if !colorful(c.Stdout) {
			return s
		}
		return "\033[" + code + "m" + s + "\033[0m"
	}
	wide := 0
	for _, k := range checks {
		wide = max(wide, len(k.Name))
	}
	group, hint := "", ""
	for _, k := range checks {
		if k.Group != group {
			if group != "" {
				fmt.Fprintln(c.Stdout)
			}
			group = k.Group
			fmt.Fprintln(c.Stdout, paint("1", group))
		}
		mark := map[bpf.State]string{bpf.CheckOK: paint("32", "✓"), bpf.CheckWarn: paint("33", "!"), bpf.CheckMissing: paint("31", "✗")}[k.State]
		fmt.Fprintf(c.Stdout, "  %s %-*s  %s\n", mark, wide, k.Name, k.Detail)
		// What many checks lack for one reason is advised once.
		if k.Hint != "" && k.Hint != hint {
			hint = k.Hint
			fmt.Fprintf(c.Stdout, "    %-*s  hint: %s\n", wide, "", k.Hint)
		}
	}
}
