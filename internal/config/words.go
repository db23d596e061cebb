package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/internal/english"
)

// quote shows what somebody wrote: quoted, escaped, and not too long.
func quote(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return strconv.Quote(s)
}

// expected is the hint for a word that is none of those that are known: the
// nearest one, or all.
func expected(word string, known []string) string {
	if meant, ok := english.Near(word, known); ok {
		return fmt.Sprintf("did you mean %s?", meant)
	}
	return "expected one of " + strings.Join(known, ", ")
}
