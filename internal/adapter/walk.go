package adapter

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
)

// maxDepth is how deep JSON may be nested.
const maxDepth = 1000

// A walker reads JSON value by value, as a stream. Its methods end the reading where
// the value is of another kind.
type walker struct {
	*source
	d     *json.Decoder
	from  int64 // where the last token began, or before it
	depth int
	// held is a token that was read and is to be read again.
	held  json.Token
	holds bool
}

func (s *source) walker() *walker {
	s.in.track = true
	w := &walker{source: s, d: json.NewDecoder(s.in)}
	w.d.UseNumber()
	s.at = w.place
	return w
}

// place is where the last token began.
func (w *walker) place() (line, col int) { return w.in.place(w.from) }

// walk reads a file that is one JSON value.
func (s *source) walk(value func(w *walker)) {
	w := s.walker()
	value(w)
	if t, err := w.d.Token(); err == nil || !errors.Is(err, io.EOF) {
		w.placeEnd(t, err)
		s.fail("there is more after the end")
	}
}

// stream reads a file that is one JSON value after the other.
func (s *source) stream(value func(w *walker)) {
	for w := s.walker(); w.more(); {
		value(w)
	}
}

// more tells whether a stream has another value.
func (w *walker) more() bool {
	if w.d.More() {
		return true
	}
	if t, err := w.d.Token(); !errors.Is(err, io.EOF) {
		w.placeEnd(t, err)
		if err == nil {
			w.fail("expected an object")
		}
		w.broken(err)
	}
	return false
}

// token is the next one.
func (w *walker) token() json.Token {
	if w.holds {
		w.holds = false
		return w.held
	}
	w.in.pass(w.d.InputOffset())
	t, err := w.d.Token()
	if err != nil {
		w.placeEnd(nil, err)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		w.broken(err)
	}
	w.placeEnd(t, nil)
	return t
}

// placeEnd remembers where a token began, as well as its end tells.
func (w *walker) placeEnd(t json.Token, err error) {
	end := w.d.InputOffset()
	var syntax *json.SyntaxError
	switch t := t.(type) {
	case json.Number:
		end -= int64(len(t))
	case string:
		end -= int64(len(t)) + 2
	case json.Delim:
		end--
	}
	if errors.As(err, &syntax) {
		end = max(end, syntax.Offset-1)
	} else if err != nil {
		end = w.in.read
	}
	w.from = max(end, w.in.done)
}

func describe(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "a list"
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	}
	return "null"
}

// object calls each with every key; each must read the value.
func (w *walker) object(what string, each func(key string)) {
	t := w.token()
	if t != json.Delim('{') {
		w.fail("%s: expected an object, not %s", what, describe(t))
	}
	w.enter()
	for w.d.More() {
		each(w.token().(string))
	}
	w.token()
	w.depth--
}

// list calls each before every element; each must read it.
func (w *walker) list(what string, each func()) {
	t := w.token()
	if t != json.Delim('[') {
		w.fail("%s: expected a list, not %s", what, describe(t))
	}
	w.enter()
	for w.d.More() {
		each()
	}
	w.token()
	w.depth--
}

func (w *walker) enter() {
	if w.depth++; w.depth > maxDepth {
		w.fail("nested more than %d deep", maxDepth)
	}
}

// float reads a number.
func (w *walker) float(what string) float64 {
	t := w.token()
	n, ok := t.(json.Number)
	if !ok {
		w.fail("%s: expected a number, not %s", what, describe(t))
	}
	v, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		w.fail("%s: %.40s is no number that can be held", what, n)
	}
	return v
}

// perhaps reads a value that is NaN where it is no number.
func (w *walker) perhaps() float64 {
	v := math.NaN()
	w.any(func(t json.Token) {
		if n, ok := t.(json.Number); ok {
			if f, err := strconv.ParseFloat(string(n), 64); err == nil {
				v = f
			}
		}
	})
	return v
}

// text reads a value that is empty where it is no text. A number is as it is written.
func (w *walker) text() string {
	s := ""
	w.any(func(t json.Token) {
		switch t := t.(type) {
		case string:
			s = t
		case json.Number:
			s = t.String()
		}
	})
	return s
}

// skip reads a value whatever it is.
func (w *walker) skip() { w.any(func(json.Token) {}) }

// any reads a value whatever it is, and shows it where it is no object or list.
func (w *walker) any(scalar func(json.Token)) {
	t := w.token()
	if _, ok := t.(json.Delim); !ok {
		scalar(t)
		return
	}
	for open := 1; open > 0; {
		switch t, _ := w.token().(json.Delim); t {
		case '{', '[':
			if open++; w.depth+open > maxDepth {
				w.fail("nested more than %d deep", maxDepth)
			}
		case '}', ']':
			open--
		}
	}
}

// fields reads an object whose keys are known; all other values are skipped.
func (w *walker) fields(what string, known map[string]func()) {
	w.object(what, func(key string) {
		if read := known[key]; read != nil {
			read()
		} else {
			w.skip()
		}
	})
}

// maxFloats limits a list of numbers that is read at once.
const maxFloats = 1_000_000

// floats reads a list of numbers.
func (w *walker) floats(what string) []float64 {
	var all []float64
	w.list(what, func() {
		if len(all) >= maxFloats {
			w.fail("%s: more than %d numbers", what, maxFloats)
		}
		all = append(all, w.float(what))
	})
	return all
}

// fieldsOrNull reads an object as [walker.fields] does, or null.
func (w *walker) fieldsOrNull(what string, known map[string]func()) {
	if t := w.token(); t != nil {
		w.held, w.holds = t, true
		w.fields(what, known)
	}
}
