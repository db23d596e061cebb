//go:build linux

package bpf

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
)

// A PassedLine is a line of source, and how often the verifier went over it: how
// often it came to an instruction of it from one of another line.
type PassedLine struct {
	Times int
	File  string // empty where the kernel does not say: before Linux 6.9
	Line  int
	Text  string
}

// passed loads a program for the verifier's log of all that it processed, and
// returns the lines that stand there most often.
func (o *Object) passed(program string, opts VerifyOptions) []PassedLine {
	l, err := o.Load(program, LoadOptions{Stats: true, Cache: opts.Cache, unused: true, flags: opts.flags(), trace: true})
	if err == nil {
		defer l.Close()
		return mostPassed(strings.Lines(l.Log), opts.Lines)
	}
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) {
		return mostPassed(slices.Values(ve.Log), opts.Lines)
	}
	return nil
}

// mostPassed counts the lines of source in a log of instructions, in which they stand
// as "; text @ file:line" before the first instruction of each
// (verbose_linfo in kernel/bpf/log.c), and returns those that come most often.
func mostPassed(log func(yield func(string) bool), most int) []PassedLine {
	times := map[string]int{}
	for line := range log {
		if text, ok := strings.CutPrefix(line, "; "); ok {
			times[strings.TrimSpace(text)]++
		}
	}
	all := make([]PassedLine, 0, len(times))
	for text, n := range times {
		l := PassedLine{Times: n, Text: text}
		if at := strings.LastIndex(" "+text, " @ "); at >= 0 { // the text may be empty
			file, number, ok := strings.Cut(text[at+len("@ "):], ":")
			if n, err := strconv.Atoi(number); ok && err == nil {
				l.Text, l.File, l.Line = strings.TrimSpace(text[:at]), file, n
			}
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b PassedLine) int {
		return cmp.Or(b.Times-a.Times, strings.Compare(a.File, b.File), a.Line-b.Line, strings.Compare(a.Text, b.Text))
	})
	return all[:min(most, len(all))]
}
