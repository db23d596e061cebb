package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sourceLines are the lines of a text, where `f:` begins a function.
func sourceLines(text string) (out []LineCount) {
	function := "f"
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutSuffix(line, ":"); ok {
			function = name
			continue
		}
		out = append(out, LineCount{File: "f.c", Line: i + 1, Function: function, Text: line})
	}
	return out
}

// TestMatchLines tells of each line of head the number of its line in base: the same, ~ edited, or +.
func TestMatchLines(t *testing.T) {
	for name, tt := range map[string]struct{ base, head, want string }{
		"the same":                        {"a\nb\nc", "a\nb\nc", "1 2 3"},
		"one more":                        {"a\nb\nc", "a\nx\nb\nc", "1 + 2 3"},
		"one of many":                     {"i++;\na\ni++;\nb\ni++;", "i++;\na\ni++;\ni++;\nb\ni++;", "1 2 3 + 4 5"},
		"among those that are equal only": {"}\n}\n}", "}\n}\nx\n}", "1 2 + 3"},
		"a loop around":                   {"i++;\nsum += i;\ni++;", "i++;\nwhile (n--) {\nsum += i;\ni++;\n}\ni++;", "1 + 2 + + 3"},
		"white space":                     {"if  (a)\tb;", "if (a) b;", "1"},
		"moved":                           {"heavy();\na\nb\nc", "a\nb\nc\nheavy();", "2 3 4 1"},
		"swapped":                         {"a\nb\nc\nd", "c\nd\na\nb", "3 4 1 2"},
		"into another function":           {"f:\na\nheavy();\nb", "f:\na\nb\ng:\nheavy();", "2 4 3"},
		"not what stands twice":           {"f:\na\ni++;\ni++;", "f:\na\ng:\ni++;", "2 +"},
		"edited":                          {"a\nfor (i = 0; i < 4; i++)\nb", "a\nfor (i = 0; i < 400; i++)\nb", "1 ~2 3"},
		"edited among new ones":           {"a\nfor (i = 0; i < 4; i++)\nb", "a\nx = bpf_ktime_get_ns();\nfor (i = 0; i < 400; i++)\nb", "1 + ~2 3"},
		"replaced":                        {"a\nx = y;\nb", "a\nbpf_map_lookup_elem(&m, &k);\nb", "1 + 3"},
		"not edited from afar":            {"v = 1;\na\nb", "a\nb\nv = 2;", "2 3 +"},
		"another function":                {"f:\na\nb", "g:\na\nb", "2 3"},
		"nothing before":                  {"", "a\nb", "+ +"},
		"without texts":                   {" \n", "a", "+"},
	} {
		base, head := sourceLines(tt.base), sourceLines(tt.head)
		var got []string
		for _, was := range MatchLines(base, head) {
			switch {
			case was.Base < 0:
				got = append(got, "+")
			case was.Same:
				got = append(got, fmt.Sprint(base[was.Base].Line))
			default:
				got = append(got, fmt.Sprint("~", base[was.Base].Line))
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", name, s, tt.want)
		}
	}
}

// TestMatchLinesHolds edits texts of few different lines at random: what is matched has the same
// text, no line of base is there twice, and a line that nobody touched among many finds its own.
func TestMatchLinesHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var base []LineCount
		for i := range 1 + rng.IntN(200) {
			base = append(base, LineCount{File: "f.c", Line: i + 1, Function: fmt.Sprint(rng.IntN(2)), Text: fmt.Sprint("x", rng.IntN(40))})
		}
		var head []LineCount
		for _, l := range base {
			switch rng.IntN(20) {
			case 0: // gone
			case 1:
				head = append(head, LineCount{Function: l.Function, Text: fmt.Sprint("x", rng.IntN(60))}, l)
			default:
				head = append(head, l)
			}
		}
		for i := range head {
			head[i].File, head[i].Line = "f.c", i+1
		}
		taken := map[int]bool{}
		for i, was := range MatchLines(base, head) {
			if was.Base < 0 {
				continue
			}
			if taken[was.Base] {
				t.Fatalf("line %d of base was taken twice", was.Base)
			}
			taken[was.Base] = true
			if was.Same != (base[was.Base].Text == head[i].Text) {
				t.Fatalf("%+v is the same as %+v: %t", base[was.Base], head[i], was.Same)
			}
		}
		if again := MatchLines(base, base); slices.ContainsFunc(indices(len(base)), func(i int) bool { return again[i] != LineMatch{i, true} }) {
			t.Fatalf("a program is another than itself: %+v", again)
		}
	}
}

// TestMatchManyLines matches what a hostile object may hold. A matcher that takes the square of it
// does not end.
func TestMatchManyLines(t *testing.T) {
	const n = 30_000
	lines := func(text func(int) string) (out []LineCount) {
		for i := range n {
			out = append(out, LineCount{Function: "f", Line: i, Text: text(i)})
		}
		return out
	}
	one := lines(func(int) string { return "}" })
	two := lines(func(i int) string { return fmt.Sprint(i % 2) })
	other := lines(func(i int) string { return fmt.Sprint("y", i) })
	chain := lines(func(i int) string { return fmt.Sprint("u", i/2+1-i%2) }) // one of its lines stands once, then its neighbour, and so on
	noise := lines(func(i int) string { return fmt.Sprint("u", i/2+1-i%2) })
	for i := 0; i < n; i += 7 {
		noise[i].Text = fmt.Sprint("z", i)
	}
	back := lines(func(i int) string { return fmt.Sprint("y", n-i) })
	for _, pair := range [][2][]LineCount{{one, one[1:]}, {one, two}, {two, two[1:]}, {one, other}, {other, back}, {chain, noise}} {
		if got := MatchLines(pair[0], pair[1]); len(got) != len(pair[1]) {
			t.Errorf("%d of %d lines", len(got), len(pair[1]))
		}
	}
}
