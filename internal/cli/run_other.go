//go:build !linux

package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

func (c Command) run() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Measure eBPF programs (Linux only)",
		RunE: func(*cobra.Command, []string) error {
			return &exitError{code: exitUnmeasured, err: errors.New("measuring needs Linux"), hint: "gate compare judges saved runs on any system"}
		},
		DisableFlagParsing: true,
	}
}
