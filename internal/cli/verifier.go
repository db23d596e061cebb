package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/english"
	"github.com/org/ebpf-bench-gate/internal/render"
	"github.com/org/ebpf-bench-gate/internal/verifier"
)

// verifierFlags are the flags of gate verifier.
type verifierFlags struct {
	base                      []string
	config                    string
	emit, sort, format        string
	filters, fail             []string
	set                       []string
	constants                 []bench.Constant // of set
	top, jobs, lines          int
	compare, replay, each     bool
	testStates, testRegs      bool
	functions, verbose, quiet bool
}

// verified is what a set of objects gave.
type verified struct {
	rows []verifier.Row
	// problems are files that could not be looked at; those that were asked for by
	// name decide the exit code.
	problems []error
	asked    bool
	files    int
	skipped  int // files of directories and patterns without programs
}

func (c Command) verifier() *cobra.Command {
	var f verifierFlags
	cmd := &cobra.Command{
		Use:   "verifier [BASE] HEAD | OBJECT...",
		Short: "Say what the kernel's verifier makes of any set of objects, as veristat does",
		Long: `Verifier loads every program of the objects by itself and shows what the verifier
and the JIT made of it. An OBJECT is an object file, a directory of them, a pattern,
an executable that holds objects, a C source (.bpf.c), or CSV of veristat or of
gate. Two arguments are base and head, and are compared; --base compares any two
sets. Without arguments, or with --config, ebpf-bench.yml says what is loaded, and
with which constants and maps; --base may then be a git ref.

Filters, orders and columns are veristat's: -f 'total_insns>1000', -f 'xdp*',
-f '!verdict=success', -f 'insns_pct>5', -s insnsv, -e file,prog,insns. A program
that does not load is a row with the verdict failure; -v says why.

Exit codes: 0, whatever the verifier said; 1 where a condition of --fail holds, or
the verifier rejects in head what it accepted in base while --fail asks for anything;
2 usage or config; 3 a file that was named could not be read, or nothing can be
loaded here; 4 a condition of --fail could not be told.`,
		Example: `  gate verifier /usr/lib/x86_64-linux-gnu/bpf
  gate verifier old.o new.o -f 'insns_diff!=0' -s '|insns_diff|v'
  gate verifier --base main --fail 'total_insns_pct>5' prog.bpf.c
  gate verifier --format csv /usr/sbin > all.csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.showVerified(cmd.Context(), &f, args)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.base, "base", nil, "compare with `OBJECT` (as often as there are some), or with a git ref")
	fl.BoolVarP(&f.compare, "compare", "C", false, "the two arguments are base and head, as two arguments are anyhow")
	fl.BoolVarP(&f.replay, "replay", "R", false, "the arguments are saved CSV or JSON, as files of that name are anyhow")
	fl.BoolVar(&f.each, "each", false, "two arguments are two objects, not base and head")
	fl.StringVar(&f.config, "config", "", "take programs, constants and maps from `FILE`")
	fl.StringVarP(&f.emit, "emit", "e", "", "show the columns `LIST`")
	fl.StringVarP(&f.sort, "sort", "s", "", "sort by `LIST`: insnsv downwards, insns^ upwards, |insns_diff| by size")
	fl.StringArrayVarP(&f.filters, "filter", "f", nil, "show only what `EXPR` matches (several: any of them); !EXPR: not that; @FILE: a file of them")
	fl.IntVarP(&f.top, "top-n", "n", 0, "show only the first `N`")
	fl.StringVarP(&f.format, "format", "o", "table", "table, csv or json")
	fl.StringArrayVarP(&f.set, "set-global-vars", "G", nil, "give a global variable a value where an object has it, `NAME=VALUE`; @FILE: a file of them")
	fl.BoolVarP(&f.testStates, "test-states", "t", false, "have the verifier keep a state at every instruction (BPF_F_TEST_STATE_FREQ)")
	fl.BoolVarP(&f.testRegs, "test-reg-invariants", "r", false, "have the verifier reject what contradicts itself (BPF_F_TEST_REG_INVARIANTS)")
	fl.IntVarP(&f.lines, "top-src-lines", "S", 0, "show the `N` lines of source that the verifier goes over most often")
	fl.BoolVar(&f.functions, "functions", false, "show the functions of programs that have several")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show why programs do not load, with the end of the verifier's log")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no count of what was looked at")
	fl.StringArrayVar(&f.fail, "fail", nil, "exit 1 where `EXPR` matches a program that is shown")
	fl.IntVarP(&f.jobs, "jobs", "j", runtime.GOMAXPROCS(0), "look at `N` files at a time")
	return cmd
}

// query reads the flags that choose what is shown.
func (f *verifierFlags) query() (q verifier.Query, fail []verifier.Filter, err error) {
	wrong := func(flag string, err error) error {
		return usage("--%s: %w", flag, err)
	}
	if f.emit != "" {
		if q.Columns, err = verifier.ParseColumns(f.emit); err != nil {
			return q, nil, wrong("emit", err)
		}
	}
	if f.sort != "" {
		if q.Sort, err = verifier.ParseSort(f.sort); err != nil {
			return q, nil, wrong("sort", err)
		}
	}
	for _, s := range f.filters {
		if err := q.AddFilter(s); err != nil {
			return q, nil, wrong("filter", err)
		}
	}
	for _, s := range f.fail {
		x, err := verifier.ParseFilter(s)
		if err == nil && !x.Numeric() {
			err = fmt.Errorf("%q is a pattern of names: expected a condition such as 'total_insns_pct>5'", s)
		}
		if err != nil {
			return q, nil, wrong("fail", err)
		}
		fail = append(fail, x)
	}
	switch f.format {
	case "table", "csv", "json":
	default:
		return q, nil, &exitError{
			code: exitUsage, err: fmt.Errorf("--format %s: expected one of table, csv, json", f.format),
			hint: "as veristat's -o it is no file: redirect standard output",
		}
	}
	if f.top < 0 {
		return q, nil, usage("--top-n %d: expected 0 (all) or more", f.top)
	}
	if f.jobs < 1 {
		return q, nil, usage("--jobs %d: expected 1 or more", f.jobs)
	}
	if f.functions && f.format == "csv" {
		return q, nil, usage("--functions: veristat's CSV knows no functions; --format json has them")
	}
	if f.lines < 0 {
		return q, nil, usage("--top-src-lines %d: expected 0 (none) or more", f.lines)
	}
	if f.lines > 0 && f.format == "csv" {
		return q, nil, usage("--top-src-lines: veristat's CSV knows no lines; --format json has them")
	}
	q.Top = f.top
	return q, fail, nil
}

// isObject tells that an argument is not saved rows.
func isObject(arg string) bool { return !verifier.IsSaved(arg) }

// loads tells that a flag says how programs are loaded.
func (f *verifierFlags) loads() bool {
	return f.testStates || f.testRegs || f.lines > 0 || len(f.set) > 0
}

// readConstants reads --set-global-vars.
func (f *verifierFlags) readConstants() error {
	add := func(s, where string) error {
		c, err := config.ParseConstant(s)
		if err != nil {
			return usage("--set-global-vars: %s%w", where, err)
		}
		f.constants = append(f.constants, c)
		return nil
	}
	for _, s := range f.set {
		name, isFile := strings.CutPrefix(s, "@")
		if !isFile {
			if err := add(s, ""); err != nil {
				return err
			}
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return usage("--set-global-vars: %w", err)
		}
		for i, l := range strings.Split(string(text), "\n") {
			if l = strings.TrimSpace(l); l == "" || l[0] == '#' {
				continue
			}
			if err := add(l, fmt.Sprintf("%s:%d: ", name, i+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sides tells base from head.
func (f *verifierFlags) sides(args []string) (base, head []string, err error) {
	switch {
	case f.compare && (len(args) != 2 || len(f.base) > 0):
		return nil, nil, usage("--compare: expected BASE and HEAD, not %d arguments", len(args)+len(f.base))
	case f.replay && (len(args) == 0 || slices.ContainsFunc(slices.Concat(f.base, args), isObject)):
		return nil, nil, usage("--replay: expected files that veristat or gate verifier wrote, *.csv or *.json")
	case f.compare && f.each:
		return nil, nil, usage("--compare and --each contradict each other")
	case len(f.base) > 0:
		return f.base, args, nil
	case len(args) == 2 && !f.each:
		return args[:1], args[1:], nil
	}
	return nil, args, nil
}

func (c Command) showVerified(ctx context.Context, f *verifierFlags, args []string) error {
	q, fail, err := f.query()
	if err != nil {
		return err
	}
	if err := f.readConstants(); err != nil {
		return err
	}
	base, head, err := f.sides(args)
	if err != nil {
		return err
	}
	if f.loads() && f.config == "" && len(head) > 0 && !slices.ContainsFunc(slices.Concat(base, head), isObject) {
		return usage("what was saved is not loaded: -t, -r, -S and -G are of objects")
	}
	b, h, err := c.verify(ctx, f, &q, base, head)
	if err != nil {
		return unmeasured(err)
	}
	pairs := verifier.Alone(h.rows)
	if b != nil {
		pairs = verifier.Join(b.rows, h.rows)
	}
	all := q
	all.Top = 0
	wanted := all.Select(pairs)
	shown := wanted
	if q.Top > 0 {
		shown = wanted[:min(q.Top, len(wanted))]
	}
	if err := c.writeVerified(f, &q, shown, b, h); err != nil {
		return &exitError{code: exitUnmeasured, err: fmt.Errorf("write the result: %w", err)}
	}
	return c.concludeVerified(wanted, fail, b, h)
}

func (c Command) writeVerified(f *verifierFlags, q *verifier.Query, pairs []verifier.Pair, b, h *verified) error {
	switch f.format {
	case "csv":
		return q.WriteCSV(c.Stdout, pairs)
	case "json":
		return q.WriteJSON(c.Stdout, pairs)
	}
	if f.lines > 0 {
		if err := verifier.WritePassed(c.Stdout, pairs); err != nil {
			return err
		}
	}
	write := q.WriteTable
	if f.functions {
		write = verifier.WriteFunctions
	}
	if err := write(c.Stdout, pairs); err != nil {
		return err
	}
	if f.verbose {
		for i := range pairs {
			writeReason(c.Stdout, &pairs[i])
		}
	}
	if f.quiet {
		return nil
	}
	if b != nil {
		c.countVerified("base: ", b, false)
		c.countVerified("head: ", h, !f.verbose)
		return nil
	}
	c.countVerified("", h, !f.verbose)
	return nil
}

// countVerified says how much was looked at.
func (c Command) countVerified(label string, v *verified, hint bool) {
	accepted, rejected, notLoaded := verifier.Outcomes(v.rows)
	line := fmt.Sprintf("%s%s of %s: %d accepted, %d rejected", label, english.Count(len(v.rows), "program"), english.Count(v.files, "file"), accepted, rejected)
	if notLoaded > 0 {
		line += fmt.Sprintf(", %d not loaded", notLoaded)
	}
	if hint && rejected+notLoaded > 0 {
		line += " (-v says why)"
	}
	if v.skipped > 0 {
		line += fmt.Sprintf("; %s without programs", english.Count(v.skipped, "file"))
	}
	fmt.Fprintln(c.Stdout, line+".")
}

// writeReason says why the program of head does not load, or what else there is to say
// of it.
func writeReason(w io.Writer, p *verifier.Pair) {
	r := p.Head
	if r == nil || r.Reason == "" {
		return
	}
	fmt.Fprintf(w, "\n%s/%s: %s: %s\n", render.Clean(p.File), render.Clean(p.Program), r.Outcome, render.Clean(r.Reason))
	for _, l := range r.Log {
		fmt.Fprintf(w, "  │ %s\n", strings.TrimRight(render.Clean(l), " "))
	}
}

// concludeVerified tells what --fail found, and gives the exit code.
func (c Command) concludeVerified(pairs []verifier.Pair, fail []verifier.Filter, b, h *verified) error {
	failed, unknown := 0, 0
	tell := func(word string, p *verifier.Pair, what string) {
		fmt.Fprintf(c.Stderr, "%s %s/%s: %s\n", word, render.Clean(p.File), render.Clean(p.Program), what)
	}
	for i := range pairs {
		p := &pairs[i]
		if len(fail) > 0 && p.Broken() {
			failed++
			tell("failed:", p, "the verifier accepted it in base")
			continue
		}
		for _, x := range fail {
			switch said := x.Say(p); {
			case said != "":
				failed++
				tell("failed:", p, said)
			case x.Unknown(p):
				unknown++
				tell("unknown:", p, x.String())
			}
		}
	}
	for _, v := range []*verified{b, h} {
		if v != nil {
			for _, err := range v.problems {
				c.printError(err)
			}
		}
	}
	switch {
	case failed > 0:
		return verdictError{exitRegressed}
	case b != nil && b.asked, h.asked:
		return verdictError{exitUnmeasured}
	case h.files == 0:
		return &exitError{code: exitUnmeasured, err: errors.New("no file holds eBPF programs"), hint: "name objects (.o), directories of them, or executables that hold some"}
	case unknown > 0:
		return verdictError{exitInconclusive}
	case len(fail) > 0 && len(pairs) == 0:
		return &exitError{code: exitInconclusive, err: errors.New("no program is left to hold --fail against")}
	}
	return nil
}

// readSaved splits the arguments that are files of rows from the others, and reads
// them.
func readSaved(args []string, q *verifier.Query) (v *verified, rest []string, err error) {
	v = &verified{}
	for _, a := range args {
		if !verifier.IsSaved(a) {
			rest = append(rest, a)
			continue
		}
		rows, err := verifier.ReadFile(a)
		if err != nil {
			return nil, nil, &exitError{code: exitUnmeasured, err: err}
		}
		files := map[string]bool{}
		for _, r := range rows {
			if q.Wants(r.File, r.Program) {
				v.rows = append(v.rows, r)
				files[r.File] = true
			}
		}
		v.files += len(files)
	}
	return v, rest, nil
}
