//go:build linux

package bpf

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf/programs"
	"github.com/org/ebpf-bench-gate/internal/english"
)

// A Place is what the hooks of programs are parts of, where they are parts of
// something: what the kernel itself has, such as tracepoints, needs none.
type Place struct {
	// Netns is the namespace of programs of the network, and Interface the index
	// of the interface in it.
	Netns     *os.File
	Interface int
	// Cgroup is the control group, of version 2, of programs that hang on one. A
	// nil one is told where it is needed.
	Cgroup *os.File
	// Dir is what relative paths of uprobes are relative to.
	Dir string
}

// A Hook is where the config or its section says that a program hangs.
type Hook struct {
	kind   *hookKind
	target string // after the slash
	// text is what was said, such as "kprobe/tcp_v4_connect".
	text string
	// attach tells that the config says it, of the program at pos.
	attach bool
	pos    bench.Pos
}

// String is what the config or the section says.
func (h Hook) String() string { return h.text }

// Shared tells that several programs may hang there, and that none changes what the
// next one sees: base, head and an empty program can be measured at the same events.
func (h Hook) Shared() bool { return h.kind.shared }

// Cgroup tells that the hook is one of a control group.
func (h Hook) Cgroup() bool { return h.kind.cgroup }

// A hookKind is a kind of places to hang at.
type hookKind struct {
	names   []string // of sections, without what follows the slash
	typ     ebpf.ProgramType
	example string // of a whole `attach:`; empty: the name says all
	shared  bool
	cgroup  bool
	attach  func(a attaching) (io.Closer, error)
	// check tells what no kernel could make sense of; nil: there is nothing of the kind.
	check func(h Hook, spec *ebpf.ProgramSpec) error
	// why such programs cannot be attached; then attach is nil.
	why string
}

// attaching is one program on its way to its hook.
type attaching struct {
	Hook
	prog  *ebpf.Program
	name  string // of the section, without the slash and ".s"
	place Place
	maps  map[string]*ebpf.Map // those of the program and its companions
	spec  *ebpf.ProgramSpec
}

// kinds are looked through from the first: a longer name stands before its
// beginning.
var kinds = []hookKind{
	{names: []string{"tracepoint", "tp"}, typ: ebpf.TracePoint, example: "tracepoint/sched/sched_switch", shared: true, attach: attachTracepoint, check: checkTracepoint},
	{names: []string{"raw_tracepoint", "raw_tp"}, typ: ebpf.RawTracepoint, example: "raw_tp/sched_switch", shared: true, attach: attachRawTracepoint},
	{names: []string{"raw_tracepoint.w", "raw_tp.w"}, typ: ebpf.RawTracepointWritable, example: "raw_tp.w/nbd_send_request", attach: attachRawTracepoint},
	{names: []string{"tp_btf", "fentry", "fexit"}, typ: ebpf.Tracing, example: "fentry/do_unlinkat", shared: true, attach: attachTracing},
	{names: []string{"fmod_ret"}, typ: ebpf.Tracing, example: "fmod_ret/security_file_open", attach: attachTracing},
	{names: []string{"iter"}, typ: ebpf.Tracing, example: "iter/task", attach: attachIter, check: checkIter},
	{names: []string{"lsm_cgroup"}, typ: ebpf.LSM, why: lsmCgroup},
	{names: []string{"lsm"}, typ: ebpf.LSM, example: "lsm/file_open", attach: attachLSM},
	{names: []string{"kprobe.multi", "kretprobe.multi", "kprobe.session"}, typ: ebpf.Kprobe, example: "kprobe.multi/tcp_*", shared: true, attach: attachKprobeMulti, check: checkPattern},
	{names: []string{"kprobe", "kretprobe", "ksyscall", "kretsyscall"}, typ: ebpf.Kprobe, example: "kprobe/tcp_v4_connect", shared: true, attach: attachKprobe, check: checkFunction},
	{names: []string{"uprobe.multi", "uretprobe.multi"}, typ: ebpf.Kprobe, example: "uprobe.multi/bin/server:handle_*", shared: true, attach: attachUprobeMulti, check: checkExecutable},
	{names: []string{"uprobe", "uretprobe"}, typ: ebpf.Kprobe, example: "uprobe/bin/server:handle", shared: true, attach: attachUprobe, check: checkExecutable},
	{names: []string{"usdt"}, typ: ebpf.Kprobe, example: "usdt/libc.so.6:libc:setjmp", shared: true, attach: attachUSDT, check: checkUSDT},
	{names: []string{"perf_event"}, typ: ebpf.PerfEvent, example: "perf_event/cpu-clock:997", shared: true, attach: attachPerf, check: checkPerf},
	{names: []string{"socket"}, typ: ebpf.SocketFilter, shared: true, attach: attachSocket},
	{names: []string{"xdp", "xdp.frags"}, typ: ebpf.XDP, attach: attachInterface, check: checkInterface},
	{names: []string{"tc", "tcx", "classifier"}, typ: ebpf.SchedCLS, attach: attachInterface, check: checkInterface},
	{names: []string{"cgroup_skb"}, typ: ebpf.CGroupSKB, example: "cgroup_skb/egress", cgroup: true, attach: attachCgroup, check: checkCgroup},
	{names: []string{"cgroup"}, cgroup: true, example: "cgroup/connect4", attach: attachCgroup, check: checkCgroup},
	{names: []string{"sockops"}, typ: ebpf.SockOps, cgroup: true, attach: attachCgroup, check: checkCgroup},
	{names: []string{"sk_skb"}, typ: ebpf.SkSKB, example: "sk_skb/stream_verdict/SOCKMAP", attach: attachSockmap, check: checkSockmap},
	{names: []string{"sk_msg"}, typ: ebpf.SkMsg, attach: attachSockmap, check: checkSockmap},
	{names: []string{"sk_lookup", "flow_dissector"}, attach: attachNetns},
	{names: []string{"netfilter"}, typ: ebpf.Netfilter, example: "netfilter/ipv4/local_in:0", attach: attachNetfilter, check: checkNetfilter},
	{names: []string{"struct_ops"}, typ: ebpf.StructOps, attach: attachStructOps},

	{names: []string{"freplace"}, typ: ebpf.Extension, why: "its runs are not counted: they are part of the program that it replaces a function of"},
	{names: []string{"syscall"}, typ: ebpf.Syscall, why: "nothing in the kernel runs it but a test run"},
	{names: []string{"sk_reuseport"}, typ: ebpf.SkReuseport, why: "it belongs to a socket that another process makes"},
	{names: []string{"action"}, typ: ebpf.SchedACT, why: "it hangs on a filter that its loader makes"},
	{names: []string{"lwt_in", "lwt_out", "lwt_xmit", "lwt_seg6local"}, why: "it hangs on a route that its loader makes"},
	{names: []string{"lirc_mode2"}, typ: ebpf.LircMode2, why: "it hangs on an infrared receiver"},
	{names: []string{"netkit"}, typ: ebpf.SchedCLS, why: "it hangs on a netkit device, and work happens on veth pairs"},
}

// Hook tells where a program of the object hangs: where the config's attach says, or
// its ELF section. The error says what to write where neither does, or neither says it
// so that any kernel could make sense of it; it is a [bench.Diagnostic].
func (o *Object) Hook(program string) (Hook, error) {
	spec := o.spec.Programs[program]
	if spec == nil {
		return Hook{}, fmt.Errorf("no program %q in %s", program, o.Path)
	}
	p := o.programs[program]
	said, what := spec.SectionName, "its section"
	switch {
	case p.Attach != "":
		said, what = p.Attach, config
	case p.Type != "":
		said, what = p.Type, "type:"
	}
	said = strings.TrimPrefix(said, "?")
	wrong := func(message, example string) error {
		return &bench.Diagnostic{
			Pos: p.Pos, Message: fmt.Sprintf("%s %q%s", what, said, message),
			Hint: fmt.Sprintf("write for example: programs: {%s: {object: …, attach: %s}}", program, example),
		}
	}
	ask := func(message, example string) error { return wrong(" does not say "+message, example) }
	name, target, _ := strings.Cut(said, "/")
	name = strings.TrimSuffix(name, ".s")
	for i := range kinds {
		k := &kinds[i]
		if !slices.Contains(k.names, name) || k.typ != 0 && k.typ != spec.Type {
			continue
		}
		switch {
		case k.why != "":
			return Hook{}, fmt.Errorf("%s programs cannot be attached for work: %s", programs.TypeName(spec.Type), k.why)
		case k.example != "" && target == "":
			return Hook{}, ask("where "+program+" hangs", k.example)
		}
		h := Hook{kind: k, target: target, text: said, attach: what == config, pos: p.Pos}
		if k.check != nil {
			if err := k.check(h, spec); err != nil {
				return Hook{}, wrong(": "+err.Error(), cmp.Or(k.example, k.names[0]))
			}
		}
		return h, nil
	}
	for i := range kinds {
		if k := &kinds[i]; k.typ != 0 && k.typ == spec.Type && k.attach != nil {
			if k.example != "" {
				return Hook{}, ask("where "+program+", of type "+programs.TypeName(spec.Type)+", hangs", k.example)
			}
			return Hook{kind: k, text: k.names[0]}, nil
		}
	}
	return Hook{}, ask("what type of program "+program+" is, and where it hangs", "kprobe/tcp_v4_connect")
}

// config is who says it, where the config does.
const config = "attach:"

// A NoTarget is the error of a hook that the config names, and that is not there: this
// kernel has no such tracepoint, that file no such function.
type NoTarget struct{ *bench.Diagnostic }

// Unwrap gives the mistake and its place.
func (e *NoTarget) Unwrap() error { return e.Diagnostic }

// missing is the error of what is not there to hang at. Where the config names it, it
// is what has to be changed, and known is what it may have meant; where the object's own
// section does, it is told as what this host cannot do.
func (h Hook) missing(known []string, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if !h.attach {
		return errors.New(text)
	}
	d := &bench.Diagnostic{Pos: h.pos, Message: fmt.Sprintf("%s %q: %s", config, h.text, text)}
	if meant, ok := english.Near(h.target, known); ok {
		d.Hint = "did you mean " + strings.TrimSuffix(h.text, h.target) + meant + "?"
	}
	return &NoTarget{d}
}

// lsmCgroup is why those programs are not gate's own: cilium/ebpf 0.22 tells the kernel
// no target when it loads them.
const lsmCgroup = "gate cannot load those of control groups; an agent can, whose programs are measured, too"

// loadedFor is what the kernel looks up when a program is loaded, in words, and what its
// name in the kernel's types begins with; nothing for most programs.
func loadedFor(spec *ebpf.ProgramSpec) (what, prefix string) {
	if spec.Type == ebpf.StructOps {
		return "operations", ""
	}
	switch spec.AttachType {
	case ebpf.AttachTraceFEntry, ebpf.AttachTraceFExit, ebpf.AttachModifyReturn:
		return "function", ""
	case ebpf.AttachTraceRawTp:
		return "raw tracepoint", "btf_trace_"
	case ebpf.AttachTraceIter:
		return "iterator", "bpf_iter_"
	case ebpf.AttachLSMMac:
		return "security hook", "bpf_lsm_"
	}
	return "", ""
}

// explainTarget says where it is so that a program was not loaded because this kernel
// does not have what it is for.
func (o *Object) explainTarget(program string, err error) error {
	spec := o.spec.Programs[program]
	what, prefix := loadedFor(spec)
	if what == "" || spec.AttachTo == "" || !errors.Is(err, ebpf.ErrNotSupported) && !errors.Is(err, btf.ErrNotFound) {
		return err
	}
	types, e := btf.LoadKernelSpec()
	if e != nil {
		return err // it has no types at all, which the error says
	}
	name, _, _ := strings.Cut(spec.AttachTo, ":") // of operations, which one
	if _, e := types.AnyTypeByName(prefix + name); !errors.Is(e, btf.ErrNotFound) {
		return err
	}
	h, e := o.Hook(program)
	if e != nil {
		return err
	}
	var near []string
	if spec.AttachType == ebpf.AttachTraceRawTp {
		near = tracepoints(true)
	}
	return h.missing(near, "this kernel has no %s %s", what, name)
}

// hang attaches a program. What it returns holds it there.
func (h Hook) hang(p *ebpf.Program, spec *ebpf.ProgramSpec, place Place, maps map[string]*ebpf.Map) (io.Closer, error) {
	name, _, _ := strings.Cut(h.text, "/")
	if h.kind.cgroup && place.Cgroup == nil {
		return nil, fmt.Errorf("attach to %s: there is no control group", h)
	}
	c, err := h.kind.attach(attaching{Hook: h, prog: p, name: strings.TrimSuffix(name, ".s"), place: place, maps: maps, spec: spec})
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", h, err)
	}
	return c, nil
}

// closers are closed in turn, the last one first.
type closers []io.Closer

func (cs closers) Close() error {
	var first error
	for _, c := range slices.Backward(cs) {
		if err := c.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// A closerFunc closes by being called.
type closerFunc func() error

func (f closerFunc) Close() error { return f() }
