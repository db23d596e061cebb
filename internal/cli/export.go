package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
)

func (c Command) export() *cobra.Command {
	var format, file, dir string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run in a format that other tools read",
		Long: `Export writes RUN, a file (of gate, or of another tool) or the ID of a stored run, as

  benchfmt     the format of Go benchmarks, every sample a line: benchstat reads it
  bmf          Bencher Metric Format: medians, and quartiles as bounds
  csv          every sample a line, for spreadsheets
  json         the run file itself, not compressed: docs/run.schema.json is its schema
  openmetrics  OpenMetrics text: medians and quartiles, for Prometheus

What gate import makes of benchfmt and BMF is the run again, but for what the format
cannot say.`,
		Example: `  gate export --format benchfmt head.json.gz
  gate export --format bmf --output head.bmf.json head.json
  gate export --format csv head.json | head -3`,
		Args: takes("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(runFormats, format) {
				return usage("--format %s: expected one of %s", format, strings.Join(runFormats, ", "))
			}
			run, err := c.fileOrStored(cmd, args[0], dir)
			if err != nil {
				return err
			}
			var buf bytes.Buffer
			if err := encodeRun(&buf, format, run); err != nil {
				return unmeasured(err)
			}
			if file != "" {
				return unmeasured(os.WriteFile(file, buf.Bytes(), 0o644))
			}
			_, err = c.Stdout.Write(buf.Bytes())
			return unmeasured(err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "benchfmt", "benchfmt, bmf, csv, json or openmetrics")
	f.StringVarP(&file, "output", "o", "", "write to `FILE` instead of standard output")
	storeFlag(f, &dir)
	return cmd
}

// fileOrStored is the run in a file, or, where there is no such file, the stored one.
func (c Command) fileOrStored(cmd *cobra.Command, name, dir string) (*bench.Run, error) {
	if _, err := os.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return c.readRun("run", name, "")
	}
	s, err := c.openStore(cmd, dir)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	run, err := s.Find(cmd.Context(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("no file %q, and no such run in %s", name, s), hint: "gate baseline list"}
	}
	return run, unmeasured(err)
}
