package test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflowBlocks are the YAML blocks of the documents that are whole workflows.
var workflowBlocks = regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")

// workflows are those of the repository and of its documents, by a file's name.
func workflows(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) < 4 {
		t.Fatalf("only found %v, %v", files, err)
	}
	all := map[string][]byte{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(f)] = text
	}
	own := len(all)
	docs, _ := filepath.Glob("../docs/*.md")
	for _, doc := range append(docs, "../README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range workflowBlocks.FindAllSubmatch(text, -1) {
			if regexp.MustCompile(`(?m)^jobs:`).Match(m[1]) {
				all[fmt.Sprintf("%s-%d.yml", strings.TrimSuffix(filepath.Base(doc), ".md"), i)] = m[1]
			}
		}
	}
	if shown := len(all) - own; shown < 3 {
		t.Errorf("the documents show only %d workflows", shown)
	}
	return all
}

// initialized are the workflows that gate init writes in a directory, and in a
// repository whose branch and directories have names that YAML would misread.
func initialized(t *testing.T) []string {
	t.Helper()
	var files []string
	for branch, dir := range map[string]string{"main": ".", "feat/#1, [x]: 'ü'": `bpf/größe "1" #2, [x]: {y}`} {
		top := t.TempDir()
		git := func(args ...string) {
			t.Helper()
			if out, err := exec.Command("git", append([]string{"-C", top}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		git("init", "--quiet")
		// No branch that git takes has a space; what is written must be read all the same.
		name := strings.NewReplacer(" ", "-", "[", "(", "]", ")", ":", ";").Replace(branch)
		git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/"+name)
		at := filepath.Join(top, dir)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "p.bpf.c"), []byte("SEC(\"xdp\") int p(struct xdp_md *ctx) { return 2; }"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("gate", "init")
		cmd.Dir = at
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "only once that file is on the default branch") {
			t.Fatalf("gate init: %v\n%s", err, out)
		}
		found, _ := filepath.Glob(filepath.Join(top, ".github/workflows/*.yml"))
		if len(found) != 2 {
			t.Fatalf("gate init wrote %v", found)
		}
		text, err := os.ReadFile(found[0])
		if filepath.Base(found[0]) != "ebpf-bench.yml" {
			text, err = os.ReadFile(found[1])
		}
		var w struct {
			On   struct{ Push struct{ Branches []string } }
			Jobs map[string]struct {
				Steps []struct{ With map[string]string }
			}
		}
		if err := errors.Join(err, yaml.Unmarshal(text, &w)); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		want := filepath.ToSlash(filepath.Join(dir, "ebpf-bench.yml"))
		if dir == "." {
			want = ""
		}
		if got := w.Jobs["report"].Steps[0].With["config"]; len(w.On.Push.Branches) != 1 || w.On.Push.Branches[0] != name || got != want {
			t.Errorf("branches %q, want %q; config %q, want %q", w.On.Push.Branches, name, got, want)
		}
		files = append(files, found...)
	}
	return files
}

// TestWorkflows has actionlint look at every workflow of the repository and of the
// documents, and at those that gate init writes (docs/action.md shows them).
func TestWorkflows(t *testing.T) {
	if testing.Short() {
		t.Skip("builds actionlint")
	}
	dir := t.TempDir()
	var files []string
	for name, text := range workflows(t) {
		// Its own ones where they are: actionlint looks at the action that they use.
		file := filepath.Join("../.github/workflows", name)
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join(dir, name)
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		files = append(files, file)
	}
	files = append(files, initialized(t)...)
	// shellcheck holds the scripts by itself, and is not on every machine.
	args := append([]string{"tool", "-modfile=../tools.mod", "actionlint", "-shellcheck=", "-pyflakes=", "-no-color"}, files...)
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		t.Errorf("actionlint: %v\n%s", err, out)
	}
	// Inputs that the action does not have are told by the runner only.
	action, err := os.ReadFile("../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		uses := regexp.MustCompile(`uses: (?:\./|org/ebpf-bench-gate@\S+).*\n\s+with: \{(.*)\}`)
		for _, m := range uses.FindAllSubmatch(text, -1) {
			for _, k := range regexp.MustCompile(`(?:^|, )([a-z-]+):`).FindAllSubmatch(m[1], -1) {
				if !regexp.MustCompile(`(?m)^  ` + string(k[1]) + `:$`).Match(action) {
					t.Errorf("%s: the action has no input %s", filepath.Base(f), k[1])
				}
			}
		}
	}
}

// TestActionInterpolatesNothing holds that every input reaches a script through its
// environment: an expression in a script is code.
func TestActionInterpolatesNothing(t *testing.T) {
	files, _ := filepath.Glob("../.github/workflows/*.yml")
	for _, f := range append(files, "../action.yml") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		script := -1 // the indentation of run: |
		for n, line := range strings.Split(string(text), "\n") {
			indent := len(line) - len(strings.TrimLeft(line, " -"))
			if script >= 0 && strings.TrimSpace(line) != "" && indent <= script {
				script = -1
			}
			runs := strings.HasPrefix(strings.TrimLeft(line, " -"), "run:")
			if runs {
				script = indent
			}
			if (runs || script >= 0) && strings.Contains(line, "${{") {
				t.Errorf("%s:%d: an expression in a script: %s", f, n+1, line)
			}
		}
	}
	if text, _ := os.ReadFile("../action.yml"); !strings.Contains(string(text), "using: composite") {
		t.Error("a container action can never be privileged")
	}
}

// TestTokensMeetNoCode holds that what builds the code of a pull request has no token
// that can write, and that what has one checks out nothing of a pull request.
func TestTokensMeetNoCode(t *testing.T) {
	type step struct {
		ID, Uses, Run string
		With, Env     map[string]string
	}
	var action struct{ Runs struct{ Steps []step } }
	text, err := os.ReadFile("../action.yml")
	if err != nil || yaml.Unmarshal(text, &action) != nil {
		t.Fatal(err)
	}
	withToken := 0
	for _, s := range action.Runs.Steps {
		for name, v := range s.Env {
			if !strings.Contains(v, "token") {
				continue
			}
			withToken++
			if name != "GATE_TOKEN" || s.ID == "measure" || !strings.HasSuffix(s.Run, `/start.sh"`) && !strings.HasSuffix(s.Run, `/report.sh"`) {
				t.Errorf("action.yml: %s: %s: %s", s.Run, name, v)
			}
		}
	}
	if withToken != 2 {
		t.Errorf("%d steps of the action have a token", withToken)
	}
	modes := map[string]int{}
	for name, text := range workflows(t) {
		var w struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Steps       []step
			}
		}
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for job, j := range w.Jobs {
			mode, checkouts := "", []string{}
			for _, s := range j.Steps {
				switch {
				case s.Uses == "./" || strings.HasPrefix(s.Uses, "org/ebpf-bench-gate@"):
					mode = cmp.Or(s.With["mode"], "all")
				case strings.HasPrefix(s.Uses, "actions/checkout@"):
					checkouts = append(checkouts, s.With["ref"])
					if s.With["persist-credentials"] != "false" {
						t.Errorf("%s: %s: the checkout keeps its token", name, job)
					}
				}
			}
			modes[mode]++
			switch mode {
			case "measure":
				if len(w.Permissions) != 0 || !maps.Equal(j.Permissions, map[string]string{"contents": "read"}) {
					t.Errorf("%s: %s measures with %v and %v", name, job, w.Permissions, j.Permissions)
				}
			case "report", "start":
				for _, ref := range checkouts { // the base's, or on workflow_run the default branch
					if !strings.Contains(ref, ".base") && !strings.Contains(string(text), "workflow_run:") {
						t.Errorf("%s: %s checks out %q beside its token", name, job, ref)
					}
				}
			}
		}
	}
	for _, mode := range []string{"measure", "report", "start", "all"} {
		if modes[mode] == 0 {
			t.Errorf("no workflow has mode: %s; there are %v", mode, modes)
		}
	}
}

// TestPinned holds that actions of others are pinned by commit.
func TestPinned(t *testing.T) {
	files, _ := filepath.Glob("../.github/workflows/*.yml")
	for _, f := range append(files, "../action.yml") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^[ -]+uses: (\S+)`).FindAllStringSubmatch(string(text), -1) {
			if m[1] != "./" && !regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`).MatchString(m[1]) {
				t.Errorf("%s: %s is not pinned", f, m[1])
			}
		}
	}
}

// TestThreats holds that every test that docs/security.md names exists.
func TestThreats(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	if len(names) < 30 {
		t.Fatalf("only %d tests", len(names))
	}
	var all strings.Builder
	err = filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			src, err := os.ReadFile(path)
			all.Write(src)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if !strings.Contains(all.String(), "func "+n[1]+"(") {
			t.Errorf("docs/security.md names %s, which does not exist", n[1])
		}
	}
	for _, row := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(row, "|") && strings.Count(row, "|") == 4 && !strings.HasPrefix(row, "|--") && !strings.HasPrefix(row, "| threat") && !strings.Contains(row, "`Test") && !strings.Contains(row, "`Fuzz") {
			t.Errorf("no test: %s", row)
		}
	}
}

// TestImageContext holds that what gate is built from reaches the engine that builds the
// image: .dockerignore names it.
func TestImageContext(t *testing.T) {
	text, err := os.ReadFile("../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	var entered []string
	for line := range strings.Lines(string(text)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			entered = append(entered, p)
		}
	}
	const files = `{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`
	out, err := exec.Command("go", "list", "-deps", "-f", files, "../cmd/gate").Output()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for file := range strings.FieldsSeq(string(out)) {
		name, err := filepath.Rel(top, file)
		if err != nil {
			t.Fatal(err)
		}
		n++
		if !slices.ContainsFunc(entered, func(p string) bool {
			ok, _ := filepath.Match(p, name)
			return ok || strings.HasPrefix(name, p+"/")
		}) {
			t.Errorf(".dockerignore leaves out %s", name)
		}
	}
	if n < 100 {
		t.Errorf("only %d files", n)
	}
}
