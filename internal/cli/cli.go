// Package cli is the command line: one file a verb, each of them thin. It turns
// flags into calls of the other rooms, and what they return into text and an
// exit code. It is the only package that prints.
package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/config"
)

// Exit codes.
const (
	exitPass         = 0
	exitRegressed    = 1
	exitUsage        = 2 // flags or config
	exitUnmeasured   = 3 // the host or a program would not be measured
	exitInconclusive = 4 // or no baseline
	exitInterrupted  = 130
)

// A Command is gate with its streams.
type Command struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Main runs gate with args (args[0] is the name of the program) and returns the
// exit code.
func (c Command) Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A round may take seconds. Who asks again does not want to wait for its end.
	context.AfterFunc(ctx, stop)
	root := c.root()
	root.SetArgs(args[1:])
	root.SetIn(c.Stdin)
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitPass
	}
	if ctx.Err() != nil {
		fmt.Fprintln(c.Stderr, "interrupted: nothing was judged, nothing is left behind")
		return exitInterrupted
	}
	var v verdictError
	if errors.As(err, &v) {
		return v.code
	}
	c.printError(err)
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return exitUsage
}

// A verdictError is the exit code of a report that has been printed.
type verdictError struct{ code int }

func (v verdictError) Error() string { return fmt.Sprintf("exit %d", v.code) }

// An exitError is an error with its exit code.
type exitError struct {
	code int
	err  error
	hint string
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }
func (e *exitError) Hint() string {
	if e.hint != "" {
		return e.hint
	}
	return hintOf(e.err)
}

// unmeasured says that a host or a program would not be measured.
func unmeasured(err error) error {
	if err == nil {
		return nil
	}
	var e *exitError
	if errors.As(err, &e) {
		return err // it knows its code
	}
	if len(diagnostics(err)) > 0 {
		return &exitError{code: exitUsage, err: err}
	}
	hint := ""
	if hintOf(err) == "" && errors.Is(err, fs.ErrPermission) {
		hint = "run as root: sudo gate …; gate doctor says what this host can measure"
	}
	return &exitError{code: exitUnmeasured, err: err, hint: hint}
}

// severe orders exit codes, the worst highest.
func severe(code int) int {
	if s, ok := severity[code]; ok {
		return s
	}
	return severity[exitUnmeasured]
}

// codeOf is the exit code that an error stands for.
func codeOf(err error) int {
	var v verdictError
	var e *exitError
	switch {
	case err == nil:
		return exitPass
	case errors.As(err, &v):
		return v.code
	case errors.As(err, &e):
		return e.code
	}
	return exitUnmeasured
}

func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// printError writes diagnostics with their lines and carets, and any other
// error as "error:" and, where there is one, "hint:".
func (c Command) printError(err error) {
	ds := diagnostics(err)
	if len(ds) > 0 {
		c.printDiagnostics(ds)
		return
	}
	fmt.Fprintf(c.Stderr, "error: %v\n", err)
	if h := hintOf(err); h != "" {
		fmt.Fprintf(c.Stderr, "hint: %s\n", h)
	}
}

// diagnostics are all the mistakes with a place that an error holds.
func diagnostics(err error) config.Diagnostics {
	if err == nil {
		return nil
	}
	switch e := err.(type) {
	case *bench.Diagnostic:
		return config.Diagnostics{e}
	case interface{ Unwrap() []error }:
		var out config.Diagnostics
		for _, in := range e.Unwrap() {
			out = append(out, diagnostics(in)...)
		}
		return out
	case interface{ Unwrap() error }:
		return diagnostics(e.Unwrap())
	}
	return nil
}

func (c Command) printDiagnostics(ds config.Diagnostics) {
	for len(ds) > 0 {
		file, n := ds[0].Pos.File, 1
		for n < len(ds) && ds[n].Pos.File == file {
			n++
		}
		src := sourceOf(file)
		_ = ds[:n].Format(c.Stderr, src, colorful(c.Stderr))
		ds = ds[n:]
	}
}

// sourceOf is the text of a file whose lines are shown; nil where it has none to show.
func sourceOf(file string) []byte {
	const most = 16 << 20
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil
	}
	src, err := os.ReadFile(file)
	if err != nil || bytes.HasPrefix(src, []byte{0x1f, 0x8b}) { // compressed
		return nil
	}
	return src
}

// colorful tells whether to use colours: a terminal, and no NO_COLOR
// (https://no-color.org).
func colorful(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is the columns of a terminal; 0: no terminal.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

func (c Command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "gate",
		Short: "A performance regression gate for eBPF programs",
		Long: strings.TrimSpace(`
gate builds and loads the eBPF programs of two revisions, measures them side by
side on the running kernel, and says whether the new one is slower, by how much,
and how sure it is.

Flags may come from the environment: GATE_BUDGET=30s is --budget 30s. What is on the
command line comes before that, the environment before the config, and the config
before what is built in.`),
		Example: `  gate run --base main                  # this checkout against main
  gate run --base old.o new.o           # two objects
  gate compare base.json head.json      # judge two saved runs, on any system
  gate doctor                           # what this host can measure`,
		RunE:                  showHelp,
		DisableFlagsInUseLine: true,
		SilenceUsage:          true,
		SilenceErrors:         true,
	}
	root.SetFlagErrorFunc(misused)
	root.AddCommand(c.run(), c.cover(), c.compare(), c.baseline(), c.noise(), c.profile(), c.top(), c.doctor(), c.version())
	root.AddCommand(c.history(), c.verifier(), c.report(), c.importing(), c.export(), c.push(), c.site(), c.plot())
	root.AddCommand(c.config(), c.man())
	root.SetHelpCommand(c.help())
	root.AddCommand(c.initialize(), c.action(), c.measureStaged(), c.guest(), c.supervise())
	root.Args = takesVerb
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd) }
	complete(root)
	return root
}

// misused says where help is about a command that was called wrongly.
func misused(cmd *cobra.Command, err error) error {
	return &exitError{code: exitUsage, err: err, hint: cmd.CommandPath() + " --help"}
}

// takes checks that a command has exactly the arguments that its usage names.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < len(names):
			return misused(cmd, fmt.Errorf("%s: missing %s", cmd.CommandPath(), strings.Join(names[n:], " and ")))
		case n > len(names):
			return misused(cmd, fmt.Errorf("%s: unexpected argument %q", cmd.CommandPath(), args[len(names)]))
		}
		return nil
	}
}

// takesVerb refuses what is none of a command's verbs: cobra would print its help
// and succeed, which a script would take for a pass.
func takesVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%s: unknown command %q", cmd.CommandPath(), args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return &exitError{code: exitUsage, err: err, hint: "did you mean " + cmd.CommandPath() + " " + near[0] + "?"}
	}
	return misused(cmd, err)
}

// showHelp is what a command does that only has verbs.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }
