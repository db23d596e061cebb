package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is set by the release build (-ldflags -X); else the module's own.
var Version = ""

func version() string {
	if Version != "" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func (c Command) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(c.Stdout, "gate %s %s/%s %s\n", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
			return nil
		},
	}
}
