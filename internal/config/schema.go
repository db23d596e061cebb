package config

import (
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Key is a key of the language: what the reference, `gate config explain`, the
// completion of flags and the JSON Schema say of it. The readers are the language;
// a test holds that both know the same keys.
type Key struct {
	Name string
	// About is one or more sentences of markdown, without the full stop of the last.
	About string
	// Default is what it is where it is not written, as markdown; empty: nothing.
	Default string
	// Shape is what may stand there.
	Shape Shape
	// Required keys have no default, and must stand there.
	Required bool
}

// A Shape is what may stand at a place of a config.
type Shape struct {
	// Is names a shape that stands at many places, so that the schema has it once.
	Is string
	// Words are all that may stand there; or the answers that are known, where
	// Pattern allows others.
	Words []string
	// Pattern is a regular expression (of ECMA 262 and Go) that a scalar matches.
	Pattern string
	// Keys are those of a mapping whose keys are known.
	Keys []Key
	// Named is what each value of a mapping of names is; NamePattern is what its
	// names match, NameIs what they are called.
	Named               *Shape
	NamePattern, NameIs string
	// Items is what each element of a list is.
	Items *Shape
	// Or are shapes of which one may stand there; nothing else is beside it but Is.
	Or []Shape
}

// SchemaURL is where the schema of this version of the language is published.
const SchemaURL = "https://raw.githubusercontent.com/org/ebpf-bench-gate/v1/docs/ebpf-bench.schema.json"

// JSONSchema is the language as JSON Schema, for editors: draft 7, which all of them
// know. It is as strict as a schema can be without knowing what is in objects: what it
// accepts [Parse] may still refuse, and what it refuses [Parse] does, too.
func JSONSchema() []byte {
	d := definitions{}
	s := d.schema(Language())
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["$id"] = SchemaURL
	s["title"] = "ebpf-bench.yml"
	s["description"] = "What ebpf-bench-gate builds, measures and judges"
	s["definitions"] = d
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		panic(err) // maps of strings
	}
	return append(b, '\n')
}

// definitions are the shapes with a name.
type definitions map[string]any

func (d definitions) schema(s Shape) map[string]any {
	if name := s.Is; name != "" {
		if d[name] == nil {
			s.Is = ""
			d[name] = d.schema(s)
		}
		return map[string]any{"allOf": []any{map[string]any{"$ref": "#/definitions/" + name}}}
	}
	if len(s.Or) > 0 {
		var all []any
		for _, alt := range s.Or {
			all = append(all, d.schema(alt))
		}
		return map[string]any{"anyOf": all}
	}
	switch {
	case s.Keys != nil || s.Named != nil:
		return d.object(s)
	case s.Items != nil:
		return map[string]any{"type": "array", "items": d.schema(*s.Items)}
	case s.Words != nil && s.Pattern == "":
		return map[string]any{"enum": scalars(s.Words)}
	case s.Words != nil:
		return map[string]any{"anyOf": []any{map[string]any{"enum": scalars(s.Words)}, scalar(s.Pattern)}}
	case s.Pattern != "":
		return scalar(s.Pattern)
	default:
		return map[string]any{}
	}
}

func (d definitions) object(s Shape) map[string]any {
	out := map[string]any{"type": "object", "additionalProperties": false}
	var required []string
	properties := map[string]any{}
	for _, k := range s.Keys {
		p := d.schema(k.Shape)
		p["description"] = k.text()
		properties[k.Name] = p
		if k.Required {
			required = append(required, k.Name)
		}
	}
	if len(properties) > 0 {
		out["properties"] = properties
	}
	if required != nil {
		out["required"] = required
	}
	if s.Named != nil {
		out["patternProperties"] = map[string]any{s.NamePattern: d.schema(*s.Named)}
	}
	return out
}

// text is the description of a key in one piece.
func (k Key) text() string {
	text := strings.ToUpper(k.About[:1]) + k.About[1:] + "."
	if k.Default != "" {
		text += " Default: " + k.Default + "."
	}
	return text
}

// scalars are words as YAML reads them: true is no text there.
func scalars(words []string) []any {
	var out []any
	for _, w := range words {
		switch n, err := strconv.Atoi(w); {
		case w == "true" || w == "false":
			out = append(out, w == "true")
		case err == nil:
			out = append(out, n, w)
		default:
			out = append(out, w)
		}
	}
	return out
}

// scalar is text of a pattern, or a number where digits alone would do: editors read
// 10 as a number and 10s as text.
func scalar(pattern string) map[string]any {
	if pattern == anything {
		return map[string]any{"type": []string{"string", "number", "boolean"}}
	}
	if p := regexp.MustCompile(pattern); p.MatchString("1") || p.MatchString("1.5") {
		return map[string]any{"type": []string{"string", "number"}, "pattern": pattern}
	}
	return map[string]any{"type": "string", "pattern": pattern}
}

// Lookup finds a key by its path: "benchmarks.work.rate". Names of programs, benchmarks
// and the like may stand in it or be left out. The error says which part is unknown.
func Lookup(path string) (Key, error) {
	at := Key{Name: "the config", Shape: Language()}
	parts := strings.Split(path, ".")
	for i, part := range parts {
		next, ok := at.Shape.key(part)
		switch {
		case ok:
			at = next
		case at.Shape.named() != nil && i < len(parts)-1:
			at = Key{Name: at.Name, About: at.About, Shape: *at.Shape.named()} // a name of the user's
		default:
			names := slices.Sorted(at.Shape.names())
			if len(names) == 0 {
				return Key{}, &unknownKey{fmt.Errorf("%s has no keys", at.Name), ""}
			}
			return Key{}, &unknownKey{fmt.Errorf("unknown key %s in %s", quote(part), at.Name), expected(part, names)}
		}
	}
	return at, nil
}

type unknownKey struct {
	error
	hint string
}

func (u *unknownKey) Hint() string { return u.hint }

// Alternatives are the shapes of which one may stand there.
func (s Shape) Alternatives() []Shape {
	if s.Or == nil {
		return []Shape{s}
	}
	var out []Shape
	for _, o := range s.Or {
		out = append(out, o.Alternatives()...)
	}
	return out
}

// All are the keys that may stand there, or below the names or in the elements that do,
// whichever shape it has.
func (s Shape) All() []Key {
	var out []Key
	for _, alt := range s.Alternatives() {
		if out = append(out, alt.Keys...); alt.Keys != nil {
			continue
		}
		for _, in := range []*Shape{alt.Named, alt.Items} {
			if in != nil {
				out = append(out, in.All()...)
			}
		}
	}
	return out
}

func (s Shape) key(name string) (Key, bool) {
	all := s.All()
	i := slices.IndexFunc(all, func(k Key) bool { return k.Name == name })
	if i < 0 {
		return Key{}, false
	}
	return all[i], true
}

func (s Shape) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, k := range s.All() {
			if !yield(k.Name) {
				return
			}
		}
	}
}

func (s Shape) named() *Shape {
	for _, alt := range s.Alternatives() {
		if alt.Named != nil {
			return alt.Named
		}
	}
	return nil
}
