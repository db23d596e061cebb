package render

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/english"
	"github.com/org/ebpf-bench-gate/internal/plot"
)

// The page is one file that asks for nothing else: its policy allows the script and the
// style in it, by their digests, and nothing of anybody else's.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/page.js
	pageScript string

	pageTemplate = template.Must(template.New("page").Parse(pageHTML))
	pagePolicy   = fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'",
		digest(pageScript), digest(pageStyle))
)

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// A PageReport is a report with the runs that it is about, whose samples the page draws.
// Without them it has no plots; base may be nil, and Past are stored runs.
type PageReport struct {
	Report     *gate.Report
	Base, Head *bench.Run
	Past       []*bench.Run
}

// PageOptions of [HTML].
type PageOptions struct {
	Version string // of gate
	Title   string // what the reports are about; empty: head
	// Summary replaces the sentence of all reports, where more is known than any of
	// them says; Verdict then is their verdict.
	Summary string
	Verdict gate.Verdict
}

// maxPageSamples is how many samples a page draws: of more every n-th, evenly, which it
// says. A sample takes some seven bytes.
const maxPageSamples = 300_000

// HTML writes reports of some testbeds, of which missing have none, as a page in one
// file: the verdict, every comparison, and of each its samples, its interval against the
// limit, its history and the lines that explain it. It needs no network, and shows its
// tables without JavaScript.
//
// Numbers go to the script as JSON, and are drawn where somebody looks: a thousand
// comparisons with all their plots would be tens of megabytes of SVG.
func HTML(w io.Writer, reports []PageReport, missing int, o PageOptions) error {
	p := newPage(reports, missing, o)
	return pageTemplate.Execute(w, p)
}

// A page is what the template shows.
type page struct {
	Policy string
	Style  template.CSS // ours alone: nothing of a report is in it
	Script template.JS  // likewise

	Title, Word, Mark, Summary, About, Hint, Foot string

	Rows     bool // there are any
	Several  bool // testbeds
	Chips    []pageChip
	Measures []string
	Sections []pageSection
	Data     pageData
}

type pageChip struct {
	Kind, Name, Mark string
	Count            int
	On               bool
}

type pageSection struct {
	Testbed, Word, Mark, Summary string

	Why       []pageNote
	Programs  []pageProgram
	Rows      []pageRow
	Notes     []pageNote
	NotesName string
	Loud      bool
	Facts     []pageFact
}

type pageNote struct {
	Mark, Who, Text, Hint string
	Place, Line           string // of the source
}

type pageProgram struct{ Name, Mark, Text, Log, Path string }

type pageFact struct{ Name, Value string }

type pageRow struct {
	ID                                                   int
	Mark, Symbol, Benchmark, Measure, Base, Head, Change string
	Bar, Verdict                                         string
	Limited                                              bool
}

// markNames are the classes of marks.
var markNames = [...]string{told: "told", bad: "bad", doubtful: "doubtful", good: "good", better: "better", added: "added"}

func newPage(reports []PageReport, missing int, o PageOptions) *page {
	p := &page{Policy: pagePolicy, Style: template.CSS(pageStyle), Script: template.JS(pageScript), Several: len(reports)+missing > 1}
	head := &gate.Report{}
	plain := make([]*gate.Report, len(reports))
	for i, r := range reports {
		plain[i] = r.Report
	}
	switch {
	case len(reports) == 1 && missing == 0:
		head = plain[0]
	case len(reports) > 0:
		*head = *plain[0]
		head.Asked, head.Hint = missing > 0 || asked(plain), ""
		head.Verdict, head.Summary = gate.Overall(plain, missing)
	default:
		head.Asked = true
		head.Verdict, head.Summary = gate.Overall(nil, missing)
	}
	if o.Summary != "" {
		told := *head
		told.Asked, told.Verdict, told.Summary = true, o.Verdict, o.Summary
		head = &told
	}
	word, m := headline(head)
	p.Word, p.Mark, p.Summary, p.Hint = word, markNames[m], clean(head.Summary), clean(head.Hint)
	p.About = about(head, !p.Several)
	p.Title = clean(o.Title)
	if p.Title == "" {
		p.Title = "head " + clean(head.Head.Short())
	}
	p.Foot = strings.TrimSpace("Made by gate " + clean(o.Version))

	b := &pageBuilder{page: p, kinds: map[string]*pageChip{}}
	b.samples = countSamples(reports)
	names := bedNames(plain)
	for i, r := range reports {
		b.section(names[i], r)
	}
	b.finish()
	return p
}

// about is what was compared, and where.
func about(r *gate.Report, bed bool) string {
	s := "head " + name(r.Head.Short())
	if a := against(r); a != "" {
		s += " against " + shorten(a, 2*maxName)
	}
	if t := testbed(r.Testbed); bed && t != "" {
		s += " · " + t
	}
	if n := rounds(r); bed && n != "" {
		s += " · " + n
	}
	return s
}

// countSamples is how many samples the noisy rows of reports have.
func countSamples(reports []PageReport) int {
	n := 0
	for _, r := range reports {
		for _, run := range []*bench.Run{r.Base, r.Head} {
			for i := 0; run != nil && i < len(run.Results); i++ {
				if res := &run.Results[i]; !res.Exact() {
					n += len(res.Samples)
				}
			}
		}
	}
	return n
}

// A pageBuilder makes the sections of a page.
type pageBuilder struct {
	page    *page
	samples int // of all reports
	kinds   map[string]*pageChip
	thinned bool
}

func (b *pageBuilder) section(bed string, r PageReport) {
	s := newSheet(r.Report)
	word, m := headline(r.Report)
	out := pageSection{Testbed: bed, Word: word, Mark: markNames[m], Summary: clean(r.Report.Summary)}
	b.explain(&out, r.Report, s)
	figures := plot.New(r.Base, r.Head, r.Past)
	branch := ""
	if r.Base != nil {
		branch = r.Base.Revision.Branch
	} else if r.Head != nil {
		branch = r.Head.Revision.Branch
	}
	for i := range r.Report.Comparisons {
		c := &r.Report.Comparisons[i]
		f := figures.Of(c)
		out.Rows = append(out.Rows, b.row(s, c, &f, clean(branch)))
	}
	b.page.Sections = append(b.page.Sections, out)
}

// explain tells why, what the verifier said, and what there is to doubt.
func (b *pageBuilder) explain(out *pageSection, r *gate.Report, s *sheet) {
	why, warn := rowNotes(s.rows, r.Budget())
	for _, n := range why {
		note := pageNote{Who: n.who(name), Text: clean(n.text), Hint: clean(n.hint)}
		if n.line == nil {
			out.Notes = append(out.Notes, note)
			continue
		}
		note.Place, note.Line, note.Text = clean(n.line.place()), clean(n.line.Text), clean(n.line.does)
		out.Why = append(out.Why, note)
	}
	for _, p := range r.Programs {
		m := markOfVerdict(r.Answer(p))
		if r.Answer(p) == gate.Pass && p.Outcome != bench.Accepted {
			m = told
		}
		out.Programs = append(out.Programs, pageProgram{Name: name(p.Program), Mark: markNames[m], Text: programInWords(p), Log: logTail(p), Path: clean(p.LogPath)})
	}
	doubts := 0
	for _, w := range r.Warnings {
		out.Notes = append(out.Notes, pageNote{Mark: markNames[doubtful], Text: clean(w)})
		doubts++
	}
	for _, n := range warn {
		out.Notes = append(out.Notes, pageNote{Mark: markNames[doubtful], Who: n.who(name), Text: clean(n.text), Hint: clean(n.hint)})
		doubts++
	}
	for _, n := range skipNotes(r) {
		out.Notes = append(out.Notes, pageNote{Who: n.who(name), Text: "skipped: " + clean(n.text), Hint: clean(n.hint)})
	}
	out.NotesName = english.Count(len(out.Notes), "note")
	if doubts > 0 {
		out.NotesName = english.Count(doubts, "warning")
		if more := len(out.Notes) - doubts; more > 0 {
			out.NotesName += " and " + english.Count(more, "note")
		}
	}
	const few = 8
	out.Loud = len(out.Notes) <= few
	for _, f := range []pageFact{
		{"testbed", testbed(r.Testbed)}, {"measured", rounds(r)}, {"seed", seed(r)}, {"net", floors(s.rows)}, {"uses", s.limits()},
		{"sees", power(s.rows)}, {"odd", outliers(s.rows)},
	} {
		if f.Value != "" {
			out.Facts = append(out.Facts, f)
		}
	}
}

// kindOf is the filter that shows a row.
func kindOf(s *sheet, c *gate.Comparison) (kind, title string, m mark) {
	m = s.mark(c)
	switch {
	case c.Warn:
		return "warning", "warned", m
	case c.Verdict == gate.Added:
		return "added", "only in head", m
	case c.Verdict == gate.Missing:
		return "missing", "missing", m
	case !c.Judged:
		if c.Base != nil && c.Head != nil && *c.Base == *c.Head {
			return "same", "told, unchanged", m
		}
		return "told", "told", m
	}
	return c.Verdict.String(), c.Verdict.String(), m
}

// chipOrder is the order of the filters; those from quiet on are off at first.
var (
	chipOrder = []string{"regressed", "missing", "inconclusive", "warning", "improved", "pass", "added", "told", "same"}
	quiet     = 7
)

func (b *pageBuilder) row(s *sheet, c *gate.Comparison, f *plot.Figure, branch string) pageRow {
	id := len(b.page.Data.Rows)
	kind, title, m := kindOf(s, c)
	chip := b.kinds[kind]
	if chip == nil {
		chip = &pageChip{Kind: kind, Name: title, Mark: markNames[m]}
		b.kinds[kind] = chip
	}
	chip.Count++
	b.page.Data.Rows = append(b.page.Data.Rows, b.data(s, c, f, kind, branch))
	return pageRow{
		ID: id, Mark: markNames[m], Symbol: strings.TrimSpace(symbols[m]), Benchmark: clean(c.Benchmark), Measure: clean(c.Measure),
		Base: value(c.Base, c.Unit), Head: value(c.Head, c.Unit), Change: change(c), Verdict: s.verdict(c),
		Bar: bar(c, f.Bad), Limited: c.Margin != nil && *c.Margin > 0,
	}
}

func (b *pageBuilder) finish() {
	p := b.page
	p.Rows = len(p.Data.Rows) > 0
	loud := false
	for i, kind := range chipOrder {
		if chip := b.kinds[kind]; chip != nil {
			chip.On = i < quiet
			loud = loud || chip.On
			p.Chips = append(p.Chips, *chip)
		}
	}
	for i := range p.Chips {
		p.Chips[i].On = p.Chips[i].On || !loud // a page of nothing else shows it
	}
	seen := map[string]bool{}
	for i := range p.Data.Rows {
		if m := p.Data.Rows[i].Measure; !seen[m] {
			seen[m] = true
			p.Measures = append(p.Measures, m)
		}
	}
	if b.thinned {
		p.Foot += fmt.Sprintf(" Of %s samples some are drawn, evenly; all are judged.", count(float64(b.samples)))
	}
}

// day is a day as a history shows it.
func day(t time.Time) string { return t.UTC().Format("2006-01-02") }
