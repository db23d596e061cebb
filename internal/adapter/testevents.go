package adapter

import (
	"bytes"
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
	w     *walker
	parts map[string][]byte // the beginnings of lines, by package
	open  int               // bytes of them
	pkg   string            // of the line that was given away last
	out   []byte            // what is to be given away
	from  []int32           // where in the file the lines are that were given away

	// The event that was read last.
	time, action, of, test, output string
	fields                         map[string]func()
}

func newTestEvents(s *source) *testEvents {
	e := &testEvents{w: s.walker(), parts: map[string][]byte{}}
	e.fields = map[string]func(){}
	for key, to := range map[string]*string{"Time": &e.time, "Action": &e.action, "Package": &e.of, "Test": &e.test, "Output": &e.output} {
		e.fields[key] = func() { *to = e.w.text() }
	}
	s.at = e.place
	return e
}

// Read implements [io.Reader].
func (e *testEvents) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if !e.event() {
			return 0, io.EOF
		}
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

var _ io.Reader = (*testEvents)(nil)

// event reads the next one, or tells that there is none.
func (e *testEvents) event() bool {
	e.w.at = e.w.place // mistakes are the event's, not of the line that is read behind it
	defer func() { e.w.at = e.place }()
	if !e.w.more() {
		return false
	}
	e.time, e.action, e.of, e.test, e.output = "", "", "", "", ""
	e.w.fields("an event", e.fields)
	if e.w.set.Time.IsZero() {
		e.w.set.Time, _ = time.Parse(time.RFC3339Nano, e.time)
	}
	switch name, ok := strings.CutPrefix(e.test, "Benchmark"); {
	case e.action == "output":
		e.said(e.of, e.output)
	case ok && e.action == "fail":
		e.w.source.skip(e.of+"."+name, "it failed")
	case ok && e.action == "skip":
		e.w.source.skip(e.of+"."+name, "it skipped itself")
	}
	return true
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
		e.w.fail("the line is too long")
	}
	if len(part) > 0 {
		e.parts[pkg] = part
	} else {
		delete(e.parts, pkg)
	}
}

func (e *testEvents) give(lines []byte) {
	e.out = append(e.out, lines...)
	line, _ := e.w.place()
	for range bytes.Count(lines, []byte("\n")) {
		e.from = append(e.from, int32(line))
	}
}

// place is where the line of text came from that the reader of benchfmt is at.
func (e *testEvents) place() (line, col int) {
	if n := len(e.from); n > 0 {
		return int(e.from[min(max(e.w.line, 1), n)-1]), 1
	}
	return 1, 1
}
