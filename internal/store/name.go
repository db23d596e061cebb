package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// more ends a directory's name when the name that it holds goes on in the
	// directory below.
	more = "+"
	// maxPart is the length of one part in bytes; file systems allow 255, some
	// that encrypt names 143.
	maxPart = 120
	// none is the escaped empty name. A '%' without digits is nothing else.
	none = "%"
)

// escape makes a relative path of any name, so that no two names share one, not
// even where case is not told apart, and unescape has it back: lower-case
// letters, digits, '-', '_' and inner dots stand as they are, every other byte
// is %xx.
func escape(name string) string {
	if name == "" {
		return none
	}
	var parts []string
	var part strings.Builder
	for i := range len(name) {
		c := name[i]
		s := string(rune(c))
		if !stands(name, i) {
			s = fmt.Sprintf("%%%02x", c)
		}
		// No part ends within an escape.
		if part.Len()+len(s) > maxPart {
			parts = append(parts, part.String()+more)
			part.Reset()
		}
		part.WriteString(s)
	}
	return strings.Join(append(parts, part.String()), "/")
}

// stands tells that the byte at i needs no escape.
func stands(name string, i int) bool {
	switch c := name[i]; {
	case i == 0 && reserved(name):
		return false
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		return true
	default:
		// Neither "." nor "..", nothing hidden, nothing that Windows strips;
		// nor may a dot become the end of a part.
		return c == '.' && i > 0 && i < len(name)-1 && name[i-1] != '.' && name[i+1] != '.'
	}
}

// reserved tells the names that are devices on Windows, whatever follows a dot.
func reserved(name string) bool {
	base, _, _ := strings.Cut(strings.ToLower(name), ".")
	if len(base) == 4 && base[3] >= '0' && base[3] <= '9' {
		base = base[:3]
		return base == "com" || base == "lpt"
	}
	return slices.Contains([]string{"con", "prn", "aux", "nul"}, base)
}

// unescape is the name that escape made a path of. Anything else is an error, so
// that one name has one place.
func unescape(path string) (string, error) {
	foreign := errors.New("not a directory of runs")
	if path == none {
		return "", nil
	}
	s := strings.ReplaceAll(path, more+"/", "")
	var name strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			name.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", foreign
		}
		b, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", foreign
		}
		name.WriteByte(byte(b))
		i += 2
	}
	if escape(name.String()) != path {
		return "", foreign
	}
	return name.String(), nil
}
