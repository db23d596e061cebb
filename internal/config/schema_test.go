package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

const schemaFile = "../../docs/ebpf-bench.schema.json"

// The published schema is that of this language.
func TestSchemaFile(t *testing.T) {
	if *update {
		if err := os.WriteFile(schemaFile, JSONSchema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, JSONSchema()) {
		t.Errorf("%s is not that of the language; run go test ./internal/config -run Schema -update", schemaFile)
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaURL, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaURL)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asEditors reads YAML as editors do: dates are text, numbers are numbers.
func asEditors(t *testing.T, src []byte) any {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal(src, &n); err != nil {
		t.Fatal(err)
	}
	var plain func(n *yaml.Node) any
	plain = func(n *yaml.Node) any {
		switch n.Kind {
		case yaml.DocumentNode:
			return plain(n.Content[0])
		case yaml.AliasNode:
			return plain(n.Alias)
		case yaml.MappingNode:
			m := map[string]any{}
			for k, v := range pairs(n) {
				m[k.Value] = plain(v)
			}
			return m
		case yaml.SequenceNode:
			l := []any{}
			for _, e := range n.Content {
				l = append(l, plain(e))
			}
			return l
		}
		switch n.Tag {
		case "!!int", "!!float":
			if json.Valid([]byte(n.Value)) {
				return json.Number(n.Value)
			}
		case "!!bool":
			return n.Value == "true"
		case "!!null":
			return nil
		}
		return n.Value
	}
	return plain(&n)
}

// What the readers accept, the schema accepts: editors mark nothing that is right.
func TestSchemaAccepts(t *testing.T) {
	s := compiled(t)
	n := 0
	for _, pattern := range []string{"../../docs/*.md", "../../README.md", "../../examples/*/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || files == nil {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks := [][][]byte{{nil, text}}
			if strings.HasSuffix(file, ".md") {
				blocks = regexp.MustCompile("(?s)```yaml\n(version: 1\n.*?)```").FindAllSubmatch(text, -1)
			}
			for _, block := range blocks {
				n++
				if err := s.Validate(asEditors(t, block[1])); err != nil {
					t.Errorf("%s: %v\nin\n%s", file, err, block[1])
				}
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d configs found", n)
	}
}

// And it refuses what is plainly wrong.
func TestSchemaRefuses(t *testing.T) {
	s := compiled(t)
	for _, bad := range []string{
		`{}`,
		`{version: 2}`,
		`{version: 1, progs: {}}`,
		`{version: 1, programs: {x: {}}}`,
		`{version: 1, benchmarks: {x: {}}}`,
		`{version: 1, benchmarks: {x/y: {repaet: 1}}}`,
		`{version: 1, benchmarks: {x/y: {repeat: many}}}`,
		`{version: 1, benchmarks: {x/y: {restore: packets}}}`,
		`{version: 1, policy: {latency: {fail: lots}}}`,
		`{version: 1, policy: {latncy: {fail: 5%}}}`,
		`{version: 1, policy: {preset: stric}}`,
		`{version: 1, policy: {"latency[x]": {fail: 5%}}}`,
		`{version: 1, policy: {waivers: [{benchmark: x/y, max: {latency: 5%}, until: soon, reason: r}]}}`,
		`{version: 1, kernels: [six]}`,
	} {
		if s.Validate(asEditors(t, []byte(bad))) == nil {
			t.Errorf("the schema accepts %s", bad)
		}
		if _, err := Parse(FileName, []byte(bad)); err == nil {
			t.Errorf("Parse accepts %s", bad)
		}
	}
}

// The language and its readers know the same keys, everywhere.
func TestLanguageIsRead(t *testing.T) {
	const unknown = "qqqqqqqqqqqqqqqq"
	places := 0
	var visit func(path string, s Shape, wrap func(any) any)
	visit = func(path string, s Shape, wrap func(any) any) {
		for _, alt := range s.Alternatives() {
			if alt.Keys != nil {
				places++
				holder := map[string]any{unknown: 1}
				var want []string
				for _, k := range alt.Keys {
					want = append(want, k.Name)
					if k.Name == "test" && k.Required { // the other keys depend on it
						holder["test"] = "t_test"
					}
				}
				slices.Sort(want)
				// {hex: …} is told by its one key, before others are looked at.
				if got := known(t, wrap(holder), unknown); !slices.Equal(got, want) && !slices.Equal(want, []string{"hex"}) {
					t.Errorf("%s: the readers know %v, the language has %v", path, got, want)
				}
			}
			for _, k := range alt.Keys {
				visit(path+"."+k.Name, k.Shape, func(v any) any { return wrap(map[string]any{k.Name: v}) })
			}
			if alt.Named != nil {
				name := map[string]string{"PROGRAM/CASE": "x/y", "MEASURE[MEMBER]": "calls[x]"}[alt.NameIs]
				if name == "" {
					name = "x"
				}
				if !regexp.MustCompile(alt.NamePattern).MatchString(name) {
					t.Fatalf("%s: %s is not %s", path, name, alt.NamePattern)
				}
				visit(path+"."+alt.NameIs, *alt.Named, func(v any) any { return wrap(map[string]any{name: v}) })
			}
			if alt.Items != nil {
				visit(path+"[]", *alt.Items, func(v any) any { return wrap([]any{v}) })
			}
		}
	}
	visit("", Language(), func(v any) any { return v })
	if places < 40 {
		t.Errorf("only %d mappings visited", places)
	}
}

// known are the keys that the readers would have expected in the place of one.
func known(t *testing.T, doc any, unknown string) []string {
	t.Helper()
	src, err := json.Marshal(doc) // which is YAML
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse(FileName, src)
	var ds Diagnostics
	if !errors.As(err, &ds) {
		t.Fatalf("%s: %v", src, err)
	}
	for _, d := range ds {
		if names, ok := strings.CutPrefix(d.Hint, "expected one of "); ok && strings.Contains(d.Message, unknown) {
			return strings.Split(names, ", ")
		}
	}
	t.Fatalf("%s: no key is unknown: %v", src, err)
	return nil
}

// The tables of the reference are those of the language.
func TestReference(t *testing.T) {
	const file = "../../docs/config.md"
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	got := regexp.MustCompile(`(?s)(<!-- keys ([a-z.]+)( [a-z_ ]+)? -->\n).*?(<!-- end -->)`).ReplaceAllFunc(old, func(m []byte) []byte {
		tables++
		head, _, _ := strings.Cut(string(m), "\n")
		words := strings.Fields(strings.Trim(head, "<!->"))
		k, err := Lookup(words[1])
		if err != nil {
			t.Fatal(err)
		}
		all := k.Shape.All()
		if names := words[2:]; len(names) > 0 {
			all = slices.DeleteFunc(all, func(k Key) bool { return !slices.Contains(names, k.Name) })
			if len(all) != len(names) {
				t.Fatalf("%s: not all of %v", words[1], names)
			}
		}
		return []byte(head + "\n" + table(all) + "<!-- end -->")
	})
	if tables < 8 {
		t.Errorf("only %d tables", tables)
	}
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(got, old) {
		t.Errorf("the tables of %s are not those of the language; run go test ./internal/config -run Reference -update", file)
	}
}

func table(all []Key) string {
	var b strings.Builder
	b.WriteString("| key | what it is | default |\n|---|---|---|\n")
	for _, k := range all {
		about, def := k.About, k.Default
		if k.Required {
			def = "required"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, about, def)
	}
	return b.String()
}

func TestLookup(t *testing.T) {
	for path, want := range map[string]string{
		"policy": "policy", "policy.latency.fail": "fail", "benchmarks.work.rate": "rate", "benchmarks.lb/new.work.rate": "rate",
		"agents.ready.stable": "stable", "programs.maps.max_entries": "max_entries", "policy.waivers.until": "until", "policy.calls[x].max.warn": "warn",
	} {
		if k, err := Lookup(path); err != nil || k.Name != want {
			t.Errorf("%s: %s, %v", path, k.Name, err)
		}
	}
	for path, want := range map[string]string{
		"polcy": "did you mean policy?", "policy.latency.fial": "did you mean fail?", "": "expected one of", "benchmarks.work.rate.x": "",
	} {
		_, err := Lookup(path)
		h, ok := err.(interface{ Hint() string })
		if !ok || !strings.HasPrefix(h.Hint(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
