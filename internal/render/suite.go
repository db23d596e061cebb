package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/org/ebpf-bench-gate/gate"
)

// SuiteOptions of [Suite].
type SuiteOptions struct {
	MarkdownOptions
	// Title replaces the sentence of the worst report, where more is known than
	// any report says; Verdict then is its verdict.
	Title   string
	Verdict gate.Verdict
	// Notes are sentences about the whole: where the policy comes from, what the
	// baseline consists of, what was not written. They may quote a pull request.
	Notes []string
}

// maxFull is the number of testbeds that are shown with their tables.
const maxFull = 16

// Suite writes one comment for the reports of several testbeds, the worst first:
// what [Markdown] writes, with a part for each. Detail is dropped in the same
// order, of all testbeds at once. No reports at all are Inconclusive.
func Suite(w io.Writer, reports []*gate.Report, o SuiteOptions) error {
	limit := o.MaxBytes
	if limit <= 0 {
		limit = MaxComment
	}
	limit = max(limit, MinComment)
	s := &suite{o: o, rows: maxRows}
	for i, r := range reports {
		if i == maxFull {
			s.more = reports[i:]
			break
		}
		s.add(r)
	}
	if len(s.all) > 1 {
		s.rows = max(20, maxRows/len(s.all))
		s.table()
	}
	out := s.write()
	for _, drop := range dropOrder {
		if len(out) <= limit {
			break
		}
		s.drop(drop)
		out = s.write()
	}
	for len(out) > limit && s.rows > 0 {
		s.rows /= 2
		s.table()
		out = s.write()
	}
	if len(out) > limit {
		s.short = true
		out = s.write()
	}
	_, err := io.WriteString(w, out)
	return err
}

// A suite holds the parts of all testbeds, each made once: dropping one costs
// nothing but its absence.
type suite struct {
	o       SuiteOptions
	all     []*testbedParts
	more    []*gate.Report
	rows    int // of the first table of each testbed
	dropped []string
	short   bool // only verdicts
}

type testbedParts struct {
	c                                             *comment
	first, programs, warnings, all, skipped, foot string
}

func (c *comment) part(write func()) string {
	c.b.Reset()
	write()
	return c.b.String()
}

func (s *suite) add(r *gate.Report) {
	c := &comment{r: r, s: newSheet(r), rows: s.rows}
	p := &testbedParts{c: c}
	p.first, p.programs, p.warnings = c.part(c.first), c.part(c.programs), c.part(c.warnings)
	p.all, p.skipped, p.foot = c.part(c.all), c.part(c.skipped), c.part(c.footer)
	s.all = append(s.all, p)
}

// table makes the parts anew that depend on the number of rows.
func (s *suite) table() {
	for _, p := range s.all {
		p.c.rows = s.rows
		p.first, p.programs = p.c.part(p.c.first), p.c.part(p.c.programs)
	}
}

func (s *suite) drop(part string) {
	s.dropped = append(s.dropped, part)
	for _, p := range s.all {
		p.c.dropped = s.dropped
		switch part {
		case partLogs:
			p.programs = p.c.part(p.c.programs)
		case partSkipped:
			p.skipped = ""
		case partAll:
			p.all = ""
		case partWarnings:
			p.warnings = ""
		}
	}
}

func (s *suite) write() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n### %s\n\n", Marker(s.o.ID), s.title())
	many := len(s.all) > 1
	for _, p := range s.all {
		if many {
			line := words(p.c.r) + p.c.r.Summary
			_, m := headline(p.c.r)
			fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(emoji[m]+" "+bold(testbedName(p.c.r))+" "+escape(line, maxParagraph/2)))
		}
		if s.short {
			continue
		}
		b.WriteString(p.first)
		b.WriteString(p.programs)
		if h := p.c.r.Hint; h != "" {
			fmt.Fprintf(&b, "**Hint** %s\n\n", escape(h, maxParagraph))
		}
	}
	for i, r := range s.more {
		if i == 64 {
			fmt.Fprintf(&b, "…and %d more testbeds\n\n", len(s.more)-i)
			break
		}
		_, m := headline(r)
		fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(emoji[m]+" "+bold(testbedName(r))+" "+escape(strings.TrimSuffix(words(r), ": "), maxCell)))
	}
	for i, n := range s.o.Notes {
		if i == 30 {
			fmt.Fprintf(&b, "- …and %s\n", plural(len(s.o.Notes)-i, "more note"))
			break
		}
		fmt.Fprintf(&b, "- %s\n", escape(n, maxParagraph))
	}
	if len(s.o.Notes) > 0 {
		b.WriteString("\n")
	}
	if s.short {
		b.WriteString("Left out because of the length: everything else. The JSON report has it.\n")
		return b.String()
	}
	for _, fold := range []func(*testbedParts) string{
		func(p *testbedParts) string { return p.warnings },
		func(p *testbedParts) string { return p.all },
		func(p *testbedParts) string { return p.skipped },
	} {
		for _, p := range s.all {
			part := fold(p)
			if part != "" && many {
				fmt.Fprintf(&b, "%s\n\n", bold(testbedName(p.c.r)))
			}
			b.WriteString(part)
		}
	}
	if len(s.dropped) > 0 {
		fmt.Fprintf(&b, "Left out because of the length: %s. The JSON report has everything.\n\n", strings.Join(s.dropped, ", "))
	}
	if len(s.all) > 0 {
		if base := s.all[0].c.r.Base; base != nil && base.Commit != "" {
			fmt.Fprintf(&b, "**Reproduce** %s\n\n", code("gate run --base "+base.Commit[:min(12, len(base.Commit))]))
		}
	}
	for _, p := range s.all {
		b.WriteString(p.foot)
	}
	return b.String()
}

func (s *suite) title() string {
	r := &gate.Report{Asked: true, Summary: "nothing was measured."}
	if len(s.all) > 0 {
		r = s.all[0].c.r
	}
	if s.o.Title != "" {
		r = &gate.Report{Asked: true, Verdict: s.o.Verdict, Summary: s.o.Title}
	}
	_, m := headline(r)
	return strings.TrimSpace(emoji[m] + " " + words(r) + escape(r.Summary, maxParagraph))
}

func bold(name string) string { return "<b>" + entities(shorten(clean(name), maxCell)) + "</b>" }

func testbedName(r *gate.Report) string {
	if s := r.Testbed.Slug(); r.Testbed.Name != "" || r.Testbed.Kernel != "" {
		return s
	}
	return "an unnamed testbed"
}
