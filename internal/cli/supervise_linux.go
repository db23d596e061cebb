package cli

import (
	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/internal/agent"
)

// supervise is the verb of the process that stands between gate and an agent; see
// [agent.Supervise]. Gate starts it itself.
func (c Command) supervise() *cobra.Command {
	return &cobra.Command{
		Use:    agent.Verb,
		Short:  "Start an agent, and end all of it when gate ends",
		Hidden: true,
		Args:   takes(),
		RunE: func(*cobra.Command, []string) error {
			if code := agent.Supervise(); code != 0 {
				return verdictError{code}
			}
			return nil
		},
	}
}
