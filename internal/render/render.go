// Package render shows a [gate.Report] to people and machines: as text in a
// terminal, as a comment in Markdown, as JSON.
//
// It is the last step. It judges nothing and leaves no verdict out: what it drops
// to fit, it says. Every name in a report may come from a stranger's pull request,
// so nothing of it reaches a terminal or a page as markup.
package render

import (
	"io"
	"time"

	"github.com/org/ebpf-bench-gate/gate"
)

// Options of [Text].
type Options struct {
	Color bool // ANSI colours; the caller decides, by NO_COLOR and terminal
	Width int  // columns of the terminal; 0: do not wrap or shorten
	// Elapsed is the wall time of the whole command, shown in the last line;
	// 0 is not shown.
	Elapsed time.Duration
}

// MarkdownOptions of [Markdown].
type MarkdownOptions struct {
	// ID tells several comments on one pull request apart; empty is "default".
	ID string
	// MaxBytes limits the length; 0 is [MaxComment].
	MaxBytes int
}

// MaxComment is the length of a comment on GitHub, in characters; Markdown
// counts bytes, of which there are never fewer.
const MaxComment = 65536

// Text writes the report for a terminal.
func Text(w io.Writer, r *gate.Report, o Options) error { return nil }

// Markdown writes the report as a comment.
func Markdown(w io.Writer, r *gate.Report, o MarkdownOptions) error { return nil }

// JSON writes the report as indented JSON.
func JSON(w io.Writer, r *gate.Report) error { return nil }
