package vm

import (
	"io"
	"strings"
	"sync"
	"unicode"
)

// What is kept of a console.
const (
	consoleBytes = 16 << 10
	consoleLines = 20
)

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	end  []byte
	also io.Writer // gets all of it; may be nil
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, b...)
	if n := len(t.end); n > consoleBytes {
		t.end = append(t.end[:0], t.end[n-consoleBytes:]...)
	}
	if t.also != nil {
		_, _ = t.also.Write(b)
	}
	return len(b), nil
}

// panicked begins what a kernel says last; what follows is a trace of its own way there.
const panicked = "Kernel panic"

// lines are the last lines, fit for a terminal: of a kernel that panicked, those up
// to where it says so.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for l := range strings.Lines(string(t.end)) {
		if l = clean([]byte(l)); l != "" {
			all = append(all, l)
		}
		if strings.Contains(l, panicked) {
			break
		}
	}
	return all[max(0, len(all)-consoleLines):]
}

// clean is text of a guest without what a terminal would obey.
func clean(b []byte) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(b), ""))
	const most = 512
	if s = strings.TrimSpace(s); len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}
