package action

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Limits on what others may write into a job's log.
const (
	maxLogLine  = 4096    // bytes
	maxLogTotal = 1 << 20 // bytes
)

// A Log writes what others wrote into the log of a job, so that nothing in it is
// a command to the runner, moves a cursor, or shows text other than it is.
//
// Three walls, since the runner's parser is not ours: workflow commands are
// stopped with a token that nobody can guess; every line begins with a bar, so
// that none begins with "::"; and "##[", which the runner takes anywhere in a
// line, is taken apart. Text is cut after 1 MiB.
type Log struct {
	w     io.Writer
	token string // empty: not on a runner

	mu      sync.Mutex
	line    []byte
	cut     bool // the line at hand was too long
	written int
	open    bool
}

// NewLog begins a part of the log that others write. Commands are stopped where
// onRunner tells that there is somebody who would follow them.
func NewLog(w io.Writer, onRunner bool) *Log {
	l := &Log{w: w}
	if onRunner {
		l.token = strings.ToLower(rand.Text())
	}
	return l
}

// Write takes text of any kind. Its error is that of the writer behind.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range p {
		switch {
		case c == '\n' || c == '\r':
			if err := l.flush(); err != nil {
				return 0, err
			}
		case len(l.line) < maxLogLine:
			l.line = append(l.line, c)
		default:
			l.cut = true
		}
	}
	return len(p), nil
}

// flush writes the line at hand.
func (l *Log) flush() error {
	line := l.line
	l.line = l.line[:0]
	if l.cut {
		line = append(bytes.Clone(line), "…"...)
		l.cut = false
	}
	if len(line) == 0 || l.written > maxLogTotal {
		return nil
	}
	if !l.open && l.token != "" {
		if _, err := fmt.Fprintf(l.w, "::stop-commands::%s\n", l.token); err != nil {
			return err
		}
	}
	l.open = true
	text := Clean(string(line))
	l.written += len(text) + len("| \n")
	if l.written > maxLogTotal {
		text = "(the rest is cut off: more than 1 MiB)"
	}
	_, err := fmt.Fprintf(l.w, "| %s\n", text)
	return err
}

// Close ends the part.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	if l.open && l.token != "" {
		if _, e := fmt.Fprintf(l.w, "::%s::\n", l.token); err == nil {
			err = e
		}
	}
	l.open = false
	return err
}

// escapes are the sequences by which a terminal is told to do something: CSI,
// OSC and those of one character.
var escapes = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|[@-_])")

// Clean makes one line of text that shows what it is: without terminal sequences,
// control characters, and those that turn or hide text (bidi controls and other
// format characters).
func Clean(s string) string {
	s = escapes.ReplaceAllString(strings.ToValidUTF8(s, "?"), "")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' || r == '\u0085':
			return ' '
		case r < ' ' || r == utf8.RuneError, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs):
			return -1
		}
		return r
	}, s)
	return strings.ReplaceAll(s, "##[", "# #[")
}
