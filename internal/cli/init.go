package cli

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/internal/config"
)

// The workflows that init writes, as docs/action.md shows them. BRANCH is the
// default branch.
const (
	workflowMeasure = `name: ebpf-bench
on: {pull_request: {}, merge_group: {}, push: {branches: [BRANCH]}}
permissions: {}
jobs:
  measure:
    permissions: {contents: read}
    strategy:
      fail-fast: false
      matrix: {os: [ubuntu-22.04, ubuntu-24.04, ubuntu-24.04-arm]}
    runs-on: ${{ matrix.os }}
    steps:
      - uses: actions/checkout@v4
        with: {persist-credentials: false, fetch-depth: 2}
      # your toolchain, as your build needs it
      - uses: org/ebpf-bench-gate@v1
        with: {mode: measure, testbed: "${{ matrix.os }}"}
  report:
    needs: measure
    if: always() && (!github.event.pull_request || github.event.pull_request.head.repo.full_name == github.repository)
    permissions: {contents: read, actions: read, pull-requests: write, statuses: write}
    runs-on: ubuntu-latest
    steps:
      - uses: org/ebpf-bench-gate@v1
        with: {mode: report, needs: "${{ needs.measure.result }}"}
`
	workflowForks = `name: ebpf-bench forks
on:
  workflow_run: {workflows: [ebpf-bench], types: [completed]}
permissions: {}
jobs:
  report:
    if: >-
      github.event.workflow_run.event == 'pull_request' &&
      github.event.workflow_run.head_repository.full_name != github.repository
    permissions: {contents: read, actions: read, pull-requests: write, statuses: write}
    runs-on: ubuntu-latest
    steps:
      - uses: org/ebpf-bench-gate@v1
        with: {mode: report}
`
)

func (c Command) initialize() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a config for the programs that are here, and workflows for GitHub",
		Long: `Init looks for eBPF sources (.bpf.c) and objects below the current directory, and
writes ` + config.FileName + ` and two workflows. It builds and loads nothing, and changes
no file that is there.`,
		Args: takes(),
		RunE: func(*cobra.Command, []string) error {
			found, err := findPrograms(".")
			if err != nil {
				return &exitError{code: exitUnmeasured, err: err}
			}
			if len(found) == 0 {
				return &exitError{code: exitUsage, err: errors.New("no eBPF programs below this directory: neither .bpf.c sources nor objects"), hint: "build the project first, so that there are objects to find"}
			}
			name := defaultBranch()
			branch := name
			if strings.Trim(branch, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/") != "" {
				branch = "'" + strings.ReplaceAll(branch, "'", "''") + "'"
			}
			// Workflows lie at the top of the repository, the config here.
			top, inside := ".", ""
			if out, err := exec.Command("git", "rev-parse", "--show-cdup", "--show-prefix").Output(); err == nil {
				up, prefix, _ := strings.Cut(string(out), "\n")
				top = path.Join(".", up)
				switch prefix = strings.TrimSuffix(prefix, "\n"); {
				case prefix == "":
				case strings.Contains(prefix, "${{"):
					return &exitError{code: exitUsage, err: fmt.Errorf("%q would be an expression in a workflow", prefix), hint: "rename the directory"}
				default:
					inside = ", config: " + yamlText(prefix+config.FileName)
				}
			}
			workflow := func(text string) string {
				text = strings.Replace(text, "BRANCH", branch, 1)
				return strings.NewReplacer("mode: measure", "mode: measure"+inside, "mode: report", "mode: report"+inside).Replace(text)
			}
			for _, f := range []struct{ name, text string }{
				{config.FileName, configFor(found)},
				{path.Join(top, ".github/workflows/ebpf-bench.yml"), workflow(workflowMeasure)},
				{path.Join(top, ".github/workflows/ebpf-bench-forks.yml"), workflow(workflowForks)},
			} {
				switch err := writeFresh(f.name, f.text); {
				case errors.Is(err, fs.ErrExist):
					fmt.Fprintf(c.Stdout, "left as it is: %s\n", f.name)
				case err != nil:
					return &exitError{code: exitUnmeasured, err: err}
				default:
					fmt.Fprintf(c.Stdout, "wrote %s\n", f.name)
				}
			}
			first := "Give each benchmark in ebpf-bench.yml the packets that matter: docs/config.md."
			if strings.Contains(configFor(found), "# build:") {
				first = "Say in ebpf-bench.yml how the objects are built (build.run), and give each\n     benchmark the packets that matter: docs/config.md."
			}
			fmt.Fprintf(c.Stdout, `
Next:
  1. %s
  2. Try it here: sudo gate run --base HEAD
  3. If the build needs more than a fresh runner has, install it in the workflow
     before the action.
  4. Commit all three files and open a pull request. It is measured at once. What is
     pushed to %s, which is taken for the default branch, becomes its baseline.
  5. Pull requests of forks get their comment from ebpf-bench-forks.yml, which works
     only once that file is on the default branch (GitHub runs workflow_run from
     there, and from nowhere else).
  6. Require the status ebpf-bench/default in the branch's protection rules.
`, first, oneLine(name))
			return nil
		},
	}
}

// defaultBranch is the one of the remote, as far as git knows: a clone does, a
// repository that began here has only branches that look like it.
func defaultBranch() string {
	git := func(args ...string) string {
		out, err := exec.Command("git", args...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	if name, ok := strings.CutPrefix(git("symbolic-ref", "--short", "refs/remotes/origin/HEAD"), "origin/"); ok {
		return name
	}
	for _, name := range []string{"main", "master"} {
		if git("for-each-ref", "--count=1", "refs/heads/"+name, "refs/remotes/origin/"+name) != "" {
			return name
		}
	}
	// Before the first commit there is no branch but the one that will be.
	if name := git("symbolic-ref", "--short", "HEAD"); name != "" && git("for-each-ref", "--count=1", "refs/heads") == "" {
		return name
	}
	return "main"
}

func writeFresh(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// A foundProgram is an eBPF program by its source or object.
type foundProgram struct{ name, object, section string }

// testRunnable are the sections of programs that the kernel can run on a packet
// of ours. As in libbpf (sec_def_matches), what follows is the loader's own affair:
// "tc_ingress", "classifier_wan".
var testRunnable = regexp.MustCompile(`^\??(xdp|tc|classifier|action|socket|cgroup_skb|cgroup/skb|sk_skb|lwt_|flow_dissector)`)

// The names of bpf2go's objects end in the target: an architecture, where the
// source depends on one, and the order of bytes. Those for architectures that gate
// does not run on are the same programs once more.
var (
	bpf2goTarget = regexp.MustCompile(`^(.*_)(?:x86|arm64)(_bpfel\.o)$`)
	otherTarget  = regexp.MustCompile(`_bpfeb\.o$|_(arm|loongarch|mips|powerpc|riscv|s390)_bpfel\.o$`)
)

// objectName is how a config names an object, by the last part of its path; empty
// for one that gate never loads.
func objectName(base string) string {
	if otherTarget.MatchString(base) {
		return ""
	}
	return bpf2goTarget.ReplaceAllString(base, "${1}$${arch}${2}")
}

var sourceProgram = regexp.MustCompile(`SEC\(\s*"([^"\n]+)"\s*\)\s*(?:__\w+\s+)*int\s+(?:BPF_\w+\(\s*(\w+)|(\w+)\s*\()`)

// findPrograms looks for programs below a directory, in sources rather than in the
// objects that are made of them.
func findPrograms(dir string) ([]foundProgram, error) {
	const most = 20_000 // files; a home directory is no project
	var found []foundProgram
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil // what cannot be read is none of ours
		}
		base := d.Name()
		if d.IsDir() {
			if name != dir && (base[0] == '.' || base == "node_modules" || base == "vendor" || base == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if files++; files > most {
			return fmt.Errorf("more than %d files below this directory: run gate init at the top of the project", most)
		}
		if info, err := d.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > 64<<20 {
			return nil
		}
		object := filepath.ToSlash(name)
		switch {
		case strings.HasSuffix(base, ".bpf.c"):
			src, err := os.ReadFile(name)
			if err != nil {
				return nil
			}
			for _, m := range sourceProgram.FindAllSubmatch(src, -1) {
				found = append(found, foundProgram{string(bytes.Join(m[2:4], nil)), object, string(m[1])})
			}
		case strings.HasSuffix(base, ".o") && objectName(base) != "":
			object = path.Join(path.Dir(object), objectName(base))
			found = append(found, objectPrograms(name, object)...)
		}
		return nil
	})
	// The source of an object says the same; of one name, the first counts.
	isSource := func(p foundProgram) bool { return strings.HasSuffix(p.object, ".c") }
	slices.SortStableFunc(found, func(a, b foundProgram) int {
		switch {
		case isSource(a) == isSource(b):
			return 0
		case isSource(a):
			return -1
		}
		return 1
	})
	return found, err
}

// objectPrograms are the programs of an object, if it is one of eBPF.
func objectPrograms(file, object string) (found []foundProgram) {
	f, err := elf.Open(file)
	if err != nil || f.Machine != elf.EM_BPF {
		return nil
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || elf.ST_BIND(s.Info) != elf.STB_GLOBAL || int(s.Section) >= len(f.Sections) {
			continue
		}
		if section := f.Sections[s.Section].Name; section != ".text" {
			found = append(found, foundProgram{s.Name, object, section})
		}
	}
	return found
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	plainPath = regexp.MustCompile(`^[A-Za-z0-9_./+-]+$`)
)

// configFor is a config for programs. What is found in files of others stands in
// it only where it is a plain name.
func configFor(found []foundProgram) string {
	var programs, benchmarks, others, unrun strings.Builder
	var outputs []string // globs of the objects that a build has to make
	seen := map[string]string{}
	for _, p := range found {
		if !plainName.MatchString(p.name) {
			continue
		}
		if object, ok := seen[p.name]; ok {
			if object != p.object && plainPath.MatchString(p.object) {
				fmt.Fprintf(&others, "#   %s of %s: the name is taken\n", p.name, p.object)
			}
			continue
		}
		object := yamlText(p.object)
		seen[p.name] = p.object
		if glob := path.Join(path.Dir(p.object), "*.o"); path.Ext(p.object) == ".o" && plainPath.MatchString(path.Dir(p.object)) && !slices.Contains(outputs, glob) {
			outputs = append(outputs, glob)
		}
		if !testRunnable.MatchString(p.section) {
			section := strings.Map(func(r rune) rune {
				if isControlRune(r) {
					return -1
				}
				return r
			}, p.section)
			fmt.Fprintf(&unrun, "#  %s/case: {work: {run: COMMAND}}    # %s\n", p.name, section)
			fmt.Fprintf(&programs, "  %s: {object: %s}\n", p.name, object)
			continue
		}
		fmt.Fprintf(&programs, "  %s: {object: %s}\n", p.name, object)
		fmt.Fprintf(&benchmarks, "  %s/builtin: {}                # the built-in packets; better yours: docs/config.md\n", p.name)
	}
	var b strings.Builder
	b.WriteString("# yaml-language-server: $schema=" + config.SchemaURL + "\n")
	b.WriteString("# What is built, measured and judged on every pull request: docs/config.md.\nversion: 1\n")
	if len(outputs) > 0 {
		fmt.Fprintf(&b, "# How the objects are made, in each tree; without it they have to be committed.\n# build: {run: make, outputs: [\"%s\"]}\n", strings.Join(outputs, `", "`))
	}
	b.WriteString("programs:\n" + programs.String())
	if benchmarks.Len() > 0 {
		b.WriteString("benchmarks:\n" + benchmarks.String())
	}
	if unrun.Len() > 0 {
		b.WriteString("# The kernel cannot run these on a packet. Under benchmarks, say what runs them where\n# they hang: docs/macro.md. Until then they are loaded only.\n" + unrun.String())
	}
	if others.Len() > 0 {
		b.WriteString("# Not here:\n" + others.String())
	}
	b.WriteString("policy:\n  latency: {warn: 2%, fail: 5%}\n")
	return b.String()
}

// yamlText is a path as YAML reads it: plain, or in quotes.
func yamlText(s string) string {
	if plainPath.MatchString(s) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func isControlRune(r rune) bool { return r < ' ' || r == 0x7f }
