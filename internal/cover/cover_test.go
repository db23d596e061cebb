package cover

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ebpf-bench-gate/bench"
)

var update = flag.Bool("update", false, "write testdata anew")

// example is two programs that hold a copy of one function, and code of a header.
func example() []bench.Coverage {
	step := func(calls uint64) bench.FunctionCoverage {
		return bench.FunctionCoverage{
			Name: "step", File: "./src/prog.bpf.c", Line: 3, Calls: calls, Insns: 4 * calls, Size: 5, Reached: 4, Blocks: 3, BlocksReached: 2,
			Lines: []bench.LineCoverage{
				{File: "./src/prog.bpf.c", Line: 4, Text: "\tif (n > 7)", Executions: calls, Insns: 2 * calls, Size: 2, Reached: 2},
				{File: "./src/prog.bpf.c", Line: 5, Text: "\t\tn = 0;", Size: 1},
				{File: "./src/prog.bpf.c", Line: 6, Text: "\treturn n;", Executions: calls, Insns: 2 * calls, Size: 2, Reached: 2},
			},
			Branches: []bench.BranchCoverage{{File: "./src/prog.bpf.c", Line: 4, Insn: 9, Not: calls, Known: true}},
		}
	}
	return []bench.Coverage{{
		Object: "prog.bpf.o", Benchmarks: []string{"one/a", "two/a"}, Runs: 3,
		Programs: []bench.ProgramCoverage{
			{Program: "one", Functions: []bench.FunctionCoverage{{
				Name: "one", File: "src/prog.bpf.c", Line: 11, Calls: 2, Insns: 12, Size: 6, Reached: 6, Blocks: 2, BlocksReached: 2,
				Lines: []bench.LineCoverage{
					{File: "src/prog.bpf.c", Line: 11, Text: "{", Executions: 2, Insns: 2, Size: 1, Reached: 1},
					{File: "src/len.h", Line: 2, Text: "\treturn end - data;", Executions: 2, Insns: 6, Size: 3, Reached: 3},
					{File: "src/prog.bpf.c", Line: 12, Text: "\treturn step(len(ctx));", Executions: 2, Insns: 4, Size: 2, Reached: 2},
				},
				Branches: []bench.BranchCoverage{{File: "src/prog.bpf.c", Line: 12, Insn: 3, Known: false}},
			}, step(2)}},
			{Program: "two", Functions: []bench.FunctionCoverage{
				{Name: "two", File: "src/prog.bpf.c", Line: 16, Calls: 1, Insns: 2, Size: 2, Reached: 2, Blocks: 1, BlocksReached: 1,
					Lines: []bench.LineCoverage{{File: "src/prog.bpf.c", Line: 17, Text: "\treturn step(1);", Executions: 1, Insns: 2, Size: 2, Reached: 2}}},
				step(1),
				{Name: "tick", File: "src/prog.bpf.c", Line: 20, Size: 2, Blocks: 1, Background: true,
					Lines: []bench.LineCoverage{{File: "src/prog.bpf.c", Line: 21, Size: 2}}},
			}},
		},
	}}
}

func TestGolden(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	source := "// what\n\nstatic int step(int n) {\n\tif (n > 7)\n\t\tn = 0;\n\treturn n;\n}\n\n\nint one(void *ctx)\n{\n\treturn step(len(ctx));\n}\n\nint two(void *ctx)\n{\n\treturn step(1);\n}\n\nint tick(void)\n{ return 0; }\n"
	if err := os.WriteFile(filepath.Join(dir, "src", "prog.bpf.c"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	r := New("prog.bpf.o", example())
	r.FindSources(dir)
	for name, write := range map[string]func(*strings.Builder) error{
		"table.txt": func(b *strings.Builder) error { return Text(b, r) },
		"cover.info": func(b *strings.Builder) error {
			err := LCOV(b, r)
			s := strings.ReplaceAll(b.String(), dir, "DIR")
			b.Reset()
			b.WriteString(s)
			return err
		},
		"page.html": func(b *strings.Builder) error { return HTML(b, r) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s is other than its golden file (go test ./internal/cover -update):\n%s", name, b.String())
		}
	}
}

// What lcov's own tools read in the tracefile.
func TestGenhtml(t *testing.T) {
	genhtml, err := exec.LookPath("genhtml")
	if err != nil {
		t.Skip("genhtml is not installed (apt-get install lcov)")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"src/prog.bpf.c": strings.Repeat("x\n", 21), "src/len.h": "a\nb\n"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info := filepath.Join(dir, "cover.info")
	out, err := os.Create(info)
	if err != nil {
		t.Fatal(err)
	}
	if err := LCOV(out, New("prog.bpf.o", example())); err != nil {
		t.Fatal(err)
	}
	out.Close()
	cmd := exec.CommandContext(t.Context(), genhtml, "--branch-coverage", "-o", "html", "cover.info")
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, want := range []string{"(6 of 8 lines)", "(3 of 4 functions)", "(1 of 2 branches)"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("genhtml does not say %q:\n%s", want, said)
		}
	}
}

// A source file is shown where it is what the object says, and lies where somebody
// said that sources are.
func TestFindSources(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("secret", "key\n")
	write("root/a.c", "int a;\n")
	write("root/changed.c", "int b;\n")
	write("root/sub/deep.c", "\n  int c;\n")
	if err := os.Symlink("../secret", filepath.Join(root, "link.c")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.c", filepath.Join(root, "inside.c")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		line       int
		found      bool
	}{
		{"a.c", "int a;", 1, true},
		{"./a.c", "  int a;", 1, true},
		{"/build/x/a.c", "int a;", 1, true},
		{filepath.Join(root, "a.c"), "int a;", 1, true},
		{"inside.c", "int a;", 1, true},
		{"build/sub/deep.c", "int c;", 2, true},
		{"deep.c", "int c;", 2, false}, // not at the top
		{"changed.c", "int a;", 1, false},
		{"a.c", "int a;", 7, false}, // no such line
		{"link.c", "key", 1, false},
		{"../secret", "key", 1, false},
		{filepath.Join(top, "secret"), "key", 1, false},
		{"sub", "", 1, false},
		{"..", "", 1, false},
		{"", "", 1, false},
	} {
		r := New("x", []bench.Coverage{{Programs: []bench.ProgramCoverage{{Functions: []bench.FunctionCoverage{{
			Lines: []bench.LineCoverage{{File: tt.name, Line: tt.line, Text: tt.text}},
		}}}}}})
		r.FindSources(filepath.Join(top, "absent"), root)
		if f := r.Files[0]; (f.Text != nil) != tt.found || strings.Contains(strings.Join(f.Text, ""), "key") {
			t.Errorf("%s:%d %q: %q from %q, %q", tt.name, tt.line, tt.text, f.Text, f.Source, r.Warnings)
		}
	}
}

// Whatever an object is called and holds, it is text.
func TestHostile(t *testing.T) {
	evil := "<script>alert(1)</script>\x1b[2J\u202e\nDA:1,1\r"
	r := New(evil, []bench.Coverage{{Object: evil, Benchmarks: []string{evil}, Programs: []bench.ProgramCoverage{{Program: evil, Functions: []bench.FunctionCoverage{{
		Name: evil, File: evil, Line: -4, Lines: []bench.LineCoverage{{File: evil, Line: -4, Text: evil}, {File: evil, Line: 1 << 30, Text: evil}},
		Branches: []bench.BranchCoverage{{File: evil, Line: 3, Known: true}},
	}}}}}})
	r.FindSources(".")
	var text, info, html strings.Builder
	for _, err := range []error{Text(&text, r), LCOV(&info, r), HTML(&html, r)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, s := range map[string]string{"text": text.String(), "info": info.String(), "html": html.String()} {
		if strings.ContainsAny(s, "\x1b\r") {
			t.Errorf("%s has control characters: %q", name, s)
		}
	}
	if strings.Contains(html.String(), "<script") || strings.ContainsRune(html.String()+text.String(), '\u202e') {
		t.Errorf("markup, or text that runs backwards: %s", html.String())
	}
	for line := range strings.Lines(info.String()) {
		if strings.HasPrefix(line, "DA:1,1") {
			t.Errorf("a name became a record: %q", info.String())
		}
	}
}
