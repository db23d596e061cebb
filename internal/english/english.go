// Package english is the wording of what a program says: the word that somebody meant, for
// hints of errors, and how many there are of a thing. It decides nothing.
package english

import (
	"slices"
	"strconv"
	"strings"
)

// Count is a number and what it counts: "1 run", "2 runs", "3 branches".
func Count[N int | int64 | uint64](n N, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "ch"):
		what += "es"
	default:
		what += "s"
	}
	return strconv.FormatInt(int64(n), 10) + " " + what
}

// Near is the known word that is nearest to word, in whatever case; ok is false where
// none is near enough to have been meant.
func Near(word string, known []string) (near string, ok bool) {
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
