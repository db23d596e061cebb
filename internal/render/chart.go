package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Series is how one measure of one benchmark went over the stored runs, the one
// that is reported on last.
type Series struct {
	Benchmark, Measure, Unit string
	Branch                   string
	// Values are in Unit, the oldest first.
	Values []float64
}

// maxPoints is how many values of a series are drawn: the newest.
const maxPoints = 64

// chart draws a series as GitHub's Mermaid does, folded; of fewer than three values,
// or of some that are no numbers, there is nothing to see.
func chart(s *Series) string {
	if s == nil || len(s.Values) < 3 {
		return ""
	}
	values := s.Values[max(0, len(s.Values)-maxPoints):]
	low, high := math.Inf(1), math.Inf(-1)
	points := make([]string, len(values))
	for i, v := range values {
		if math.IsNaN(v) || math.Abs(v) > 1e15 {
			return ""
		}
		low, high = min(low, v), max(high, v)
		points[i] = chartNumber(v)
	}
	// The line keeps a distance from the frame, and one that is flat has a frame.
	room := 0.1 * (high - low)
	if room == 0 {
		room = max(0.05*math.Abs(high), 1)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<details><summary>History of %s on %s</summary>\n\n```mermaid\nxychart-beta\n", code(s.Benchmark), code(s.Branch))
	fmt.Fprintf(&b, "  title \"%s %s\"\n", chartText(s.Benchmark), chartText(s.Measure))
	fmt.Fprintf(&b, "  x-axis \"stored runs, oldest first, and this one\" 1 --> %d\n", len(values))
	fmt.Fprintf(&b, "  y-axis \"%s\" %s --> %s\n", chartText(s.Unit), chartNumber(max(low-room, min(low, 0))), chartNumber(high+room))
	fmt.Fprintf(&b, "  line [%s]\n```\n\n</details>\n\n", strings.Join(points, ", "))
	return b.String()
}

// chartNumber has no exponent, which Mermaid does not read, and no more digits than
// can be seen.
func chartNumber(x float64) string {
	decimals := 0
	if a := math.Abs(x); a < 1e4 {
		decimals = 2
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// chartText is a name within Mermaid's quotes: what could end them, or is an entity or
// a directive to it, is not in it.
func chartText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || strings.ContainsRune("_./+=@-", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, shorten(clean(s), maxCell))
}
