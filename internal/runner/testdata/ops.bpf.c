// A congestion control of TCP, registered as gate_cc.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct sock;

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
};

SEC("struct_ops") __u32 BPF_PROG(ssthresh, struct sock *sk) { return 10; }
SEC("struct_ops") __u32 BPF_PROG(undo_cwnd, struct sock *sk) { return 10; }

SEC("struct_ops") void BPF_PROG(on_ack, struct sock *sk, __u32 ack, __u32 acked)
{
#ifdef HEAD
	for (int i = 0; i < 100; i++)
		bpf_ktime_get_ns();
#endif
}


SEC(".struct_ops.link")
struct tcp_congestion_ops gate_cc = {
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)on_ack,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "gate_cc",
};

char LICENSE[] SEC("license") = "GPL";
