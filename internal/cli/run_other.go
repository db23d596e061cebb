//go:build !linux

package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

func (c Command) run() *cobra.Command { return needsLinux("run", "Measure eBPF programs") }

func (c Command) cover() *cobra.Command {
	return needsLinux("cover", "Say which code the benchmarks execute")
}

func (c Command) noise() *cobra.Command { return needsLinux("noise", "Measure this host's noise") }

func (c Command) top() *cobra.Command { return needsLinux("top", "Show what loaded programs cost") }

func (c Command) profile() *cobra.Command {
	return needsLinux("profile", "Sample what the CPUs run")
}

func (c Command) measureStaged() *cobra.Command {
	return needsLinux("measure", "Measure what was staged")
}

func (c Command) supervise() *cobra.Command {
	return needsLinux("supervise", "Start an agent")
}

func (c Command) guest() *cobra.Command {
	return needsLinux("guest", "Measure inside of a virtual machine")
}

// needsLinux stands for a verb that measures, where nothing can be measured.
func needsLinux(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short + " (Linux only)",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return &exitError{code: exitUnmeasured, err: errors.New("measuring needs Linux"), hint: "gate compare judges saved runs on any system"}
		},
	}
}
