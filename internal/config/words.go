package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	if near, ok := nearest(word, known); ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "expected one of " + strings.Join(known, ", ")
}

// nearest is the known word that a slip of the finger turns into word.
func nearest(word string, known []string) (string, bool) {
	if len(word) > 100 {
		return "", false
	}
	best, least := "", len(word)
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best, best != "" && least <= max(1, min(len(word), len(best))/3)
}

// distance is how many bytes must be changed, added, dropped, or swapped with
// their neighbour to get from a to b (optimal string alignment).
func distance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = slices.Min([]int{last[j] + cost, last[j+1] + 1, row[j] + 1})
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
