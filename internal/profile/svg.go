package profile

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/org/ebpf-bench-gate/internal/english"
	"github.com/org/ebpf-bench-gate/internal/symbol"
)

//go:embed flame.js
var flameScript string

//go:embed flame.css
var flameStyle string

// Measures of a flame graph, in pixels; flame.js has them, too.
const (
	svgWidth   = 1200
	svgMargin  = 10
	svgTop     = 68
	svgBottom  = 10
	frameRow   = 17
	charWidth  = 7.25
	svgInner   = svgWidth - 2*svgMargin
	leastPixel = 0.1 // what is narrower is left out
)

// SVG writes a flame graph: a file that needs nothing else, to be opened in a browser, where it can
// be zoomed and searched; without scripts it is a picture with names in its tooltips. Each box is a
// function, as wide as its time, under what called it: a deep stack must not push all others off the
// screen.
func SVG(w io.Writer, p *Profile) error {
	root := &node{frame: symbol.Frame{Function: "all"}}
	root.graft(p, toValue)
	d := drawing{root: root, title: "CPU time", about: about(p), profile: p}
	if p.Type == OffCPU {
		d.title = "Time off the CPU"
	}
	return d.write(w)
}

// DiffSVG writes a flame graph of head, whose boxes are red where they take a larger share of all time
// than in base, and blue where they take a smaller one. Profiles of different lengths are compared by
// their shares.
func DiffSVG(w io.Writer, base, head *Profile) error {
	root := &node{frame: symbol.Frame{Function: "all"}}
	root.graft(base, toBase)
	root.graft(head, toValue)
	if root.base > 0 {
		root.scale(float64(root.value) / float64(root.base))
	}
	d := drawing{root: root, title: "What changed from base to head", about: about(head), profile: head, diff: true}
	if gone := root.gone(); len(gone) > 0 {
		d.about += "; no more: " + strings.Join(gone, ", ")
	}
	return d.write(w)
}

// gone are the largest parts of base that head has not at all, with their share.
func (n *node) gone() (out []string) {
	type part struct {
		name string
		base int64
	}
	var parts []part
	var look func(*node)
	look = func(at *node) {
		for _, c := range at.children() {
			if c.value == 0 && c.base > 0 {
				parts = append(parts, part{name(c.frame), c.base})
				continue
			}
			look(c)
		}
	}
	look(n)
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.base, a.base) })
	const most = 3
	for i, p := range parts {
		if share := 100 * float64(p.base) / float64(max(n.base, 1)); i < most && share >= 0.1 {
			out = append(out, fmt.Sprintf("%s (%.1f%%)", visible(p.name), share))
		}
	}
	return out
}

// about says what a profile is of.
func about(p *Profile) string {
	what := english.Count(p.Count(), "sample")
	if p.Type == OffCPU {
		what = fmt.Sprintf("%v in %s", round(p.Value()), english.Count(p.Count(), "wait"))
	} else if p.Period > 0 {
		what += fmt.Sprintf(" of %s at %.0f Hz", visible(p.Event), 1e9/float64(p.Period))
	}
	if p.Took > 0 {
		what += fmt.Sprintf(" in %v", round(int64(p.Took)))
	}
	if p.Lost > 0 {
		what += ", " + lostText(p.Lost)
	}
	return what
}

func lostText(n uint64) string { return fmt.Sprintf("%d samples were lost", n) }

// A drawing is a flame graph that is being written.
type drawing struct {
	root         *node
	title, about string
	profile      *Profile
	diff         bool
}

func (d *drawing) write(to io.Writer) error {
	total := max(d.root.value, 1)
	least := int64(leastPixel / svgInner * float64(total))
	deepest := 0
	steepest := int64(1) // the largest change of a box
	d.root.walk(least, func(n *node, _ int64, depth int) {
		deepest = max(deepest, depth)
		if n != d.root {
			steepest = max(steepest, n.value-n.base, n.base-n.value)
		}
	})
	height := svgTop + (deepest+1)*frameRow + svgBottom
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">
<title>%s</title>
<style>
%s</style>
<rect class="page" width="100%%" height="100%%" fill="#ffffff"/>
<text class="title" x="%d" y="24" text-anchor="middle" font-size="17" fill="#1f2328">%s</text>
<text class="faint" x="%d" y="42" text-anchor="middle" fill="#656d76">%s</text>
<text id="reset" class="button" x="%d" y="24" fill="#0969da"></text>
<text id="search" class="button" x="%d" y="24" text-anchor="end" fill="#0969da"></text>
<text id="matched" class="faint" x="%d" y="60" text-anchor="end" fill="#656d76"></text>
<text id="details" class="faint" x="%d" y="60" fill="#656d76">%s</text>
<g id="frames" fill="#1f2328">
`,
		svgWidth, height, svgWidth, height, escape(d.title), flameStyle, svgWidth/2, escape(d.title), svgWidth/2, escape(d.about),
		svgMargin, svgWidth-svgMargin, svgWidth-svgMargin, svgMargin, escape(d.legend()))
	d.root.walk(least, func(n *node, at int64, depth int) {
		x := svgMargin + svgInner*float64(at)/float64(total)
		width := svgInner * float64(n.value) / float64(total)
		y := svgTop + depth*frameRow
		fmt.Fprintf(w, `<g data-x="%d" data-w="%d" data-d="%d"><title>%s</title><rect x="%.2f" y="%d" width="%.2f" height="%d" rx="1.5" fill="%s"/><text x="%.2f" y="%d">%s</text></g>`+"\n",
			at, n.value, depth, escape(d.tooltip(n, total)), x, y, width, frameRow-1, d.colour(n, steepest), x+3, y+12, escape(label(name(n.frame), width)))
	})
	fmt.Fprintf(w, "</g>\n<script><![CDATA[\n%s]]></script>\n</svg>\n", flameScript)
	return w.Flush()
}

func (d *drawing) legend() string {
	if d.diff {
		return "red: a larger share than in base; blue: a smaller one"
	}
	return "yellow: user code, paler: inlined; orange: the kernel; violet: eBPF programs"
}

// tooltip is a name on its first line, by which flame.js searches, and what is known of it.
func (d *drawing) tooltip(n *node, total int64) string {
	var b strings.Builder
	b.WriteString(visible(name(n.frame)))
	share := 100 * float64(n.value) / float64(total)
	fmt.Fprintf(&b, "\n%v, %.2f%%", round(n.value), share)
	if d.diff {
		was := 100 * float64(n.base) / float64(total)
		fmt.Fprintf(&b, ", base %.2f%%, %+.2f points", was, share-was)
	}
	if f := n.frame; f.Module != "" {
		b.WriteString("\n" + visible(f.Module))
		if f.Inlined {
			b.WriteString(", inlined")
		}
		if f.File != "" {
			fmt.Fprintf(&b, "\n%s:%d", visible(path.Base(f.File)), f.Line)
		}
	}
	return b.String()
}

// label is as much of a name as fits: where it does not, the path of its package goes first.
func label(s string, width float64) string {
	s = visible(s)
	room := int((width - 6) / charWidth)
	if utf8.RuneCountInString(s) > room {
		end := strings.IndexAny(s, "([<")
		if end < 0 {
			end = len(s)
		}
		s = s[strings.LastIndexByte(s[:end], '/')+1:]
	}
	switch {
	case utf8.RuneCountInString(s) <= room:
		return s
	case room < 3:
		return ""
	}
	return string([]rune(s)[:room-1]) + "…"
}

// colour tells kinds of code apart, or how much a share has changed; neighbours differ a little.
func (d *drawing) colour(n *node, steepest int64) string {
	if d.diff {
		much := math.Sqrt(math.Abs(float64(n.value-n.base)) / float64(steepest))
		fade := 245 - int(150*min(much, 1))
		switch {
		case n.value == n.base || n == d.root:
			return "#e8e8e8"
		case n.value > n.base:
			return fmt.Sprintf("#%02x%02x%02x", 255, fade, fade)
		}
		return fmt.Sprintf("#%02x%02x%02x", fade, fade, 255)
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, name(n.frame))
	shade := int(h.Sum32() % 24)
	var r, g, b int
	switch f := n.frame; {
	case f.Kind == symbol.KindKernel:
		r, g, b = 255, 150+shade, 90+shade
	case f.Kind == symbol.KindBPF:
		r, g, b = 205, 160+shade, 250
	case f.Inlined:
		r, g, b = 255, 238, 170+shade
	case f.Kind == symbol.KindUser || f.Kind == symbol.KindVDSO:
		r, g, b = 255, 205+shade, 90+shade
	default:
		r, g, b = 215+shade, 215+shade, 215+shade
	}
	return fmt.Sprintf("#%02x%02x%02x", r, g, b)
}

// escape makes a text of XML. What XML 1.0 cannot hold at all, visible has replaced in
// names; line ends are those of tooltips.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace
