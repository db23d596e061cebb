package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
// runner's user. The suite's config is head's, for both sides; the policy is
// base's.
func Stage(ctx context.Context, in Inputs, e Event, dir string) (*Plan, error) {
	file := filepath.Join(in.Workspace, filepath.FromSlash(in.Config))
	suite, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Refusal{fmt.Sprintf("there is no %s in the checkout", in.Config), "gate init writes one; run actions/checkout before this step"}
	}
	if err != nil {
		return nil, err
	}
	s := stager{suite: suite, dir: dir}
	defer s.close()
	head, err := s.open(ctx, "")
	if err != nil {
		return nil, err
	}
	plan := &Plan{Testbed: in.Testbed, Budget: in.Budget, Only: in.Only, Config: "head/" + config.FileName}
	ref, err := baseRef(ctx, in, e)
	if err != nil {
		return nil, err
	}
	if plan.Head, err = s.side(ctx, "head", head, nil); err != nil {
		return nil, err
	}
	if e.Branch != "" {
		plan.Head.Revision.Branch = e.Branch
	}
	// Base is built after head: it may link what head's build has fetched.
	if ref != "" {
		base, err := s.open(ctx, ref)
		if err != nil {
			return nil, err
		}
		side, err := s.side(ctx, "base", base, head)
		if err != nil {
			return nil, err
		}
		if e.BaseBranch != "" && in.Base == "" {
			side.Revision.Branch, side.Revision.Name = strings.TrimPrefix(e.BaseBranch, "refs/heads/"), e.BaseBranch
		}
		plan.Base = &side
		policy := filepath.Join(base.Dir, filepath.Base(file))
		switch err := s.copy(base, policy, "base/"+config.FileName, config.MaxSize); {
		case errors.Is(err, fs.ErrNotExist):
			plan.Warnings = append(plan.Warnings, "base has no "+filepath.Base(file)+": judged by head's policy")
		case err != nil:
			return nil, err
		default:
			plan.Policy = "base/" + config.FileName
		}
	}
	if err := s.copy(head, file, plan.Config, config.MaxSize); err != nil {
		return nil, err
	}
	for _, name := range suite.Captures {
		if err := s.copy(head, filepath.Join(suite.Dir, filepath.FromSlash(name)), "head/"+filepath.ToSlash(filepath.Clean(name)), maxObject); err != nil {
			return nil, err
		}
	}
	for _, t := range s.trees {
		plan.Warnings = append(plan.Warnings, t.Warnings...)
	}
	return plan, WritePlan(dir, plan)
}

type stager struct {
	suite *config.Suite
	dir   string
	trees []*build.Tree
}

func (s *stager) open(ctx context.Context, ref string) (*build.Tree, error) {
	t, err := build.Open(ctx, s.suite.Dir, ref)
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
	side := Side{Revision: t.Revision}
	b := s.suite.Build
	if err := t.Run(ctx, build.Commands{Run: b.Run, Share: b.Share, Outputs: b.Outputs, Timeout: b.Timeout}, from); err != nil {
		return side, err
	}
	seen := map[string]bool{}
	for _, p := range s.suite.Programs {
		if p.Object == "" || seen[p.Object] {
			continue
		}
		seen[p.Object] = true
		path, err := t.Object(ctx, strings.ReplaceAll(p.Object, "${arch}", bpfArch()), b.CFlags)
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
			err = s.copyFile(path, file, maxObject)
		} else {
			err = s.copy(t, path, file, maxObject)
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
	out, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
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
// the code of a pull request could read.
func Credentials(ctx context.Context, workspace string) bool {
	cmd := exec.CommandContext(ctx, "git", "-C", workspace, "config", "--local", "--get-regexp", `^(http\..*\.extraheader|credential\..*|url\..*@.*)$`)
	out, err := cmd.Output()
	return err == nil && len(out) > 0
}

// bpfArch is the architecture as bpf2go writes it into file names.
func bpfArch() string {
	return map[string]string{"amd64": "x86", "arm64": "arm64", "386": "x86", "riscv64": "riscv", "s390x": "s390", "ppc64le": "powerpc", "loong64": "loongarch"}[runtime.GOARCH]
}
