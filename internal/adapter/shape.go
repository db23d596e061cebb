package adapter

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// A shape is what the beginning of a file shows of its format.
type shape struct {
	text []byte
	json bool
	list bool // the outermost value is a list
	// keys are those of the outermost object, or of the first object of the
	// outermost list; inner those one level below, whoever has them, and deep those
	// below them.
	keys, inner, deep map[string]bool
}

// shapeOf looks at as much of the JSON as there is. A cut-off file has the shape of
// its beginning.
func shapeOf(head []byte) shape {
	s := shape{text: head, keys: map[string]bool{}, inner: map[string]bool{}, deep: map[string]bool{}}
	trimmed := bytes.TrimLeft(head, " \t\r\n\ufeff")
	if len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' {
		return s
	}
	s.json, s.list = true, trimmed[0] == '['
	d := json.NewDecoder(bytes.NewReader(trimmed))
	levels := []map[string]bool{s.keys, s.inner, s.deep}
	type open struct{ object, value bool } // value: a key stands before
	var stack []open
	objects := 0
	for {
		t, err := d.Token()
		if err != nil {
			return s
		}
		switch t := t.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				stack = append(stack, open{object: t == '{'})
				if t == '{' {
					objects++
				}
				continue
			}
			if len(stack) > 0 && stack[len(stack)-1].object {
				objects--
			}
			stack = stack[:max(0, len(stack)-1)]
		case string:
			if n := len(stack); n > 0 && stack[n-1].object && !stack[n-1].value {
				if objects <= len(levels) {
					levels[objects-1][t] = true
				}
				stack[n-1].value = true
				continue
			}
		}
		if n := len(stack); n > 0 {
			stack[n-1].value = false
		}
	}
}

func (s shape) has(expr *regexp.Regexp) bool { return !s.json && expr.Match(s.text) }
