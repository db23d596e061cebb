package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/english"
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

// Suite writes one comment for the reports of several testbeds, the worst first: the
// verdict in words and what it rests on, the rows that need a reader, notes, what is
// folded, and what can be done: measure again, or accept. Where that is longer than
// allowed it leaves out, of all testbeds at once and in this order, the chart, verifier
// logs, what was skipped, the table of all comparisons, warnings, waivers, and the last
// rows of the first tables; and says so. No reports at all are Inconclusive.
func Suite(w io.Writer, reports []*gate.Report, o SuiteOptions) error {
	limit := o.MaxBytes
	if limit <= 0 {
		limit = MaxComment
	}
	limit = max(limit, MinComment)
	s := &suite{o: o, rows: maxRows, told: map[[2]string]bool{}}
	full := reports[:min(len(reports), maxFull)]
	s.more = reports[len(full):]
	if len(full) > 1 {
		s.rows = max(20, maxRows/len(full))
	}
	for _, r := range full {
		s.add(r)
	}
	s.table()
	s.chart, s.accept = chart(o.History), accept(full, &o.MarkdownOptions)
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
	missed  []string // those of dropped of which there was some
	short   bool     // only verdicts
	told    map[[2]string]bool

	lead, chart, accept string
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
	c := &comment{r: r, s: newSheet(r), o: &s.o.MarkdownOptions, rows: s.rows, skips: skipNotes(r), told: s.told}
	p := &testbedParts{c: c}
	p.warnings, p.all, p.skipped, p.foot = c.part(c.warnings), c.part(c.all), c.part(c.skipped), c.part(c.footer)
	s.all = append(s.all, p)
}

// table makes the parts, or makes them anew, that depend on the number of rows.
func (s *suite) table() {
	clear(s.told)
	for i, p := range s.all {
		p.c.rows = s.rows
		if i == 0 {
			s.lead = p.c.part(p.c.lead)
		}
		p.first, p.programs = p.c.part(p.c.first), p.c.part(p.c.programs)
	}
}

// drop leaves a part out, and notes it where there was some of it.
func (s *suite) drop(part string) {
	s.dropped = append(s.dropped, part)
	had := false
	leave := func(p *string) { had, *p = had || *p != "", "" }
	for _, p := range s.all {
		p.c.dropped = s.dropped
		switch part {
		case partLogs:
			n := len(p.programs)
			p.programs = p.c.part(p.c.programs)
			had = had || len(p.programs) < n
		case partSkipped:
			leave(&p.skipped)
		case partAll:
			leave(&p.all)
		case partWarnings:
			leave(&p.warnings)
		}
	}
	switch part {
	case partChart:
		leave(&s.chart)
	case partAccept:
		leave(&s.accept)
	}
	if had {
		s.missed = append(s.missed, part)
	}
}

func (s *suite) write() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n### %s\n\n", Marker(s.o.ID), s.title())
	many := len(s.all) > 1
	if !s.short {
		b.WriteString(s.lead)
	}
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
			fmt.Fprintf(&b, "- …and %s\n", english.Count(len(s.o.Notes)-i, "more note"))
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
	b.WriteString(s.gather(func(p *testbedParts) string { return p.warnings }))
	b.WriteString(fold(s.allTitle(), s.gather(func(p *testbedParts) string { return p.all })))
	b.WriteString(fold(s.skippedTitle(), s.gather(func(p *testbedParts) string { return p.skipped })))
	b.WriteString(s.chart)
	if len(s.missed) > 0 {
		fmt.Fprintf(&b, "Left out because of the length: %s. The JSON report has everything.\n\n", strings.Join(s.missed, ", "))
	}
	if command := reproduce(s.reports(), &s.o.MarkdownOptions); command != "" {
		fmt.Fprintf(&b, "**Reproduce** %s\n\n", "<code>"+command+"</code>")
	}
	b.WriteString(s.accept)
	for _, p := range s.all {
		b.WriteString(p.foot)
	}
	return b.String()
}

// gather puts one part of all testbeds together, each under its name.
func (s *suite) gather(part func(*testbedParts) string) string {
	var b strings.Builder
	for _, p := range s.all {
		text := part(p)
		if text != "" && len(s.all) > 1 {
			fmt.Fprintf(&b, "%s\n\n", bold(testbedName(p.c.r)))
		}
		b.WriteString(text)
	}
	return b.String()
}

// fold hides a text behind its title; nothing is not folded.
func fold(title, text string) string {
	if text == "" {
		return ""
	}
	return "<details><summary>" + title + "</summary>\n\n" + text + "</details>\n\n"
}

func (s *suite) allTitle() string {
	title := "All measures"
	for _, p := range s.all {
		if !p.c.s.alone {
			title = "All comparisons"
		}
	}
	if n := len(s.all); n > 1 {
		title += " · " + english.Count(n, "testbed")
	}
	return title
}

// skippedTitle counts what was not measured, each name once.
func (s *suite) skippedTitle() string {
	names := map[string]bool{}
	for _, p := range s.all {
		for _, n := range p.c.skips {
			for _, name := range n.names {
				names[name] = true
			}
		}
	}
	return fmt.Sprintf("%d not measured", len(names))
}

func (s *suite) reports() []*gate.Report {
	out := make([]*gate.Report, len(s.all))
	for i, p := range s.all {
		out[i] = p.c.r
	}
	return out
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
