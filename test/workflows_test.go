package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// workflowBlocks are the YAML blocks of the documents that are whole workflows.
var workflowBlocks = regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")

// TestWorkflows has actionlint look at every workflow of the repository and of the
// documents, and at those that gate init writes (docs/action.md shows them).
func TestWorkflows(t *testing.T) {
	if testing.Short() {
		t.Skip("builds actionlint")
	}
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) < 4 {
		t.Fatalf("only found %v, %v", files, err)
	}
	dir := t.TempDir()
	docs, _ := filepath.Glob("../docs/*.md")
	shown := 0
	for _, doc := range append(docs, "../README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range workflowBlocks.FindAllSubmatch(text, -1) {
			if !regexp.MustCompile(`(?m)^jobs:`).Match(m[1]) {
				continue
			}
			shown++
			name := filepath.Join(dir, fmt.Sprintf("%s-%d.yml", strings.TrimSuffix(filepath.Base(doc), ".md"), i))
			if err := os.WriteFile(name, m[1], 0o644); err != nil {
				t.Fatal(err)
			}
			files = append(files, name)
		}
	}
	if shown < 3 {
		t.Errorf("the documents show only %d workflows", shown)
	}
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
