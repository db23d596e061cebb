package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/config"
)

// magic is the adapter that finds out what a command says.
const magic = "magic"

// commandOf takes the command behind -- out of the arguments, where --adapter says that
// there is one.
func (f *runFlags) commandOf(args []string, dash int) ([]string, error) {
	switch {
	case f.adapter == "" && dash == 0 && len(args) > 0:
		if _, err := os.Stat(args[0]); errors.Is(err, os.ErrNotExist) {
			return nil, &exitError{code: exitUsage, err: fmt.Errorf("there is no file %s", args[0]), hint: "--adapter NAME says that it is a command, and what its output is (magic: that is found out)"}
		}
		return args, nil
	case f.adapter == "":
		return args, nil
	case dash < 0 || dash == len(args):
		return nil, usage("--adapter %s reads what a command says: gate run --adapter %s -- COMMAND", f.adapter, f.adapter)
	case dash > 0:
		return nil, usage("%s: with --adapter, a command is measured and nothing else", args[0])
	case f.config != "":
		return nil, usage("--config says which commands are measured, and what their output is: leave out --adapter")
	case f.asked():
		return nil, usage("--pid and --attach-to measure what runs already: leave out --adapter")
	}
	if f.adapter == magic {
		f.adapter = ""
	}
	if err := checkAdapter(f.adapter); err != nil {
		return nil, err
	}
	f.command = args
	return nil, nil
}

// commandSuite is the command behind -- alone, with the default policy.
func (f *runFlags) commandSuite() *config.Suite {
	words := make([]string, len(f.command))
	for i, w := range f.command {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	name := identifierOf(filepath.Base(f.command[0]))
	b := bench.Benchmark{
		Name: name, Program: name, Harness: &bench.Harness{Run: "exec " + strings.Join(words, " "), Adapter: f.adapter},
	}
	return &config.Suite{Version: config.Version, Dir: ".", Benchmarks: []bench.Benchmark{b}, Policy: gate.DefaultPolicy()}
}
