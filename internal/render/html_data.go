package render

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
	"github.com/org/ebpf-bench-gate/internal/plot"
)

// pageData is what the page's script draws: page/page.js knows the same names.
type pageData struct {
	Rows []rowData `json:"rows"`
	// Pasts are the runs of histories, of which most have the same.
	Pasts [][]runData `json:"pasts"`
}

type runData struct {
	Commit string `json:"commit"`
	Day    string `json:"day"`
}

type rowData struct {
	Name    string `json:"name"`
	Measure string `json:"measure"`
	Unit    string `json:"unit"`
	Kind    string `json:"kind"`
	Say     string `json:"say"`

	BaseValue *number     `json:"baseValue,omitempty"`
	HeadValue *number     `json:"headValue,omitempty"`
	Change    *number     `json:"change,omitempty"`
	Interval  numbers     `json:"interval,omitempty"`
	Level     string      `json:"level,omitempty"`
	Margin    *number     `json:"margin,omitempty"`
	Bad       float64     `json:"bad"`
	Facts     [][2]string `json:"facts"`
	Warn      []string    `json:"warn,omitempty"`

	Range       numbers      `json:"range,omitempty"`
	Base        numbers      `json:"base,omitempty"`
	Head        numbers      `json:"head,omitempty"`
	BaseRounds  []int        `json:"baseRounds,omitempty"` // none: 0, 1, 2, …
	HeadRounds  []int        `json:"headRounds,omitempty"`
	BaseDensity *densityData `json:"baseDensity,omitempty"`
	HeadDensity *densityData `json:"headDensity,omitempty"`
	Paired      bool         `json:"paired,omitempty"`

	History *historyData `json:"history,omitempty"`
	Lines   []lineData   `json:"lines,omitempty"`
	Timed   bool         `json:"timed,omitempty"`
	Sites   []siteData   `json:"sites,omitempty"`
}

type densityData struct {
	Range  numbers `json:"range"`
	Values []int   `json:"values"` // in 99ths of the highest
}

type historyData struct {
	Branch  string       `json:"branch,omitempty"`
	Values  numbers      `json:"values"`
	Past    int          `json:"past"` // the runs of the values, in Pasts
	Changes []changeData `json:"changes"`
	Lower   *number      `json:"lower,omitempty"`
	Upper   *number      `json:"upper,omitempty"`
}

type changeData struct {
	At    int    `json:"at"`
	Worse bool   `json:"worse"`
	Text  string `json:"text"`
}

type lineData struct {
	At    string `json:"at"`
	Text  string `json:"text"`
	Was   number `json:"was"`
	Is    number `json:"is"`
	More  number `json:"more"` // what it adds: instructions, or nanoseconds where Timed
	Share number `json:"share,omitempty"`
	Fresh bool   `json:"fresh,omitempty"`
}

type siteData struct {
	At    string   `json:"at"`
	Text  string   `json:"text"`
	Stack []string `json:"stack"`
	Was   number   `json:"was"`
	Is    number   `json:"is"`
}

// A number has six digits in JSON, which is more than anybody sees.
type number float64

// MarshalJSON implements [encoding/json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

// numbers are many.
type numbers []float64

// MarshalJSON implements [encoding/json.Marshaler].
func (n numbers) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 2+8*len(n)), '[')
	for i, x := range n {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendNumber(out, x)
	}
	return append(out, ']'), nil
}

func appendNumber(out []byte, x float64) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(out, "null"...)
	}
	return strconv.AppendFloat(out, x, 'g', 6, 64)
}

func pointed(x *float64) *number {
	if x == nil || math.IsNaN(*x) || math.IsInf(*x, 0) {
		return nil
	}
	n := number(*x)
	return &n
}

// data is what the script knows of a row.
func (b *pageBuilder) data(s *sheet, c *gate.Comparison, f *plot.Figure, kind, branch string) rowData {
	d := rowData{
		Name: clean(c.Benchmark), Measure: clean(c.Measure), Unit: clean(c.Unit), Kind: kind, Bad: f.Bad,
		BaseValue: pointed(c.Base), HeadValue: pointed(c.Head), Change: pointed(c.Change), Margin: pointed(c.Margin),
		Facts: facts(c),
	}
	d.Say = s.verdict(c)
	if d.Say != "" {
		d.Say = strings.ToUpper(d.Say[:1]) + d.Say[1:] + ": "
	}
	d.Say += inWords(c)
	if c.Interval != nil {
		d.Interval, d.Level = numbers{c.Interval.Low, c.Interval.High}, level(c.Interval.Level)
	}
	for _, w := range c.Warnings {
		d.Warn = append(d.Warn, clean(w))
	}
	if f.Drawn() {
		b.draw(&d, f)
	}
	if f.History != nil {
		d.History = b.past(f.History, branch)
		if c.Boundary != nil {
			d.History.Lower, d.History.Upper = pointed(c.Boundary.Lower), pointed(c.Boundary.Upper)
		}
	}
	d.Timed = c.Measure == bench.Latency && len(c.Lines) > 0
	for _, l := range c.Lines {
		d.Lines = append(d.Lines, lineData{
			At: fmt.Sprintf("%s:%d", path.Clean(clean(l.File)), l.Line), Text: clean(l.Text), Was: number(l.BaseExecutions), Is: number(l.Executions),
			More: number(c.Added(l)), Share: number(l.Share), Fresh: l.New,
		})
	}
	for _, site := range c.Sites {
		at := ""
		if site.File != "" {
			at = fmt.Sprintf("%s:%d", path.Clean(clean(site.File)), site.Line)
		}
		stack := make([]string, len(site.Stack))
		for i, fn := range site.Stack {
			stack[i] = clean(fn)
		}
		d.Sites = append(d.Sites, siteData{at, clean(site.Text), stack, number(site.Base), number(site.Value)})
	}
	return d
}

func (b *pageBuilder) draw(d *rowData, f *plot.Figure) {
	sides := [2]plot.Side{f.Base, f.Head}
	for i, s := range sides {
		if b.samples > maxPageSamples {
			sides[i] = s.Thin(max(20, len(s.Values)*maxPageSamples/b.samples))
		}
		b.thinned = b.thinned || len(sides[i].Values) < len(s.Values)
	}
	d.Range, d.Paired = numbers{f.Low, f.High}, f.Paired
	d.Base, d.Head = sides[0].Values, sides[1].Values
	d.BaseRounds, d.HeadRounds = numbered(sides[0].Rounds), numbered(sides[1].Rounds)
	d.BaseDensity, d.HeadDensity = densityOf(f.Base), densityOf(f.Head)
}

func densityOf(s plot.Side) *densityData {
	if len(s.Density) == 0 {
		return nil
	}
	out := &densityData{Range: numbers{s.From, s.To}}
	most := slices.Max(s.Density)
	for _, v := range s.Density {
		out.Values = append(out.Values, int(math.Round(99*v/most)))
	}
	return out
}

// numbered leaves out rounds that are counted from 0 without a gap.
func numbered(rounds []int) []int {
	if len(rounds) == 0 || rounds[0] == 0 && rounds[len(rounds)-1] == len(rounds)-1 {
		return nil
	}
	return rounds
}

// past is how a measure went; runs that another history had, too, are told once.
func (b *pageBuilder) past(s *gate.Series, branch string) *historyData {
	h := &historyData{Branch: branch, Changes: []changeData{}}
	var runs []runData
	for _, p := range s.Points {
		h.Values = append(h.Values, p.Value)
		runs = append(runs, runData{shorten(clean(p.Revision.Short()), 24), day(p.Time)})
	}
	all := &b.page.Data.Pasts
	if h.Past = slices.IndexFunc(*all, func(known []runData) bool { return slices.Equal(known, runs) }); h.Past < 0 {
		h.Past = len(*all)
		*all = append(*all, runs)
	}
	for _, c := range s.Changes {
		text := fmt.Sprintf("%s → %s: %s to %s", clean(c.From.Short()), clean(c.To.Short()), quantity(c.Before, s.Unit), quantity(c.After, s.Unit))
		if c.Change != nil {
			text += ", " + percent(*c.Change)
		}
		h.Changes = append(h.Changes, changeData{At: c.At, Worse: c.Worse, Text: text})
	}
	return h
}

// facts are what else is known of a row, in words.
func facts(c *gate.Comparison) [][2]string {
	out := [][2]string{}
	add := func(name, text string) {
		if text != "" {
			out = append(out, [2]string{name, text})
		}
	}
	add("without an empty program", net(c))
	if c.Floor != nil {
		add("an empty program", value(c.Floor, c.Unit))
	}
	if c.Rounds > 0 && !c.Exact {
		add("rounds", count(float64(c.Rounds)))
	}
	if o := c.Outliers; o != nil {
		add("outside Tukey's fences", fmt.Sprintf("%d slower, %d faster; they count like the others", o.Worse, o.Better))
	}
	if c.Detectable != nil && c.Verdict != gate.Regressed && c.Verdict != gate.Improved {
		add("could show", fmt.Sprintf("%.1f%%, nine times in ten", 100**c.Detectable))
	}
	if c.LayoutFloor != nil {
		add("moving code alone", fmt.Sprintf("%.1f%%", 100**c.LayoutFloor))
	}
	if c.P != nil {
		add("p", strconv.FormatFloat(*c.P, 'g', 3, 64))
	}
	if c.T != nil {
		add("classical t-test", fmt.Sprintf("t = %.2f, p = %.3g; it decides nothing", c.T.T, c.T.P))
	}
	if c.Used != nil && c.KernelLimit != nil {
		add("of the kernel's limit", fmt.Sprintf("%.1f%% of %s", 100**c.Used, count(*c.KernelLimit)))
	}
	if w := c.Waived; w != nil {
		text := fmt.Sprintf("up to %s until %s: %s", clean(w.Max), clean(w.Until), clean(w.Reason))
		if w.Expired {
			text += " (expired)"
		}
		add("waiver", text)
	}
	if c.Needs != nil {
		add("needs", seconds(*c.Needs)+" more to decide")
	}
	if c.Seconds > 0 {
		add("measured for", seconds(c.Seconds))
	}
	add("program", clean(c.Program))
	add("driven by", clean(c.Path))
	add("kind", clean(string(c.Kind)))
	return out
}

// bar is the interval of a row's change as the path of an SVG of 120 by 14: no change
// is at 60, and the limit at 84 (5% where there is none), whatever it is, so that the
// bars of all rows can be compared. For the worse is to the right.
func bar(c *gate.Comparison, bad float64) string {
	if c.Change == nil || math.IsNaN(*c.Change) || math.IsInf(*c.Change, 0) {
		return ""
	}
	unit := 0.05
	if c.Margin != nil && *c.Margin > 0 {
		unit = *c.Margin
	}
	at := func(x float64) float64 {
		u := bad * x / unit
		return 60 + math.Copysign(min(56, 24*math.Log1p(9*math.Abs(u))/math.Log(10)), u)
	}
	low, high := *c.Change, *c.Change
	if c.Interval != nil {
		low, high = c.Interval.Low, c.Interval.High
	}
	from, to := at(low), at(high)
	return fmt.Sprintf("M%.1f 7H%.1fM%.1f 4v6", min(from, to), max(from, to), at(*c.Change))
}
