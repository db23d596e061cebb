package render

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// suites is what [JSONs] writes.
type suites struct {
	// Verdict and Summary are those of all testbeds.
	Verdict gate.Verdict   `json:"verdict"`
	Summary string         `json:"summary"`
	Reports []*gate.Report `json:"reports"`
}

const (
	schemaDir = "../../docs"
	schemaURL = "https://raw.githubusercontent.com/org/ebpf-bench-gate/main/docs/"
)

// reflector makes schemas of the types and their comments. Fields may be added within
// a version, so that what is not known is allowed.
func reflector(t *testing.T) *jsonschema.Reflector {
	t.Helper()
	r := &jsonschema.Reflector{AllowAdditionalProperties: true, Mapper: func(t reflect.Type) *jsonschema.Schema {
		words := map[reflect.Type][]any{
			reflect.TypeFor[gate.Verdict]():  {"inconclusive", "pass", "improved", "regressed", "added", "missing"},
			reflect.TypeFor[bench.Better]():  {"lower", "higher"},
			reflect.TypeFor[bench.Outcome](): {"accepted", "rejected", "not loaded"},
		}[t]
		if words == nil {
			return nil
		}
		return &jsonschema.Schema{Type: "string", Enum: words}
	}}
	for _, dir := range []string{"bench", "gate"} {
		if err := r.AddGoComments("github.com/org/ebpf-bench-gate/internal/render", "../../"+dir); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestSchemas holds that the published schemas are those of the types; -update writes
// them.
func TestSchemas(t *testing.T) {
	for name, schema := range map[string]*jsonschema.Schema{
		"run.schema.json":    reflector(t).Reflect(&bench.Run{}),
		"report.schema.json": reflector(t).Reflect(&gate.Report{}),
	} {
		schema.ID = jsonschema.ID(schemaURL + name)
		schema.Title = map[string]string{"run.schema.json": "A run of gate", "report.schema.json": "A report of gate"}[name]
		if name == "report.schema.json" { // or those of several testbeds
			several := reflector(t).Reflect(&suites{})
			for k, v := range several.Definitions {
				if _, ok := schema.Definitions[k]; !ok {
					schema.Definitions[k] = v
				}
			}
			schema.AnyOf, schema.Ref = []*jsonschema.Schema{{Ref: schema.Ref}, {Ref: several.Ref}}, ""
		}
		got, err := json.MarshalIndent(schema, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		file := filepath.Join(schemaDir, name)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not the schema of the types: go test ./internal/render -run Schemas -update", file)
		}
	}
}

func compiled(t *testing.T, name string) *validator.Schema {
	t.Helper()
	s, err := validator.NewCompiler().Compile(filepath.Join(schemaDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *validator.Schema, text string) error {
	t.Helper()
	v, err := validator.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// TestJSONIsValid validates what is written by the published schemas, with another
// library than the one that made them.
func TestJSONIsValid(t *testing.T) {
	report, runs := compiled(t, "report.schema.json"), compiled(t, "run.schema.json")
	for name, r := range reports() {
		var one, several bytes.Buffer
		if err := JSON(&one, r); err != nil {
			t.Fatal(err)
		}
		if err := JSONs(&several, []*gate.Report{r, r}, 1); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{one.String(), several.String()} {
			if err := validate(t, report, text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		bad := strings.Replace(one.String(), `"verdict": "`, `"verdict": "un`, 1)
		if err := validate(t, report, bad); err == nil {
			t.Errorf("%s: an unknown verdict is valid", name)
		}
	}
	for _, id := range []string{"b", "h"} {
		var text bytes.Buffer
		if err := bench.Encode(&text, run(id, bench.Accepted, 1, 2)); err != nil {
			t.Fatal(err)
		}
		if err := validate(t, runs, text.String()); err != nil {
			t.Error(err)
		}
		if err := validate(t, runs, strings.Replace(text.String(), `"value"`, `"worth"`, 1)); err == nil {
			t.Error("a sample without a value is valid")
		}
	}
}
