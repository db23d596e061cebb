// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// One program of each type that the kernel can test-run, for the tests of the
// micro lane.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define IPV4_LEN 20

// Counts what the programs answered, since a test run tells the last answer only.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} answers SEC(".maps");

static __always_inline int count(__u32 key, int answer)
{
	__u64 *n = bpf_map_lookup_elem(&answers, &key);

	if (n)
		*n += 1;
	return answer;
}

// Pushes 20 bytes in front: a plain repeat runs out of headroom.
SEC("xdp")
int xdp_encap(struct xdp_md *ctx)
{
	if (bpf_xdp_adjust_head(ctx, -IPV4_LEN))
		return count(XDP_DROP, XDP_DROP);
	return count(XDP_TX, XDP_TX);
}

// Takes 20 bytes off the front, 10 off the end, and leaves metadata.
SEC("xdp")
int xdp_shrink(struct xdp_md *ctx)
{
	if (bpf_xdp_adjust_head(ctx, IPV4_LEN) || bpf_xdp_adjust_tail(ctx, -10) || bpf_xdp_adjust_meta(ctx, -8))
		return count(XDP_DROP, XDP_DROP);
	return count(XDP_PASS, XDP_PASS);
}

SEC("xdp.frags")
int xdp_frags(struct xdp_md *ctx)
{
	return bpf_xdp_get_buff_len(ctx) >= 60 ? XDP_PASS : XDP_DROP;
}

// Says which packet it saw: the last byte of the source address, even or odd.
SEC("xdp")
int xdp_parity(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (data + 30 > end)
		return XDP_ABORTED;
	return data[29] & 1 ? XDP_DROP : XDP_PASS;
}

SEC("tc")
int tc_encap(struct __sk_buff *skb)
{
	if (bpf_skb_adjust_room(skb, IPV4_LEN, BPF_ADJ_ROOM_MAC, 0))
		return count(2, 2);
	skb->mark = 7;
	return count(0, 0);
}

SEC("tc")
int tc_protocol(struct __sk_buff *skb)
{
	if (skb->mark)
		return 2;
	return skb->protocol == bpf_htons(0x86dd) ? 1 : 0;
}

SEC("socket")
int socket_len(struct __sk_buff *skb)
{
	return skb->len;
}

SEC("cgroup_skb/egress")
int cgroup_pass(struct __sk_buff *skb)
{
	return skb->len > 0;
}

SEC("lwt_xmit")
int lwt_pass(struct __sk_buff *skb)
{
	return skb->len ? 0 : 2;
}

// Writes to the packet: no driver restores one of this type.
SEC("lwt_xmit")
int lwt_push(struct __sk_buff *skb)
{
	__u8 ttl = 7;

	return bpf_skb_store_bytes(skb, 8, &ttl, 1, 0) ? 2 : 0;
}

SEC("flow_dissector")
int dissect(struct __sk_buff *skb)
{
	skb->flow_keys->thoff = 34;
	return 0;
}

SEC("sk_lookup")
int lookup(struct bpf_sk_lookup *ctx)
{
	return ctx->local_port == 80;
}

SEC("raw_tp/sched_switch")
int raw_switch(void *ctx)
{
	return 0;
}

SEC("syscall")
int sys(void *ctx)
{
	return 3;
}

SEC("netfilter")
int filter(void *ctx)
{
	return 1;
}

SEC("kprobe/do_nothing")
int probe(void *ctx)
{
	return 0;
}

// Answers differently once its map is full.
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 64);
	__type(value, __u32);
} few SEC(".maps");

SEC("xdp")
int xdp_fills(struct xdp_md *ctx)
{
	__u32 v = 1;

	return bpf_map_push_elem(&few, &v, 0) ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int xdp_rejected(struct xdp_md *ctx)
{
	return *(__u8 *)(long)ctx->data;
}

char _license[] SEC("license") = "Dual BSD/GPL";
