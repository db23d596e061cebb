// Package site writes a static site of stored histories: an index by branch, testbed and
// benchmark, a page for each benchmark with its series, boundaries and change points,
// badges, and a feed of alerts. It is for GitHub Pages and any other server of files.
//
// It draws what package gate says of stored runs and judges nothing else. Pages need no
// network and no script, and the same histories give the same bytes. Every name comes from
// stored files: none becomes a path ([pathOf]), and templates escape them.
//
// In the order of reading: site.go is what is written where, state.go how a series
// stands, chart.go and badge.go are the pictures, page.html, index.html and style.css the
// looks.
package site

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// A History is what a store has of a branch on a testbed.
type History struct {
	Branch, Testbed string
	Runs            int
	Series          []gate.Series
}

// Options of [Write].
type Options struct {
	// Title of the site; empty: "Benchmarks".
	Title string
	// URL is where the site will be, for the links of the feed; empty: they are relative.
	URL string
}

const (
	// marker is a file by which a directory is known to be a site, whose files may be
	// replaced.
	marker = ".ebpf-bench-site"
	// maxAlerts is the number of the newest alerts that are told.
	maxAlerts = 50
	// maxPoints is the number of newest runs in a page's table.
	maxPoints = 50
)

// ErrOccupied is that a directory holds something else than a site.
var ErrOccupied = errors.New("holds other files than a site that gate wrote")

//go:embed index.html page.html style.css
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"amount": amount, "commit": commit, "day": func(t time.Time) string { return t.UTC().Format("2006-01-02") },
	"clean": clean, "percent": percent,
	"interval": func(i *gate.Interval) string { return fmt.Sprintf("%+.1f%%, %+.1f%%", 100*i.Low, 100*i.High) },
	"orDash":   func(s string) string { return cmp.Or(s, "–") },
}).ParseFS(files, "index.html", "page.html"))

// An alert is a change for the worse.
type alert struct {
	Branch, Testbed, Link string
	Series                *gate.Series
	gate.ChangePoint
	When time.Time
}

// A view is a history as the pages show it.
type view struct {
	History
	Dir   string // of its pages, from the top of the site
	State state
	Pages []*page
}

// A page is one benchmark of a history.
type page struct {
	*view
	Benchmark string
	Path      string // from the top of the site
	Badge     string
	State     state
	Charts    []chart
	Top       string // the top of the site, from the page
	Title     string
	Style     template.CSS
}

// Write writes the site into a directory, which it makes, or which holds a site that is
// replaced.
func Write(dir string, all []History, o Options) error {
	root, err := clear(dir)
	if err != nil {
		return fmt.Errorf("write site: %w", err)
	}
	defer root.Close()
	style, err := files.ReadFile("style.css")
	if err != nil {
		return err
	}
	w := writer{root: root}
	o.Title = cmp.Or(o.Title, "Benchmarks")
	var views []*view
	var alerts []alert
	var newest time.Time
	for _, h := range all {
		v := newView(h)
		views = append(views, v)
		for _, p := range v.Pages {
			p.Title, p.Style = o.Title, template.CSS(style)
			w.template(p.Path, "page.html", p)
			w.file(p.Badge, p.badge())
			for _, c := range p.Charts {
				alerts = append(alerts, c.alerts(p)...)
				if last := c.Points[len(c.Points)-1].Time; last.After(newest) {
					newest = last
				}
			}
		}
		w.file(v.badgePath(), badge("benchmarks", v.State.String(), v.State))
	}
	slices.SortStableFunc(alerts, func(a, b alert) int { return cmp.Or(b.When.Compare(a.When), strings.Compare(a.Link, b.Link)) })
	alerts = alerts[:min(len(alerts), maxAlerts)]
	w.template("index.html", "index.html", map[string]any{
		"Title": o.Title, "Views": views, "Alerts": alerts[:min(len(alerts), 20)], "Newest": newest, "Style": template.CSS(style),
	})
	feed, err := atom(alerts, newest, o)
	if err != nil {
		return fmt.Errorf("write site: %w", err)
	}
	w.file("feed.atom", feed)
	w.file(".nojekyll", nil)
	if w.err != nil {
		return fmt.Errorf("write site: %w", w.err)
	}
	return nil
}

// newView sorts the series of a history by benchmark, noisy measures before exact ones
// and those of the verifier last.
func newView(h History) *view {
	v := &view{History: h, Dir: "h/" + pathOf(h.Branch, h.Testbed)}
	at := map[string]*page{}
	for i := range h.Series {
		s := &h.Series[i]
		p := at[s.Benchmark]
		if p == nil {
			file := pathOf(s.Benchmark)
			p = &page{view: v, Benchmark: s.Benchmark, Path: path.Join(v.Dir, file+".html"), Badge: path.Join(v.Dir, file+".svg"), Top: "../../"}
			at[s.Benchmark] = p
			v.Pages = append(v.Pages, p)
		}
		c := newChart(s)
		p.Charts = append(p.Charts, c)
		p.State = max(p.State, c.State)
	}
	slices.SortFunc(v.Pages, func(a, b *page) int { return strings.Compare(a.Benchmark, b.Benchmark) })
	for _, p := range v.Pages {
		slices.SortStableFunc(p.Charts, func(a, b chart) int { return bench.MeasureOrder(a.Measure, b.Measure) })
		v.State = max(v.State, p.State)
	}
	return v
}

func (v *view) badgePath() string { return v.Dir + ".svg" }

// ID is the history's place in the index.
func (v *view) ID() string { return path.Base(v.Dir) }

// Badge is the path of the history's badge.
func (v *view) Badge() string { return v.badgePath() }

// pathOf makes one part of a path of names: what can be read of them, and what tells them
// apart, whatever they hold and on file systems that do not know case.
func pathOf(names ...string) string {
	const longest = 60
	text := strings.Join(names, "-")
	text = strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return unicode.ToLower(r)
		}
		return '-'
	}, text), "-")
	for strings.Contains(text, "--") {
		text = strings.ReplaceAll(text, "--", "-")
	}
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return strings.TrimLeft(text[:min(len(text), longest)]+"-"+hex.EncodeToString(sum[:6]), "-")
}

// clear opens the directory of a site, empty.
func clear(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		if _, err = root.Lstat(marker); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s %w", dir, ErrOccupied)
		}
	}
	if err == nil {
		err = errors.Join(root.RemoveAll("h"), root.WriteFile(marker, nil, 0o644))
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// A writer keeps its first error.
type writer struct {
	root *os.Root
	err  error
}

func (w *writer) file(name string, data []byte) {
	if w.err != nil {
		return
	}
	name = filepath.FromSlash(name)
	if w.err = w.root.MkdirAll(filepath.Dir(name), 0o755); w.err == nil {
		w.err = w.root.WriteFile(name, data, 0o644)
	}
}

func (w *writer) template(name, which string, data any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, which, data); err != nil && w.err == nil {
		w.err = err
	}
	w.file(name, b.Bytes())
}

// amount is a number with four digits and its unit.
func amount(v float64, unit string) string {
	n := strconv.FormatFloat(v, 'g', 4, 64)
	if v == float64(int64(v)) && v < 1e15 && v > -1e15 {
		n = strconv.FormatInt(int64(v), 10)
	}
	if unit == "" || unit == "count" {
		return n
	}
	return n + " " + clean(unit)
}

func percent(c *float64) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%+.1f%%", 100**c)
}

func commit(r bench.Revision) string {
	if len(r.Commit) > 7 {
		return clean(r.Commit[:7])
	}
	return clean(cmp.Or(r.Commit, r.Name, "–"))
}

// clean takes out what no page shows, and what turns text around.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
