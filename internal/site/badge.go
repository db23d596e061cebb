package site

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"strings"
	"time"
)

// badge is a picture of two words, as READMEs show them.
func badge(left, right string, s state) []byte {
	const longest = 40
	short := func(s string) string {
		if r := []rune(clean(s)); len(r) > longest {
			return string(r[:longest-1]) + "…"
		}
		return clean(s)
	}
	left, right = short(left), short(right)
	width := func(s string) int { return 7*len([]rune(s)) + 12 }
	color := map[state]string{fewRuns: "#6e7781", steady: "#1a7f37", regressed: "#cf222e"}[s]
	l, r := width(left), width(right)
	e := template.HTMLEscapeString
	return []byte(fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s: %s"><title>%[2]s: %[3]s</title>`+
		`<clipPath id="r"><rect width="%[1]d" height="20" rx="3"/></clipPath><g clip-path="url(#r)"><rect width="%[4]d" height="20" fill="#444c56"/>`+
		`<rect x="%[4]d" width="%[5]d" height="20" fill="%[6]s"/></g>`+
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">`+
		`<text x="%[7]d" y="14" textLength="%[8]d">%[2]s</text><text x="%[9]d" y="14" textLength="%[10]d">%[3]s</text></g></svg>`+"\n",
		l+r, e(left), e(right), l, r, color, l/2, l-12, l+r/2, r-12))
}

// atom is the feed of alerts, newest first.
func atom(alerts []alert, newest time.Time, o Options) ([]byte, error) {
	type link struct {
		Rel  string `xml:"rel,attr,omitempty"`
		Href string `xml:"href,attr"`
	}
	type entry struct {
		Title   string `xml:"title"`
		ID      string `xml:"id"`
		Updated string `xml:"updated"`
		Link    link   `xml:"link"`
		Summary string `xml:"summary"`
	}
	base := o.URL
	if base != "" {
		base = strings.TrimRight(base, "/") + "/"
	}
	feed := struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		Title   string   `xml:"title"`
		ID      string   `xml:"id"`
		Updated string   `xml:"updated"`
		Author  string   `xml:"author>name"`
		Links   []link   `xml:"link"`
		Entries []entry  `xml:"entry"`
	}{
		Title: clean(o.Title) + ": alerts", ID: "urn:ebpf-bench-gate:" + pathOf(o.Title, o.URL), Updated: newest.UTC().Format(time.RFC3339),
		Author: "ebpf-bench-gate", Links: []link{{"self", base + "feed.atom"}, {"", base + "index.html"}},
	}
	for _, a := range alerts {
		s := a.Series
		size := amount(a.Before, s.Unit) + " to " + amount(a.After, s.Unit)
		if p := percent(a.Change); p != "" {
			size += " (" + p + ")"
		}
		feed.Entries = append(feed.Entries, entry{
			Title:   clean(fmt.Sprintf("%s %s: %s on %s, %s", s.Benchmark, s.Measure, size, a.Branch, a.Testbed)),
			ID:      "urn:ebpf-bench-gate:" + pathOf(a.Branch, a.Testbed, s.Benchmark, s.Measure, s.Points[a.At].Run),
			Updated: a.When.UTC().Format(time.RFC3339), Link: link{"", base + a.Link},
			Summary: fmt.Sprintf("Changed after %s and not after %s.", commit(a.From), commit(a.To)),
		})
	}
	text, err := xml.MarshalIndent(feed, "", " ")
	if err != nil {
		return nil, err
	}
	return append([]byte(xml.Header), append(text, '\n')...), nil
}
