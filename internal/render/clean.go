package render

import (
	"strings"
	"unicode"
)

// clean makes one line of a string that says what it shows: control characters,
// and those that turn or hide text, are gone; line breaks are spaces.
//
// Nor may accents be heaped: they take no columns, and would pass any limit.
func clean(s string) string {
	const mostMarks, mostBytes = 2, 8192 // nobody reads more in one line
	if len(s) > mostBytes {
		s = s[:mostBytes] + "…"
	}
	marks := 0
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r >= ' ' && r < 0x7f {
			marks = 0
			return r
		}
		if marks++; !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		}
		switch {
		case marks > mostMarks:
			return -1
		case r == '\n', r == '\r', r == '\t', r == '\u2028', r == '\u2029', r == '\u0085':
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs):
			return -1
		case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0:
			return -1 // variation selectors and fillers, which show nothing
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd")))
}

// width is the columns that a clean string takes in a terminal.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300: // the first combining mark
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// wide are the characters of two columns: East_Asian_Width W and F of Unicode,
// coarsely.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x231a, 0x231b, 1}, {0x2e80, 0x303e, 1}, {0x3041, 0x33ff, 1}, {0x3400, 0x4dbf, 1},
		{0x4e00, 0xa4cf, 1}, {0xa960, 0xa97f, 1}, {0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1},
		{0xfe30, 0xfe6f, 1}, {0xff00, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x18aff, 1}, {0x1b000, 0x1b2ff, 1}, {0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1},
		{0x1f900, 0x1faff, 1}, {0x20000, 0x3fffd, 1},
	},
}

// shorten cuts the middle out of a string that is wider than n columns: the
// beginning and the end of a name tell most.
func shorten(s string, n int) string {
	if width(s) <= n || n < 3 {
		return s
	}
	runes := []rune(s)
	head, tail, left := 0, len(runes), n-1
	for i := 0; head < tail; i++ {
		at := head
		if i%2 == 1 {
			at = tail - 1
		}
		if left -= runeWidth(runes[at]); left < 0 {
			break
		}
		if i%2 == 1 {
			tail--
		} else {
			head++
		}
	}
	return string(runes[:head]) + "…" + string(runes[tail:])
}

func pad(s string, n int, right bool) string {
	fill := strings.Repeat(" ", max(0, n-width(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// Clean is one line that says what a string from anywhere shows, without control
// characters and those that turn or hide text.
func Clean(s string) string { return clean(s) }

// Width is the columns of a terminal that a clean string takes.
func Width(s string) int { return width(s) }
