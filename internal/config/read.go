package config

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// fields are the keys that a mapping may have, and who reads them.
type fields map[string]func(key, v *yaml.Node)

// mapping reads the keys of a node that what names. It tells whether all of
// them were known: otherwise one that is missed may just be mistyped.
func (r *reader) mapping(n *yaml.Node, what string, known fields) bool {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, what, "a mapping")
		return false
	}
	all := true
	for key, v := range pairs(n) {
		if read := known[key.Value]; read != nil {
			read(key, v)
			continue
		}
		all = false
		names := slices.Sorted(maps.Keys(known))
		r.fail(key, expected(key.Value, names), "unknown key %s in %s", quote(key.Value), what)
	}
	return all
}

// pairs are the keys and values of a mapping.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, v *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// list is the elements of a node that must be a list.
func (r *reader) list(n *yaml.Node, what string) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, what, "a list")
		return nil
	}
	return n.Content
}

// wrong notes that a node is not what it must be.
func (r *reader) wrong(n *yaml.Node, what, must string) {
	r.fail(n, "", "%s must be %s, not %s", what, must, kind(n))
}

// kind says what a node is.
func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	default:
		return quote(n.Value)
	}
}

// word is the text of a scalar, whatever YAML makes of it; false, and noted,
// where there is none.
func (r *reader) word(n *yaml.Node, what, must string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || strings.TrimSpace(n.Value) == "" {
		r.wrong(n, what, must)
		return "", false
	}
	return n.Value, true
}

// command is a text that becomes an argument of a process, which ends at a NUL.
func (r *reader) command(n *yaml.Node, what, must string) (string, bool) {
	w, ok := r.word(n, what, must)
	if ok && strings.ContainsRune(w, 0) {
		r.fail(n, `in double quotes YAML reads \0 and what else begins with a backslash: single quotes leave it to the command`, "%s has a NUL character", what)
		ok = false
	}
	return w, ok
}

// words is a list of texts, in which none stands twice.
func (r *reader) words(n *yaml.Node, what string, accept func(*yaml.Node) (string, bool)) []string {
	var words []string
	for _, e := range r.list(n, what) {
		w, ok := accept(e)
		switch {
		case !ok:
		case slices.Contains(words, w):
			r.fail(e, "", "%s is given twice", quote(w))
		default:
			words = append(words, w)
		}
	}
	return words
}

// choice is one of the known words.
func (r *reader) choice(n *yaml.Node, what string, known ...string) (string, bool) {
	w, ok := r.word(n, what, "one of "+strings.Join(known, ", "))
	if ok && !slices.Contains(known, w) {
		r.fail(n, expected(w, known), "%s cannot be %s", what, quote(w))
		return "", false
	}
	return w, ok
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// name is the name of something in an object: a program, a map, a variable.
func (r *reader) name(n *yaml.Node, what string) (string, bool) {
	w, ok := r.word(n, what, "a name")
	if ok && (!identifier.MatchString(w) || len(w) > 255) {
		r.fail(n, "letters, digits and '_', as in the source", "%s is not a name of %s", quote(w), what)
		return "", false
	}
	return w, ok
}

var number = regexp.MustCompile(`^(-?)(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)$`)

// parseInt reads a whole number: decimal, 0x, 0o or 0b, with '_' between digits.
// A leading zero is none: YAML 1.1 takes it for octal, YAML 1.2 does not.
func parseInt(s string) (abs uint64, neg, ok bool) {
	m := number.FindStringSubmatch(s)
	if m == nil {
		return 0, false, false
	}
	abs, err := strconv.ParseUint(strings.ReplaceAll(m[2], "_", ""), 0, 64)
	neg = m[1] == "-" && abs != 0
	return abs, neg, err == nil && (!neg || abs <= 1<<63)
}

// integer is a whole number from least to most.
func (r *reader) integer(n *yaml.Node, what string, least, most uint64) (uint64, bool) {
	must := fmt.Sprintf("a whole number from %d to %d", least, most)
	w, ok := r.word(n, what, must)
	if !ok {
		return 0, false
	}
	v, neg, ok := parseInt(w)
	if !ok || neg || v < least || v > most {
		r.wrong(n, what, must)
		return 0, false
	}
	return v, true
}

// duration is a time above 0, and up to a day.
func (r *reader) duration(n *yaml.Node, what string) (time.Duration, bool) {
	w, ok := r.word(n, what, "a duration")
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(w)
	if err != nil || d <= 0 || d > 24*time.Hour {
		r.fail(n, "a number and a unit: 500ms, 10s, 2m", "%s must be a duration above 0 and up to 24h, not %s", what, quote(w))
		return 0, false
	}
	return d, true
}

var decimal = regexp.MustCompile(`^[0-9][0-9_]*(\.[0-9]+)?$`)

// parseDecimal reads a number that is not negative, without exponent.
func parseDecimal(s string) (float64, bool) {
	if !decimal.MatchString(s) || len(s) > 30 {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// parsePercent reads "3%" as 0.03.
func parsePercent(s string) (ratio float64, ok bool) {
	s, ok = strings.CutSuffix(s, "%")
	if !ok {
		return 0, false
	}
	f, ok := parseDecimal(s)
	return f / 100, ok
}

// parseNS reads a decimal number with a unit of time as nanoseconds, fractions
// included, which a time.Duration does not hold.
func parseNS(s string) (ns float64, ok bool) {
	for _, u := range []struct {
		unit string
		ns   float64
	}{{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}} {
		if digits, found := strings.CutSuffix(s, u.unit); found {
			f, ok := parseDecimal(digits)
			return f * u.ns, ok
		}
	}
	return 0, false
}

// file is a path below the config's directory, in slashes, with ${arch} put in.
// What stands in a config must not reach for files beside the project's.
func (r *reader) file(n *yaml.Node, what string) (string, bool) {
	w, ok := r.word(n, what, "a path")
	if !ok {
		return "", false
	}
	w = strings.ReplaceAll(w, "${arch}", targetArch(runtime.GOARCH))
	switch {
	case strings.Contains(w, "${"):
		r.fail(n, "the only one is ${arch}", "unknown variable in the path %s", quote(w))
	case strings.ContainsFunc(w, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }):
		r.fail(n, "write / between directories", "the path %s has a backslash or a control character", quote(w))
	case path.IsAbs(w) || !filepath.IsLocal(filepath.FromSlash(w)):
		r.fail(n, "a path relative to the config's directory", "the path %s leads out of the config's directory", quote(w))
	default:
		return path.Clean(w), true
	}
	return "", false
}

// pattern is a [file] that may be a glob.
func (r *reader) pattern(n *yaml.Node, what string) (string, bool) {
	w, ok := r.file(n, what)
	if !ok {
		return "", false
	}
	if _, err := path.Match(w, ""); err != nil {
		r.fail(n, "*, ? and [a-z] stand for characters of a name", "%s is not a pattern", quote(w))
		return "", false
	}
	return w, true
}

// targetArch is what bpf2go and the kernel's sources (as in __TARGET_ARCH_x86)
// call an architecture of Go.
func targetArch(goarch string) string {
	switch goarch {
	case "386", "amd64":
		return "x86"
	case "ppc64", "ppc64le":
		return "powerpc"
	case "mips", "mipsle", "mips64", "mips64le":
		return "mips"
	case "riscv64":
		return "riscv"
	case "s390x":
		return "s390"
	case "loong64":
		return "loongarch"
	default:
		return goarch
	}
}
