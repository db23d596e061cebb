package harness

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/build"
)

const (
	maxProfile = 64 << 20 // bytes, after decompression
	maxStacks  = 100_000  // of all profiles of a side
	maxSource  = 4 << 20  // bytes of a file whose lines are shown
	// leastShare is the part of a difference below which a place does not explain it.
	leastShare = 0.05
)

// A Profile is what the processes of one side spent or allocated, by stack.
type Profile struct {
	dir    string // of the tree's sources
	types  []string
	stacks map[string]*stack
	lines  map[string][]string // of sources, by name; nil: it cannot be read
}

// A stack is where a part of it went, the place itself first.
type stack struct {
	frames []frame
	values []float64 // by type
}

type frame struct {
	function, file string
	line           int
}

// readProfile reads a file in the format of pprof.
func readProfile(root *os.Root, name, dir string) (*Profile, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseProfile(f, dir)
}

func parseProfile(r io.Reader, dir string) (*Profile, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err == nil && bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = io.ReadAll(io.LimitReader(z, maxProfile+1))
		}
	}
	if err != nil {
		return nil, err
	}
	if len(data) > maxProfile {
		return nil, fmt.Errorf("more than %d MB", maxProfile>>20)
	}
	raw, err := profile.ParseUncompressed(data)
	if err == nil {
		err = raw.CheckValid()
	}
	if err != nil {
		return nil, err
	}
	p := &Profile{dir: dir, stacks: map[string]*stack{}, lines: map[string][]string{}}
	for _, t := range raw.SampleType {
		p.types = append(p.types, t.Type)
	}
	for _, s := range raw.Sample {
		st := &stack{}
		for _, l := range s.Location {
			for _, line := range l.Line { // inlined callees first
				f := frame{line: int(line.Line)}
				if line.Function != nil {
					f.function, f.file = line.Function.Name, line.Function.Filename
				}
				st.frames = append(st.frames, f)
			}
		}
		for _, v := range s.Value {
			st.values = append(st.values, float64(v))
		}
		if err := p.add(st); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Profile) add(st *stack) error {
	key := fmt.Sprint(st.frames)
	if old := p.stacks[key]; old != nil {
		for i, v := range st.values {
			old.values[i] += v
		}
		return nil
	}
	if len(p.stacks) >= maxStacks {
		return fmt.Errorf("more than %d stacks", maxStacks)
	}
	p.stacks[key] = &stack{st.frames, slices.Clone(st.values)}
	return nil
}

// Merge adds what another process of the same side did. One that counts something else
// is left out.
func (p *Profile) Merge(other *Profile) {
	if !slices.Equal(p.types, other.types) {
		return
	}
	for _, st := range other.stacks {
		if p.add(st) != nil {
			return // what is there says enough
		}
	}
}

// sampleType is what a profile counts that a measure is made of; empty: nothing.
func sampleType(measure string) string {
	switch _, member, _ := bench.SplitMember(measure); member {
	case "allocs/op":
		return "alloc_objects"
	case "B/op":
		return "alloc_space"
	}
	return ""
}

// Explain returns where head's processes allocate more than base's, for a measure of a
// benchmark of package testing that had the two values; nil where the profiles do not
// say. Each place has its share of the benchmark's value, so that profiles of processes
// that ran the benchmark more and less often can be compared.
func Explain(base, head *Profile, result bench.Result, baseValue, headValue float64) []bench.Site {
	kind := sampleType(result.Measure)
	if kind == "" || base == nil || head == nil || headValue <= baseValue {
		return nil
	}
	function := benchmarkFunction(result)
	old, now := base.places(kind, function, baseValue), head.places(kind, function, headValue)
	if now == nil {
		return nil
	}
	var all []bench.Site
	for _, key := range slices.Sorted(maps.Keys(now)) {
		s := now[key].Site
		if o, ok := old[key]; ok {
			s.Base = o.Value
		}
		// A sampled profile is no exact one: what is little beside the difference may
		// be an accident.
		if s.Value-s.Base >= leastShare*(headValue-baseValue) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b bench.Site) int { return cmp.Compare(b.Value-b.Base, a.Value-a.Base) })
	return all[:min(len(all), bench.MaxSites)]
}

// benchmarkFunction is the function that package testing calls for a benchmark, without
// its package: BenchmarkFib of "example.com/fib.Fib/n=10-8".
func benchmarkFunction(r bench.Result) string {
	name := strings.TrimPrefix(r.Benchmark, r.Program+".")
	name, _, sub := strings.Cut(name, "/")
	if !sub {
		name = strings.TrimSuffix(name, suffix(name))
	}
	return "Benchmark" + name
}

// A place is a site in the making.
type place struct {
	bench.Site
	most float64 // of the stack that is shown
}

// places shares a value among the places below a function.
func (p *Profile) places(kind, function string, value float64) map[string]*place {
	t := slices.Index(p.types, kind)
	if t < 0 {
		return nil
	}
	total := 0.0
	all := map[string]*place{}
	for _, key := range slices.Sorted(maps.Keys(p.stacks)) {
		st := p.stacks[key]
		end := slices.IndexFunc(st.frames, func(f frame) bool { return isFunction(f.function, function) })
		v := st.values[t]
		if end < 0 || v <= 0 {
			continue
		}
		total += v
		at := p.own(st.frames[:end+1])
		s := p.site(st.frames[:end+1], at)
		key := st.frames[at].function + "\x00" + s.Text
		if s.Text == "" {
			key += fmt.Sprint(s.Line)
		}
		old := all[key]
		if old == nil {
			all[key] = &place{s, v}
			all[key].Value = v
			continue
		}
		if v > old.most {
			sum := old.Value
			old.Site, old.most = s, v
			old.Value = sum
		}
		old.Value += v
	}
	for _, pl := range all {
		pl.Value *= value / total
	}
	return all
}

// isFunction tells whether a symbol of Go's is a function or a closure in it, whatever
// its package.
func isFunction(symbol, name string) bool {
	_, local, _ := strings.Cut(path.Base(symbol), ".")
	return local == name || strings.HasPrefix(local, name+".func")
}

// own is the first frame whose source lies in the tree: what the author wrote. Where
// none does, it is the first.
func (p *Profile) own(frames []frame) int {
	i := slices.IndexFunc(frames, func(f frame) bool { _, ok := p.relative(f.file); return ok })
	return max(i, 0)
}

// relative is the name of a source within the tree.
func (p *Profile) relative(file string) (string, bool) {
	rel, err := filepath.Rel(p.dir, file)
	return filepath.ToSlash(rel), err == nil && filepath.IsAbs(file) && filepath.IsLocal(rel)
}

// site is the place of one of the frames.
func (p *Profile) site(frames []frame, own int) bench.Site {
	f := frames[own]
	s := bench.Site{File: build.Printable(f.file), Line: f.line}
	if rel, ok := p.relative(f.file); ok {
		s.File, s.Text = build.Printable(rel), p.text(rel, f.line)
	}
	for _, f := range frames[:min(len(frames), bench.MaxSiteFrames)] {
		s.Stack = append(s.Stack, shortFunction(f.function))
	}
	return s
}

// shortFunction is a function without the path of its package.
func shortFunction(symbol string) string {
	const most = 200
	name := build.Printable(path.Base(symbol))
	return strings.ToValidUTF8(name[:min(len(name), most)], "")
}

// text is a line of a source of the tree; empty where it cannot be read.
func (p *Profile) text(name string, line int) string {
	lines, ok := p.lines[name]
	if !ok {
		lines = readLines(p.dir, name)
		p.lines[name] = lines
	}
	if line < 1 || line > len(lines) {
		return ""
	}
	const most = 160
	text := strings.Join(strings.Fields(build.Printable(lines[line-1])), " ")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

func readLines(dir, name string) []string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	if info, err := root.Stat(filepath.FromSlash(name)); err != nil || !info.Mode().IsRegular() || info.Size() > maxSource {
		return nil
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSource))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}
