// Package layers_test holds the import rule of docs/architecture.md. It stands at
// the top because it looks at every room.
package layers_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/org/ebpf-bench-gate"

// rooms holds which rooms of the project a room may import, as
// docs/architecture.md says. A package belongs to the room with the longest
// path that is its own or above it; it may always import from its own room.
var rooms = map[string][]string{
	"bench":               {},
	"stats":               {},
	"bpf":                 {"bench", "internal/netns", "internal/english"},
	"gate":                {"bench", "stats"},
	"internal/netns":      {},
	"internal/english":    {},
	"internal/packet":     {},
	"internal/testkernel": {},
	"internal/vm":         {},
	"internal/config":     {"bench", "gate", "internal/packet", "internal/english", "internal/adapter"},
	"internal/build":      {"bench"},
	"internal/work":       {"bench", "internal/build", "internal/netns"},
	"internal/store":      {"bench"},
	"internal/push":       {"bench", "internal/adapter"},
	"internal/site":       {"bench", "gate", "stats"},
	"internal/adapter":    {"bench", "stats", "internal/openmetrics"},
	"internal/render":     {"gate", "bench", "internal/english", "internal/openmetrics", "internal/plot"},
	"internal/github":     {"bench", "gate", "internal/store", "internal/english"},
	"internal/agent":      {"bench", "bpf"},
	"internal/harness":    {"bench", "internal/build", "internal/adapter"},
	"internal/runner":     {"bench", "bpf", "gate", "internal/agent", "internal/work", "internal/harness"},
	"internal/cover":      {"bench", "internal/english"},
	"internal/symbol":     {},
	"internal/profile":    {"internal/symbol", "internal/english"},
	"internal/verifier":   {"bench", "bpf", "internal/render"},
	"internal/action":     {"bench", "internal/config", "internal/build", "internal/store"},
	"internal/statistics": {"bench", "stats", "gate"},
	"internal/kerneltest": {"internal/vm", "internal/testkernel"},
	"internal/record":     {"bench", "stats", "bpf", "gate", "internal/build", "internal/config", "internal/runner"},
	"internal/figures": {"bench", "stats", "bpf", "gate", "internal/build", "internal/config", "internal/runner", "internal/netns",
		"internal/packet", "internal/work", "internal/verifier", "internal/store", "internal/render"},
	"internal/cli": {"bench", "stats", "bpf", "gate", "internal/packet", "internal/config", "internal/build",
		"internal/store", "internal/render", "internal/cover", "internal/github", "internal/runner", "internal/action", "internal/agent", "internal/work", "internal/vm", "internal/verifier", "internal/adapter", "internal/symbol", "internal/profile", "docs", "internal/push", "internal/site", "internal/plot", "internal/english"},
	"cmd":      {"internal/cli"},
	"docs":     {},
	"examples": {},
	"scripts":  {},
	"test":     {"internal/cli", "internal/vm", "bench"},

	"internal/openmetrics": {},
	"internal/plot":        {"bench", "gate", "stats"},
}

// libraries holds the third-party libraries of the pure rooms, which must run on
// any operating system and be easy to trust. Rooms that are not listed are free.
var libraries = map[string][]string{
	"bench": {},
	"stats": {"gonum.org/v1/gonum"},
	"gate":  {},
	"cmd":   {},
}

// forTests are rooms that the tests of every room may import besides their own.
var forTests = []string{"internal/testkernel", "internal/packet"}

// A file is what the rule looks at in a Go file.
type file struct {
	name    string // slash-separated, from the top
	doc     bool   // it has a package comment
	imports []string
}

func (f file) dir() string { return path.Dir(f.name) }
func (f file) test() bool  { return strings.HasSuffix(f.name, "_test.go") }

func roomOf(p string) string {
	for ; p != "." && p != "/"; p = path.Dir(p) {
		if _, ok := rooms[p]; ok {
			return p
		}
	}
	return ""
}

// TestImports holds the import directions.
func TestImports(t *testing.T) {
	for _, f := range sources(t) {
		if f.dir() == "." {
			continue // this test
		}
		for _, complaint := range judge(f) {
			t.Error(complaint)
		}
	}
}

// judge tells what a file imports and may not.
func judge(f file) (complaints []string) {
	room := roomOf(f.dir())
	if room == "" {
		return []string{f.name + ": in no room; see docs/architecture.md"}
	}
	for _, imp := range f.imports {
		if inner, ok := strings.CutPrefix(imp, module+"/"); ok {
			to := roomOf(inner)
			allowed := to == room || slices.Contains(rooms[room], to) || f.test() && slices.Contains(forTests, to)
			if !allowed {
				complaints = append(complaints, f.name+": "+room+" may not import "+inner)
			}
			continue
		}
		first, _, _ := strings.Cut(imp, "/")
		if !strings.Contains(first, ".") || f.test() {
			continue // the standard library
		}
		allowed, pure := libraries[room]
		if pure && !slices.ContainsFunc(allowed, func(lib string) bool { return imp == lib || strings.HasPrefix(imp, lib+"/") }) {
			complaints = append(complaints, f.name+": "+room+" may not import the library "+imp)
		}
	}
	return complaints
}

// TestJudge checks that the rule can fail.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name string
		imp  string
		want string
	}{
		{"bpf/load.go", module + "/bench", ""},
		{"bpf/c/gen.go", module + "/bpf", ""},
		{"bpf/load.go", module + "/gate", "bpf may not import gate"},
		{"gate/report.go", module + "/bpf/c", "gate may not import bpf/c"},
		{"gate/report_test.go", module + "/bpf", "gate may not import bpf"},
		{"bpf/load_test.go", module + "/internal/testkernel", ""},
		{"bpf/load.go", module + "/internal/testkernel", "bpf may not import internal/testkernel"},
		{"gate/report.go", "github.com/cilium/ebpf", "gate may not import the library github.com/cilium/ebpf"},
		{"stats/t.go", "gonum.org/v1/gonum/stat", ""},
		{"stats/t.go", "gonum.org/v1/gonumerals", "stats may not import the library gonum.org/v1/gonumerals"},
		{"bpf/load.go", "github.com/cilium/ebpf", ""},
		{"bench/run.go", "encoding/json", ""},
		{"attic/a.go", "fmt", "in no room"},
	} {
		got := strings.Join(judge(file{name: tt.name, imports: []string{tt.imp}}), "; ")
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s importing %s: %q, want %q", tt.name, tt.imp, got, tt.want)
		}
	}
}

// TestPackageComments holds that every package says what it is.
func TestPackageComments(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range sources(t) {
		if !f.test() {
			documented[f.dir()] = documented[f.dir()] || f.doc
		}
	}
	if len(documented) < 3 {
		t.Fatalf("only found the packages %v", slices.Collect(maps.Keys(documented)))
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// sources reads the package clause, comment and imports of every Go file, build
// constraints or not: a rule that holds on Linux only is none.
func sources(t *testing.T) []file {
	t.Helper()
	var all []file
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && name != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(fset, name, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		f := file{name: filepath.ToSlash(name), doc: parsed.Doc != nil}
		for _, imp := range parsed.Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, p)
		}
		all = append(all, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("only found the Go files %v", all)
	}
	return all
}
