//go:build linux

package bpf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/internal/english"
)

// A section is what an ELF section name says of its programs.
type section struct {
	name   string // ending in '/': an attach target follows
	typ    ebpf.ProgramType
	attach ebpf.AttachType
	flags  uint32
}

// sections are the names that the config's type: and attach: understand, as
// libbpf defines them. An object's own sections are read by cilium/ebpf; this
// table is for programs whose section is named by their loader's fashion.
var sections = []section{
	{"xdp", ebpf.XDP, ebpf.AttachXDP, 0},
	{"xdp.frags", ebpf.XDP, ebpf.AttachXDP, unix.BPF_F_XDP_HAS_FRAGS},
	{"xdp/native", ebpf.XDP, ebpf.AttachXDP, 0},
	{"xdp/generic", ebpf.XDP, ebpf.AttachXDP, 0},
	{"tc", ebpf.SchedCLS, ebpf.AttachNone, 0},
	{"tc/ingress", ebpf.SchedCLS, ebpf.AttachNone, 0},
	{"tc/egress", ebpf.SchedCLS, ebpf.AttachNone, 0},
	{"tcx/ingress", ebpf.SchedCLS, ebpf.AttachTCXIngress, 0},
	{"tcx/egress", ebpf.SchedCLS, ebpf.AttachTCXEgress, 0},
	{"classifier", ebpf.SchedCLS, ebpf.AttachNone, 0},
	{"action", ebpf.SchedACT, ebpf.AttachNone, 0},
	{"socket", ebpf.SocketFilter, ebpf.AttachNone, 0},
	{"cgroup_skb/ingress", ebpf.CGroupSKB, ebpf.AttachCGroupInetIngress, 0},
	{"cgroup_skb/egress", ebpf.CGroupSKB, ebpf.AttachCGroupInetEgress, 0},
	{"cgroup/skb", ebpf.CGroupSKB, ebpf.AttachNone, 0},
	{"lwt_in", ebpf.LWTIn, ebpf.AttachNone, 0},
	{"lwt_out", ebpf.LWTOut, ebpf.AttachNone, 0},
	{"lwt_xmit", ebpf.LWTXmit, ebpf.AttachNone, 0},
	{"lwt_seg6local", ebpf.LWTSeg6Local, ebpf.AttachNone, 0},
	{"flow_dissector", ebpf.FlowDissector, ebpf.AttachFlowDissector, 0},
	{"sk_lookup", ebpf.SkLookup, ebpf.AttachSkLookup, 0},
	{"netfilter", ebpf.Netfilter, ebpf.AttachNetfilter, 0},
	{"netfilter/", ebpf.Netfilter, ebpf.AttachNetfilter, 0},
	{"syscall", ebpf.Syscall, ebpf.AttachNone, unix.BPF_F_SLEEPABLE},
	{"perf_event", ebpf.PerfEvent, ebpf.AttachNone, 0},
	{"perf_event/", ebpf.PerfEvent, ebpf.AttachNone, 0},
	{"sockops", ebpf.SockOps, ebpf.AttachCGroupSockOps, 0},
	{"sk_msg", ebpf.SkMsg, ebpf.AttachSkMsgVerdict, 0},
	{"sk_msg/", ebpf.SkMsg, ebpf.AttachSkMsgVerdict, 0},
	{"sk_skb", ebpf.SkSKB, ebpf.AttachNone, 0},
	{"sk_skb/stream_parser", ebpf.SkSKB, ebpf.AttachSkSKBStreamParser, 0},
	{"sk_skb/stream_parser/", ebpf.SkSKB, ebpf.AttachSkSKBStreamParser, 0},
	{"sk_skb/stream_verdict", ebpf.SkSKB, ebpf.AttachSkSKBStreamVerdict, 0},
	{"sk_skb/stream_verdict/", ebpf.SkSKB, ebpf.AttachSkSKBStreamVerdict, 0},
	{"sk_skb/verdict", ebpf.SkSKB, ebpf.AttachSkSKBVerdict, 0},
	{"sk_skb/verdict/", ebpf.SkSKB, ebpf.AttachSkSKBVerdict, 0},
	{"raw_tp/", ebpf.RawTracepoint, ebpf.AttachNone, 0},
	{"raw_tracepoint/", ebpf.RawTracepoint, ebpf.AttachNone, 0},
	{"raw_tp.w/", ebpf.RawTracepointWritable, ebpf.AttachNone, 0},
	{"tp/", ebpf.TracePoint, ebpf.AttachNone, 0},
	{"tracepoint/", ebpf.TracePoint, ebpf.AttachNone, 0},
	{"kprobe/", ebpf.Kprobe, ebpf.AttachNone, 0},
	{"kretprobe/", ebpf.Kprobe, ebpf.AttachNone, 0},
	{"kprobe.multi/", ebpf.Kprobe, ebpf.AttachTraceKprobeMulti, 0},
	{"kretprobe.multi/", ebpf.Kprobe, ebpf.AttachTraceKprobeMulti, 0},
	{"kprobe.session/", ebpf.Kprobe, ebpf.AttachTraceKprobeSession, 0},
	{"ksyscall/", ebpf.Kprobe, ebpf.AttachNone, 0},
	{"kretsyscall/", ebpf.Kprobe, ebpf.AttachNone, 0},
	{"uprobe/", ebpf.Kprobe, ebpf.AttachNone, 0},
	{"uretprobe/", ebpf.Kprobe, ebpf.AttachNone, 0},
	{"uprobe.multi/", ebpf.Kprobe, ebpf.AttachTraceUprobeMulti, 0},
	{"uretprobe.multi/", ebpf.Kprobe, ebpf.AttachTraceUprobeMulti, 0},
	{"usdt/", ebpf.Kprobe, ebpf.AttachNone, 0},
	{"fentry/", ebpf.Tracing, ebpf.AttachTraceFEntry, 0},
	{"fexit/", ebpf.Tracing, ebpf.AttachTraceFExit, 0},
	{"fmod_ret/", ebpf.Tracing, ebpf.AttachModifyReturn, 0},
	{"tp_btf/", ebpf.Tracing, ebpf.AttachTraceRawTp, 0},
	{"iter/", ebpf.Tracing, ebpf.AttachTraceIter, 0},
	{"lsm/", ebpf.LSM, ebpf.AttachLSMMac, 0},
	{"lsm_cgroup/", ebpf.LSM, ebpf.AttachLSMCgroup, 0},
	{"cgroup/sock_create", ebpf.CGroupSock, ebpf.AttachCGroupInetSockCreate, 0},
	{"cgroup/sock_release", ebpf.CGroupSock, ebpf.AttachCgroupInetSockRelease, 0},
	{"cgroup/post_bind4", ebpf.CGroupSock, ebpf.AttachCGroupInet4PostBind, 0},
	{"cgroup/post_bind6", ebpf.CGroupSock, ebpf.AttachCGroupInet6PostBind, 0},
	{"cgroup/bind4", ebpf.CGroupSockAddr, ebpf.AttachCGroupInet4Bind, 0},
	{"cgroup/bind6", ebpf.CGroupSockAddr, ebpf.AttachCGroupInet6Bind, 0},
	{"cgroup/connect4", ebpf.CGroupSockAddr, ebpf.AttachCGroupInet4Connect, 0},
	{"cgroup/connect6", ebpf.CGroupSockAddr, ebpf.AttachCGroupInet6Connect, 0},
	{"cgroup/sendmsg4", ebpf.CGroupSockAddr, ebpf.AttachCGroupUDP4Sendmsg, 0},
	{"cgroup/sendmsg6", ebpf.CGroupSockAddr, ebpf.AttachCGroupUDP6Sendmsg, 0},
	{"cgroup/recvmsg4", ebpf.CGroupSockAddr, ebpf.AttachCGroupUDP4Recvmsg, 0},
	{"cgroup/recvmsg6", ebpf.CGroupSockAddr, ebpf.AttachCGroupUDP6Recvmsg, 0},
	{"cgroup/getpeername4", ebpf.CGroupSockAddr, ebpf.AttachCgroupInet4GetPeername, 0},
	{"cgroup/getpeername6", ebpf.CGroupSockAddr, ebpf.AttachCgroupInet6GetPeername, 0},
	{"cgroup/getsockname4", ebpf.CGroupSockAddr, ebpf.AttachCgroupInet4GetSockname, 0},
	{"cgroup/getsockname6", ebpf.CGroupSockAddr, ebpf.AttachCgroupInet6GetSockname, 0},
	{"cgroup/sysctl", ebpf.CGroupSysctl, ebpf.AttachCGroupSysctl, 0},
	{"cgroup/getsockopt", ebpf.CGroupSockopt, ebpf.AttachCGroupGetsockopt, 0},
	{"cgroup/setsockopt", ebpf.CGroupSockopt, ebpf.AttachCGroupSetsockopt, 0},
	{"cgroup/dev", ebpf.CGroupDevice, ebpf.AttachCGroupDevice, 0},
	{"freplace/", ebpf.Extension, ebpf.AttachNone, 0},
}

// retype applies the config's type and attach to a program. The error is a
// [bench.Diagnostic].
func retype(spec *ebpf.ProgramSpec, p bench.Program) error {
	for _, name := range []string{p.Type, p.Attach} {
		if name == "" {
			continue
		}
		// ".s" is what may sleep, as in the section's name.
		plain, sleeps := name, false
		if kind, rest, _ := strings.Cut(name, "/"); strings.HasSuffix(kind, ".s") && rest != "" {
			plain, sleeps = strings.TrimSuffix(kind, ".s")+"/"+rest, true
		}
		i := slices.IndexFunc(sections, func(s section) bool {
			return s.name == plain || strings.HasSuffix(s.name, "/") && len(plain) > len(s.name) && strings.HasPrefix(plain, s.name)
		})
		if i < 0 {
			names := make([]string, len(sections))
			for i, s := range sections {
				names[i] = s.name
			}
			hint := "expected one of " + strings.Join(names, ", ")
			if meant, ok := english.Near(plain, names); ok {
				hint = "did you mean " + meant + "?"
			}
			return &bench.Diagnostic{Pos: p.Pos, Message: fmt.Sprintf("unknown program type %q", name), Hint: hint}
		}
		s := sections[i]
		name = plain
		if sleeps {
			spec.Flags |= unix.BPF_F_SLEEPABLE
		}
		spec.Type, spec.AttachType, spec.Flags = s.typ, s.attach, spec.Flags|s.flags
		if strings.HasSuffix(s.name, "/") {
			spec.AttachTo = strings.TrimPrefix(name, s.name)
		}
		if s.attach == ebpf.AttachTraceIter {
			spec.AttachTo, _, _ = strings.Cut(spec.AttachTo, "/") // the map is not the kernel's
		}
	}
	return nil
}

// answers are the names of return values, by program type.
var answers = map[ebpf.ProgramType]map[uint32]string{
	ebpf.XDP: {0: "XDP_ABORTED", 1: "XDP_DROP", 2: "XDP_PASS", 3: "XDP_TX", 4: "XDP_REDIRECT"},
	ebpf.SchedCLS: {
		0xffffffff: "TC_ACT_UNSPEC", 0: "TC_ACT_OK", 1: "TC_ACT_RECLASSIFY", 2: "TC_ACT_SHOT",
		3: "TC_ACT_PIPE", 4: "TC_ACT_STOLEN", 5: "TC_ACT_QUEUED", 6: "TC_ACT_REPEAT", 7: "TC_ACT_REDIRECT", 8: "TC_ACT_TRAP",
	},
	ebpf.LWTIn:         {0: "BPF_OK", 2: "BPF_DROP", 7: "BPF_REDIRECT", 128: "BPF_LWT_REROUTE"},
	ebpf.FlowDissector: {0: "BPF_OK", 2: "BPF_DROP", 129: "BPF_FLOW_DISSECTOR_CONTINUE"},
	ebpf.SkLookup:      {0: "SK_DROP", 1: "SK_PASS"},
	ebpf.Netfilter:     {0: "NF_DROP", 1: "NF_ACCEPT"},
}

func init() {
	answers[ebpf.SchedACT] = answers[ebpf.SchedCLS]
	answers[ebpf.LWTOut] = answers[ebpf.LWTIn]
	answers[ebpf.LWTXmit] = answers[ebpf.LWTIn]
	answers[ebpf.LWTSeg6Local] = answers[ebpf.LWTIn]
}

// answerName is a return value in the words of the program's type, or the number.
func answerName(t ebpf.ProgramType, v uint32) string {
	if n, ok := answers[t][v]; ok {
		return n
	}
	return fmt.Sprint(int32(v))
}

// answerIs tells whether a return value is what expect says: a name or a number.
func answerIs(t ebpf.ProgramType, v uint32, expect string) bool {
	return strings.EqualFold(expect, answerName(t, v)) || expect == fmt.Sprint(v) || expect == fmt.Sprint(int32(v))
}

// attachTypeName is the expected attach type in the words of libbpf: those of the
// kernel's enum bpf_attach_type, without prefix and in lower case. A type that needs
// none has the first, as in libbpf.
func attachTypeName(t ebpf.AttachType) string {
	if int(t) < len(attachTypeNames) {
		return attachTypeNames[t]
	}
	return strings.ToLower(t.String())
}

var attachTypeNames = [...]string{
	"cgroup_inet_ingress", "cgroup_inet_egress", "cgroup_inet_sock_create", "cgroup_sock_ops",
	"sk_skb_stream_parser", "sk_skb_stream_verdict", "cgroup_device", "sk_msg_verdict",
	"cgroup_inet4_bind", "cgroup_inet6_bind", "cgroup_inet4_connect", "cgroup_inet6_connect",
	"cgroup_inet4_post_bind", "cgroup_inet6_post_bind", "cgroup_udp4_sendmsg", "cgroup_udp6_sendmsg",
	"lirc_mode2", "flow_dissector", "cgroup_sysctl", "cgroup_udp4_recvmsg", "cgroup_udp6_recvmsg",
	"cgroup_getsockopt", "cgroup_setsockopt", "trace_raw_tp", "trace_fentry", "trace_fexit",
	"modify_return", "lsm_mac", "trace_iter", "cgroup_inet4_getpeername", "cgroup_inet6_getpeername",
	"cgroup_inet4_getsockname", "cgroup_inet6_getsockname", "xdp_devmap", "cgroup_inet_sock_release",
	"xdp_cpumap", "sk_lookup", "xdp", "sk_skb_verdict", "sk_reuseport_select",
	"sk_reuseport_select_or_migrate", "perf_event", "trace_kprobe_multi", "lsm_cgroup", "struct_ops",
	"netfilter", "tcx_ingress", "tcx_egress", "trace_uprobe_multi", "cgroup_unix_connect",
	"cgroup_unix_sendmsg", "cgroup_unix_recvmsg", "cgroup_unix_getpeername", "cgroup_unix_getsockname",
	"netkit_primary", "netkit_peer", "trace_kprobe_session", "trace_uprobe_session",
}
