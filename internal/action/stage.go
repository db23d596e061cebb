package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/build"
	"github.com/org/ebpf-bench-gate/internal/config"
)

// maxObject is the size of the largest object that is copied: an agent with its
// objects inside has some ten MB.
const maxObject = 256 << 20

// Stage builds head and base, and copies what is measured into dir, which is
// empty. Build commands run as whoever owns the checkout, which on a runner is the
// runner's user. Each suite's config is head's, for both sides; its policy is base's.
func Stage(ctx context.Context, in Inputs, e Event, dir string) (*Plan, error) {
	files, err := configs(in)
	if err != nil {
		return nil, err
	}
	s := stager{dir: dir}
	defer s.close()
	plan := &Plan{Testbed: in.Testbed, Budget: in.Budget, Only: in.Only}
	ref, err := baseRef(ctx, in, e)
	if err != nil {
		return nil, err
	}
	var whole *build.Tree
	if ref != "" {
		if whole, err = s.open(ctx, in.Workspace, ref); err != nil {
			return nil, err
		}
	}
	for i, f := range files {
		suite, head, err := s.suite(ctx, in, f, i, whole)
		if err != nil {
			return nil, err
		}
		plan.Suites, plan.Head = append(plan.Suites, *suite), head
	}
	if e.Branch != "" {
		plan.Head.Branch = e.Branch
	}
	if whole != nil {
		plan.Base = &whole.Revision
		if e.BaseBranch != "" && in.Base == "" {
			plan.Base.Branch, plan.Base.Name = strings.TrimPrefix(e.BaseBranch, "refs/heads/"), e.BaseBranch
		}
	}
	return plan, WritePlan(dir, plan)
}

// configs are the configs that the input names: one without a name, or those of a
// pattern.
func configs(in Inputs) ([]config.File, error) {
	if !config.IsPattern(in.Config) {
		return []config.File{{Path: path.Clean(filepath.ToSlash(in.Config))}}, nil
	}
	files, err := config.Files(in.Workspace, in.Workspace, in.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noConfig(in)
	}
	return files, err
}

func noConfig(in Inputs) error {
	return &Refusal{fmt.Sprintf("there is no %s in the checkout", in.Config), "gate init writes one; run actions/checkout before this step"}
}

// suite stages one config, in a directory of its own, and returns head's revision.
// Base may be nil.
func (s *stager) suite(ctx context.Context, in Inputs, f config.File, n int, base *build.Tree) (*Suite, bench.Revision, error) {
	none := bench.Revision{}
	file := filepath.Join(in.Workspace, filepath.FromSlash(f.Path))
	suite, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, none, noConfig(in)
	}
	if err != nil {
		return nil, none, err
	}
	if !within(in.Workspace, suite.Dir) {
		return nil, none, fmt.Errorf("%s leads out of the checkout", f.Path)
	}
	s.conf = suite
	if err := staged(suite); err != nil {
		return nil, none, err
	}
	at := strconv.Itoa(n)
	out := &Suite{Name: f.Suite, Config: at + "/head/" + config.FileName}
	if f.Suite != "" {
		out.Dir = path.Dir(f.Path)
	}
	head, err := s.open(ctx, suite.Dir, "")
	if err != nil {
		return nil, none, err
	}
	if out.Head, err = s.side(ctx, at+"/head", head, nil); err != nil {
		return nil, none, err
	}
	// Base is built after head: it may link what head's build has fetched.
	if base != nil {
		if err := s.base(ctx, out, at+"/base", f, head, base); err != nil {
			return nil, none, err
		}
	}
	if err := s.copy(head, file, out.Config, config.MaxSize); err != nil {
		return nil, none, err
	}
	for _, name := range suite.Captures {
		if err := s.copy(head, filepath.Join(suite.Dir, filepath.FromSlash(name)), at+"/head/"+filepath.ToSlash(filepath.Clean(name)), maxObject); err != nil {
			return nil, none, err
		}
	}
	if err := s.tools(head, at+"/head/", true); err != nil {
		return nil, none, err
	}
	for _, t := range s.trees {
		out.Warnings = append(out.Warnings, t.Warnings...)
		t.Warnings = nil
	}
	return out, head.Revision, nil
}

// staged tells a command of user space that could not run in the container: it has no
// toolchain, and nothing of the checkout but what a build declares as its outputs.
func staged(suite *config.Suite) error {
	i := slices.IndexFunc(suite.Benchmarks, func(b bench.Benchmark) bool { return b.Harness != nil })
	if i < 0 || len(suite.Build.Outputs) > 0 {
		return nil
	}
	b := suite.Benchmarks[i]
	return &bench.Diagnostic{
		Pos: b.Pos, Message: fmt.Sprintf("command %s has nothing to run: in the measuring container are the build's outputs, and there are none", b.Name),
		Hint: "build: {run: CGO_ENABLED=0 go test -c -o bench.test ., outputs: [bench.test]}, and run: ./bench.test -test.run '^$' -test.bench .",
	}
}

// tools copies what a build has made for the commands of benchmarks, of head, or, as
// each side has its own, for agents, loaders and commands of user space: all its
// outputs, but for benchmarks the objects. They keep their names, since commands call them by these.
func (s *stager) tools(t *build.Tree, to string, head bool) error {
	own := slices.ContainsFunc(s.conf.Agents, func(a bench.Agent) bool { return a.Run != "" }) ||
		slices.ContainsFunc(s.conf.Programs, func(p bench.Program) bool { return p.Loader != "" }) ||
		slices.ContainsFunc(s.conf.Benchmarks, func(b bench.Benchmark) bool { return b.Harness != nil })
	commands := head && slices.ContainsFunc(s.conf.Benchmarks, func(b bench.Benchmark) bool {
		return b.Work != nil && b.Work.Run != "" || len(b.Setup)+len(b.Teardown) > 0
	})
	if !own && !commands {
		return nil
	}
	outputs, err := t.Outputs(s.conf.Build.Outputs)
	if err != nil {
		return err
	}
	for _, name := range outputs {
		if path.Ext(name) == ".o" && !own {
			continue
		}
		if err := s.copy(t, filepath.Join(t.Dir, filepath.FromSlash(name)), to+name, maxObject); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// within tells that a directory is dir or below it, wherever links lead.
func within(dir, path string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// base stages base's side of a suite and its policy, where base has the suite.
func (s *stager) base(ctx context.Context, out *Suite, at string, f config.File, head, whole *build.Tree) error {
	dir, err := filepath.Rel(head.Root, head.Dir)
	if err != nil {
		return err
	}
	t, err := whole.In(filepath.ToSlash(dir))
	if errors.Is(err, fs.ErrNotExist) {
		out.Warnings = append(out.Warnings, "new: base has no directory "+filepath.ToSlash(dir))
		return nil
	}
	if err != nil {
		return err
	}
	s.trees = append(s.trees, t)
	side, err := s.side(ctx, at, t, head)
	if err != nil {
		return err
	}
	out.Base = &side
	if err := s.tools(t, at+"/", false); err != nil {
		return err
	}
	name := path.Base(f.Path)
	switch err := s.copy(t, filepath.Join(t.Dir, name), at+"/"+config.FileName, config.MaxSize); {
	case errors.Is(err, fs.ErrNotExist):
		out.Warnings = append(out.Warnings, "base has no "+name+": judged by head's policy")
	case err != nil:
		return err
	default:
		out.Policy = at + "/" + config.FileName
	}
	return nil
}

type stager struct {
	conf  *config.Suite // of the suite at hand
	dir   string
	trees []*build.Tree
}

func (s *stager) open(ctx context.Context, dir, ref string) (*build.Tree, error) {
	t, err := build.Open(ctx, dir, ref)
	if err == nil {
		s.trees = append(s.trees, t)
	}
	return t, err
}

func (s *stager) close() {
	for _, t := range s.trees {
		_ = t.Close() // what stays is swept by the next Open
	}
}

// side builds a tree and copies the objects that the config names. Base may lack
// some of them: they are new.
func (s *stager) side(ctx context.Context, name string, t, from *build.Tree) (Side, error) {
	side := Side{Objects: []Object{}}
	b := s.conf.Build
	if err := t.Run(ctx, build.Commands{Run: b.Run, Share: b.Share, Outputs: b.Outputs, Timeout: b.Timeout}, from); err != nil {
		return side, err
	}
	seen := map[string]bool{}
	for _, p := range s.conf.Programs {
		if p.Object == "" || seen[p.Object] {
			continue
		}
		seen[p.Object] = true
		object, err := t.Object(ctx, strings.ReplaceAll(p.Object, "${arch}", bpfArch()), b.CFlags)
		if errors.Is(err, fs.ErrNotExist) {
			if from != nil {
				continue
			}
			return side, &bench.Diagnostic{Pos: p.Pos, Message: "no object " + p.Object, Hint: "build it first, or write build: {run: COMMAND, outputs: [" + p.Object + "]}"}
		}
		if err != nil {
			return side, err
		}
		// Names of our own: no path of the pull request's becomes one in the
		// container.
		file := fmt.Sprintf("%s/%d.o", name, len(side.Objects))
		if strings.HasSuffix(p.Object, ".c") { // compiled, outside of the tree
			err = s.copyFile(object, file, maxObject)
		} else {
			err = s.copy(t, object, file, maxObject)
		}
		if err != nil {
			return side, fmt.Errorf("%s: %w", p.Object, err)
		}
		side.Objects = append(side.Objects, Object{Name: p.Object, File: file})
	}
	return side, nil
}

// copy copies a file that has to lie in a tree, wherever links lead.
func (s *stager) copy(t *build.Tree, from, to string, most int64) error {
	real, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(t.Root, real); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s leads out of the checkout", filepath.Base(from))
	}
	return s.copyFile(real, to, most)
}

func (s *stager) copyFile(from, to string, most int64) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if info.Size() > most {
		return fmt.Errorf("%d MB, at most %d", info.Size()>>20, most>>20)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	at := filepath.Join(s.dir, filepath.FromSlash(to))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644|info.Mode().Perm()&0o111)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, most))
	return errors.Join(err, out.Close())
}

// baseRef is the git ref that head is compared with; empty: none.
func baseRef(ctx context.Context, in Inputs, e Event) (string, error) {
	if in.Base != "" {
		return in.Base, nil
	}
	if e.BaseCommit == "" && e.BaseBranch == "" {
		return "", nil
	}
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", in.Workspace}, args...)...)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	// actions/checkout gives a pull request's merge with its base, whose first
	// parent is the base as it is now: exactly what would change.
	if _, err := git("rev-parse", "--verify", "--quiet", "HEAD^2"); err == nil && e.Name != "merge_group" {
		return "HEAD^1", nil
	}
	for _, ref := range []string{e.BaseCommit, "origin/" + e.BaseBranch, e.BaseBranch} {
		if ref == "" || strings.HasPrefix(ref, "-") || strings.HasSuffix(ref, "/") {
			continue
		}
		if _, err := git("merge-base", "--", "HEAD", ref); err == nil {
			return "merge-base:" + ref, nil
		}
	}
	return "", &Refusal{"the checkout does not hold the base of this pull request",
		"give actions/checkout fetch-depth: 2 (a merge with its base) or fetch-depth: 0 (everything)"}
}

// Credentials tells whether the checkout's git configuration holds some, which
// the code of a pull request could read; in a file that it includes, as newer
// versions of actions/checkout write it, no less than in itself.
func Credentials(ctx context.Context, workspace string) bool {
	cmd := exec.CommandContext(ctx, "git", "-C", workspace, "config", "--local", "--includes", "--get-regexp", `^(http\..*\.extraheader|credential\..*|url\..*@.*)$`)
	out, err := cmd.Output()
	return err == nil && len(out) > 0
}

// bpfArch is the architecture as bpf2go writes it into file names.
func bpfArch() string {
	return map[string]string{"amd64": "x86", "arm64": "arm64", "386": "x86", "riscv64": "riscv", "s390x": "s390", "ppc64le": "powerpc", "loong64": "loongarch"}[runtime.GOARCH]
}
