package adapter

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// benchLines is a file of benchfmt whose ordinary lines are read here, and which gives
// all others to package benchfmt, each by a Read of its own. Ordinary is a line of a
// benchmark that was seen before, since the last line that is none of a benchmark, with
// the same units and plain numbers: nearly all of a large file.
//
// Note: the library reads any line, and some 100 MB a second on a core of 2020. That is
// half of what a disk gives, and most of it goes into finding the fields of lines that
// are like the one before.
type benchLines struct {
	in    *bufio.Reader
	set   *Set
	known map[string]*gobenchmark // of the current package, by name
	last  *gobenchmark            // whose line was the last ordinary one; nil: there is none
	// unsure tells that a line may have changed what holds for the lines below.
	unsure bool
	n      int    // the line that was read last
	rest   []byte // what of it is to be given away
}

func newBenchLines(text io.Reader, set *Set) *benchLines {
	const size = 256 << 10
	return &benchLines{in: bufio.NewReaderSize(text, size), set: set, known: map[string]*gobenchmark{}, unsure: true}
}

// Read implements [io.Reader].
func (b *benchLines) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		line, err := b.in.ReadSlice('\n')
		if len(line) == 0 {
			return 0, err
		}
		b.n++
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, err // what is there of a line is not one
		}
		if !b.ordinary(line) {
			b.rest = line
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

var _ io.Reader = (*benchLines)(nil)

var benchmarkWord = []byte("Benchmark")

// ordinary reads a line, or tells that it is to be read by others. It has kept nothing
// then.
func (b *benchLines) ordinary(line []byte) bool {
	name, ok := bytes.CutPrefix(line, benchmarkWord)
	if !ok {
		b.unsure = b.unsure || len(bytes.TrimSpace(line)) > 0
		return false
	}
	if b.unsure {
		return false
	}
	known, rest := b.named(name)
	if known == nil {
		return false
	}
	_, decimals, rest, ok := plain(rest) // how often it ran
	if !ok || decimals > 0 {
		return false
	}
	var values [8]float64
	n := 0
	for {
		if rest = blanks(rest); len(rest) == 0 || rest[0] == '\n' || rest[0] == '\r' {
			break
		}
		if n == len(values) || n == len(known.units) {
			return false
		}
		var mantissa uint64
		if mantissa, decimals, rest, ok = plain(rest); !ok {
			return false
		}
		values[n] = float64(mantissa) / tens[decimals]
		if rest, ok = word(blanks(rest), known.units[n]); !ok || known.units[n] == "sec/op" {
			return false
		}
		n++
	}
	if n == 0 || string(bytes.TrimLeft(rest, "\r")) != "\n" { // something else, or no end of the line
		return false
	}
	for i, v := range values[:n] {
		b.set.keep(known.at[i], v)
	}
	return true
}

// named is the benchmark that a line is of, and the line behind its name; nil: it was
// not seen before. A file that repeats its benchmarks mostly does so in one order.
func (b *benchLines) named(line []byte) (*gobenchmark, []byte) {
	if b.last != nil && b.last.next != nil {
		if rest, ok := word(line, b.last.next.key); ok {
			b.last = b.last.next
			return b.last, rest
		}
	}
	i := bytes.IndexAny(line, " \t")
	if i < 0 {
		return nil, nil
	}
	known := b.known[string(line[:i])]
	if known == nil {
		return nil, nil
	}
	if b.last != nil {
		b.last.next = known
	}
	b.last = known
	return known, line[i:]
}

// forget has all benchmarks be new: another package begins.
func (b *benchLines) forget() {
	clear(b.known)
	b.last = nil
}

// word is what of a line is behind a word that it begins with, and that ends there.
func word(line []byte, word string) (rest []byte, ok bool) {
	if len(line) <= len(word) || string(line[:len(word)]) != word {
		return nil, false
	}
	switch rest = line[len(word):]; rest[0] {
	case ' ', '\t', '\n', '\r':
		return rest, true
	}
	return nil, false
}

func blanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// tens are the powers of ten that a float64 holds exactly, so that dividing a whole number of
// 15 digits by one rounds once, as reading the decimal does.
var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// plain reads a number of at most 15 digits, behind blanks and before one or the end of the
// line.
func plain(b []byte) (mantissa uint64, decimals int, rest []byte, ok bool) {
	b = blanks(b)
	digits, point := 0, -1
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9' && digits < len(tens)-1:
			mantissa = mantissa*10 + uint64(c-'0')
			digits++
		case c == '.' && point < 0 && digits > 0:
			point = digits
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if point >= 0 {
				decimals = digits - point
			}
			return mantissa, decimals, b[i:], digits > 0 && point != digits
		default:
			return 0, 0, nil, false
		}
	}
	return 0, 0, nil, false
}
