package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/org/ebpf-bench-gate/bench"
)

// What a tree may have. The language itself needs a depth of about ten.
const (
	maxDepth = 40
	maxNodes = 200_000
	maxFound = 50 // mistakes, after which reading goes on in vain
)

// A reader collects what is wrong while it reads a tree.
type reader struct {
	source string // the config's name
	found  Diagnostics
	nodes  int  // visited so far, with aliases followed
	broken bool // the tree is not to be read

	dir         string // where captures are read from
	packetBytes int    // what all packets have come to
	captures    []string
}

// pos is where a node stands.
func (r *reader) pos(n *yaml.Node) bench.Pos {
	return bench.Pos{File: r.source, Line: n.Line, Col: n.Column}
}

// fail notes a mistake at a node. The hint may be empty.
func (r *reader) fail(n *yaml.Node, hint, format string, args ...any) {
	r.failAt(r.pos(n), hint, format, args...)
}

func (r *reader) failAt(pos bench.Pos, hint, format string, args ...any) {
	r.found = append(r.found, &bench.Diagnostic{Pos: pos, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// err is all that was found, in the order of the file; nil if that is nothing.
func (r *reader) err() error {
	if len(r.found) == 0 {
		return nil
	}
	slices.SortStableFunc(r.found, func(a, b *bench.Diagnostic) int {
		if d := a.Pos.Line - b.Pos.Line; d != 0 {
			return d
		}
		return a.Pos.Col - b.Pos.Col
	})
	// Two readers of one node, such as an alias used twice, find the same.
	r.found = slices.CompactFunc(r.found, func(a, b *bench.Diagnostic) bool { return *a == *b })
	if more := len(r.found) - maxFound; more > 0 {
		last := *r.found[maxFound-1]
		last.Message, last.Hint = fmt.Sprintf("%d more mistakes from here on", more+1), ""
		r.found = append(r.found[:maxFound-1:maxFound-1], &last)
	}
	return r.found
}

// tree reads YAML into its one document's root; nil where there is nothing to
// read, which is noted.
func (r *reader) tree(src []byte) *yaml.Node {
	top := &yaml.Node{Line: 1, Column: 1}
	if len(src) > MaxSize {
		r.fail(top, "", "the config has more than %d bytes", MaxSize)
		return nil
	}
	if line, col, ok := invalidUTF8(src); ok {
		r.fail(&yaml.Node{Line: line, Column: col}, "save the file as UTF-8", "not UTF-8")
		return nil
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(src))
	err := decode(dec, &doc)
	switch {
	case errors.Is(err, io.EOF):
		r.fail(top, "start with version: 1", "the config is empty")
		return nil
	case err != nil:
		line, col := syntaxErrorPos(src, err)
		message, hint := syntaxError(err)
		r.fail(&yaml.Node{Line: line, Column: col}, hint, "%s", message)
		return nil
	}
	var second yaml.Node
	if err := decode(dec, &second); !errors.Is(err, io.EOF) {
		at := top
		if err == nil {
			at = &second
		}
		r.fail(at, "", "more than one YAML document")
		return nil
	}
	root := r.clean(doc.Content[0], nil)
	if r.broken {
		return nil
	}
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		r.fail(top, "start with version: 1", "the config is empty")
		return nil
	}
	return root
}

// clean checks the shape of a tree, follows its aliases, and drops what is
// wrong, so that readers see only mappings with unique plain keys, lists and
// scalars, of bounded size. Where the tree has no end, the reader is broken. The
// path is the nodes above n.
func (r *reader) clean(n *yaml.Node, path []*yaml.Node) *yaml.Node {
	at := n
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch r.nodes++; {
	case r.broken:
		return nil
	case r.nodes > maxNodes:
		r.broken = true
		r.fail(at, "", "the config has more than %d values (with aliases followed)", maxNodes)
		return nil
	case slices.Contains(path, n):
		r.broken = true
		r.fail(at, "", "the anchor &%s holds itself", n.Anchor)
		return nil
	case len(path) >= maxDepth:
		r.broken = true
		r.fail(at, "", "nested deeper than %d levels", maxDepth)
		return nil
	case n.Style&yaml.TaggedStyle != 0:
		r.fail(n, "leave the tag out", "tags such as %s are not part of the language", quote(n.Tag))
	}
	path = append(path, n)
	out := *n
	out.Content = nil
	switch n.Kind {
	case yaml.SequenceNode:
		for _, child := range n.Content {
			if c := r.clean(child, path); c != nil {
				out.Content = append(out.Content, c)
			}
		}
	case yaml.MappingNode:
		seen := make(map[string]*yaml.Node)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			for key.Kind == yaml.AliasNode {
				key = key.Alias
			}
			first := seen[key.Value]
			switch {
			case key.Kind != yaml.ScalarNode || key.Tag == "!!null" || key.Value == "":
				r.fail(key, "", "a key must be a word")
			case key.Tag == "!!merge":
				r.fail(key, "write the keys out, or use an alias for a whole value", "merge keys (<<) are not part of the language")
			case first != nil:
				r.fail(key, fmt.Sprintf("the first one is in line %d", first.Line), "%s is given twice", quote(key.Value))
			default:
				seen[key.Value] = key
				if c := r.clean(n.Content[i+1], path); c != nil {
					out.Content = append(out.Content, key, c)
				}
			}
		}
	}
	return &out
}

// decode turns panics of the YAML library into errors: it is the first to see
// what strangers wrote.
func decode(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: cannot be read: %v", p)
		}
	}()
	return dec.Decode(n)
}

// syntaxError is the library's message without its name and line, and what is
// mostly meant by it.
func syntaxError(err error) (message, hint string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if _, after, ok := strings.Cut(rest, ": "); ok {
			message = after
		}
	}
	for _, h := range []struct{ part, hint string }{
		{"unexpected end of stream", "a quote is not closed"},
		{"did not find expected ',' or", "a bracket is not closed, or a comma is missing"},
		{"cannot start any token", "indent with spaces, and quote what starts with a sign"},
		{"mapping values are not allowed", "is the line indented as those around it? Quote text that has a colon and a space"},
		{"did not find expected key", "is the line indented as those around it?"},
		{"could not find expected ':'", "a key is followed by a colon and a space"},
		{"unknown anchor", "quote what starts with *"},
	} {
		if strings.Contains(message, h.part) {
			hint = h.hint
			break
		}
	}
	return "not YAML: " + message, hint
}

// syntaxErrorPos finds where the library gave up. Its errors name a line, if
// any, of what it was in the middle of, often one too low, and no column. So
// the shortest beginning of the source that fails in the same way is searched:
// its end is the place.
func syntaxErrorPos(src []byte, want error) (line, col int) {
	fails := func(n int) bool {
		var doc yaml.Node
		err := decode(yaml.NewDecoder(bytes.NewReader(src[:n])), &doc)
		return err != nil && err.Error() == want.Error()
	}
	end := sort.Search(len(src), fails)
	// The end of the file is no place: show the last thing that stands there.
	before := bytes.TrimRight(src[:end], " \t\r\n")
	if end == len(src) {
		end = len(before)
	}
	start := max(end-1, 0)
	line = bytes.Count(src[:start], []byte("\n")) + 1
	col = utf8.RuneCount(src[bytes.LastIndexByte(src[:start], '\n')+1:start]) + 1
	return line, col
}

func invalidUTF8(src []byte) (line, col int, found bool) {
	line, col = 1, 1
	for len(src) > 0 {
		c, size := utf8.DecodeRune(src)
		switch {
		case c == utf8.RuneError && size == 1:
			return line, col, true
		case c == '\n':
			line, col = line+1, 1
		default:
			col++
		}
		src = src[size:]
	}
	return 0, 0, false
}
