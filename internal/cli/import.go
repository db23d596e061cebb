package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/adapter"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/english"
	"github.com/org/ebpf-bench-gate/internal/store"
)

// importedTestbed is the name of the testbed of results that another tool measured
// where nobody says which: they are never compared with what gate measured.
const importedTestbed = "imported"

type importFlags struct {
	adapter, benchmark, file, store string
	testbed                         string
	revision                        bench.Revision
	better                          map[string]string
}

func (c Command) importing() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Store what other tools measured as a run",
		Long: "Import reads results of other tools, makes one run of all FILEs, and stores it as the\n" +
			"revision that is checked out. FILE may be compressed by gzip, a directory of\n" +
			"Criterion, or - for standard input. Samples of the same benchmark in several\n" +
			"FILEs follow each other. What a file is, it says itself; --adapter NAME insists:\n\n" + formatList(),
		Example: `  go test -bench . -count 10 | gate import -
  gate import target/criterion --testbed lab
  gate import --output imported.json.gz new.txt`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misused(cmd, errors.New("gate import: missing FILE"))
			}
			return c.importFiles(cmd, f, args)
		},
	}
	fl := cmd.Flags()
	adapterFlag(cmd, &f.adapter)
	fl.StringVar(&f.benchmark, "benchmark", "", "call the benchmark `NAME` where a file has one without a name")
	fl.StringToStringVar(&f.better, "better", nil, "of a figure, what is better: `NAME=higher` or NAME=lower")
	fl.StringVarP(&f.file, "output", "o", "", "write the run to `FILE` (.json or .json.gz) instead of the store")
	storeFlag(fl, &f.store)
	fl.StringVar(&f.testbed, "testbed", importedTestbed, "`NAME` of the machine's kind that measured, as runs of one name are compared")
	fl.StringVar(&f.revision.Name, "revision", "", "`NAME` of what was measured (default: what is checked out)")
	fl.StringVar(&f.revision.Commit, "commit", "", "`SHA` of what was measured")
	fl.StringVar(&f.revision.Branch, "branch", "", "`NAME` of the branch that was measured")
	return cmd
}

func adapterFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "adapter", "", "read files of other tools as `NAME` (see gate import --help) and nothing else")
}

// formatList is a line for each format.
func formatList() string {
	var b strings.Builder
	for _, f := range adapter.Formats() {
		fmt.Fprintf(&b, "  %-10s %s\n", f.Name, f.Help)
	}
	return strings.TrimRight(b.String(), "\n")
}

func checkAdapter(name string) error {
	if _, ok := adapter.Lookup(name); name == "" || ok {
		return nil
	}
	var names []string
	for _, f := range adapter.Formats() {
		names = append(names, f.Name)
	}
	return usage("--adapter %s: expected one of %s", name, strings.Join(names, ", "))
}

func (c Command) importFiles(cmd *cobra.Command, f importFlags, files []string) error {
	if err := checkAdapter(f.adapter); err != nil {
		return err
	}
	var all *adapter.Set
	tools := map[string]bool{}
	for _, file := range files {
		set, format, err := c.readForeign(file, f.adapter, f.benchmark)
		if errors.Is(err, adapter.ErrUnknown) {
			return &exitError{code: exitUsage, err: fmt.Errorf("%s: %w", file, err), hint: "gate import --help lists what it reads; --adapter NAME insists on one"}
		}
		if err != nil {
			return unmeasured(err)
		}
		tools[format.Name] = true
		if all == nil {
			all = set
		} else if err := all.Join(set); err != nil {
			return usage("%s: %w", file, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.better)) {
		if err := all.Turn(name, bench.Better(f.better[name])); err != nil {
			return usage("--better %s=%s: %w", name, f.better[name], err)
		}
	}
	rev, err := importedRevision(cmd, f.revision, all.Revision)
	if err != nil {
		return unmeasured(err)
	}
	run, err := all.Run(rev, f.testbed, time.Now(), version())
	if err != nil {
		return usage("%w", err)
	}
	fmt.Fprintf(c.Stderr, "%s of %s, %s, by %s\n",
		english.Count(all.Results(), "result"), english.Count(all.Benchmarks(), "benchmark"), english.Count(all.Samples(), "sample"), strings.Join(slices.Sorted(maps.Keys(tools)), ", "))
	for _, s := range run.Skipped {
		fmt.Fprintf(c.Stderr, "skip: %s: %s\n", s.Name, s.Reason)
	}
	if f.file != "" {
		return unmeasured(writeRun(f.file, run))
	}
	s, err := c.openStore(cmd, f.store)
	if err != nil {
		return err
	}
	defer s.Close()
	at, err := s.Put(cmd.Context(), run)
	if errors.Is(err, fs.ErrExist) {
		fmt.Fprintln(c.Stderr, "stored already")
		return nil
	}
	if err != nil {
		return unmeasured(err)
	}
	fmt.Fprintln(c.Stdout, at)
	return nil
}

// readForeign reads a file of another tool, or standard input.
func (c Command) readForeign(file, format, benchmark string) (*adapter.Set, adapter.Format, error) {
	o := adapter.Options{Benchmark: benchmark}
	if file == "-" {
		o.File = "standard input"
		return adapter.ReadAny(c.Stdin, format, o)
	}
	return adapter.ReadFile(file, format, o)
}

// importedRevision is what flags say, else the files, else what is checked out.
func importedRevision(cmd *cobra.Command, said, found bench.Revision) (bench.Revision, error) {
	if said.Commit == "" && said.Name == "" {
		rev := found
		if rev.Commit == "" {
			t, err := build.Open(cmd.Context(), ".", "")
			if err != nil {
				return rev, err
			}
			rev = t.Revision
			t.Close()
		}
		rev.Branch = cmp.Or(said.Branch, rev.Branch)
		return rev, nil
	}
	return said, nil
}

// writeRun writes a run to a file: as it is stored where its name ends so.
func writeRun(file string, r *bench.Run) error {
	if strings.HasSuffix(file, ".gz") {
		packed, err := store.Encode(r)
		if err != nil {
			return err
		}
		return os.WriteFile(file, packed, 0o644)
	}
	var buf bytes.Buffer
	if err := bench.Encode(&buf, r); err != nil {
		return err
	}
	return os.WriteFile(file, buf.Bytes(), 0o644)
}

// readRun reads a run of gate, or makes one of a file of another tool.
func (c Command) readRun(side, file, format string) (*bench.Run, error) {
	unreadable := func(err error) error {
		return &exitError{code: exitUnmeasured, err: fmt.Errorf("%s: %w", side, err)}
	}
	set, _, err := c.readForeign(file, format, "")
	if errors.Is(err, adapter.ErrUnknown) || errors.Is(err, fs.ErrNotExist) {
		run, err := store.ReadFile(file)
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			return nil, &exitError{code: exitUnmeasured, err: fmt.Errorf("%s: %w", side, err), hint: "gate import --help lists what else gate reads; --adapter NAME insists on it"}
		case err != nil:
			return nil, unreadable(err)
		}
		return run, nil
	}
	if len(diagnostics(err)) > 0 {
		return nil, err
	}
	if err != nil {
		return nil, unreadable(err)
	}
	rev := set.Revision
	if rev.Commit == "" {
		rev.Name = filepath.Base(file)
	}
	run, err := set.Run(rev, importedTestbed, time.Time{}, version())
	if err != nil {
		return nil, unreadable(err)
	}
	return run, nil
}
