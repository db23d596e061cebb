// Package render shows a [gate.Report] to people and machines: as text in a
// terminal, as a comment in Markdown, as JSON.
//
// It is the last step. It judges nothing, keeps the order that package gate gave
// the rows, and leaves no verdict out: what it drops to fit, it says. Only JSON
// holds everything. Every name in a report may come from a stranger's pull
// request, so nothing of it reaches a terminal or a page as markup.
package render

import (
	"encoding/json"
	"io"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/gate"
)

// Options of [Text].
type Options struct {
	// Color turns ANSI colours on; the caller decides, by NO_COLOR and terminal.
	Color bool
	// Width is the columns of the terminal: names are shortened so that the
	// table fits, as far as they can be. 0: it need not fit.
	Width int
	// Elapsed is the wall time of the whole command, shown at the end of the
	// summary; 0 is not shown.
	Elapsed time.Duration
	// Until is the day until which a waiver that is offered counts; zero: none is.
	Until time.Time
	// ConfigOf is that of [MarkdownOptions].
	ConfigOf func(suite string) string
}

// MarkdownOptions of [Markdown].
type MarkdownOptions struct {
	// ID tells several comments on one pull request apart; empty is "default".
	ID string
	// MaxBytes limits the length; 0 is [MaxComment]. Less than [MinComment] is
	// not kept to.
	MaxBytes int
	// Link is the address of a line of the source, or empty; nil: none has one. One
	// that is no plain http or https URL is not shown.
	Link func(bench.LineCount) string
	// Until is the day until which the waivers that are offered count; zero: none
	// are. They count before they are merged where somebody sets the label Label
	// (empty: there is none).
	Until time.Time
	Label string
	// Config is what measuring again is told to be configured by: a file, a pattern
	// of several, or empty for the usual one. ConfigOf is the file of a suite, whose
	// name is empty where there is one alone; nil: always the usual one.
	Config   string
	ConfigOf func(suite string) string
	// Policy is where the policy comes from, such as "main 81d04ba".
	Policy string
	// History is how the deciding measure went before; nil is not shown.
	History *Series
}

// MaxComment is the length of a comment on GitHub in characters. Markdown counts
// bytes, of which there are never fewer.
const MaxComment = 65536

// MinComment is what a comment needs for its verdict, in bytes.
const MinComment = 16384

// JSON writes the whole report as indented JSON.
func JSON(w io.Writer, r *gate.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	out := *r
	if out.Comparisons == nil {
		out.Comparisons = []gate.Comparison{} // a list for those who iterate
	}
	return e.Encode(&out)
}
