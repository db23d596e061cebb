package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/org/ebpf-bench-gate/internal/vm"
)

// results are what tests said, read as it comes.
type results struct {
	rest    []byte // of a line
	pkg     string
	passed  int
	skipped []outcome
	failed  []outcome
	open    []string          // packages that did not end
	pending []string          // lines since the last ending of a test
	running string            // the test whose lines come now
	said    map[string]string // the last line of each test that has not ended
	notes   []string
}

// An outcome is a test that was skipped or failed, and what it said.
type outcome struct {
	pkg, name string
	lines     []string
	last      string // of what it said itself: why, where it was skipped
}

var (
	ending = regexp.MustCompile(`^( *)--- (PASS|FAIL|SKIP): (\S+)`)
	turn   = regexp.MustCompile(`^=== (?:RUN|PAUSE|CONT|NAME) +(\S+)`)
)

// maxPending bounds what is kept of one test.
const maxPending = 2000

func (r *results) read(p []byte) {
	r.rest = append(r.rest, p...)
	for {
		i := bytes.IndexByte(r.rest, '\n')
		if i < 0 {
			return
		}
		r.line(printable(string(r.rest[:i])))
		r.rest = r.rest[i+1:]
	}
}

func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) || c == '\t' {
			return c
		}
		return -1
	}, s)
}

func (r *results) line(l string) {
	if pkg, ok := strings.CutPrefix(l, "=== package "); ok {
		r.pkg, r.open, r.pending = pkg, append(r.open, pkg), nil
		r.running, r.said = "", make(map[string]string)
		return
	}
	if rest, ok := strings.CutPrefix(l, "=== ended "); ok {
		pkg, how, _ := strings.Cut(rest, ": ")
		r.ended(pkg, how)
		return
	}
	if note, ok := strings.CutPrefix(l, "=== module "); ok {
		r.notes = append(r.notes, "module "+note)
		return
	}
	if t := turn.FindStringSubmatch(l); t != nil {
		r.running = t[1]
		return
	}
	m := ending.FindStringSubmatch(l)
	if m == nil {
		if len(r.pending) < maxPending {
			r.pending = append(r.pending, l)
		}
		// The endings of subtests come all together, behind that of their parent.
		if text := strings.TrimSpace(l); text != "" && r.said != nil {
			r.said[r.running] = text
		}
		return
	}
	o := outcome{r.pkg, m[3], append(r.pending, l), r.said[m[3]]}
	delete(r.said, m[3])
	r.pending = nil
	switch m[2] {
	case "PASS":
		if m[1] == "" {
			r.passed++
		}
	case "SKIP":
		r.skipped = append(r.skipped, o)
	case "FAIL":
		r.failed = append(r.failed, o)
	}
}

// ended notes the end of a package. One that does not say itself that it failed has
// crashed.
func (r *results) ended(pkg, how string) {
	r.open = slices.DeleteFunc(r.open, func(p string) bool { return p == pkg })
	if how == "ok" || slices.Contains(r.pending, "FAIL") {
		return // it said so itself, and which tests failed
	}
	r.failed = append(r.failed, outcome{pkg: pkg, name: how, lines: r.pending})
}

// tell prints what came of a kernel, and returns the number of failures.
func (b *bed) tell(w io.Writer) int {
	r := &b.results
	fmt.Fprintf(w, "\nkernel %s (%s)\n", b.kernel.Name, b.kernel.Source)
	for _, n := range r.notes {
		fmt.Fprintf(w, "  note  %s\n", n)
	}
	for _, o := range r.skipped {
		fmt.Fprintf(w, "  skip  %s %s: %s\n", o.pkg, o.name, o.reason())
	}
	failures := len(r.failed)
	for _, o := range r.failed {
		fmt.Fprintf(w, "  FAIL  %s %s\n", o.pkg, o.name)
		for _, l := range o.lines {
			fmt.Fprintf(w, "        %s\n", l)
		}
	}
	for _, pkg := range r.open {
		failures++
		fmt.Fprintf(w, "  FAIL  %s did not end\n", pkg)
	}
	if b.err != nil {
		failures++
		fmt.Fprintf(w, "  FAIL  %v\n", b.err)
		var c *vm.Crash
		if errors.As(b.err, &c) {
			for _, l := range c.Console {
				fmt.Fprintf(w, "        │ %s\n", l)
			}
		}
	}
	if r.passed == 0 {
		failures++
		fmt.Fprintln(w, "  FAIL  no test passed")
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped, %v\n", r.passed, failures, len(r.skipped), b.took.Round(1e9))
	return failures
}

// reason is the last that a skipped test said before it ended, without where.
func (o outcome) reason() string {
	if o.last == "" {
		return "no reason given"
	}
	if _, text, ok := strings.Cut(o.last, ".go:"); ok {
		_, text, _ = strings.Cut(text, ": ")
		return text
	}
	return o.last
}
