//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// An outcome is a figure that was measured, or why it was not.
type outcome struct {
	figure
	rows []row
	err  error
	took time.Duration
}

// text prints the figure for a terminal: its name and how it is measured, then
// the numbers.
func (o outcome) text(out io.Writer) {
	fmt.Fprintf(out, "\n%s (%.0f s)\n%s", o.name, o.took.Seconds(), wrap(o.how, "  ", 100))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range o.rows {
		fmt.Fprintf(w, "    %s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.measured, r.beside, r.ratio, r.target, r.met)
	}
	_ = w.Flush()
	if o.err != nil {
		fmt.Fprintf(out, "    not measured: %v\n", o.err)
	}
}

// writeMarkdown writes one table of all numbers, and below it how each was
// measured.
func writeMarkdown(name, about string, all []outcome) error {
	var b strings.Builder
	b.WriteString("# Figures\n\n")
	b.WriteString("What measuring costs and how good it is, on the machine below; `make bench` prints it for yours. This page is\n" +
		"written by `make bench ARGS=\"-markdown docs/figures.md\"`.\n\n")
	b.WriteString(wrap(about, "", 120) + "\n")
	b.WriteString("|figure|number|measured|beside it|ratio|target||\n|-|-|-|-|-|-|-|\n")
	for _, o := range all {
		name := o.name
		for _, r := range o.rows {
			fmt.Fprintf(&b, "|%s|%s|%s|%s|%s|%s|%s|\n", name, cell(r.what), cell(r.measured), cell(r.beside), cell(r.ratio), cell(r.target), r.met)
			name = ""
		}
		if o.err != nil {
			fmt.Fprintf(&b, "|%s|not measured: %s||||||\n", name, cell(o.err.Error()))
		}
	}
	b.WriteString("\n## How each is measured\n\n")
	for _, o := range all {
		fmt.Fprintf(&b, "**%s** (%.0f s).\n%s\n", o.name, o.took.Seconds(), wrap(o.how, "", 120))
	}
	return os.WriteFile(name, []byte(strings.TrimSpace(b.String())+"\n"), 0o644)
}

func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

// wrap breaks text at spaces into lines of at most width characters.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
