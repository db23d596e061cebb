package build

import (
	"bytes"
	"fmt"
	"strings"
)

// A CommandError is a command of a config that failed, with the end of what it said.
type CommandError struct {
	Command string
	Err     error
	Said    string // [LastLines]; may be empty
	Advice  string
}

func (e *CommandError) Error() string { return fmt.Sprintf("%q: %v%s", e.Command, e.Err, e.Said) }
func (e *CommandError) Unwrap() error { return e.Err }

// Hint is what to do about the error.
func (e *CommandError) Hint() string { return e.Advice }

// LastLines are the last n lines of what was said, each indented to stand under an error;
// "" where nothing was said. Cut tells that the text had more before it.
func LastLines(text []byte, cut bool, n int) string {
	said := strings.TrimRight(string(bytes.ToValidUTF8(text, []byte("?"))), "\r\n")
	if said == "" {
		return ""
	}
	all := strings.Split(said, "\n")
	var b strings.Builder
	if cut || len(all) > n {
		b.WriteString("\n  …")
	}
	for _, l := range all[max(0, len(all)-n):] {
		b.WriteString("\n  " + Printable(l))
	}
	return b.String()
}

// Printable is text of others without what a terminal would obey.
func Printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\t' || c >= ' ' && c != 0x7f && !(c >= 0x80 && c < 0xa0) {
			return c
		}
		return -1
	}, s)
}
