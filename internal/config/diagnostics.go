package config

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/org/ebpf-bench-gate/bench"
)

// Diagnostics are all mistakes of a config, in the order of the file. It is an
// error that [errors.As] finds, and so is each [bench.Diagnostic] in it.
type Diagnostics []*bench.Diagnostic

// Error is one line a mistake.
func (ds Diagnostics) Error() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each mistake.
func (ds Diagnostics) Unwrap() []error {
	errs := make([]error, len(ds))
	for i, d := range ds {
		errs[i] = d
	}
	return errs
}

// Format prints each mistake with its line of src, a caret under its column, what
// the message says in further lines, and the hint, an empty line between them. With
// color, it uses the escape
// sequences of terminals; nothing in src can.
func (ds Diagnostics) Format(w io.Writer, src []byte, color bool) error {
	bold, red, plain := "", "", ""
	if color {
		bold, red, plain = "\x1b[1m", "\x1b[1;31m", "\x1b[0m"
	}
	lines := bytes.Split(src, []byte("\n"))
	var out strings.Builder
	for i, d := range ds {
		if i > 0 {
			out.WriteByte('\n')
		}
		message, further, _ := strings.Cut(d.Error(), "\n")
		fmt.Fprintf(&out, "%s%s%s\n", bold, visible(message), plain)
		if n := d.Pos.Line; n >= 1 && n <= len(lines) {
			line, caret := excerpt(string(bytes.TrimRight(lines[n-1], "\r")), d.Pos.Col)
			fmt.Fprintf(&out, "  %s\n  %s%s^%s\n", line, strings.Repeat(" ", caret), red, plain)
		}
		for line := range strings.Lines(further) {
			out.WriteString(visible(strings.TrimRight(line, "\n")) + "\n")
		}
		if d.Hint != "" {
			fmt.Fprintf(&out, "%shint:%s %s\n", bold, plain, visible(d.Hint))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// excerpt is a line as a terminal shows it, cut to a width around column col
// (which counts characters from 1), and how many cells are left of that.
func excerpt(line string, col int) (shown string, caret int) {
	const (
		tab   = 4
		most  = 100 // cells
		ahead = 60  // cells kept before the column of a line that is cut
	)
	type cell struct {
		text string
		at   int // cells before it
	}
	var cells []cell
	width := 0
	for _, c := range line {
		text, w := visible(string(c)), runeWidth(c)
		if c == '\t' {
			w = tab - width%tab
			text = strings.Repeat(" ", w)
		}
		cells = append(cells, cell{text, width})
		width += w
	}
	caret = width
	if col = max(col, 1); col <= len(cells) {
		caret = cells[col-1].at
	}
	from, to := 0, width
	if width > most {
		from = max(0, min(caret-ahead, width-most))
		to = from + most
	}
	var b strings.Builder
	if from > 0 {
		b.WriteString("…")
	}
	left := -1 // cells before the first one shown
	for _, c := range cells {
		if c.at < from || c.at >= to {
			continue
		}
		if left < 0 {
			left = c.at
		}
		b.WriteString(c.text)
	}
	if to < width {
		b.WriteString("…")
	}
	if from > 0 {
		caret++
	}
	return b.String(), caret - max(left, 0)
}

// visible replaces what would act on a terminal instead of being shown: control
// characters, and those that turn the direction of text.
func visible(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n', c == '\t':
			return ' '
		case unicode.IsControl(c), unicode.Is(unicode.Cf, c), unicode.Is(unicode.Zl, c), unicode.Is(unicode.Zp, c):
			return unicode.ReplacementChar
		}
		return c
	}, s)
}

// runeWidth is the cells that most terminals give a character: none for marks
// on the one before, two for what East Asian scripts and emoji take.
func runeWidth(c rune) int {
	switch {
	case unicode.In(c, unicode.Mn, unicode.Me):
		return 0
	case unicode.In(c, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		c >= 0x3000 && c <= 0x303e, c >= 0xff01 && c <= 0xff60, c >= 0x1f300 && c <= 0x1faff:
		return 2
	}
	return 1
}
