//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
)

// A Loaded program is in the kernel, with its maps filled as the config says.
// It holds their file descriptors, and nothing else keeps them alive.
type Loaded struct {
	Program *ebpf.Program
	Name    string
	Type    ebpf.ProgramType
	// Log is the verifier's log, if [LoadOptions] asked for one.
	Log string

	coll   *ebpf.Collection
	spec   *ebpf.CollectionSpec
	object *Object
	extra  []interface{ Close() error } // inner maps, stand-in targets
}

// LoadOptions say how a program is loaded.
type LoadOptions struct {
	// Stats asks for the verifier's statistics, which slows loading a little.
	Stats bool
	// Cache holds the kernel's types between loads; nil decodes them anew.
	Cache *btf.Cache
	// Reuse are maps of an earlier load that are taken over instead of made,
	// by name; filling them again is left to the caller.
	Reuse map[string]*ebpf.Map
	// unused tells that nobody will run the program: maps get the smallest sizes that
	// the verifier cannot tell from their own, and stay empty.
	unused bool
	// layout says where the machine code is to lie; nil loads the program as
	// it is.
	layout *layout
	// flags are added to those of the program (BPF_F_TEST_…).
	flags uint32
	// trace asks for the verifier's log of every instruction that it processed,
	// accepted or not. It is as long as its way.
	trace bool
}

// Load loads one program of the object, by itself, with only the maps that it
// uses. A rejection wraps [ebpf.VerifierError].
func (o *Object) Load(program string, opts LoadOptions) (*Loaded, error) {
	if load := o.loaders[program]; load != nil {
		return o.loadBy(program, load)
	}
	spec, err := o.prune(program)
	if err != nil {
		return nil, err
	}
	return o.loadSpec(program, spec, opts)
}

func (o *Object) loadSpec(program string, spec *ebpf.CollectionSpec, opts LoadOptions) (*Loaded, error) {
	l := &Loaded{Name: program, object: o, spec: spec, Type: spec.Programs[program].Type}
	if l.Type == ebpf.UnspecifiedProgram {
		return nil, fmt.Errorf("section %q does not say what type of program %s is; write `type: xdp` (or tc, …) for it in the config", o.Section(program), program)
	}
	if spec.Programs[program].AttachType == ebpf.AttachLSMCgroup {
		return nil, errors.New(lsmCgroup)
	}
	if err := o.size(spec); err != nil {
		return nil, err
	}
	if opts.unused {
		shrink(spec)
	}
	contents := detachCallees(spec)
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		p := spec.Programs[name]
		if y := opts.layout; y != nil {
			if name != program {
				y = &layout{tail: y.draw(), rng: y.rng}
			}
			y.apply(p)
		}
		if err := l.standIn(p, opts.Cache); err != nil {
			l.Close()
			return nil, err
		}
	}
	co := ebpf.CollectionOptions{Cache: opts.Cache, MapReplacements: map[string]*ebpf.Map{}}
	for name, m := range opts.Reuse {
		if spec.Maps[name] != nil {
			co.MapReplacements[name] = m
		}
	}
	if opts.Stats {
		co.Programs.LogLevel = ebpf.LogLevelStats
	}
	if opts.trace {
		co.Programs.LogLevel |= ebpf.LogLevelInstruction
	}
	co.Programs.LogDisabled = o.quiet
	callees := spec.Programs
	callees[program].Flags |= opts.flags
	spec.Programs = map[string]*ebpf.ProgramSpec{program: callees[program]}
	coll, err := ebpf.NewCollectionWithOptions(spec, co)
	if err != nil {
		l.Close()
		return nil, o.explainTarget(program, explainLoad(l.Type, err))
	}
	l.coll, l.Program = coll, coll.Programs[program]
	l.Log = l.Program.VerifierLog
	if opts.unused {
		return l, nil
	}
	if err := l.link(callees, contents, co); err != nil {
		l.Close()
		return nil, err
	}
	if err := l.fill(func(name string) bool { return opts.Reuse[name] == nil }); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// detachCallees takes the programs out of the initial contents of program
// arrays: they are loaded one by one afterwards, so that a callee that this
// kernel rejects does not hide the program that was asked for.
func detachCallees(spec *ebpf.CollectionSpec) map[string][]ebpf.MapKV {
	out := make(map[string][]ebpf.MapKV)
	for name, m := range spec.Maps {
		if m.Type == ebpf.ProgramArray && len(m.Contents) > 0 {
			out[name], m.Contents = m.Contents, nil
		}
	}
	return out
}

// link loads the callees with the maps of the entry program and puts them into
// its program arrays.
func (l *Loaded) link(callees map[string]*ebpf.ProgramSpec, contents map[string][]ebpf.MapKV, co ebpf.CollectionOptions) error {
	if len(callees) == 1 && len(contents) == 0 {
		return nil
	}
	loaded := map[string]*ebpf.Program{l.Name: l.Program}
	co.MapReplacements = l.coll.Maps
	get := func(name string) (*ebpf.Program, error) {
		if p := loaded[name]; p != nil {
			return p, nil
		}
		spec := callees[name]
		if spec == nil {
			return nil, fmt.Errorf("no program %q to put into a program array", name)
		}
		coll, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
			Maps: l.spec.Maps, Programs: map[string]*ebpf.ProgramSpec{name: spec},
			Types: l.spec.Types, ByteOrder: l.spec.ByteOrder,
		}, co)
		if err != nil {
			return nil, fmt.Errorf("tail call target %s: %w", name, explainLoad(spec.Type, err))
		}
		p := coll.DetachProgram(name)
		coll.Close()
		l.extra = append(l.extra, p)
		loaded[name] = p
		return p, nil
	}
	for name, kvs := range contents {
		for _, kv := range kvs {
			callee, ok := kv.Value.(string)
			if !ok {
				continue
			}
			p, err := get(callee)
			if err != nil {
				return err
			}
			if err := l.coll.Maps[name].Put(kv.Key, p); err != nil {
				return fmt.Errorf("map %s: %w", name, err)
			}
		}
	}
	for _, setup := range l.object.setups() {
		m := l.coll.Maps[setup.Name]
		if m == nil || m.Type() != ebpf.ProgramArray {
			continue
		}
		for _, e := range setup.Entries {
			callee, _ := programRef(e.Value)
			p, err := get(callee)
			if err != nil {
				return &bench.Diagnostic{Pos: e.Value.Pos, Message: err.Error()}
			}
			key, err := encode(e.Key, nil, 4, l.spec.ByteOrder, scope{})
			if err != nil {
				return err
			}
			if err := m.Put(key, p); err != nil {
				return &bench.Diagnostic{Pos: e.Key.Pos, Message: fmt.Sprintf("map %s: %v", setup.Name, err)}
			}
		}
	}
	return nil
}

// size gives maps the sizes of the config, and those that the object leaves to
// its loader the smallest that loads: one per possible CPU for per-CPU uses,
// else one.
func (o *Object) size(spec *ebpf.CollectionSpec) error {
	for _, setup := range o.setups() {
		m := spec.Maps[setup.Name]
		if m == nil {
			if o.spec.Maps[setup.Name] == nil {
				return &bench.Diagnostic{
					Pos: setup.Pos, Message: fmt.Sprintf("%s has no map %q", o.Path, setup.Name),
					Hint: "it has " + strings.Join(o.mapNames(), ", "),
				}
			}
			continue
		}
		if setup.MaxEntries != 0 {
			m.MaxEntries = setup.MaxEntries
		}
	}
	for _, m := range spec.Maps {
		// Fixed up by libbpf-style loaders: perf event arrays by cilium/ebpf
		// itself, the others by the object's own user space.
		if m.MaxEntries == 0 && m.Type != ebpf.PerfEventArray && !isStorage(m.Type) {
			m.MaxEntries = 1
			if m.Type == ebpf.RingBuf {
				m.MaxEntries = uint32(unix.Getpagesize())
			}
		}
		if m.Type == ebpf.StackTrace && m.ValueSize == 0 {
			m.ValueSize = maxStackDepth * 8
		}
		if (m.Type == ebpf.ArrayOfMaps || m.Type == ebpf.HashOfMaps) && m.InnerMap == nil {
			m.InnerMap = &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
		}
	}
	return nil
}

// shrink makes maps small whose size the verifier does not look at: filled in
// advance, some of them take most of the time of loading.
func shrink(spec *ebpf.CollectionSpec) {
	for _, m := range spec.Maps {
		switch m.Type {
		case ebpf.Hash, ebpf.PerCPUHash, ebpf.LRUHash, ebpf.LRUCPUHash, ebpf.SockHash, ebpf.DevMapHash,
			ebpf.Queue, ebpf.Stack, ebpf.StackTrace:
			m.MaxEntries = uint32(max(1, len(m.Contents)))
		case ebpf.RingBuf:
			m.MaxEntries = uint32(unix.Getpagesize())
		}
	}
}

// maxStackDepth is PERF_MAX_STACK_DEPTH, the depth that tools give stack maps.
const maxStackDepth = 127

func isStorage(t ebpf.MapType) bool {
	switch t {
	case ebpf.SkStorage, ebpf.InodeStorage, ebpf.TaskStorage, ebpf.CgroupStorage, ebpf.PerCPUCGroupStorage:
		return true
	}
	return false
}

func (o *Object) mapNames() []string {
	var names []string
	for n := range o.spec.Maps {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Maps returns the names of the maps that the program uses, sorted.
func (l *Loaded) Maps() []string {
	var names []string
	for n := range l.coll.Maps {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Close unloads the program and its maps.
func (l *Loaded) Close() {
	for _, c := range l.extra {
		c.Close()
	}
	l.extra = nil
	if l.coll != nil {
		l.coll.Close()
	}
}

// offset is where the machine code starts within its 64-byte line, or -1.
func (l *Loaded) offset() int {
	info, err := l.Program.Info()
	if err != nil {
		return -1
	}
	if addrs, ok := info.JitedKsymAddrs(); ok && len(addrs) > 0 && addrs[0] != 0 {
		return int(addrs[0] & 63)
	}
	return -1
}

// length is how long the program's machine code is in bytes, without subprograms, or
// 0 where the kernel does not say.
func (l *Loaded) length() int {
	info, err := l.Program.Info()
	if err != nil {
		return 0
	}
	lens, ok := info.JitedFuncLens()
	if !ok || len(lens) == 0 {
		return 0
	}
	return int(lens[0])
}

// explainLoad adds what to do to the errors of loading that users meet.
func explainLoad(typ ebpf.ProgramType, err error) error {
	var ve *ebpf.VerifierError
	switch {
	case errors.As(err, &ve):
		return err
	case errors.Is(err, unix.EPERM) && (typ == ebpf.Tracing || typ == ebpf.LSM) && os.Geteuid() == 0:
		return fmt.Errorf("this kernel refuses to load fentry, fexit and LSM programs; gate doctor says what else this host cannot do: %w", unix.EPERM)
	case errors.Is(err, unix.EPERM) && os.Geteuid() != 0:
		// cilium/ebpf guesses at RLIMIT_MEMLOCK, which is not the reason.
		return fmt.Errorf("load: %w (loading needs root, or CAP_BPF with CAP_NET_ADMIN and CAP_PERFMON)", unix.EPERM)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w (loading needs root, or CAP_BPF with CAP_NET_ADMIN and CAP_PERFMON)", err)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w (not enough memory for its maps)", err)
	}
	return err
}

// Diagnose turns the error of loading into the result that reports show: a
// program that the verifier refuses is data, not a failure.
func Diagnose(object, program, typ string, err error) bench.ProgramResult {
	r := bench.ProgramResult{Program: program, Object: object, Type: typ, Outcome: bench.NotLoaded}
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) && len(ve.Log) > 0 {
		const tail = 10
		r.Outcome = bench.Rejected
		r.LogTail = slices.Clone(ve.Log[max(0, len(ve.Log)-tail):])
		r.Reason = ve.Cause.Error()
		if strings.Contains(err.Error(), "bad CO-RE relocation") {
			r.Reason = "this kernel has no such type, field or enumerator as the program reads (CO-RE)"
			if line := lastSource(ve.Log); line != "" {
				r.Reason += ": " + line
			}
			return r
		}
		// The line before the statistics is the verifier's own reason.
		for i := len(ve.Log) - 1; i >= 0; i-- {
			if s := strings.TrimSpace(ve.Log[i]); s != "" && !strings.HasPrefix(s, "processed ") && !strings.HasPrefix(s, "verification time") && !strings.HasPrefix(s, "stack depth") {
				r.Reason = s
				break
			}
		}
		return r
	}
	r.Reason = err.Error()
	return r
}

// lastSource is the last line of C that the verifier looked at, without its place;
// "" where the object has no line info.
func lastSource(log []string) string {
	for _, s := range slices.Backward(log) {
		if s, ok := strings.CutPrefix(strings.TrimSpace(s), ";"); ok {
			s, _, _ = strings.Cut(s, " @ ") // Linux 6.9 adds the file
			if s = strings.TrimSpace(s); s != "" {
				return s
			}
		}
	}
	return ""
}

// VerifierLog is the whole log of a rejected program, or "".
func VerifierLog(err error) string {
	var ve *ebpf.VerifierError
	if !errors.As(err, &ve) {
		return ""
	}
	return strings.Join(ve.Log, "\n") + "\n"
}
