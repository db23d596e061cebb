package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// An example is a command that a document shows.
type example struct {
	where string // file:line
	words string // a shell command, beginning with gate or make
	block bool   // it stands in a block and is complete, not within a sentence
}

// documents are what users read. The help of each verb is one, too.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../examples/*/README.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			docs[strings.TrimPrefix(name, "../")] = string(text)
		}
	}
	for _, verb := range []string{"", "run", "cover", "compare", "import", "export", "plot", "baseline", "baseline sync", "baseline prune", "history", "site", "push", "verifier", "doctor", "version"} {
		docs[strings.TrimSpace("gate "+verb)+" --help"] = help(t, strings.Fields(verb)...)
	}
	return docs
}

func help(t *testing.T, verb ...string) string {
	t.Helper()
	out, err := exec.Command("gate", append(verb[:len(verb):len(verb)], "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("gate %s --help: %v\n%s", strings.Join(verb, " "), err, out)
	}
	return string(out)
}

var (
	// blockLine is a command in an indented or fenced block: what may stand
	// before gate is a prompt, the dash of a list, sudo and variables.
	blockLine = regexp.MustCompile(`^[ \t]*(?:- )?\$? ?((?:sudo |-E |env |[A-Z_]+=\S+ |PATH="\$PATH" )*)((?:bin/)?gate|make) ([^—]*)$`)
	inline    = regexp.MustCompile("`((?:sudo )?(?:bin/)?gate [a-z][^`]*)`")
	comment   = regexp.MustCompile(`\s{2,}#.*$|\s+# .*$`)
)

// examples finds the commands of the documents.
func examples(t *testing.T) []example {
	t.Helper()
	var all []example
	for name, text := range documents(t) {
		text = strings.ReplaceAll(text, "\\\n", "\x00")
		line := 1
		fenced, help := false, strings.HasSuffix(name, "--help")
		for _, l := range strings.Split(text, "\n") {
			where := fmt.Sprintf("%s:%d", name, line)
			line += 1 + strings.Count(l, "\x00")
			l = regexp.MustCompile(`\x00\s*`).ReplaceAllString(l, " ")
			if strings.HasPrefix(l, "```") {
				fenced = !fenced
			}
			block := fenced || strings.HasPrefix(l, "    ") || help && strings.HasPrefix(l, "  gate ")
			usage := help && strings.ContainsAny(l, "[<") // a synopsis
			if m := blockLine.FindStringSubmatch(comment.ReplaceAllString(l, "")); m != nil && block && !usage {
				all = append(all, example{where, strings.TrimPrefix(m[2], "bin/") + " " + strings.TrimSpace(m[3]), true})
				continue
			}
			for _, m := range inline.FindAllStringSubmatch(l, -1) {
				words := strings.TrimPrefix(strings.TrimPrefix(m[1], "sudo "), "bin/")
				all = append(all, example{where, words, false})
			}
		}
	}
	slices.SortFunc(all, func(a, b example) int { return strings.Compare(a.where, b.where) })
	return all
}

// placeholder is a word that stands for something of the reader's.
var placeholder = regexp.MustCompile(`\b[A-Z][A-Z_]{1,}(\.[a-z.]+)?\b|…`)

// asked is what a shell puts in place of a command, or the reader in place of a word,
// that must be a number.
var asked = regexp.MustCompile(`"?\$\([^)]*\)"?|\bPID\b`)

// TestDocsParse holds that no document shows a verb, flag or make target that
// does not exist.
func TestDocsParse(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range examples(t) {
		words := strings.Fields(strings.NewReplacer("'", "", `"`, "").Replace(asked.ReplaceAllString(e.words, "1")))
		verb := words[0]
		seen[verb+" "+words[min(1, len(words)-1)]] = true
		if verb == "make" {
			for _, target := range words[1:] {
				if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile) {
					t.Errorf("%s: make has no target %s", e.where, target)
				}
			}
			continue
		}
		if i := slices.IndexFunc(words, func(w string) bool { return w == "|" || w == ">" || w == "…" }); i >= 0 {
			words = words[:i]
		}
		if i := slices.Index(words, "--"); i >= 0 { // what follows is no flag of gate's
			words = words[:i]
		}
		// Help hides a wrong verb, and so do arguments.
		for i := 1; i < len(words) && (i == 1 || i == 2 && words[1] == "baseline"); i++ {
			if verbs := help(t, words[1:i]...); !regexp.MustCompile(`(?m)^  `+regexp.QuoteMeta(words[i])+` `).MatchString(verbs) && !strings.HasPrefix(words[i], "-") {
				t.Errorf("%s: %s: no verb %s", e.where, e.words, words[i])
			}
		}
		// Help comes after all other flags were understood.
		if out, err := exec.Command("gate", append(words[1:], "--help")...).CombinedOutput(); err != nil {
			t.Errorf("%s: %s: %v\n%s", e.where, e.words, err, out)
		}
	}
	// The net has no holes: these are shown, so they must have been found.
	for _, want := range []string{"make demo", "make test", "gate run", "gate compare", "gate baseline", "gate doctor"} {
		if !seen[want] {
			t.Errorf("found no example of %q in the documents", want)
		}
	}
}

// TestDocsRun runs every gate command that stands in a block, in a repository
// that has all the files that the documents speak of. It may fail the change
// (exit 1) or not decide (4); a usage error or that nothing could be measured
// are mistakes of the document.
func TestDocsRun(t *testing.T) {
	var script, virtual strings.Builder
	script.WriteString(docsSetup)
	virtual.WriteString(docsSetup + docsKernels)
	ran := 0
	done := map[string]bool{}
	for _, e := range examples(t) {
		if !e.block || !strings.HasPrefix(e.words, "gate ") || done[e.words] {
			continue
		}
		done[e.words] = true
		words := e.words
		// What needs more than this directory is parsed only, above.
		if placeholder.MatchString(strings.ReplaceAll(words, "HEAD", "")) || strings.Contains(words, "gate noise") || atWork.MatchString(words) || strings.Contains(words, " -- ") {
			continue
		}
		if i := strings.Index(words, "/usr/lib/"); i >= 0 {
			if _, err := os.Stat(strings.Fields(words[i:])[0]); err != nil {
				continue
			}
		}
		to := &script
		if strings.Contains(words, "--kernel") {
			to = &virtual
		}
		fmt.Fprintf(to, "\n# %s\nshown %s\n", e.where, quote(words))
		ran++
	}
	if ran < 8 {
		t.Fatalf("only %d examples to run", ran)
	}
	var files []string
	for name, text := range map[string]string{"docs": script.String(), "docs-kernels": virtual.String()} {
		file := filepath.Join(t.TempDir(), name+".txtar")
		if err := os.WriteFile(file, []byte(text+docsFiles), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	slices.Sort(files)
	runScripts(t, testscript.Params{Files: files})
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// shown runs a command line of a document with a shell.
func shown(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shown COMMAND")
	}
	switch code := exitCode(ts, ts.Exec("bash", "-o", "pipefail", "-c", args[0])); code {
	case 0, 1, 4:
	default:
		ts.Fatalf("exit code %d", code)
	}
}

const docsSetup = `require bpf test-run netns clang git
exec git init -q repo
cd repo
mkdir examples
exec cp -r $EXAMPLE examples/fun-xdp
exec sh -c 'cp -r $TOP/examples/profiler examples/ && rm -f examples/profiler/*.test examples/profiler/*/*.test'
exec sh -c 'printf "module github.com/org/ebpf-bench-gate\n\ngo 1.25\n" >go.mod'
exec sh -c 'cp examples/fun-xdp/fun_xdp.h .; cp examples/fun-xdp/v2_fizzbuzz.bpf.c old.bpf.c; cp examples/fun-xdp/v3_fibonacci.bpf.c new.bpf.c'
exec sh -c 'cp old.bpf.c v2.bpf.c; cp new.bpf.c v3.bpf.c; cp old.bpf.c prog.bpf.c'
exec sh -c 'for n in old new; do clang -O2 -g -target bpf -idirafter /usr/include/$(uname -m)-linux-gnu -c $n.bpf.c -o $n.o || exit; done; cp new.o program.o'
cp $WORK/ebpf-bench.yml ebpf-bench.yml
exec git add .
exec git commit -qm v2
exec git update-ref refs/remotes/origin/main HEAD
exec git switch -qc change
cp new.bpf.c prog.bpf.c
exec git commit -qam v3
s3
mkrun base.json id=b1 benchmark=fun_xdp/worst
mkrun head.json id=h2 benchmark=fun_xdp/worst
exec gzip -k base.json head.json
exec sh -c 'mkdir target; cp -r $TOP/internal/adapter/testdata/criterion target/; cp $TOP/internal/adapter/testdata/gobench.txt old.txt; cp old.txt new.txt'
`

// docsKernels is what commands with --kernel need besides.
const docsKernels = `kernels 6.12 6.1
exec sh -c 'set -- "$XDG_CACHE_HOME"/ebpf-bench-gate/kernels/6.12.*; cp "$1"/kernel bzImage'
`

const docsFiles = `
-- ebpf-bench.yml --
version: 1
programs: {fun_xdp: {object: prog.bpf.c}}
benchmarks:
  fun_xdp/worst: {packets: {ipv4: {src: 1.255.255.255}}, drain: [SOURCE_ADDR_QUEUE], expect: XDP_PASS}
`
