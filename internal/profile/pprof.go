package profile

import (
	"io"

	pprof "github.com/google/pprof/profile"

	"github.com/org/ebpf-bench-gate/internal/symbol"
)

// Pprof writes the format of `go tool pprof` (profile.proto, compressed). Functions have the files
// and lines that their debug information names, so that `list` and `weblist` find sources; code of
// files has their addresses, so that `disasm` finds instructions.
func Pprof(w io.Writer, p *Profile) error {
	out := &pprof.Profile{
		TimeNanos: p.Start.UnixNano(), DurationNanos: int64(p.Took),
		SampleType:        []*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		DefaultSampleType: "cpu",
	}
	if p.Type == OffCPU {
		out.SampleType = []*pprof.ValueType{{Type: "waits", Unit: "count"}, {Type: "off-cpu", Unit: "nanoseconds"}}
		out.DefaultSampleType = "off-cpu"
	} else {
		out.PeriodType, out.Period = &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"}, int64(p.Period)
	}
	if p.Lost > 0 {
		out.Comments = append(out.Comments, lostText(p.Lost))
	}
	c := converter{
		out: out, mappings: map[mappingKey]*mapping{}, functions: map[function]*pprof.Function{}, locations: map[*Location]*pprof.Location{},
	}
	for _, s := range p.Stacks {
		sample := &pprof.Sample{
			Value: []int64{int64(s.Count), s.Value}, Label: map[string][]string{"thread": {visible(s.Comm)}},
		}
		if s.PID != 0 {
			sample.NumLabel = map[string][]int64{"pid": {int64(s.PID)}}
		}
		for _, l := range s.Locations {
			sample.Location = append(sample.Location, c.location(l))
		}
		out.Sample = append(out.Sample, sample)
	}
	if err := out.CheckValid(); err != nil {
		return err
	}
	return out.Write(w)
}

// A converter gives what is the same one number.
type converter struct {
	out       *pprof.Profile
	mappings  map[mappingKey]*mapping
	functions map[function]*pprof.Function
	locations map[*Location]*pprof.Location
}

type function struct{ name, file string }

// A mappingKey is code of a file, or another module.
type mappingKey struct {
	segment *symbol.Segment
	module  string
}

// A mapping has what the addresses of its file are moved by.
type mapping struct {
	*pprof.Mapping
	moved uint64
}

func (c *converter) location(l *Location) *pprof.Location {
	if known := c.locations[l]; known != nil {
		return known
	}
	m := c.mapping(l)
	to := &pprof.Location{ID: uint64(len(c.out.Location) + 1), Mapping: m.Mapping}
	if l.addr != 0 {
		to.Address = l.addr + m.moved
		if l.segment == nil { // the kernel's and of programs in it: all that is known of their ends
			if m.Limit == 0 || to.Address < m.Start {
				m.Start = to.Address
			}
			m.Limit = max(m.Limit, to.Address+1)
		}
	}
	for _, f := range l.Frames {
		to.Line = append(to.Line, pprof.Line{Function: c.function(f), Line: int64(f.Line)})
	}
	c.locations[l] = to
	c.out.Location = append(c.out.Location, to)
	return to
}

func (c *converter) function(f symbol.Frame) *pprof.Function {
	key := function{visible(name(f)), visible(f.File)}
	if known := c.functions[key]; known != nil {
		return known
	}
	to := &pprof.Function{ID: uint64(len(c.out.Function) + 1), Name: key.name, SystemName: key.name, Filename: key.file}
	c.functions[key] = to
	c.out.Function = append(c.out.Function, to)
	return to
}

// mapping stands for a module. That all of it has names already keeps pprof from looking for it.
func (c *converter) mapping(l *Location) *mapping {
	key := mappingKey{l.segment, l.Frames[len(l.Frames)-1].Module}
	if known := c.mappings[key]; known != nil {
		return known
	}
	to := &mapping{Mapping: &pprof.Mapping{
		ID: uint64(len(c.out.Mapping) + 1), File: visible(key.module), HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true,
	}}
	if s := key.segment; s != nil {
		to.moved = c.room(s)
		to.Start, to.Limit, to.Offset, to.BuildID = s.Start+to.moved, s.Limit+to.moved, s.Offset, s.BuildID
	}
	c.mappings[key] = to
	c.out.Mapping = append(c.out.Mapping, to.Mapping)
	return to
}

// room is how far code has to be moved so that it lies on no other's: files count from 0, most of
// them, and pprof knows instructions by their address.
func (c *converter) room(s *symbol.Segment) (moved uint64) {
	const step = 1 << 32
	for again := true; again; {
		again = false
		for _, o := range c.mappings {
			if s.Start+moved < o.Limit && o.Start < s.Limit+moved {
				moved = o.Limit/step*step + step
				again = true
			}
		}
	}
	return moved
}
