//go:build linux

package bpf

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/org/ebpf-bench-gate/bench"
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
	{names: []string{"tracepoint", "tp"}, typ: ebpf.TracePoint, example: "tracepoint/sched/sched_switch", shared: true, attach: attachTracepoint},
	{names: []string{"raw_tracepoint", "raw_tp"}, typ: ebpf.RawTracepoint, example: "raw_tp/sched_switch", shared: true, attach: attachRawTracepoint},
	{names: []string{"raw_tracepoint.w", "raw_tp.w"}, typ: ebpf.RawTracepointWritable, example: "raw_tp.w/nbd_send_request", attach: attachRawTracepoint},
	{names: []string{"tp_btf", "fentry", "fexit"}, typ: ebpf.Tracing, example: "fentry/do_unlinkat", shared: true, attach: attachTracing},
	{names: []string{"fmod_ret"}, typ: ebpf.Tracing, example: "fmod_ret/security_file_open", attach: attachTracing},
	{names: []string{"iter"}, typ: ebpf.Tracing, example: "iter/task", attach: attachIter},
	{names: []string{"lsm_cgroup"}, typ: ebpf.LSM, example: "lsm_cgroup/socket_bind", cgroup: true, attach: attachCgroup},
	{names: []string{"lsm"}, typ: ebpf.LSM, example: "lsm/file_open", attach: attachLSM},
	{names: []string{"kprobe.multi", "kretprobe.multi", "kprobe.session"}, typ: ebpf.Kprobe, example: "kprobe.multi/tcp_*", shared: true, attach: attachKprobeMulti},
	{names: []string{"kprobe", "kretprobe", "ksyscall", "kretsyscall"}, typ: ebpf.Kprobe, example: "kprobe/tcp_v4_connect", shared: true, attach: attachKprobe},
	{names: []string{"uprobe.multi", "uretprobe.multi"}, typ: ebpf.Kprobe, example: "uprobe.multi/bin/server:handle_*", shared: true, attach: attachUprobeMulti},
	{names: []string{"uprobe", "uretprobe"}, typ: ebpf.Kprobe, example: "uprobe/bin/server:handle", shared: true, attach: attachUprobe},
	{names: []string{"usdt"}, typ: ebpf.Kprobe, example: "usdt/libc.so.6:libc:setjmp", shared: true, attach: attachUSDT},
	{names: []string{"perf_event"}, typ: ebpf.PerfEvent, example: "perf_event/cpu-clock:997", shared: true, attach: attachPerf},
	{names: []string{"socket"}, typ: ebpf.SocketFilter, shared: true, attach: attachSocket},
	{names: []string{"xdp", "xdp.frags"}, typ: ebpf.XDP, attach: attachInterface},
	{names: []string{"tc", "tcx", "classifier"}, typ: ebpf.SchedCLS, attach: attachInterface},
	{names: []string{"cgroup_skb"}, typ: ebpf.CGroupSKB, example: "cgroup_skb/egress", cgroup: true, attach: attachCgroup},
	{names: []string{"cgroup"}, cgroup: true, example: "cgroup/connect4", attach: attachCgroup},
	{names: []string{"sockops"}, typ: ebpf.SockOps, cgroup: true, attach: attachCgroup},
	{names: []string{"sk_skb"}, typ: ebpf.SkSKB, example: "sk_skb/stream_verdict/SOCKMAP", attach: attachSockmap},
	{names: []string{"sk_msg"}, typ: ebpf.SkMsg, attach: attachSockmap},
	{names: []string{"sk_lookup", "flow_dissector"}, attach: attachNetns},
	{names: []string{"netfilter"}, typ: ebpf.Netfilter, example: "netfilter/ipv4/local_in:0", attach: attachNetfilter},
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
// its ELF section. The error says what to write where neither does.
func (o *Object) Hook(program string) (Hook, error) {
	spec := o.spec.Programs[program]
	if spec == nil {
		return Hook{}, fmt.Errorf("no program %q in %s", program, o.Path)
	}
	p := o.programs[program]
	said, what := spec.SectionName, "its section"
	switch {
	case p.Attach != "":
		said, what = p.Attach, "attach:"
	case p.Type != "":
		said, what = p.Type, "type:"
	}
	said = strings.TrimPrefix(said, "?")
	ask := func(message, example string) error {
		return &bench.Diagnostic{
			Pos: p.Pos, Message: fmt.Sprintf("%s %q does not say %s", what, said, message),
			Hint: fmt.Sprintf("write for example: programs: {%s: {object: …, attach: %s}}", program, example),
		}
	}
	name, target, _ := strings.Cut(said, "/")
	name = strings.TrimSuffix(name, ".s")
	for i := range kinds {
		k := &kinds[i]
		if !slices.Contains(k.names, name) || k.typ != 0 && k.typ != spec.Type {
			continue
		}
		switch {
		case k.why != "":
			return Hook{}, fmt.Errorf("%s programs cannot be attached for work: %s", typeName(spec.Type), k.why)
		case k.example != "" && target == "":
			return Hook{}, ask("where "+program+" hangs", k.example)
		}
		return Hook{k, target, said}, nil
	}
	for i := range kinds {
		if k := &kinds[i]; k.typ != 0 && k.typ == spec.Type && k.attach != nil {
			if k.example != "" {
				return Hook{}, ask("where "+program+", of type "+typeName(spec.Type)+", hangs", k.example)
			}
			return Hook{k, "", k.names[0]}, nil
		}
	}
	return Hook{}, ask("what type of program "+program+" is, and where it hangs", "kprobe/tcp_v4_connect")
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
