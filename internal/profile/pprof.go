package profile

import (
	"io"

	pprof "github.com/google/pprof/profile"

	"github.com/org/ebpf-bench-gate/internal/symbol"
)

// Pprof writes the format of `go tool pprof` (profile.proto, compressed). Functions have the files
// and lines that their debug information names, so that `list` and `weblist` find sources.
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
		out: out, mappings: map[string]*pprof.Mapping{}, functions: map[function]*pprof.Function{}, locations: map[*Location]*pprof.Location{},
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
	mappings  map[string]*pprof.Mapping
	functions map[function]*pprof.Function
	locations map[*Location]*pprof.Location
}

type function struct{ name, file string }

func (c *converter) location(l *Location) *pprof.Location {
	if known := c.locations[l]; known != nil {
		return known
	}
	last := l.Frames[len(l.Frames)-1]
	to := &pprof.Location{ID: uint64(len(c.out.Location) + 1), Mapping: c.mapping(last.Module)}
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
func (c *converter) mapping(module string) *pprof.Mapping {
	if known := c.mappings[module]; known != nil {
		return known
	}
	to := &pprof.Mapping{
		ID: uint64(len(c.out.Mapping) + 1), File: visible(module), HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true,
	}
	c.mappings[module] = to
	c.out.Mapping = append(c.out.Mapping, to)
	return to
}
