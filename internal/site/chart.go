package site

import (
	"fmt"
	"html/template"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/stats"
)

// A chart is a series and its picture.
type chart struct {
	*gate.Series
	State          state
	Limit          *float64
	Picture, Spark template.HTML
}

// Newest is the last value.
func (c chart) Newest() float64 { return c.Points[len(c.Points)-1].Value }

// Recent are the newest points, newest first.
func (c chart) Recent() []gate.Point {
	some := slices.Clone(c.Points[max(0, len(c.Points)-maxPoints):])
	slices.Reverse(some)
	return some
}

// Anchor is the measure's place in its page.
func (c chart) Anchor() string { return pathOf(c.Measure) }

func (c chart) alerts(p *page) (all []alert) {
	for _, change := range c.Changes {
		if change.Worse {
			all = append(all, alert{p.Branch, p.Testbed, p.Path + "#" + c.Anchor(), c.Series, change, c.Points[change.At].Time})
		}
	}
	return all
}

func newChart(s *gate.Series) chart {
	c := chart{Series: s, Limit: boundary(s)}
	c.State = stateOf(s, c.Limit)
	c.Picture, c.Spark = draw(c, 720, 220, true), draw(c, 120, 24, false)
	return c
}

// maxDots is the number of dots of a chart: of more runs, each is the median of some.
const maxDots = 240

// draw draws a series as SVG: a dot a run, a line at each change, and dashed where the
// next run would alarm. Every text in it is a number of ours.
func draw(c chart, width, height float64, whole bool) template.HTML {
	const left, right, top, bottom = 124, 10, 14, 26
	x := make([]float64, len(c.Points))
	for i, p := range c.Points {
		x[i] = p.Value
	}
	low, high := slices.Min(x), slices.Max(x)
	if whole && c.Limit != nil {
		low, high = min(low, *c.Limit), max(high, *c.Limit)
	}
	least := math.Inf(-1)
	if low >= 0 {
		least = 0 // no scale of times begins below it
	}
	if !(high > low) {
		low, high = low-1, high+1
	}
	if room := .05 * (high - low); !math.IsInf(room, 0) {
		low, high = low-room, high+room
	}
	low = max(low, least)
	l, r, t, b := 2., 2., 2., 2.
	if whole {
		l, r, t, b = left, right, top, bottom
	}
	dots := min(len(x), maxDots)
	if !whole {
		dots = min(len(x), 60)
	}
	across := func(i int) float64 { return l + (float64(i)+.5)*(width-l-r)/float64(len(x)) }
	up := func(v float64) float64 { return t + (high-v)/(high-low)*(height-t-b) }
	var s strings.Builder
	kind := "chart"
	if !whole {
		kind = "spark"
	}
	fmt.Fprintf(&s, `<svg class="%s" viewBox="0 0 %g %g" role="img" aria-label="%d runs, newest %s">`, kind, width, height, len(x),
		template.HTMLEscapeString(amount(c.Newest(), c.Unit)))
	if whole {
		for _, v := range []float64{low, (low + high) / 2, high} {
			fmt.Fprintf(&s, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1[3]f"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
				l, width-r, up(v), l-6, up(v)+4, template.HTMLEscapeString(amount(v, c.Unit)))
		}
		first, last := c.Points[0].Time.UTC(), c.Points[len(x)-1].Time.UTC()
		fmt.Fprintf(&s, `<text x="%g" y="%g">%s</text><text x="%g" y="%g" text-anchor="end">%s</text>`,
			l, height-6, first.Format("2006-01-02"), width-r, height-6, last.Format("2006-01-02"))
		if c.Limit != nil {
			fmt.Fprintf(&s, `<line class="limit" x1="%.1f" x2="%g" y1="%.1f" y2="%.1[3]f"/>`, across(c.since()), width-r, up(*c.Limit))
		}
	}
	for _, change := range c.Changes {
		class := "better"
		if change.Worse {
			class = "worse"
		}
		fmt.Fprintf(&s, `<line class="%s" x1="%.1f" x2="%.1[2]f" y1="%g" y2="%g"/>`, class, across(change.At)-(width-l-r)/float64(len(x))/2, t, height-b)
	}
	var line, marks strings.Builder
	for d := range dots {
		from, to := d*len(x)/dots, (d+1)*len(x)/dots
		v := stats.Median(x[from:to])
		at, y := across(from+(to-from-1)/2), up(v)
		fmt.Fprintf(&line, "%.1f,%.1f ", at, y)
		if whole {
			what := amount(v, c.Unit) + ", " + commit(c.Points[to-1].Revision) + ", " + c.Points[to-1].Time.UTC().Format("2006-01-02 15:04")
			if to-from > 1 {
				what = fmt.Sprintf("median of %d runs: ", to-from) + what
			}
			fmt.Fprintf(&marks, `<circle cx="%.1f" cy="%.1f" r="2.5"><title>%s</title></circle>`, at, y, template.HTMLEscapeString(what))
		}
	}
	fmt.Fprintf(&s, `<polyline points="%s"/>%s</svg>`, strings.TrimSpace(line.String()), marks.String())
	return template.HTML(s.String())
}

// since is the first point after the last change.
func (c chart) since() int {
	if n := len(c.Changes); n > 0 {
		return c.Changes[n-1].At
	}
	return 0
}

// badge of a benchmark: its first measure's newest value.
func (p *page) badge() []byte {
	c := p.Charts[0]
	return badge(p.Benchmark, amount(c.Newest(), c.Unit), p.State)
}

// Name is the file of a page, from its history's directory.
func (p *page) Name() string { return path.Base(p.Path) }
