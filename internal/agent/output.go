//go:build linux

package agent

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// An output keeps the end of what a command says, and looks for a line.
type output struct {
	mu     sync.Mutex
	buf    []byte
	cut    bool
	line   []byte // the one that has begun
	want   *regexp.Regexp
	found  bool
	closed chan struct{}
}

const (
	outputBytes = 16 << 10 // kept
	lineBytes   = 4 << 10  // looked at, of a line
)

func newOutput() *output { return &output{closed: make(chan struct{})} }

// end tells that nobody will say anything any more.
func (o *output) end() { close(o.closed) }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = append(o.buf, p...)
	if n := len(o.buf) - outputBytes; n > 0 {
		o.buf = append(o.buf[:0], o.buf[n:]...)
		o.cut = true
	}
	if o.want != nil && !o.found {
		o.look(p)
	}
	return len(p), nil
}

// expect looks for a line from now on, and in what was said until now.
func (o *output) expect(line *regexp.Regexp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.want, o.found, o.line = line, false, nil
	o.look(o.buf)
}

// look looks at text that was said. A line that has not ended counts: a prompt, or
// the last words before the next read.
func (o *output) look(p []byte) {
	for len(p) > 0 && !o.found {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		o.line = append(o.line, part[:min(len(part), lineBytes-len(o.line))]...)
		o.found = o.want.Match(o.line)
		if ended {
			o.line = o.line[:0]
		}
		p = rest
	}
}

// has tells whether the expected line was said.
func (o *output) has() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.found
}

// lines are the last n lines, indented to stand under an error; "" where nothing was
// said. What a terminal would obey is left out.
func (o *output) lines(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := strings.TrimRight(string(bytes.ToValidUTF8(o.buf, []byte("?"))), "\r\n")
	if text == "" {
		return ""
	}
	all := strings.Split(text, "\n")
	var b strings.Builder
	if o.cut || len(all) > n {
		b.WriteString("\n  …")
	}
	for _, l := range all[max(0, len(all)-n):] {
		b.WriteString("\n  " + visible(l))
	}
	return b.String()
}

// visible is a line of others, fit for a terminal: not too long, and without
// control characters and those that turn the direction of text.
func visible(s string) string {
	const most = 400
	s = strings.Map(func(c rune) rune {
		switch {
		case c == '\t':
			return ' '
		case unicode.IsControl(c), unicode.Is(unicode.Cf, c), unicode.Is(unicode.Zl, c), unicode.Is(unicode.Zp, c):
			return -1
		}
		return c
	}, s)
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}
