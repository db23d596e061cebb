package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/runner"
	"github.com/org/ebpf-bench-gate/internal/verifier"
)

// verify looks at both sides; base is nil where there is none.
func (c Command) verify(ctx context.Context, f *verifierFlags, q *verifier.Query, base, head []string) (b, h *verified, err error) {
	w := &workspace{args: head}
	defer func() {
		if e := w.close(); e != nil && err == nil {
			err = e
		}
	}()
	if f.config != "" || len(head) == 0 {
		if w.suite, err = findSuite(f.config, head); err != nil {
			return nil, nil, err
		}
	}
	b, baseRest, err := readSaved(base, q)
	if err != nil {
		return nil, nil, err
	}
	h, headRest, err := readSaved(head, q)
	if err != nil {
		return nil, nil, err
	}
	if w.suite == nil && len(baseRest)+len(headRest) == 0 {
		return orNil(b, base), h, nil // nothing is to be loaded
	}
	have := &names{}
	release, _, err := c.lockHost(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	l := looking{Command: c, ctx: ctx, options: verifier.Options{
		Jobs: f.jobs, Wants: q.Wants, Set: f.constants, Has: have.add,
		Verify: bpf.VerifyOptions{Cache: btf.NewCache(), Trace: f.verbose, Lines: f.lines, TestStates: f.testStates, TestRegs: f.testRegs},
	}}
	done := l.progress()
	defer done()
	defer func() {
		if err == nil {
			err = have.all(f.constants)
		}
	}()
	isRef := len(baseRest) == 1 && !isPath(baseRest[0])
	if isRef && w.suite == nil && len(headRest) == 0 {
		return nil, nil, &exitError{code: exitUsage, err: fmt.Errorf("there is no file %s", baseRest[0]), hint: "a git ref is a base for objects and sources, not for saved CSV"}
	}
	if w.suite == nil && !isRef {
		if err := l.look(b, baseRest); err != nil {
			return nil, nil, fmt.Errorf("base: %w", err)
		}
		return orNil(b, base), h, l.look(h, headRest)
	}
	// What is built, or of another revision, is gate run's.
	if len(baseRest) > 1 {
		return nil, nil, usage("--base: with a config it is one git ref, file or directory, not %d", len(baseRest))
	}
	w.args = headRest
	side, tree, err := w.head(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := l.objects(h, side.Objects); err != nil {
		return nil, nil, err
	}
	if len(baseRest) == 1 {
		if side, _, err = w.base(ctx, baseRest[0], tree); err != nil {
			return nil, nil, err
		}
		if err := l.objects(b, side.Objects); err != nil {
			return nil, nil, err
		}
	}
	return orNil(b, base), h, nil
}

func orNil(v *verified, args []string) *verified {
	if len(args) == 0 {
		return nil
	}
	return v
}

// isPath tells that an argument names something on this host, and no git ref.
func isPath(arg string) bool {
	_, err := os.Stat(arg)
	return err == nil || strings.ContainsAny(arg, "*?[") || filepath.Ext(arg) == ".o"
}

// looking is one call of gate verifier at work.
type looking struct {
	Command
	ctx     context.Context
	options verifier.Options
}

// names are the global variables that some object has.
type names struct {
	mu    sync.Mutex
	known map[string]bool
}

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[name] = true
}

// all tells of a variable that no object has, which most often is a mistyped one.
func (n *names) all(set []bench.Constant) error {
	for _, c := range set {
		if !n.known[c.Name] {
			return &exitError{code: exitUsage, err: fmt.Errorf("--set-global-vars: no object has a global variable %s", c.Name), hint: "bpftool btf dump file OBJECT shows .rodata, .data and .bss"}
		}
	}
	return nil
}

// look loads the programs of files.
func (l *looking) look(v *verified, args []string) error {
	var files, sources []string
	for _, a := range args {
		if filepath.Ext(a) == ".c" {
			sources = append(sources, a)
		} else {
			files = append(files, a)
		}
	}
	found, skipped, err := verifier.Find(files)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	v.skipped += skipped
	if len(found) > 0 {
		rows, skips, err := verifier.Measure(l.ctx, found, l.options)
		if err != nil {
			return err
		}
		v.rows, v.files = append(v.rows, rows...), v.files+len(found)-len(skips)
		for _, s := range skips {
			if errors.Is(s.Err, verifier.ErrNone) {
				v.skipped++
				continue
			}
			v.asked = v.asked || s.Source.Named
			v.problems = append(v.problems, s.Err)
		}
	}
	if len(sources) == 0 {
		return nil
	}
	w := &workspace{args: sources}
	side, _, err := w.head(l.ctx)
	if err == nil {
		err = l.objects(v, side.Objects)
	}
	return errors.Join(err, w.close())
}

// objects loads the programs of objects that are open.
func (l *looking) objects(v *verified, objects []runner.Object) error {
	for _, o := range objects {
		rows, err := verifier.Programs(l.ctx, filepath.Base(o.Name), o.Object, l.options)
		if err != nil {
			return err
		}
		v.rows = append(v.rows, rows...)
		v.files++
	}
	return nil
}

// progress shows on a terminal what is looked at, and returns what takes the line
// away again.
func (l *looking) progress() (done func()) {
	if !isTerminal(l.Stderr) {
		return func() {}
	}
	l.options.Progress = func(name string) {
		line := "loading " + name
		if w := width(l.Stderr); w > 1 && len(line) > w-1 {
			line = line[:w-1]
		}
		fmt.Fprintf(l.Stderr, "\r\033[K%s", line)
	}
	return func() { fmt.Fprint(l.Stderr, "\r\033[K") }
}
