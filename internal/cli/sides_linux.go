package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/agent"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/config"
	"github.com/org/ebpf-bench-gate/internal/runner"
)

// workspace is what a run builds from: the trees of its sides and the suite.
type workspace struct {
	suite *config.Suite // nil: no config
	args  []string      // objects or sources named on the command line
	found string        // what runs already; empty: programs are loaded
	trees []*build.Tree

	// Of several suites that make one report: the name, the directory of the config
	// from the top of the repository, and the first of them, whose tree of base is
	// everybody's.
	name, dir    string
	first        *workspace
	whole        *build.Tree     // base, of the first
	baseRevision *bench.Revision // of whole

	only            []string
	policy          gate.Policy
	warnings        []string
	skips, shadowed []bench.Skip
}

func (w *workspace) close() error {
	var errs []error
	for _, t := range w.trees {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

func (w *workspace) open(ctx context.Context, dir, ref string) (*build.Tree, error) {
	t, err := build.Open(ctx, dir, ref)
	if err == nil {
		w.trees = append(w.trees, t)
	}
	return t, err
}

// head opens the objects of this checkout, or those that were named.
func (w *workspace) head(ctx context.Context) (runner.Side, *build.Tree, error) {
	side := runner.Side{Name: "head"}
	if len(w.args) == 0 {
		t, err := w.open(ctx, w.suite.Dir, "")
		if err != nil {
			return side, nil, err
		}
		side.Revision, side.Dir = t.Revision, t.Dir
		side.Objects, err = w.built(ctx, t, nil, true)
		return side, t, err
	}
	var first *build.Tree
	for _, arg := range w.args {
		abs, err := filepath.Abs(arg)
		if err != nil {
			return side, nil, err
		}
		if _, err := os.Stat(abs); errors.Is(err, fs.ErrNotExist) {
			return side, nil, &exitError{code: exitUsage, err: fmt.Errorf("there is no file %s", arg), hint: "name objects (.o) or sources (.bpf.c)"}
		}
		t, err := w.open(ctx, ".", abs)
		if err != nil {
			return side, nil, err
		}
		if t.File == "" {
			return side, nil, &exitError{code: exitUsage, err: fmt.Errorf("%s is a directory", arg), hint: "name objects (.o) or sources (.bpf.c); --base may be a directory"}
		}
		objects, err := w.compiled(ctx, t, t.File, arg)
		if err != nil {
			return side, nil, err
		}
		side.Objects = append(side.Objects, objects...)
		if first == nil {
			first = t
			side.Revision = t.Revision
			side.Revision.Name = arg
			if n := len(w.args); n > 1 {
				side.Revision.Name = fmt.Sprintf("%s and %d more", arg, n-1)
			}
		}
	}
	return side, first, w.configure(ctx, side.Objects, w.configDir(), true)
}

// base opens the same objects of the revision, file or directory ref.
func (w *workspace) base(ctx context.Context, ref string, head *build.Tree) (runner.Side, *build.Tree, error) {
	side := runner.Side{Name: "base"}
	dir := "."
	if w.suite != nil && len(w.args) == 0 {
		dir = w.suite.Dir
	}
	t, err := w.openBase(ctx, dir, ref, head)
	if err != nil {
		return side, nil, err
	}
	side.Revision, side.Dir = t.Revision, t.Dir
	switch {
	case t.File != "":
		side.Dir = ""
		if len(w.args) > 1 {
			return side, t, usage("--base %s is one file, and %d were given to compare with it; name a directory or a git ref", ref, len(w.args))
		}
		side.Revision.Name = ref
		side.Objects, err = w.compiled(ctx, t, t.File, ref)
		if err != nil {
			return side, t, err
		}
		return side, t, w.configure(ctx, side.Objects, w.configDir(), false)
	case len(w.args) == 0:
		side.Objects, err = w.built(ctx, t, head, false)
		return side, t, err
	}
	if err := w.buildTree(ctx, t, head); err != nil {
		return side, t, err
	}
	for _, arg := range w.args {
		name, err := w.inBase(ctx, t, arg)
		if err != nil {
			return side, t, err
		}
		os, err := w.compiled(ctx, t, name, arg)
		if err != nil {
			return side, t, err
		}
		side.Objects = append(side.Objects, os...)
	}
	return side, t, w.configure(ctx, side.Objects, t.Dir, false)
}

// openBase opens the revision of base: of several suites once, as a whole.
func (w *workspace) openBase(ctx context.Context, dir, ref string, head *build.Tree) (*build.Tree, error) {
	if w.name == "" {
		return w.open(ctx, dir, ref)
	}
	if w.first.whole == nil {
		t, err := w.first.open(ctx, head.Root, ref)
		if err != nil {
			return nil, err
		}
		if t.File != "" {
			return nil, usage("--base %s is one file, and there are several configs; name a directory or a git ref", ref)
		}
		w.first.whole, w.first.baseRevision = t, &t.Revision
	}
	t, err := w.first.whole.In(w.dir)
	if err == nil {
		w.trees = append(w.trees, t)
	}
	return t, err
}

// inBase finds the counterpart of an argument in base's tree: at the same place,
// or, in a directory of objects, by its name.
func (w *workspace) inBase(ctx context.Context, t *build.Tree, arg string) (string, error) {
	for _, name := range []string{arg, filepath.Base(arg)} {
		if filepath.IsAbs(name) {
			continue
		}
		if _, err := os.Stat(filepath.Join(t.Dir, name)); err == nil {
			return filepath.ToSlash(name), nil
		}
	}
	return "", &exitError{
		code: exitUnmeasured, err: fmt.Errorf("base %s has no %s", t.Revision.Short(), arg),
		hint: "objects that are built must be made in base's tree too: write the build command into " + config.FileName + ", or give --base a file or a directory",
	}
}

func (w *workspace) buildTree(ctx context.Context, t, from *build.Tree) error {
	if w.suite == nil {
		return nil
	}
	b := w.suite.Build
	return t.Run(ctx, build.Commands{Run: b.Run, Share: b.Share, Outputs: b.Outputs, Timeout: b.Timeout}, from)
}

// built builds a tree and opens the objects that the config names. Base may lack
// some of them: they are new.
func (w *workspace) built(ctx context.Context, t, from *build.Tree, required bool) ([]runner.Object, error) {
	if err := w.buildTree(ctx, t, from); err != nil {
		return nil, err
	}
	var out []runner.Object
	seen := map[string]bool{}
	for _, p := range w.suite.Programs {
		if p.Object == "" || seen[p.Object] {
			continue
		}
		seen[p.Object] = true
		os, err := w.compiled(ctx, t, strings.ReplaceAll(p.Object, "${arch}", bpfArch()), p.Object)
		if errors.Is(err, fs.ErrNotExist) {
			if !required {
				continue
			}
			return nil, &bench.Diagnostic{Pos: p.Pos, Message: fmt.Sprintf("no object %s", p.Object), Hint: "build it first, or write build: {run: COMMAND, outputs: [" + p.Object + "]}"}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, os...)
	}
	return out, w.configure(ctx, out, t.Dir, required)
}

// compiled opens an object of a tree, compiled where it is a C source. Of an
// executable, it opens the objects inside.
func (w *workspace) compiled(ctx context.Context, t *build.Tree, name, shown string) ([]runner.Object, error) {
	var cflags []string
	if w.suite != nil {
		cflags = w.suite.Build.CFlags
	}
	path, err := t.Object(ctx, name, cflags)
	if err != nil {
		return nil, err
	}
	return opened(path, shown)
}

// opened opens an object, or the objects inside of an executable.
func opened(path, shown string) ([]runner.Object, error) {
	o, err := bpf.OpenObject(path)
	if err == nil {
		return []runner.Object{{Name: shown, File: path, Object: o}}, nil
	}
	in, embErr := bpf.Embedded(path)
	if embErr != nil || len(in) == 0 {
		// The path may be that of a temporary object; what was named is known.
		msg := strings.TrimPrefix(strings.ReplaceAll(err.Error(), path, shown), shown+": ")
		if !strings.HasPrefix(msg, shown+" ") {
			msg = shown + ": " + msg
		}
		return nil, &exitError{code: exitUnmeasured, err: errors.New(msg), hint: hintOf(err)}
	}
	var out []runner.Object
	for i, o := range in {
		out = append(out, runner.Object{Name: fmt.Sprintf("%s#%d", shown, i), File: path, Object: o})
	}
	return out, nil
}

// distinct hides programs whose name another object of a side has, too: results
// are told apart by the name of their program. The object that the config names
// has the program that is meant, else the first one. It returns what is hidden
// of head, which is not measured.
func (w *workspace) distinct(sides []runner.Side) []bench.Skip {
	var skips []bench.Skip
	for i := range sides {
		skips = nil
		objects := sides[i].Objects
		meant := map[string]int{}
		for j, o := range objects {
			for _, p := range o.Programs() {
				if _, ok := meant[p]; !ok || w.names(p, o.Name) {
					meant[p] = j
				}
			}
		}
		for j := range objects {
			for _, p := range objects[j].Programs() {
				if meant[p] == j {
					continue
				}
				if objects[j].Hidden == nil {
					objects[j].Hidden = map[string]bool{}
				}
				objects[j].Hidden[p] = true
				skips = append(skips, bench.Skip{
					Name:   p + " of " + objects[j].Name,
					Reason: fmt.Sprintf("%s has a program of this name", objects[meant[p]].Name),
					Hint:   "measure it in a run of its own",
				})
			}
		}
	}
	return skips
}

// names tells that the config says that the program is in the object.
func (w *workspace) names(program, object string) bool {
	return w.suite != nil && len(w.args) == 0 && slices.ContainsFunc(w.suite.Programs, func(p bench.Program) bool {
		return p.Name == program && p.Object == object
	})
}

// configDir is where the config's commands run that belong to no tree.
func (w *workspace) configDir() string {
	if w.suite == nil {
		return "."
	}
	return w.suite.Dir
}

// configure gives objects what the config says of their programs; loaders run in
// dir. Only head must have every program: base may be older.
func (w *workspace) configure(ctx context.Context, objects []runner.Object, dir string, required bool) error {
	if w.suite == nil {
		return nil
	}
	var errs []error
	for _, o := range objects {
		var programs []bench.Program
		for _, p := range w.suite.Programs {
			switch {
			case o.Has(p.Name) && (p.Object == o.Name || len(w.args) > 0 || p.Object == "" || !required):
				programs = append(programs, p)
			case required && len(w.args) == 0 && p.Object == o.Name:
				programs = append(programs, p) // told as missing
			}
		}
		errs = append(errs, o.Configure(programs), loadedBy(ctx, o, programs, dir))
	}
	return errors.Join(errs...)
}

// loadedBy has the object's programs loaded by their own loaders.
func loadedBy(ctx context.Context, o runner.Object, programs []bench.Program, dir string) error {
	for _, p := range programs {
		if p.Loader == "" || !o.Has(p.Name) {
			continue
		}
		at, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		file, err := filepath.Abs(o.Path)
		if err != nil {
			return err
		}
		where := agent.Where{Dir: at, Env: []string{"GATE_OBJECT=" + file, "GATE_PROGRAM=" + p.Name}}
		o.LoadBy(p.Name, func(name string) (uint32, func(), error) { return agent.Load(ctx, name, p.Loader, where) })
	}
	return nil
}

// policyOf is the policy that judges: base's, where base is a revision that has
// a config, so that nobody loosens their own gate.
func (w *workspace) policyOf(base *build.Tree) (p gate.Policy, warning string, err error) {
	if w.suite == nil {
		return gate.DefaultPolicy(), "", nil
	}
	if w.suite.File == "" { // nobody wrote it
		return w.suite.Policy, "", nil
	}
	if base == nil || base.Revision.Commit == "" || base.File != "" {
		return w.suite.Policy, "", nil
	}
	name := filepath.Join(base.Dir, filepath.Base(w.suite.File))
	if len(w.args) > 0 {
		rel, err := filepath.Rel(".", w.suite.File)
		if err != nil || strings.HasPrefix(rel, "..") {
			return w.suite.Policy, "", nil
		}
		name = filepath.Join(base.Dir, rel)
	}
	src, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return w.suite.Policy, "base has no " + filepath.Base(w.suite.File) + ": judged by head's policy", nil
	}
	if err != nil {
		return p, "", err
	}
	p, err = config.ParsePolicy(name, src)
	return p, "", err
}

// lacks are the commands of user space that base's own config does not have, where base
// is a revision of the project.
func (w *workspace) lacks(base *build.Tree) []string {
	if w.suite == nil || w.suite.File == "" || base.Revision.Commit == "" || base.File != "" {
		return nil
	}
	src, err := os.ReadFile(filepath.Join(base.Dir, filepath.Base(w.suite.File)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	has := config.Commands(src)
	var all []string
	for _, b := range w.suite.Benchmarks {
		if b.Harness != nil && !slices.Contains(has, b.Name) {
			all = append(all, b.Name)
		}
	}
	return all
}

// bpfArch is the architecture as bpf2go writes it into file names.
func bpfArch() string {
	return map[string]string{"amd64": "x86", "arm64": "arm64", "386": "x86", "riscv64": "riscv", "s390x": "s390", "ppc64le": "powerpc", "loong64": "loongarch"}[runtime.GOARCH]
}
