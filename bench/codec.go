package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// SchemaVersion is the version of [Run] that this package writes. A reader
// refuses a higher one: it cannot know what it would miss.
const SchemaVersion = 1

// Limits on a run that is read. A file may come from anybody.
const (
	MaxResults = 100_000
	MaxSamples = 1_000_000 // over all results
	// MaxFunctions is the number of functions of one program: BPF_MAX_SUBPROGS.
	MaxFunctions = 256
	MaxUnit      = 16 // bytes
	MaxWith      = 64
	maxName      = 1024 // bytes
	maxSeconds   = 1e6  // of measuring one benchmark
)

// ErrFuture is that a run was written by a later version of gate.
var ErrFuture = errors.New("written by a later version of gate")

// Encode writes a run as indented JSON. It refuses what [Decode] would refuse.
func Encode(w io.Writer, r *Run) error {
	if err := r.Check(); err != nil {
		return fmt.Errorf("encode run: %w", err)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Marshal is [Encode] in one line, as runs are stored: a third of the text of a large one
// is its indents.
//
// Samples, of which a run may have a million, are written without encoding/json, which
// takes most of the time of an import by looking at each of their fields.
func Marshal(r *Run) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("encode run: %w", err)
	}
	bare, samples := *r, 0
	bare.Results = slices.Clone(r.Results)
	for i := range bare.Results {
		samples += len(bare.Results[i].Samples)
		bare.Results[i].Samples = nil
	}
	text, err := json.Marshal(&bare)
	if err != nil {
		return nil, err
	}
	// Within a string, its quotes would be escaped.
	const key, none = `"samples":`, "null"
	const usual = len(`{"round":1000,"value":123.456789012345,"offset":-1},`)
	out := make([]byte, 0, len(text)+samples*usual)
	for i := range r.Results {
		at := bytes.Index(text, []byte(key+none)) + len(key)
		out = append(out, text[:at]...)
		if text = text[at:]; r.Results[i].Samples != nil {
			out = appendSamples(out, r.Results[i].Samples)
			text = text[len(none):]
		}
	}
	return append(out, text...), nil
}

func appendSamples(b []byte, samples []Sample) []byte {
	b = append(b, '[')
	for i := range samples {
		if i > 0 {
			b = append(b, ',')
		}
		b = samples[i].append(b)
	}
	return append(b, ']')
}

// append writes a sample as its tags say.
func (s *Sample) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"round":`...), int64(s.Round), 10)
	b = appendNumber(append(b, `,"value":`...), s.Value)
	b = appendUnlessZero(b, `,"floor":`, s.Floor)
	b = appendUnlessZero(b, `,"twin":`, s.Twin)
	b = strconv.AppendInt(append(b, `,"offset":`...), int64(s.Offset), 10)
	for _, n := range [...]struct {
		key string
		n   int64
	}{{`,"switches":`, s.Switches}, {`,"migrations":`, s.Migrations}, {`,"faults":`, s.Faults}, {`,"steal":`, s.Steal}} {
		if n.n != 0 {
			b = strconv.AppendInt(append(b, n.key...), n.n, 10)
		}
	}
	return append(appendUnlessZero(b, `,"counted":`, s.Counted), '}')
}

func appendUnlessZero(b []byte, key string, x float64) []byte {
	if x == 0 {
		return b
	}
	return appendNumber(append(b, key...), x)
}

// appendNumber writes the shortest decimal that is read as x again, as encoding/json does.
func appendNumber(b []byte, x float64) []byte {
	format := byte('f')
	if a := math.Abs(x); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, x, format, -1, 64)
}

// Decode reads one run and checks it. Unknown fields are ignored, since a minor
// addition does not change the schema; a higher schema is [ErrFuture]; data
// after the run is an error, as is a number that is not finite.
func Decode(rd io.Reader) (*Run, error) {
	d := json.NewDecoder(rd)
	var r Run
	if err := d.Decode(&r); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("decode run: empty file")
		}
		return nil, fmt.Errorf("decode run: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode run: data after the run")
	}
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("decode run: %w", err)
	}
	return &r, nil
}

// Check tells the first thing that a run may not be.
func (r *Run) Check() error {
	switch {
	case r.Schema > SchemaVersion:
		return fmt.Errorf("schema %d, this is %d: %w", r.Schema, SchemaVersion, ErrFuture)
	case r.Schema < 1:
		return fmt.Errorf("schema %d is not a run of gate", r.Schema)
	case !validID(r.ID):
		return fmt.Errorf("id %.40q is not made of 1 to 128 lower-case letters, digits and '-'", r.ID)
	case len(r.Changes) > MaxChanges:
		return fmt.Errorf("%d changes, at most %d", len(r.Changes), MaxChanges)
	case len(r.Results) > MaxResults:
		return fmt.Errorf("%d results, at most %d", len(r.Results), MaxResults)
	}
	for i := range r.Programs {
		if n := len(r.Programs[i].Functions); n > MaxFunctions {
			return fmt.Errorf("program %d (%.80s): %d functions, at most %d", i, r.Programs[i].Program, n, MaxFunctions)
		}
	}
	for i := range r.Changes {
		if n := len(r.Changes[i].Lines); n > MaxLines {
			return fmt.Errorf("change of %.80s: %d lines, at most %d", r.Changes[i].Program, n, MaxLines)
		}
	}
	if err := r.checkSuites(); err != nil {
		return err
	}
	samples := 0
	seen := make(map[[2]string]bool, len(r.Results))
	for i := range r.Results {
		res := &r.Results[i]
		if err := res.check(); err != nil {
			return fmt.Errorf("result %d (%.80s %.40s): %w", i, res.Benchmark, res.Measure, err)
		}
		key := [2]string{res.Benchmark, res.Measure}
		if seen[key] {
			return fmt.Errorf("result %d: %.80s %.40s stands twice", i, res.Benchmark, res.Measure)
		}
		seen[key] = true
		if samples += len(res.Samples); samples > MaxSamples {
			return fmt.Errorf("more than %d samples", MaxSamples)
		}
	}
	return nil
}

func (r *Result) check() error {
	switch {
	case r.Benchmark == "" || r.Measure == "":
		return errors.New("no name")
	case len(r.Benchmark) > maxName || len(r.Measure) > maxName:
		return fmt.Errorf("name longer than %d bytes", maxName)
	case len(r.Unit) > MaxUnit || strings.ContainsFunc(r.Unit, unicode.IsControl):
		return fmt.Errorf("a unit of more than %d bytes, or with control characters", MaxUnit)
	case r.Better != "" && r.Better != Lower && r.Better != Higher:
		return fmt.Errorf("better is %.20q, not %q or %q", r.Better, Lower, Higher)
	case len(r.With) > MaxWith:
		return fmt.Errorf("%d programs beside it, at most %d", len(r.With), MaxWith)
	case len(r.Lines) > MaxLines:
		return fmt.Errorf("%d lines, at most %d", len(r.Lines), MaxLines)
	case len(r.Sites) > MaxSites:
		return fmt.Errorf("%d sites, at most %d", len(r.Sites), MaxSites)
	case !finite(r.Worst):
		return errors.New("worst is not a finite number")
	case !(r.Seconds >= 0 && r.Seconds <= maxSeconds):
		return errors.New("seconds is not a number of 0 to 1e6")
	}
	for _, s := range r.Sites {
		if len(s.Stack) > MaxSiteFrames || !finite(s.Value) || !finite(s.Base) {
			return fmt.Errorf("a site of more than %d frames, or of no finite number", MaxSiteFrames)
		}
	}
	last := -1
	for _, s := range r.Samples {
		if !finite(s.Value) || !finite(s.Floor) || !finite(s.Twin) || !finite(s.Counted) {
			return fmt.Errorf("round %d: not a finite number", s.Round)
		}
		if s.Round <= last {
			return fmt.Errorf("round %d follows round %d", s.Round, last)
		}
		last = s.Round
	}
	prev := 0
	for _, n := range r.Looks {
		if n <= prev || n > len(r.Samples) {
			return fmt.Errorf("look after %d of %d samples", n, len(r.Samples))
		}
		prev = n
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func validID(id string) bool {
	return id != "" && len(id) <= 128 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
