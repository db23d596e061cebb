// One program for each kind of hook, as little as each can do. With HEAD, each
// calls a helper some times.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

static __always_inline void work(void)
{
#ifdef HEAD
	for (int i = 0; i < 100; i++)
		bpf_ktime_get_ns();
#endif
}

#define PROGRAM(section, name, answer) \
	SEC(section) int name(void *ctx) { work(); return answer; }

PROGRAM("tracepoint/syscalls/sys_enter_execve", tp, 0)
PROGRAM("raw_tp/sched_process_exec", raw_tp, 0)
PROGRAM("raw_tp.w/nbd_send_request", raw_tp_writable, 0)
PROGRAM("tp_btf/sched_process_exec", tp_btf, 0)
PROGRAM("kprobe/do_unlinkat", on_kprobe, 0)
PROGRAM("kretprobe/do_unlinkat", on_kretprobe, 0)
PROGRAM("kprobe.multi/do_unlinka?", on_kprobe_multi, 0)
PROGRAM("kretprobe.multi/do_unlinka?", on_kretprobe_multi, 0)
PROGRAM("kprobe.session/do_unlinkat", on_kprobe_session, 0)
PROGRAM("ksyscall/unlinkat", on_ksyscall, 0)
PROGRAM("kretsyscall/unlinkat", on_kretsyscall, 0)
PROGRAM("fentry/do_unlinkat", on_fentry, 0)
PROGRAM("fexit/do_unlinkat", on_fexit, 0)
PROGRAM("fmod_ret/security_inode_unlink", on_fmod_ret, 0)
PROGRAM("uprobe/libc.so.6:malloc", on_uprobe, 0)
PROGRAM("uretprobe/libc.so.6:malloc", on_uretprobe, 0)
PROGRAM("uprobe.multi/libc.so.6:mallo?", on_uprobe_multi, 0)
PROGRAM("uretprobe.multi/libc.so.6:mallo?", on_uretprobe_multi, 0)
PROGRAM("perf_event/cpu-clock:1000", on_clock, 0)
PROGRAM("socket", on_socket, 0)
PROGRAM("lsm/inode_unlink", on_lsm, 0)
PROGRAM("xdp", on_xdp, XDP_PASS)
PROGRAM("tc", on_tc, 0)
PROGRAM("tcx/egress", on_tcx_egress, 0)
PROGRAM("cgroup_skb/egress", on_egress, 1)
PROGRAM("cgroup/sock_create", on_sock_create, 1)
PROGRAM("cgroup/connect4", on_connect, 1)
PROGRAM("cgroup/post_bind4", on_post_bind, 1)
PROGRAM("cgroup/setsockopt", on_setsockopt, 1)
PROGRAM("cgroup/getsockopt", on_getsockopt, 1)
PROGRAM("cgroup/sysctl", on_sysctl, 1)
PROGRAM("cgroup/dev", on_dev, 1)
PROGRAM("sockops", on_sockops, 1)
PROGRAM("sk_lookup", on_lookup, SK_PASS)
PROGRAM("flow_dissector", on_dissector, BPF_OK)
PROGRAM("netfilter/ipv4/local_in:0", on_netfilter, 1)
PROGRAM("iter/task", on_task, 0)

// Sockets that talk are put into a map, and what they send runs the others.
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 64);
	__type(key, __u64);
	__type(value, __u64);
} sockets SEC(".maps");

SEC("sockops") int collect(struct bpf_sock_ops *ops)
{
	if (ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		__u64 key = bpf_get_socket_cookie(ops);
		bpf_sock_hash_update(ops, &sockets, &key, BPF_NOEXIST);
	}
	return 1;
}

SEC("sk_msg") int on_msg(struct sk_msg_md *msg) { work(); return SK_PASS; }
SEC("sk_skb/stream_parser") int on_parser(struct __sk_buff *skb) { work(); return skb->len; }
SEC("sk_skb/stream_verdict") int on_verdict(struct __sk_buff *skb) { work(); return SK_PASS; }

char LICENSE[] SEC("license") = "GPL";
