package adapter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/org/ebpf-bench-gate/bench"
)

// MaxSize limits a file in bytes, after decompression.
const MaxSize = 512 << 20

// maxLine limits a line of text and a single value of JSON in bytes.
const maxLine = 1 << 20

// Options say what a file does not.
type Options struct {
	// File names the file in messages.
	File string
	// Benchmark is the name of the benchmark of formats that have one benchmark and
	// no name for it; empty: what the format makes of the program's name.
	Benchmark string
}

// Read reads one file into a set of its own. What is wrong with the file is a
// [bench.Diagnostic]; a file without any result is one, too.
func Read(r io.Reader, f Format, o Options) (set *Set, err error) {
	s := &source{Options: o, set: newSet()}
	s.in = &counter{r: r, most: MaxSize}
	defer func() {
		switch b := recover().(type) {
		case nil:
		case bail:
			set, err = nil, b.err
		default:
			panic(b)
		}
	}()
	f.read(s)
	if len(s.set.results) == 0 && len(s.set.programs) == 0 {
		s.line, s.col = 0, 0
		s.at = nil
		if len(s.set.skipped) > 0 {
			k := s.set.skipped[0]
			s.fail("no results: %.200q: %.200s", k.Name, k.Reason)
		}
		s.fail("no results of %s in it", f.Name)
	}
	return s.set, nil
}

// A bail carries the error of a parser to [Read].
type bail struct{ err error }

// A source is one file that is being read.
type source struct {
	Options
	in        *counter
	set       *Set
	line, col int
	at        func() (line, col int) // nil: line and col
}

// fail ends the reading with a mistake at the current place.
func (s *source) fail(format string, args ...any) {
	line, col := s.line, s.col
	if s.at != nil {
		line, col = s.at()
	}
	panic(bail{&bench.Diagnostic{
		Pos:     bench.Pos{File: s.File, Line: line, Col: col},
		Message: fmt.Sprintf(format, args...),
	}})
}

// broken ends the reading with the error of a reader.
func (s *source) broken(err error) {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		s.fail("the file is cut off")
	}
	if errors.Is(err, bufio.ErrTooLong) {
		s.fail("the line is too long")
	}
	s.fail("%s", strings.TrimPrefix(err.Error(), "json: "))
}

// add keeps a sample.
func (s *source) add(benchmark string, m measure, value float64) {
	s.addResult(bench.Result{Benchmark: benchmark}, m, value)
}

// addResult keeps a sample of a result that says more than its name.
func (s *source) addResult(r bench.Result, m measure, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		s.fail("%s of %.80q is not a finite number", m.name, r.Benchmark)
	}
	if err := s.set.add(r, m, value); err != nil {
		s.fail("%s", err)
	}
}

// skip notes a benchmark that the tool did not measure.
func (s *source) skip(name, reason string) {
	s.set.skip(bench.Skip{Name: clean(name), Reason: clean(reason)})
}

// number reads a finite number; separators of thousands are left out.
func (s *source) number(text string) float64 {
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		s.fail("%.40q is not a finite number", text)
	}
	return v
}

// first is the first byte of the file that is no space; 0 where there is none.
func (s *source) first() byte {
	in := bufio.NewReader(s.in.r)
	s.in.r = in
	for i := 1; ; i++ {
		b, err := in.Peek(i)
		if len(b) < i || err != nil {
			return 0
		}
		if c := b[i-1]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
}

// lines calls each for every line, without its end.
func (s *source) lines(each func(line string)) {
	scan := bufio.NewScanner(s.in)
	scan.Buffer(nil, maxLine)
	scan.Split(func(data []byte, end bool) (int, []byte, error) {
		if end && s.in.failed && bytes.IndexByte(data, '\n') < 0 {
			return 0, nil, nil // what is there of a line is not one
		}
		return bufio.ScanLines(data, end)
	})
	for scan.Scan() {
		s.line, s.col = s.line+1, 1
		each(strings.TrimSuffix(scan.Text(), "\r"))
	}
	if err := scan.Err(); err != nil {
		s.line, s.col = s.line+1, 1
		s.broken(err)
	}
}

// whole tells that the format's reader may hold all of a file that is made for it.
func (s *source) whole() { s.in.most = 64 << 20 }

// A counter knows the lines of what was read last, and stops at most bytes.
type counter struct {
	r          io.Reader
	read, most int64
	// JSON is positioned by offsets: ends are those of line ends at or after done,
	// the offset up to which the reader needs none; line is the number of the line
	// that begins at start.
	ends        []int64
	line        int
	start, done int64
	track       bool
	failed      bool // ended before the file did
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.track {
		for i, b := range p[:n] {
			if b == '\n' {
				c.ends = append(c.ends, c.read+int64(i))
			}
		}
	}
	c.read += int64(n)
	c.failed = c.failed || err != nil && !errors.Is(err, io.EOF)
	switch {
	case c.read > c.most:
		return n, fmt.Errorf("more than %d MB", c.most>>20)
	case c.track && c.read-c.done > maxLine+64<<10 && n > 0:
		return n, fmt.Errorf("a value of more than %d bytes", maxLine)
	}
	return n, err
}

// pass tells that nothing before the offset is asked for any more.
func (c *counter) pass(offset int64) {
	i := 0
	for ; i < len(c.ends) && c.ends[i] < offset; i++ {
		c.line++
		c.start = c.ends[i] + 1
	}
	c.ends, c.done = c.ends[i:], offset
}

// place is the line and column of an offset that was not passed.
func (c *counter) place(offset int64) (line, col int) {
	line, start := c.line, c.start
	for _, e := range c.ends {
		if e >= offset {
			break
		}
		line, start = line+1, e+1
	}
	return line + 1, int(max(offset-start, 0)) + 1
}
