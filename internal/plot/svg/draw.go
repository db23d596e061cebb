package svg

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/plot"
	"github.com/org/ebpf-bench-gate/stats"
)

// A side is base or head in a drawing.
type side struct {
	plot.Side
	name  string
	color color.NRGBA
}

func sides(f *plot.Figure) []side {
	all := []side{{f.Base, "base", baseColor}, {f.Head, "head", headColor}}
	return slices.DeleteFunc(all, func(s side) bool { return len(s.Values) == 0 })
}

func clamp(x, low, high float64) float64 { return max(low, min(high, x)) }

// drawSamples draws a row a side: its density, its values below, and its median.
func drawSamples(p *gonum.Plot, f *plot.Figure, unit string) {
	low, high := widen(f.Low, f.High)
	all := sides(f)
	var rows gonum.ConstantTicks
	for i, s := range all {
		if s.Density != nil {
			low, high = min(low, s.From), max(high, s.To)
		}
		rows = append(rows, gonum.Tick{Value: float64(len(all) - 1 - i), Label: s.name})
	}
	name, by := scaleOf(unit, high)
	p.X.Min, p.X.Max, p.X.Label.Text, p.X.Tick.Marker = low, high, name, ticks{by: by}
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker, p.Y.Tick.Length = -0.45, float64(len(all))-0.25, rows, 0
	p.Y.Width = 0
	p.Add(drawing(func(c draw.Canvas, x, y func(float64) vg.Length) {
		for i, s := range all {
			ground := float64(len(all) - 1 - i)
			if s.Density != nil {
				most := slices.Max(s.Density)
				ridge := []vg.Point{{X: x(s.From), Y: y(ground)}}
				for k, d := range s.Density {
					ridge = append(ridge, vg.Point{X: x(s.From + (s.To-s.From)*float64(k)/float64(len(s.Density)-1)), Y: y(ground + 0.6*d/most)})
				}
				ridge = append(ridge, vg.Point{X: x(s.To), Y: y(ground)})
				c.FillPolygon(faint(s.color, 0x38), ridge)
				stroke(c, pen(s.color, 1), ridge...)
			}
			for k, v := range s.Values {
				_, jitter := math.Modf(float64(k) * math.Phi)
				dot(c, s.color, x(clamp(v, f.Low, f.High)), y(ground-0.08-0.22*jitter))
			}
			m := x(clamp(stats.Median(s.Values), f.Low, f.High))
			stroke(c, pen(s.color, 1.8), vg.Point{X: m, Y: y(ground - 0.34)}, vg.Point{X: m, Y: y(ground + 0.64)})
		}
	}))
}

// drawRounds draws the values as they were measured; a line joins the pair of a round.
func drawRounds(p *gonum.Plot, f *plot.Figure, unit string) {
	all := sides(f)
	last := 1
	for _, s := range all {
		last = max(last, s.Rounds[len(s.Rounds)-1])
	}
	name, by := scaleOf(unit, f.High)
	p.X.Min, p.X.Max, p.X.Label.Text = -0.02*float64(last), 1.02*float64(last), "round"
	p.Y.Min, p.Y.Max = widen(f.Low, f.High)
	p.Y.Label.Text, p.Y.Tick.Marker = name, ticks{by: by}
	p.Add(drawing(func(c draw.Canvas, x, y func(float64) vg.Length) {
		if f.Paired && len(all) == 2 {
			other := map[int]float64{}
			for i, n := range all[1].Rounds {
				other[n] = all[1].Values[i]
			}
			for i, n := range all[0].Rounds {
				if v, ok := other[n]; ok {
					at := x(float64(n))
					stroke(c, pen(line, 0.8), vg.Point{X: at, Y: y(clamp(all[0].Values[i], f.Low, f.High))}, vg.Point{X: at, Y: y(clamp(v, f.Low, f.High))})
				}
			}
		}
		for _, s := range all {
			for i, v := range s.Values {
				dot(c, s.color, x(float64(s.Rounds[i])), y(clamp(v, f.Low, f.High)))
			}
		}
	}))
	for _, s := range all {
		p.Legend.Add(s.name, key{s.color})
	}
}

// A key is a dot in the legend.
type key struct{ color color.NRGBA }

// Thumbnail implements [gonum.Thumbnailer].
func (k key) Thumbnail(c *draw.Canvas) { dot(*c, k.color, c.Center().X, c.Center().Y) }

// drawInterval draws the change with its interval; shaded is what the policy calls
// worse.
func drawInterval(p *gonum.Plot, c *gate.Comparison, bad float64) {
	low, high := *c.Change, *c.Change
	p.X.Label.Text = "change"
	if c.Interval != nil {
		low, high = c.Interval.Low, c.Interval.High
		// Rounded down: no interval is surer than it is.
		p.X.Label.Text += fmt.Sprintf(", %g%% interval", math.Floor(1e4*c.Interval.Level+1e-6)/100)
	}
	from, to := min(0, low), max(0, high)
	if c.Margin != nil {
		from, to = min(from, bad**c.Margin), max(to, bad**c.Margin)
		p.X.Label.Text += fmt.Sprintf(", limit %+.1f%%", 100*bad**c.Margin)
	}
	room := max(0.12*(to-from), 1e-6)
	p.X.Min, p.X.Max, p.X.Tick.Marker = from-room, to+room, ticks{by: 0.01, suffix: "%"}
	p.Y.Min, p.Y.Max = 0, 1
	p.HideY()
	p.Add(drawing(func(d draw.Canvas, x, y func(float64) vg.Length) {
		upright := func(style draw.LineStyle, at float64) {
			stroke(d, style, vg.Point{X: x(at), Y: y(0)}, vg.Point{X: x(at), Y: y(1)})
		}
		if c.Margin != nil {
			limit, edge := bad**c.Margin, p.X.Max
			if bad < 0 {
				edge = p.X.Min
			}
			d.FillPolygon(faint(badColor, 0x18), []vg.Point{{X: x(limit), Y: y(0)}, {X: x(edge), Y: y(0)}, {X: x(edge), Y: y(1)}, {X: x(limit), Y: y(1)}})
			upright(pen(badColor, 1, 4, 3), limit)
		}
		upright(pen(dim, 1), 0)
		shade := verdictColor(c)
		stroke(d, pen(shade, 4), vg.Point{X: x(low), Y: y(0.5)}, vg.Point{X: x(high), Y: y(0.5)})
		d.DrawGlyph(draw.GlyphStyle{Color: shade, Radius: 4.5, Shape: draw.CircleGlyph{}}, vg.Point{X: x(*c.Change), Y: y(0.5)})
	}))
}

func verdictColor(c *gate.Comparison) color.NRGBA {
	switch {
	case !c.Judged:
		return dim
	case c.Verdict == gate.Regressed:
		return badColor
	case c.Verdict == gate.Pass, c.Verdict == gate.Improved:
		return goodColor
	}
	return color.NRGBA{0x8a, 0x5b, 0x00, 0xff}
}

// drawHistory draws the medians of stored runs, and last of all head's.
func drawHistory(p *gonum.Plot, c *gate.Comparison, s *gate.Series, unit string) {
	n := len(s.Points)
	low, high := math.Inf(1), math.Inf(-1)
	see := func(x *float64) {
		if x != nil && finite(*x) {
			low, high = min(low, *x), max(high, *x)
		}
	}
	for i := range s.Points {
		see(&s.Points[i].Value)
	}
	see(c.Head)
	if c.Boundary != nil {
		see(c.Boundary.Lower)
		see(c.Boundary.Upper)
	}
	p.Y.Min, p.Y.Max = widen(low, high)
	name, by := scaleOf(unit, high)
	p.Y.Label.Text, p.Y.Tick.Marker = name, ticks{by: by}
	p.X.Min, p.X.Max = -0.5, float64(n)+0.5
	p.X.Tick.Marker = gonum.ConstantTicks{
		{Value: 0, Label: s.Points[0].Time.UTC().Format("2006-01-02")}, {Value: float64(n), Label: "this run"},
	}
	p.Add(drawing(func(d draw.Canvas, x, y func(float64) vg.Length) {
		at := func(i int, v float64) vg.Point { return vg.Point{X: x(float64(i)), Y: y(v)} }
		if c.Boundary != nil {
			for _, b := range []*float64{c.Boundary.Lower, c.Boundary.Upper} {
				if b != nil && finite(*b) {
					stroke(d, pen(badColor, 1, 4, 3), vg.Point{X: x(p.X.Min), Y: y(*b)}, vg.Point{X: x(p.X.Max), Y: y(*b)})
				}
			}
		}
		var trace []vg.Point
		for i, pt := range s.Points {
			trace = append(trace, at(i, pt.Value))
		}
		stroke(d, pen(baseColor, 1.2), trace...)
		for _, pt := range trace {
			dot(d, baseColor, pt.X, pt.Y)
		}
		for _, ch := range s.Changes {
			shade := goodColor
			if ch.Worse {
				shade = badColor
			}
			mid := x(float64(ch.At) - 0.5)
			stroke(d, pen(shade, 1.2, 2, 3), vg.Point{X: mid, Y: y(p.Y.Min)}, vg.Point{X: mid, Y: y(p.Y.Max)})
		}
		if c.Head != nil && finite(*c.Head) {
			d.DrawGlyph(draw.GlyphStyle{Color: headColor, Radius: 3, Shape: draw.CircleGlyph{}}, at(n, *c.Head))
		}
	}))
}
