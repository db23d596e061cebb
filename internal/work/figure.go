//go:build linux

package work

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// Find finds a figure in what a command wrote to its standard output. It is a
// finite number, with a point for its fraction; commas between digits are left
// out, as in "1,234.5".
func Find(f bench.Figure, out Output) (float64, error) {
	var text string
	var err error
	if f.JSON != "" {
		if out.Truncated {
			return 0, fmt.Errorf("figure %s: the output has more than %d bytes, and JSON is read as a whole", f.Name, MaxOutput)
		}
		text, err = inJSON(f.JSON, out.Stdout)
	} else {
		text, err = inText(f.Match, out.Stdout)
	}
	if err != nil {
		return 0, fmt.Errorf("figure %s: %w", f.Name, err)
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("figure %s: %s is not a number", f.Name, shown(text))
	}
	return v, nil
}

func inText(expr string, out []byte) (string, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return "", err
	}
	all := re.FindAllSubmatch(out, -1)
	if len(all) == 0 {
		return "", fmt.Errorf("nothing in the output matches %s; it ends in %s", shown(expr), shown(last(string(out))))
	}
	m := all[len(all)-1]
	return string(m[min(1, len(m)-1)]), nil
}

// last is the last line of a text.
func last(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func inJSON(path string, out []byte) (string, error) {
	var v any
	d := json.NewDecoder(strings.NewReader(string(out)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("the output is not JSON (%w); it begins with %s", err, shown(string(out[:min(len(out), 60)])))
	}
	for _, key := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[key]
			if !ok {
				return "", fmt.Errorf("the output has no %s (at %s)", path, shown(key))
			}
			v = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(x) {
				return "", fmt.Errorf("the output has no %s: at %s stands a list of %d", path, shown(key), len(x))
			}
			v = x[i]
		default:
			return "", fmt.Errorf("the output has no %s: before %s stands no object", path, shown(key))
		}
	}
	switch x := v.(type) {
	case json.Number:
		return x.String(), nil
	case string:
		return x, nil
	}
	return "", fmt.Errorf("%s is not a number", path)
}

// shown is text of others, quoted and not too long.
func shown(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}
