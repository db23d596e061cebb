package bench

import (
	"cmp"
	"slices"
	"strings"
)

// A LineMatch is the line of base that a line of head was.
type LineMatch struct {
	Base int  // its index; -1: base has none
	Same bool // its text is the same, but for white space
}

// MatchLines finds for each line of head what it was in base: by a diff of each function's lines in
// the order of the source, so that of lines with the same text each finds its own. What the diff leaves
// over was moved, if its text stands there too, first within the function, then in another; or was
// edited, if a line like it stood at its place.
//
// Only lines with code are known. Those without take no time, and are no part of what is compared.
//
// Note: patience diff (Cohen 2008): lines that stand once on each side hold the others in their places,
// and any size takes n log n. Matching by text alone takes one `i++;` for the other.
func MatchLines(base, head []LineCount) []LineMatch {
	m := &matcher{was: make([]LineMatch, len(head)), taken: make([]bool, len(base))}
	known := map[string]int{}
	m.base, m.head = m.texts(base, known), m.texts(head, known)
	for i := range m.was {
		m.was[i].Base = -1
	}
	before, after := byFunction(base), byFunction(head)
	for function, h := range after {
		m.diff(before[function], h, 0)
	}
	for function, h := range after {
		m.moved(before[function], h, false)
	}
	m.moved(indices(len(base)), indices(len(head)), true)
	for function, h := range after {
		m.edited(before[function], h)
	}
	return m.was
}

// A matcher matches lines that are told by their indices, in the order of the source.
type matcher struct {
	base, head []int      // texts, by number
	words      [][]string // of each text
	was        []LineMatch
	taken      []bool // of base
}

func (m *matcher) match(b, h int, same bool) {
	m.was[h], m.taken[b] = LineMatch{b, same}, true
}

// diff matches what is equal at both ends, then lines that stand once on each side, in the longest
// sequence of them that both sides have in this order, and goes on between these. Source that people
// write is few levels deep.
func (m *matcher) diff(base, head []int, level int) {
	const deepest = 20
	for len(base) > 0 && len(head) > 0 && m.base[base[0]] == m.head[head[0]] {
		m.match(base[0], head[0], true)
		base, head = base[1:], head[1:]
	}
	for len(base) > 0 && len(head) > 0 && m.base[base[len(base)-1]] == m.head[head[len(head)-1]] {
		m.match(base[len(base)-1], head[len(head)-1], true)
		base, head = base[:len(base)-1], head[:len(head)-1]
	}
	if level == deepest {
		return
	}
	anchors := m.anchors(base, head)
	if len(anchors) == 0 {
		return
	}
	b, h := 0, 0
	for _, a := range anchors {
		m.diff(base[b:a.base], head[h:a.head], level+1)
		m.match(base[a.base], head[a.head], true)
		b, h = a.base+1, a.head+1
	}
	m.diff(base[b:], head[h:], level+1)
}

// An anchor is a line that stands once on each side, by its places in them.
type anchor struct{ base, head int }

// anchors are the longest increasing subsequence of lines that stand once on each side.
func (m *matcher) anchors(base, head []int) []anchor {
	inBase, inHead := places(m.base, base), places(m.head, head)
	var tails, before []int // of all: the last of the best sequence of each length, and what precedes each
	var all []anchor
	for h, i := range head {
		text := m.head[i]
		if len(inHead[text]) != 1 || len(inBase[text]) != 1 {
			continue
		}
		a := anchor{inBase[text][0], h}
		n, _ := slices.BinarySearchFunc(tails, a.base, func(at, b int) int { return all[at].base - b })
		before = append(before, -1)
		if n > 0 {
			before[len(all)] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, 0)
		}
		tails[n] = len(all)
		all = append(all, a)
	}
	out := make([]anchor, len(tails))
	if len(tails) == 0 {
		return nil
	}
	for i, at := len(tails)-1, tails[len(tails)-1]; i >= 0; i, at = i-1, before[at] {
		out[i] = all[at]
	}
	return out
}

// moved matches what is left by its text, in order; once tells to leave out texts that are left more
// often than once on a side.
func (m *matcher) moved(base, head []int, once bool) {
	base, head = m.free(base), m.new(head)
	inBase, inHead := places(m.base, base), places(m.head, head)
	for h, i := range head {
		at := inBase[m.head[i]]
		if len(at) == 0 || once && (len(at) > 1 || len(inHead[m.head[i]]) > 1) {
			continue
		}
		m.match(base[at[0]], head[h], true)
		inBase[m.head[i]] = at[1:]
	}
}

// edited matches what is left between the same two lines and has half of its words in common.
func (m *matcher) edited(base, head []int) {
	const alike, most = 0.5, 40 // lines in a row: more were rewritten
	place := make(map[int]int, len(base))
	for at, b := range base {
		place[b] = at
	}
	next := 0 // place of what follows the last match
	for at := 0; at < len(head); {
		if b := m.was[head[at]].Base; b >= 0 {
			if p, ok := place[b]; ok {
				next = p + 1
			}
			at++
			continue
		}
		end, until := at, next
		for end < len(head) && m.was[head[end]].Base < 0 {
			end++
		}
		for until < len(base) && !m.taken[base[until]] {
			until++
		}
		if end-at > most || until-next > most {
			next = until
		}
		for ; at < end; at++ {
			best, found := 0.0, -1
			for p := next; p < until; p++ {
				if s := similarity(m.words[m.base[base[p]]], m.words[m.head[head[at]]]); s >= alike && s > best {
					best, found = s, p
				}
			}
			if found >= 0 {
				m.match(base[found], head[at], false)
				next = found + 1
			}
		}
	}
}

// free are those of base's lines that nobody took.
func (m *matcher) free(base []int) []int {
	return slices.DeleteFunc(slices.Clone(base), func(b int) bool { return m.taken[b] })
}

// new are those of head's lines that have found none.
func (m *matcher) new(head []int) []int {
	return slices.DeleteFunc(slices.Clone(head), func(h int) bool { return m.was[h].Base >= 0 })
}

// places tells where each text stands among lines.
func places(texts, lines []int) map[int][]int {
	out := make(map[int][]int, len(lines))
	for at, i := range lines {
		out[texts[i]] = append(out[texts[i]], at)
	}
	return out
}

// similarity is the share of their words that two lines have in common, 0 to 1 (Dice 1945).
func similarity(x, y []string) float64 {
	if len(x)+len(y) == 0 {
		return 0
	}
	count := map[string]int{}
	for _, w := range x {
		count[w]++
	}
	common := 0
	for _, w := range y {
		if count[w] > 0 {
			count[w]--
			common++
		}
	}
	return 2 * float64(common) / float64(len(x)+len(y))
}

// words are the names and numbers of a line, and its other characters each for itself.
func words(line string) []string {
	var out []string
	name := -1
	for i, r := range line {
		letter := r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		switch {
		case letter && name < 0:
			name = i
		case !letter:
			if name >= 0 {
				out = append(out, line[name:i])
				name = -1
			}
			if r != ' ' {
				out = append(out, string(r))
			}
		}
	}
	if name >= 0 {
		out = append(out, line[name:])
	}
	return out
}

// texts are the numbers of the lines' texts, with white space made equal.
func (m *matcher) texts(lines []LineCount, known map[string]int) []int {
	out := make([]int, len(lines))
	for i, l := range lines {
		text := strings.Join(strings.Fields(l.Text), " ")
		n, ok := known[text]
		if !ok {
			n = len(m.words)
			known[text] = n
			m.words = append(m.words, words(text))
		}
		out[i] = n
	}
	return out
}

// byFunction are the indices of each function's lines, in the order of the source.
func byFunction(lines []LineCount) map[string][]int {
	out := map[string][]int{}
	for i, l := range lines {
		out[l.Function] = append(out[l.Function], i)
	}
	for _, of := range out {
		slices.SortStableFunc(of, func(a, b int) int {
			return cmp.Or(strings.Compare(lines[a].File, lines[b].File), cmp.Compare(lines[a].Line, lines[b].Line))
		})
	}
	return out
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
