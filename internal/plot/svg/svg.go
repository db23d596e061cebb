// Package svg draws the figures of package plot as files, with gonum/plot: the same
// that the page of a report draws in the browser. The same figure is the same bytes.
package svg

import (
	"fmt"
	"image/color"
	"io"
	"math"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/plot"
)

// A Kind is what is drawn of a comparison.
type Kind string

// The kinds, in the order of the page.
const (
	Samples  Kind = "samples"  // every value of both sides, with their densities
	Rounds   Kind = "rounds"   // the same in the order of the rounds
	Interval Kind = "interval" // the change against the limit
	History  Kind = "history"  // the medians of stored runs
)

// Kinds returns every kind.
func Kinds() []Kind { return []Kind{Samples, Rounds, Interval, History} }

// Texts are what stands in a drawing besides numbers; the caller makes them harmless.
type Texts struct {
	Title, Unit string
}

var (
	ink       = color.NRGBA{0x1b, 0x1f, 0x24, 0xff}
	dim       = color.NRGBA{0x5b, 0x65, 0x70, 0xff}
	line      = color.NRGBA{0xd8, 0xdd, 0xe3, 0xff}
	baseColor = color.NRGBA{0x4a, 0x6f, 0xb5, 0xff}
	headColor = color.NRGBA{0xb3, 0x53, 0x00, 0xff}
	badColor  = color.NRGBA{0xb3, 0x26, 0x1e, 0xff}
	goodColor = color.NRGBA{0x1a, 0x7f, 0x45, 0xff}
)

const width, height = 480, 240 // points

// Draw writes a drawing; false where there is nothing of the kind to draw.
func Draw(w io.Writer, kind Kind, c *gate.Comparison, f *plot.Figure, t Texts) (bool, error) {
	p := newPlot(t.Title)
	tall := vg.Length(height)
	switch kind {
	case Samples:
		if !f.Drawn() {
			return false, nil
		}
		drawSamples(p, f, t.Unit)
	case Rounds:
		if !f.Drawn() {
			return false, nil
		}
		drawRounds(p, f, t.Unit)
	case Interval:
		if c.Change == nil || !finite(*c.Change) || c.Interval == nil && c.Margin == nil {
			return false, nil
		}
		tall = 130
		drawInterval(p, c, f.Bad)
	case History:
		if f.History == nil {
			return false, nil
		}
		drawHistory(p, c, f.History, t.Unit)
	default:
		return false, fmt.Errorf("no kind of plot %q", kind)
	}
	canvas := vgsvg.New(width, tall)
	canvas.SetColor(color.White)
	canvas.Fill(vg.Rectangle{Max: vg.Point{X: width, Y: tall}}.Path())
	p.Draw(draw.Crop(draw.New(canvas), 8, -12, 6, -8))
	_, err := canvas.WriteTo(w)
	return true, err
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func newPlot(title string) *gonum.Plot {
	p := gonum.New()
	p.Title.Text, p.Title.Padding = title, 6
	sans := func(f *font.Font, size vg.Length) {
		*f = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	}
	sans(&p.Title.TextStyle.Font, 12)
	p.Title.TextStyle.Color = ink
	for _, a := range []*gonum.Axis{&p.X, &p.Y} {
		sans(&a.Label.TextStyle.Font, 10)
		sans(&a.Tick.Label.Font, 9)
		a.Label.TextStyle.Color, a.Tick.Label.Color, a.Color, a.Tick.Color = dim, dim, line, line
	}
	sans(&p.Legend.TextStyle.Font, 9)
	p.Legend.Top = true
	return p
}

// A drawing draws with the scales of its plot.
type drawing func(c draw.Canvas, x, y func(float64) vg.Length)

// Plot implements [gonum.Plotter].
func (d drawing) Plot(c draw.Canvas, p *gonum.Plot) {
	x, y := p.Transforms(&c)
	d(c, x, y)
}

func pen(c color.Color, width vg.Length, dashes ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: dashes}
}

func faint(c color.NRGBA, alpha uint8) color.NRGBA {
	c.A = alpha
	return c
}

// dot is a point of a sample.
func dot(c draw.Canvas, of color.NRGBA, x, y vg.Length) {
	c.DrawGlyph(draw.GlyphStyle{Color: faint(of, 0xb0), Radius: 1.8, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
}

func stroke(c draw.Canvas, style draw.LineStyle, points ...vg.Point) { c.StrokeLines(style, points) }

// scaleOf is the unit in which times of this size are told, and what makes it of the
// measure's.
func scaleOf(unit string, most float64) (string, float64) {
	steps := map[string][]string{"ns": {"ns", "µs", "ms", "s"}, "us": {"µs", "ms", "s"}}[unit]
	if steps == nil {
		return unit, 1
	}
	i, f := 0, 1.0
	for i+1 < len(steps) && math.Abs(most)/f >= 9999.5 {
		i, f = i+1, f*1000
	}
	return steps[i], f
}

// ticks tells the values of an axis in another unit.
type ticks struct {
	by     float64
	suffix string
}

// Ticks implements [gonum.Ticker].
func (t ticks) Ticks(low, high float64) []gonum.Tick {
	all := gonum.DefaultTicks{}.Ticks(low/t.by, high/t.by)
	for i := range all {
		all[i].Value *= t.by
		if all[i].Label != "" {
			all[i].Label += t.suffix
		}
	}
	return all
}

// widen is a range with a margin around it.
func widen(low, high float64) (float64, float64) {
	room := 0.06 * (high - low)
	if room == 0 {
		room = max(0.05*math.Abs(high), 1e-9)
	}
	return low - room, high + room
}
