package adapter

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
)

func isTestEvents(s shape) bool {
	return s.json && !s.list && s.keys["Action"] && (s.keys["Package"] || s.keys["ImportPath"])
}

// testEvents is the output in the events of go test -json (cmd/test2json) as text, each
// line whole: packages that are tested side by side write by turns, and a benchmark's line
// comes in two parts.
type testEvents struct {
	s     *source
	scan  *bufio.Scanner
	parts map[string][]byte // the beginnings of lines, by package
	open  int               // bytes of them
	pkg   string            // of the line that was given away last
	out   []byte            // what is to be given away
	n     int               // the event that was read last
	from  []int32           // of which event the lines are that were given away
}

func newTestEvents(s *source) *testEvents {
	e := &testEvents{s: s, scan: bufio.NewScanner(s.in), parts: map[string][]byte{}}
	e.scan.Buffer(nil, maxLine)
	s.at = e.place
	return e
}

type testEvent struct {
	Time                          time.Time
	Action, Package, Test, Output string
}

// Read implements [io.Reader].
func (e *testEvents) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if !e.scan.Scan() {
			return 0, cmp.Or(e.scan.Err(), io.EOF)
		}
		e.n++
		if line := bytes.TrimSpace(e.scan.Bytes()); len(line) > 0 && line[0] == '{' {
			e.event(line)
		} // else go itself says something
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

var _ io.Reader = (*testEvents)(nil)

func (e *testEvents) event(line []byte) {
	var v testEvent
	if err := json.Unmarshal(line, &v); err != nil {
		col := 1
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			col = max(int(syntax.Offset), 1)
		}
		if !e.scan.Scan() && err.Error() == "unexpected end of JSON input" {
			err = io.ErrUnexpectedEOF
		}
		e.s.at = func() (int, int) { return e.n, col }
		e.s.broken(err)
	}
	if e.s.set.Time.IsZero() {
		e.s.set.Time = v.Time
	}
	switch name, ok := strings.CutPrefix(v.Test, "Benchmark"); {
	case v.Action == "output":
		e.said(v.Package, v.Output)
	case ok && v.Action == "fail":
		e.s.skip(v.Package+"."+name, "it failed")
	case ok && v.Action == "skip":
		e.s.skip(v.Package+"."+name, "it skipped itself")
	}
}

// said takes output of a package, and gives away what lines are whole.
func (e *testEvents) said(pkg, text string) {
	part := append(e.parts[pkg], text...)
	e.open += len(text)
	end := bytes.LastIndexByte(part, '\n') + 1
	if end > 0 {
		if pkg != e.pkg {
			e.pkg = pkg
			e.give([]byte("pkg: " + pkg + "\n"))
		}
		e.give(part[:end])
		part = part[end:]
	}
	if e.open -= end; e.open > maxLine {
		e.s.at = func() (int, int) { return e.n, 1 }
		e.s.fail("the line is too long")
	}
	if len(part) > 0 {
		e.parts[pkg] = part
	} else {
		delete(e.parts, pkg)
	}
}

func (e *testEvents) give(lines []byte) {
	e.out = append(e.out, lines...)
	for range bytes.Count(lines, []byte("\n")) {
		e.from = append(e.from, int32(e.n))
	}
}

// place is where the line of text came from that the reader of benchfmt is at.
func (e *testEvents) place() (line, col int) {
	if i := e.s.line - 1; i >= 0 && i < len(e.from) {
		return int(e.from[i]), 1
	}
	return max(e.n, 1), 1
}
